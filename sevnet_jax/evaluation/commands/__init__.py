"""`eval.py`: each command is a module with HELP, add_arguments(parser), run(args)."""

import argparse
import importlib
import logging
import os
import sys

from sevnet_jax.config import load_parts
from sevnet_jax.runtime import Parser, name_command, use_compilation_cache

DESCRIPTION = "Scores and studies networks and noise. COMMAND --help lists arguments."
COMMANDS = (
    "table",
    "compare",
    "curve",
    "features",
    "translation",
    "equivariance",
    "complexity",
    "noise",
    "demo",
    "import",
)
MODULES = {"import": "import_weights"}  # where the name is no module's
MOVED = {
    "ablation": "python -m studies.ablation.table",
    "study": "python -m studies.ablation.report",
}
INTERRUPTED = 130


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog=name_command("eval.py"), description=DESCRIPTION)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        place = MODULES.get(name, name)
        module = importlib.import_module(f"sevnet_jax.evaluation.commands.{place}")
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        command.set_defaults(run=module.run)
        module.add_arguments(command)
        command.add_argument(
            "--parts",
            metavar="FILE",
            help="config file that defines parts of a network or noise models",
        )
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in MOVED:
        raise ValueError(f"eval.py {given[0]} has moved: run {MOVED[given[0]]}")
    return parser.parse_args(given)


def main(argv: list[str] | None = None) -> int:
    name = name_command("eval.py")
    try:
        args = parse(argv)
        logging.basicConfig(format="%(message)s")
        use_compilation_cache()
        if args.parts:
            load_parts(args.parts)
        return args.run(args)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"{name}:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except MemoryError:
        print(f"{name}: out of memory", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
