"""Trained ablation runs in the paper's layout, with differences to row 1a.

python -m studies.ablation.table --runs runs/1a runs/2f --data Kodak24
"""

import argparse
import sys
from pathlib import Path

from sevnet_jax.evaluation import methods, protocol, report, runs
from sevnet_jax.evaluation.commands import table
from studies.ablation import scores
from studies.means import NOISES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        nargs="+",
        required=True,
        metavar="DIR",
        help="folders of finished runs, or weights; runs of the same row are averaged",
    )
    table.add_data(parser)
    parser.add_argument(
        "--noise",
        nargs="+",
        default=list(NOISES),
        metavar="N",
        help="noises to add (default: gaussian:20 and those of the paper's ablation)",
    )
    parser.add_argument(
        "--out",
        default="runs/ablation",
        help="folder for ablation.txt, .md, .tex, .json and scores.csv (default: "
        "runs/ablation)",
    )


def run(args: argparse.Namespace) -> int:
    if len(args.data) != 1:
        raise ValueError(f"give --data one folder of clean images, got {args.data}")
    found = table.find_scenes(args, args.data[0])
    opened = methods.open_methods(args.runs)
    rows_of_runs = scores.find_rows(opened)  # first: it may refuse
    result = runs.run(found, opened, Path(args.out), args.seed)
    means = protocol.summarize(result.scores)
    rows = scores.collect(rows_of_runs, means)
    (data,) = result.set_sizes
    count = max(mean["images"] for mean in means.values())
    about = (data, protocol.count_images(count, result.set_sizes[data]))
    text = scores.format_rows(rows, *about, report.format_table)
    files = {
        "ablation.txt": text,
        "ablation.md": scores.format_rows(
            rows, *about, lambda *table: "\n" + report.format_markdown(*table)
        ),
        "ablation.tex": scores.format_latex(rows, *about),
        "ablation.json": report.format_json(runs.describe(result)),
        "scores.csv": runs.to_csv(result.scores),
    }
    runs.write_files(result, Path(args.out), files)
    print(text, end="")
    return runs.report_skipped(result)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        return run(args)
    except (ValueError, OSError) as error:
        print("table.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
