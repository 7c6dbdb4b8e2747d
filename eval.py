"""Studies models and noise. `python eval.py COMMAND --help` says more."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

import sevnet_jax
from sevnet_jax.config import build_model, load_config
from sevnet_jax.data import images, noise
from sevnet_jax.evaluation import (
    complexity,
    demo,
    law_report,
    noise_sheet,
    protocol,
    report,
)
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


def run_table(args: argparse.Namespace) -> int:
    denoise = sevnet_jax.load(args.weights)
    scores = []
    for folder in args.data:
        scores += protocol.score_set(
            denoise, folder, args.noise, args.seed, args.limit, tqdm
        )
    summary = protocol.summarize(scores)
    if args.json:
        provenance = {
            "protocol": "rgb8, whole images",
            "seed": args.seed,
            "weights": args.weights or "bundled",
            "weights_sha256": denoise.weights.sha256,
        }
        rows = [dataclasses.asdict(score) for score in scores]
        print(json.dumps({**provenance, "scores": rows}, indent=2))
        return 0
    header = ["set", "noise", "images", "noisy dB", "dB", "noisy SSIM", "SSIM"]
    rows = [
        [
            *(data, name, str(means["images"])),
            *(f"{means[key]:.2f}" for key in ("noisy_psnr", "psnr")),
            *(f"{means[key]:.4f}" for key in ("noisy_ssim", "ssim")),
        ]
        for (data, name), means in summary.items()
    ]
    print("Protocol rgb8, whole images:")
    print(report.format_table(header, rows))
    return 0


def run_demo(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    print("Protocol rgb8:")
    print(demo.run(sevnet_jax.load(args.weights), Path(args.samples), Path(args.out)))
    print(f"picture: {args.out}")
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
        "demo", help="restores the bundled samples and writes a picture of them"
    )
    command.set_defaults(run=run_demo)
    command.add_argument("--samples", default="samples", help="their folder (samples)")
    command.add_argument("--weights", help="a file; without: the bundled ones")
    command.add_argument("--out", default="runs/demo.png", help="the picture")

    command = commands.add_parser(
        "table", help="mean PSNR and SSIM of weights on folders of clean images"
    )
    command.set_defaults(run=run_table)
    command.add_argument(
        "--data", nargs="+", required=True, metavar="FOLDER", help="clean images"
    )
    command.add_argument(
        "--noise",
        nargs="+",
        default=list(noise.PAPER_COLUMNS),
        help="names of noises (all columns of the paper's tables)",
    )
    command.add_argument("--weights", help="a file; without: the bundled ones")
    command.add_argument("--seed", type=whole_number(0), default=0)
    command.add_argument("--limit", type=whole_number(1), help="images of each folder")
    command.add_argument("--json", action="store_true", help="a score for each image")

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
