"""eval.py curve."""

import argparse
import contextlib
import sys
from pathlib import Path

from sevnet_jax.evaluation import curve, curve_figure, report, runner, scenes
from sevnet_jax.evaluation.commands import arguments, json_file

HELP = "mean PSNR against the noise level, far beyond the levels of training"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="FOLDER", help="clean images")
    arguments.add_methods(parser)
    parser.add_argument(
        "--noise",
        default="gaussian",
        metavar="LAW",
        help=f"whose level grows: {', '.join(curve.LAWS)} (gaussian)",
    )
    parser.add_argument(
        "--levels",
        nargs="+",
        type=float,
        metavar="L",
        help=f"({' '.join(map(str, curve.LEVELS))}; poisson has its own)",
    )
    parser.add_argument("--limit", type=arguments.whole_number(1), help="images")
    parser.add_argument("--seed", type=arguments.whole_number(0), default=0)
    parser.add_argument("--out", default="runs/curve.png", help="the figure")
    parser.add_argument("--json", metavar="FILE", help="every score, as JSON")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    json_file.check(args.json)
    levels = curve.choose_levels(args.noise, args.levels)
    noises = curve.name_noises(args.noise, levels)
    found = scenes.from_folder(args.data, noises, args.seed, args.limit)
    methods = curve.arrange(arguments.open_methods(args))
    # Of its own: figures beside each other may be drawn at the same time.
    folder = Path(args.out).with_name(f".{Path(args.out).name}.unfinished")
    result = runner.run(found, methods, folder, args.seed)
    trained = curve.find_training_range(args.noise, methods)
    drawn = curve.build(result, args.noise, levels, trained)
    print(curve.format_curve(drawn))
    curve_figure.draw(drawn, args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    if args.json:
        json_file.write(args.json, curve.to_json(drawn, result))
    result.progress.finish()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return runner.report_skipped(result)
