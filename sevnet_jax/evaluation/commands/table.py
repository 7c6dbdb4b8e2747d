"""eval.py table: PSNR and SSIM of methods, next to the paper's numbers."""

import argparse
import sys
from pathlib import Path

from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, protocol, report, runs, scenes, tables
from sevnet_jax.evaluation.commands import arguments

HELP = "mean PSNR and SSIM on image sets, next to the paper's numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--noise",
        nargs="+",
        default=list(noise.PAPER_COLUMNS),
        metavar="N",
        help="noises to add (default: all columns of the paper's tables)",
    )
    parser.add_argument(
        "--pairs",
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="real noisy images with references: a folder with NAME_real and "
        "NAME_mean, or two folders as NOISY,REFERENCE",
    )
    arguments.add_methods(parser)
    arguments.add_grey(parser)
    parser.add_argument(
        "--paper",
        choices=tables.PAPER_ROWS,
        default="all",
        help="which of the paper's rows to show (default: all)",
    )
    parser.add_argument(
        "--out",
        default="runs/table",
        help="folder for table.txt, .md, .tex, .json and scores.csv (default: "
        "runs/table)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", nargs="+", default=[], metavar="FOLDER", help="clean images"
    )
    parser.add_argument(
        "--seed", type=arguments.whole_number(0), default=0, help="seed of the noise"
    )
    parser.add_argument(
        "--limit",
        type=arguments.whole_number(1),
        help="use only the first LIMIT images of each folder",
    )


def run(args: argparse.Namespace) -> int:
    if not args.data and not args.pairs:
        raise ValueError("give --data FOLDER of clean images, or --pairs FOLDER")
    opened = arguments.open_methods(args)
    channels = methods.find_channels(opened, args.grey)
    found = [
        *(s for d in args.data for s in find_scenes(args, d, channels)),
        *(s for p in args.pairs for s in scenes.from_pairs(p, args.limit, channels)),
    ]
    result = runs.run(found, opened, Path(args.out), args.seed)
    means = protocol.summarize(result.scores)
    built = tables.build(means, result.set_sizes, args.paper)
    lines = ""
    if args.paper != "none":
        lines = "\n".join(tables.standings(means, result.set_sizes))
    text = tables.format_text(built) + (f"\n{lines}\n" if lines else "")
    files = {
        "table.txt": text,
        "table.md": tables.format_markdown(built),
        "table.tex": tables.format_latex(built),
        "table.json": report.format_json(runs.describe(result)),
        "scores.csv": runs.to_csv(result.scores),
    }
    runs.write_files(result, Path(args.out), files)
    print(text, end="")
    print(f"also as Markdown, LaTeX, CSV and JSON in {args.out}", file=sys.stderr)
    return runs.report_skipped(result)


def find_scenes(
    args: argparse.Namespace, folder: str, channels: int = 3
) -> list[scenes.Scene]:
    return scenes.from_folder(folder, args.noise, args.seed, args.limit, channels)
