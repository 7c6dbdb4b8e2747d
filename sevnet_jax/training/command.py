"""`train.py`: reads the config and its changes, trains, reports errors in one line."""

import argparse
import ast
import difflib
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from sevnet_jax.runtime import Parser, name_command

BAD_USE, DIVERGED, INTERRUPTED = 2, 3, 130
DESCRIPTION = """Trains a network and writes WORKDIR/weights.safetensors.

You can set every key of the config: --config.data.source=FOLDER, --config.steps=5000,
--config.model.width=64. docs/training.md lists the keys. Rerun the same command to
resume a run that was stopped.
"""


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, str]]:
    """Returns the arguments, and the keys of the config that are set by them."""
    parser = Parser(
        prog=name_command("train.py"),
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--config",
        metavar="FILE[:ARGUMENT]",
        help="the config file; the project has some in configs/",
    )
    add("--workdir", metavar="FOLDER", help="folder for the run's files")
    add("--config.KEY", metavar="VALUE", dest="_", help="set a key of the config")
    add("--accept_changes", action="store_true",
        help="continue a run even though its config has changed")  # fmt: skip
    add("--profile", action="store_true", help="write a trace of five steps")
    add("--distributed", action="store_true",
        help="several hosts that find each other (Slurm, TPU pods)")  # fmt: skip
    add(
        "--coordinator",
        metavar="IP:PORT",
        help="several hosts: address of the first one",
    )
    add("--processes", type=int, metavar="N", help="several hosts: number of processes")
    add(
        "--process",
        type=int,
        metavar="N",
        help="several hosts: index of this process, from 0",
    )
    args, rest = parser.parse_known_args(argv)
    changes = {}
    words = iter(rest)
    for word in words:
        match = re.fullmatch(r"--config\.([\w.]+)(?:=(.*))?", word, re.DOTALL)
        if not match:
            known = [s for action in parser._actions for s in action.option_strings]
            near = difflib.get_close_matches(word.partition("=")[0], known, n=1)
            hint = f"did you mean {near[0]}?" if near else "see --help"
            raise ValueError(f"unknown argument {word!r}; {hint}")
        value = match[2] if match[2] is not None else next(words, None)
        if value is None:
            raise ValueError(f"{word} needs a value: {word}=VALUE")
        changes[match[1]] = value
    if not args.config or not args.workdir:
        raise ValueError("--config FILE and --workdir FOLDER are needed; see --help")
    return args, changes


def change(config: dict[str, Any], changes: dict[str, str]) -> None:
    """Sets keys such as data.batch_size; whether there are such keys is seen later.

    Another model.name is another network: the fields of the config's are not for it.
    """
    model = config.get("model")
    name = changes.get("model.name")
    if isinstance(model, dict) and name not in (None, model.get("name")):
        config["model"] = {}
        own = _list_own(model)
        dropped = [f"{k}={v!r}" for k, v in own.items() if f"model.{k}" not in changes]
        if dropped:
            logging.info("model.name is now %s; dropped: %s", name, ", ".join(dropped))
    for key, text in changes.items():
        *sections, last = key.split(".")
        inner = config
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{section} is a single value, so there is no {key}")
        inner[last] = text if isinstance(inner.get(last), str) else _read_value(text)


def _list_own(model: dict[str, Any]) -> dict[str, Any]:
    """The fields of a config's model that are not as its name has them."""
    from sevnet_jax.models import create_model, list_models

    name = model.get("name")
    usual = create_model(name) if name in list_models() else None
    added = {"name": name, "wrapped": False}  # to the fields of the network
    return {
        key: value
        for key, value in model.items()
        if value != added.get(key, getattr(usual, key, None))
    }


def _read_value(text: str) -> Any:
    """A number, truth value or tuple as Python writes them; else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return {"true": True, "false": False}.get(text, text)


def start() -> int:
    """Runs the command in a process of its own; returns its exit code."""
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # JAX sets 1
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    use_huge_pages()
    return main()


def use_huge_pages() -> None:
    """Starts this program anew with glibc's setting for large pages of memory.

    XLA takes the memory of each step from the system and gives it back; in small pages
    that costs 6 % of a step on a CPU. glibc reads the setting when a program starts, so
    the process replaces itself, once. Whoever sets GLIBC_TUNABLES has their own way.
    """
    if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        args, changes = parse(argv)
        # Late: --help and mistakes in the flags need no TensorFlow.
        try:
            return run(args, changes)
        except ModuleNotFoundError as error:
            raise ValueError(f'{error}; pip install "sevnet_jax[train]"') from None
    except (ValueError, OSError) as error:
        return leave(error, BAD_USE)
    except KeyboardInterrupt:
        return leave(KeyboardInterrupt("interrupted"), INTERRUPTED)


def run(args: argparse.Namespace, changes: dict[str, str]) -> int:
    from sevnet_jax.config import load_config, split_spec
    from sevnet_jax.runtime import use_compilation_cache
    from sevnet_jax.training import parallel
    from sevnet_jax.training.loop import Diverged, train
    from sevnet_jax.training.recipe import from_mapping

    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)
    for noisy in ("jax", "orbax", "absl", "tensorflow"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    config = load_config(args.config).to_dict()
    change(config, changes)
    recipe = from_mapping(config)
    use_compilation_cache()
    parallel.connect(args.distributed, args.coordinator, args.processes, args.process)
    try:
        train(
            recipe,
            args.workdir,
            config_file=split_spec(args.config)[0],
            accept_changes=args.accept_changes,
            profile=args.profile,
            terminal=sys.stderr.isatty(),
        )
    except Diverged as error:
        return leave(error, DIVERGED)
    return 0


def leave(error: BaseException, code: int) -> int:
    """Says what is wrong and returns the exit code; of several hosts, ends at once."""
    name = name_command("train.py")
    print(f"{name}:", " ".join(str(error).split()), file=sys.stderr)
    if "jax" in sys.modules and sys.modules["jax"].process_count() > 1:
        # At a usual exit JAX would wait for the hosts, and they for this one.
        sys.stderr.flush()
        os._exit(code)
    return code
