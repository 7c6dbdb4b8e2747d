"""eval.py study."""

import argparse
from pathlib import Path

from sevnet_jax.evaluation import study, study_figures
from sevnet_jax.files import write_atomically

HELP = "tables of a whole trained ablation, from the files of benchmarks/ablations.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        default="docs/ablations",
        metavar="FOLDER",
        help="with a JSON file for each run (docs/ablations)",
    )
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="a Markdown file whose block between the marks is to be replaced",
    )


def run(args: argparse.Namespace) -> int:
    tables = study.format_study(study.load(args.runs))
    tables += study_figures.format_figures(args.runs)
    print(tables, end="")
    if args.write:
        path = Path(args.write)
        text = study.replace_block(path.read_text(encoding="utf-8"), tables)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return 0
