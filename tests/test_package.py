"""What imports what, and how long it takes."""

import ast
import subprocess
import sys

import pytest

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
# The only modules that may import what is large or may be missing.
HEAVY = {
    "tensorflow": {"data/pipeline.py"},
    "tensorflow_datasets": {"data/tfds_source.py"},
    "orbax": {"training/checkpoint.py"},
    "fcntl": set(),
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


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_import_takes_less_than_two_seconds_and_no_tensorflow():
    """Of computing time, which other processes on the machine do not lengthen."""
    done = run_python(
        "import time, sys, sevnet_jax; print(time.process_time());"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert done.returncode == 0
    assert float(done.stdout) < 2


def test_commands_start_where_fcntl_does_not_exist():
    """As on Windows."""
    done = run_python(
        "import sys; sys.modules['fcntl'] = None\n"
        "from sevnet_jax.evaluation import commands\n"
        "import sevnet_jax.evaluation.runs, sevnet_jax.inference.command\n"
        "import sevnet_jax.training.workdir\n"
        "argv = ['complexity', '--size', '16', '--no-time', '--model', 'sevnet_xs']\n"
        "sys.exit(commands.main(argv))"
    )
    assert done.returncode == 0, done.stderr
