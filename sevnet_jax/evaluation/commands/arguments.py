"""Arguments that several commands of eval.py share, and the file that --json names."""

import argparse
from collections.abc import Callable
from typing import Any

from sevnet_jax.evaluation import methods
from sevnet_jax.evaluation.report import format_json
from sevnet_jax.files import check_writable, write_atomically


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an argument from `least` to 2^31 - 1."""

    def convert(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(
                f"expected a whole number of at least {least}, got {text!r}"
            )
        return int(text)

    return convert


def add_methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        nargs="+",
        metavar="W",
        help="weights files, folders of training runs, or names of bundled weights "
        "(default: sevnet_s if there is no --method); LABEL=W sets the label",
    )
    parser.add_argument(
        "--translator",
        metavar="T",
        help="also score the weights after this translator of camera noise: a name, "
        "a file or a run",
    )
    parser.add_argument(
        "--clipped",
        action="store_true",
        help="also score all weights with the clipping of noise undone",
    )
    parser.add_argument(
        "--method",
        nargs="+",
        metavar="M",
        help=f"other methods: {', '.join(methods.METHODS)}, or module:function, which "
        "takes and returns float32 [H, W, C]",
    )


def add_grey(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grey",
        action="store_true",
        help="score the luminance only (automatic for one-channel weights)",
    )


def open_methods(args: argparse.Namespace) -> list[methods.Method]:
    return methods.open_methods(
        args.weights, args.method, args.translator, args.clipped
    )


def check_json(path: str | None) -> None:
    """Raises ValueError, before any work is done, if no file can be written there."""
    if path is not None:
        check_writable(path, "JSON file")


def write_json(path: str, content: Any) -> None:
    write_atomically(path, lambda part: part.write_text(format_json(content)))
