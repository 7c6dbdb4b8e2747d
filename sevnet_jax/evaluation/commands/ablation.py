"""eval.py ablation."""

import argparse
from pathlib import Path

from sevnet_jax.evaluation import ablation, methods, protocol, report, runner
from sevnet_jax.evaluation.commands import table

HELP = "trained ablation runs in the paper's layout, with differences to row 1a"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        nargs="+",
        required=True,
        metavar="DIR",
        help="folders of finished runs, or weights; several of a row are averaged",
    )
    table.add_data(parser)
    parser.add_argument(
        "--noise",
        nargs="+",
        default=list(ablation.NOISES),
        metavar="N",
        help="names of noises (gaussian:20 and the columns of the paper's ablation)",
    )
    parser.add_argument(
        "--out",
        default="runs/ablation",
        help="folder for ablation.txt, .md, .tex, .json and scores.csv (runs/ablation)",
    )


def run(args: argparse.Namespace) -> int:
    if len(args.data) != 1:
        raise ValueError(f"give --data one folder of clean images, got {args.data}")
    found = table.find_scenes(args, args.data[0])
    opened = methods.open_methods(args.runs)
    result = runner.run(found, opened, Path(args.out), args.seed)
    means = protocol.summarize(result.scores)
    rows = ablation.collect(ablation.find_rows(opened), means)
    (data,) = result.set_sizes
    count = max(mean["images"] for mean in means.values())
    about = (data, protocol.count_images(count, result.set_sizes[data]))
    text = ablation.format_rows(rows, *about, report.format_table)
    files = {
        "ablation.txt": text,
        "ablation.md": ablation.format_rows(
            rows, *about, lambda *table: "\n" + report.format_markdown(*table)
        ),
        "ablation.tex": ablation.format_latex(rows, *about),
        "ablation.json": report.format_json(runner.describe(result)),
        "scores.csv": runner.to_csv(result.scores),
    }
    runner.write_files(result, Path(args.out), files)
    print(text, end="")
    return runner.report_skipped(result)
