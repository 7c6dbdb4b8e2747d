"""eval.py complexity: parameters, MACs and time of networks, next to the paper's."""

import argparse
import dataclasses
import json
from collections.abc import Sequence

from sevnet_jax import models
from sevnet_jax.evaluation import complexity, report
from sevnet_jax.evaluation.commands.arguments import whole_number

HELP = "parameters, MACs and time of networks, next to the paper's table"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size", type=whole_number(1), default=256, help="image side (default: 256)"
    )
    parser.add_argument(
        "--model",
        nargs="+",
        metavar="NAME",
        help="networks by name (default: those of the paper's table, and our others)",
    )
    parser.add_argument(
        "--no-time", action="store_true", help="count only, without timing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(args: argparse.Namespace) -> int:
    found = []
    for name in args.model or list_rows():
        model = models.create_model(name)
        counted = complexity.measure_complexity(name, model, args.size)
        if not args.no_time:
            seconds = complexity.measure_seconds(model, args.size)
            counted = dataclasses.replace(counted, seconds=seconds)
        found.append(counted)
    if args.json:
        print(json.dumps([dataclasses.asdict(model) for model in found], indent=2))
        return 0
    print(f"One image of {args.size}x{args.size}:")
    print(format_table(found))
    return 0


def list_rows() -> list[str]:
    """Returns the networks of the paper's table, then the other ones of ours."""
    known = models.list_models()
    ours = [name for name in known if name not in models.list_models("rival")]
    paper = [name for name in complexity.PAPER if name in known]
    return [*paper, *(name for name in ours if name not in paper)]


def format_table(counted: Sequence[complexity.Complexity]) -> str:
    """Counts beside the paper's; a dash where the paper has none."""

    def cells(count, paper, unit):
        if paper is None:
            return [f"{count / unit:.2f}", "-", "-"]
        return [
            f"{count / unit:.2f}",
            f"{paper / unit:.2f}",
            f"{100 * (count / paper - 1):+.1f} %",
        ]

    rows = [
        [
            model.name,
            *cells(model.params, model.paper_params, 1e6),
            *cells(model.macs, model.paper_macs, 1e9),
            f"{model.macs_per_pixel / 1e3:.0f}",
            "-" if model.seconds is None else f"{1e3 * model.seconds:.0f}",
        ]
        for model in counted
    ]
    header = ["model", "params (M)", "paper", "diff"]
    header += ["GMACs", "paper", "diff", "kMACs/pixel", "ms here"]
    return report.format_table(header, rows)
