"""Scores and studies models and noise. `python eval.py COMMAND --help` says more."""

import argparse
import importlib
import logging
import os
import sys

from sevnet_jax.runtime import use_compilation_cache

COMMANDS = (
    "table",
    "compare",
    "curve",
    "features",
    "translation",
    "ablation",
    "study",
    "equivariance",
    "complexity",
    "noise",
    "demo",
)
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else here does."""

    def error(self, message: str):
        raise ValueError(f"{message}; see --help")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"sevnet_jax.evaluation.commands.{name}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        command.set_defaults(run=module.run)
        module.add_arguments(command)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    try:
        args = parse(argv)
        logging.basicConfig(format="%(message)s")
        use_compilation_cache()
        return args.run(args)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print("eval.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except MemoryError:
        print("eval.py: out of memory", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("eval.py: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
