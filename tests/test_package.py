"""What imports what, and how long it takes."""

import ast
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What each room may import of ours, besides itself; `studies` may import all of it.
LEAVES = {"files", "runtime"}
ALLOWED = {
    "models": set(),
    "images": LEAVES,
    "metrics": set(),
    "equivariance": set(),
    "files": set(),
    "runtime": set(),
    "config": {"models", *LEAVES},
    "weights": {"models", "config", *LEAVES},
    "data": {"images", *LEAVES},
    "inference": {"images", "models", "weights", "config", *LEAVES},
    "training": {"data", "images", "models", "weights", "metrics", "config", *LEAVES},
    "evaluation": {
        *("data", "images", "models", "weights", "metrics", "config", "equivariance"),
        *("inference", "", *LEAVES),
    },
    "__init__": {"equivariance", "inference", "models"},
}
# What Windows does not have: modules, and names of modules that it has.
POSIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog")
POSIX_NAMES = {
    "os": (
        *("fork", "getuid", "geteuid", "getloadavg", "killpg", "mkfifo", "nice"),
        *("sched_getaffinity", "setsid", "statvfs", "sysconf", "uname", "wait4"),
    ),
    "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "pause"),
}
POSIX_PATHS = ("/proc/", "/dev/", "/sys/", "/tmp")
# The only modules that may import what is large or may be missing.
HEAVY = {
    "tensorflow": {"data/pipeline.py"},
    "tensorflow_datasets": {"data/tfds_source.py"},
    "orbax": {"training/checkpoint.py"},
    "onnx": {"inference/onnx_graph.py"},
    "onnxruntime": set(),
    "gradio": {"inference/page.py"},
    "torch": {"evaluation/commands/import_weights.py"},
}


def list_imports(path):
    """The absolute names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def find_room(name):
    return name.split(".")[1] if "." in name else ""


@pytest.fixture(scope="module")
def modules(project):
    """{file: what it imports}."""
    root = project / "sevnet_jax"
    return {
        path.relative_to(root).as_posix(): [*list_imports(path)]
        for path in sorted(root.rglob("*.py"))
    }


def test_imports_go_down_only(modules):
    wrong = []
    for name, found in modules.items():
        room = name.split("/")[0].removesuffix(".py")
        for imported in found:
            if imported.split(".")[0] == "studies":
                wrong.append(f"{name} imports {imported}")
            if imported.split(".")[0] == "sevnet_jax":
                other = find_room(imported)
                if other != room and other not in ALLOWED[room]:
                    wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_heavy_packages_are_imported_in_one_place(modules):
    for package, places in HEAVY.items():
        users = {
            name
            for name, found in modules.items()
            if any(imported.split(".")[0] == package for imported in found)
        }
        assert users == places, package


def test_the_rules_see_what_breaks_them(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("def f():\n    from sevnet_jax.data import noise\n    import fcntl")
    assert [*list_imports(file)] == ["sevnet_jax.data.noise", "fcntl"]
    assert find_room("sevnet_jax.data.noise") == "data"
    assert "data" not in ALLOWED["models"]


def list_posix(path):
    """What a file uses that Windows does not have, wherever in it."""
    modules = (name.split(".")[0] for name in list_imports(path))
    yield from (name for name in modules if name in POSIX_MODULES)
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                if name in POSIX_NAMES.get(module, ()):
                    yield f"{module}.{name}"
            case ast.Constant(value=str(text)) if text.startswith(POSIX_PATHS):
                yield text


def test_nothing_is_used_that_only_linux_has(project):
    """Also in the scripts; the tests of kills and the benchmarks may."""
    package = (project / "sevnet_jax").rglob("*.py")
    scripts = [*project.glob("*.py"), *(project / "configs").glob("*.py")]
    studies = [p for p in (project / "studies").rglob("*.py") if "tests" not in p.parts]
    found = {
        path.name: names
        for path in [*package, *scripts, *studies]
        if (names := [*list_posix(path)])
    }
    # Asked for there if the first exists.
    assert found == {"conftest.py": ["os.sysconf", "/proc/self/statm"]}


def test_what_only_linux_has_is_seen(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("def f():\n    import pwd\n    os.fork(signal.SIGUSR1, '/dev/shm')")
    assert sorted(list_posix(file)) == ["/dev/shm", "os.fork", "pwd", "signal.SIGUSR1"]


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-newest.txt"])
def test_every_requirement_has_an_exact_version_within_its_bounds(project, name):
    lines = (project / name).read_text().splitlines()
    exact = {canonicalize_name(n): v for n, _, v in (x.partition("==") for x in lines)}
    for file in [project / "requirements.txt", *(project / "requirements").glob("*")]:
        for line in file.read_text().splitlines():
            text = line.partition("#")[0].strip()
            if not text or file.stem == "bench":  # which is exact itself
                continue
            wanted = Requirement(text)
            found = exact.get(canonicalize_name(wanted.name))
            assert found, f"{name} has no {wanted.name}"
            assert found in wanted.specifier, f"{name}: {wanted.name} {found}"


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_import_takes_less_than_twice_what_flax_takes_and_no_tensorflow():
    """Of computing time, which other processes on the machine hardly lengthen."""
    ours, flax = (
        run_python(
            f"import time, sys, {name}; print(time.process_time());"
            "sys.exit('tensorflow' in sys.modules)"
        )
        for name in ("sevnet_jax", "flax.linen")
    )
    assert ours.returncode == 0
    assert float(ours.stdout) < 2 * float(flax.stdout)


def test_commands_start_where_modules_of_posix_do_not_exist():
    """As on Windows."""
    done = run_python(
        f"import sys; sys.modules.update(dict.fromkeys({POSIX_MODULES}))\n"
        "from sevnet_jax.evaluation import commands\n"
        "import sevnet_jax.evaluation.runs, sevnet_jax.inference.command\n"
        "import sevnet_jax.training.workdir\n"
        "argv = ['complexity', '--size', '16', '--no-time', '--model', 'sevnet_xs']\n"
        "sys.exit(commands.main(argv))"
    )
    assert done.returncode == 0, done.stderr
