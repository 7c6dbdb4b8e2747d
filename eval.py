"""Studies models and noise. `python eval.py COMMAND --help` says more."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import sevnet_jax
from sevnet_jax.config import build_model, load_config
from sevnet_jax.data import images
from sevnet_jax.evaluation import complexity, law_report, noise_sheet, report
from sevnet_jax.runtime import use_compilation_cache


def run_complexity(args: argparse.Namespace) -> int:
    models = [
        complexity.measure_complexity(name, sevnet_jax.create_model(name), args.size)
        for name in sevnet_jax.list_models()
    ]
    if args.json:
        print(json.dumps([dataclasses.asdict(model) for model in models], indent=2))
    else:
        print(f"One image of {args.size}x{args.size}, MACs of all convolutions:")
        print(report.complexity_table(models))
    return 0


def run_equivariance(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    studies = {}
    for spec in args.config:
        model = build_model(load_config(spec))
        if args.dtype:
            model = model.clone(dtype=args.dtype)
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


def run_noise(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    try:
        image = images.read(args.image)
    except Exception as error:  # decoders raise errors of many kinds
        raise ValueError(f"cannot read the image {args.image!r}: {error}") from error
    noise_sheet.draw(image, args.out, args.seed)
    print(f"figure: {args.out}")
    return 0


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an argument from `least` to 2^31 - 1."""

    def convert(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 2**31:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no whole number of {least} or more"
            )
        return int(text)

    return convert


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser(
        "complexity", help="parameters and MACs of every preset, beside the paper's"
    )
    command.set_defaults(run=run_complexity)
    command.add_argument(
        "--size", type=whole_number(1), default=256, help="image side (256)"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead")

    command = commands.add_parser(
        "equivariance",
        help="whether f(kx) = k f(x) holds, and which part breaks it",
        description="Measures f(kx) = k f(x) for a model and each of its parts, draws "
        "the error against k. Exit code 1 if the law is broken.",
    )
    command.set_defaults(run=run_equivariance)
    command.add_argument(
        "--config",
        action="append",
        required=True,
        metavar="FILE[:ARGUMENT]",
        help="configs/sevnet.py, configs/ablations.py:2f, ...; may be given repeatedly",
    )
    command.add_argument(
        "--size", type=whole_number(1), default=32, help="image side (32)"
    )
    command.add_argument("--seed", type=whole_number(0), default=0)
    command.add_argument("--dtype", choices=("float32", "bfloat16"))
    command.add_argument("--out", default="runs/equivariance.png", help="the figure")
    command.add_argument("--json", action="store_true", help="print JSON instead")

    command = commands.add_parser(
        "noise", help="one sheet with every noise law at every level, with its PSNR"
    )
    command.set_defaults(run=run_noise)
    command.add_argument("--image", required=True, help="a clean photo")
    command.add_argument("--out", default="runs/noise.png", help="the sheet")
    command.add_argument("--seed", type=whole_number(0), default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    use_compilation_cache()
    try:
        return args.run(args)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print("eval.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
