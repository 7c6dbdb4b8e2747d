"""Arguments that several commands of eval.py share."""

import argparse
from collections.abc import Callable

from sevnet_jax.evaluation import methods


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an argument from `least` to 2^31 - 1."""

    def convert(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no whole number of {least} or more"
            )
        return int(text)

    return convert


def add_methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        nargs="+",
        metavar="W",
        help="weights to score: files, runs' folders or names (the bundled ones); "
        "LABEL=W shows them as LABEL",
    )
    parser.add_argument(
        "--translator",
        metavar="T",
        help="score the weights also behind this translator of camera noise: a name, "
        "file or run",
    )
    parser.add_argument(
        "--method",
        nargs="+",
        metavar="M",
        help=f"other methods: {', '.join(methods.METHODS)}, or module:function, which "
        "takes and returns float32 [H, W, 3]",
    )


def open_methods(args: argparse.Namespace) -> list[methods.Method]:
    return methods.open_methods(args.weights, args.method, args.translator)
