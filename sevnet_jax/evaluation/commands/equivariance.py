"""eval.py equivariance."""

import argparse
import json
import sys
from pathlib import Path

from sevnet_jax.config import build_model, load_config
from sevnet_jax.evaluation import law_report, report
from sevnet_jax.evaluation.commands.arguments import whole_number

HELP = "whether f(kx) = k f(x) holds, and which part breaks it; exit code 1 if one does"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        required=True,
        metavar="FILE[:ARGUMENT]",
        help="configs/sevnet.py, configs/ablations.py:2f, ...; may be given repeatedly",
    )
    parser.add_argument(
        "--size", type=whole_number(1), default=32, help="image side (32)"
    )
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"))
    parser.add_argument("--out", default="runs/equivariance.png", help="the figure")
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    studies = {}
    for spec in args.config:
        model = build_model(load_config(spec))
        if args.dtype:
            model = model.with_fields(dtype=args.dtype)
        studies[spec] = law_report.study(model, args.size, args.seed)
        if not args.json:
            print(
                f"{spec}: is f(kx) = k f(x)? Random weights and image, {model.dtype}."
            )
            print(law_report.format_study(studies[spec]))
    if args.json:
        found = [{"config": s, **law_report.to_json(r)} for s, r in studies.items()]
        print(json.dumps(found, indent=2))
    labels = map(shorten, studies)
    law_report.plot_studies(dict(zip(labels, studies.values(), strict=True)), args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    return 0 if all(result.whole.holds for result in studies.values()) else 1


def shorten(spec: str) -> str:
    path, colon, argument = spec.partition(":")
    return Path(path).stem + colon + argument
