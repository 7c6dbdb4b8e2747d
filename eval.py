"""Studies models and noise. `python eval.py COMMAND --help` says more."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import jax

import sevnet_jax
from sevnet_jax import equivariance
from sevnet_jax.config import build_model, load_config
from sevnet_jax.data import images
from sevnet_jax.evaluation import complexity, noise_sheet, report
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
    scales = equivariance.SCALES
    laws, results = {}, []
    for spec in args.config:
        # Elsewhere than on a CPU, float32 products may be rounded to fewer bits.
        model = build_model(load_config(spec)).clone(precision="highest")
        if args.dtype:
            model = model.clone(dtype=args.dtype)
        shape = (1, args.size, args.size, model.channels)
        x = jax.random.uniform(jax.random.key(args.seed), shape, model.dtype)
        params = jax.jit(model.init)(jax.random.key(args.seed + 1), x)
        apply = jax.jit(model.apply)
        law = equivariance.measure(
            lambda x, apply=apply, params=params: apply(params, x),
            x,
            scales=(*scales, *report.sweep()),
        )
        laws[shorten(spec)] = law
        whole = equivariance.Part("", type(model).__name__, law, law.holds())
        parts = equivariance.measure_parts(model, params, x, depth=1)
        culprits = [] if whole.holds else equivariance.locate(model, params, x)
        parts = [part for part in parts if part.path] + [whole]
        results.append((spec, whole, parts, culprits))
        if not args.json:
            print_equivariance(spec, shape, model, whole, parts, culprits, scales)
    report.plot_equivariance(laws, args.out)
    if args.json:
        print(json.dumps([describe_law(*result) for result in results], indent=2))
    else:
        print(f"figure: {args.out}")
    return 0 if all(whole.holds for _, whole, _, _ in results) else 1


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


def print_equivariance(spec, shape, model, whole, parts, culprits, scales) -> None:
    size = "x".join(map(str, shape))
    print(f"{spec}: f(kx) = k f(x)? random weights, compute in {model.dtype}, x {size}")
    print("Columns are scales k; = is exact to the last bit, a number the error.")
    print(report.equivariance_table(parts, scales))
    law = whole.measurement
    shift_error = max(row.relative_error for row in law.shifts)
    others = max(row.relative_error for row in law.scales if not row.must_be_exact)
    print(f"f(x + b) = f(x) + b: gain {law.shift_gain:.4f}, error {shift_error:.1e}")
    if whole.holds:
        print(f"The law holds: exact for every power of two, {others:.1e} elsewhere.")
        return
    print("The law is broken by, in the order of the data flow:")
    for part in culprits:
        degree = f"degree {part.measurement.degree:.3f}"
        print(f"  {part.path} ({part.kind}): measured {degree}")


def describe_law(spec, whole, parts, culprits) -> dict:
    return {
        "config": spec,
        "holds": whole.holds,
        "culprits": [part.path for part in culprits],
        "parts": [dataclasses.asdict(part) for part in parts],
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser(
        "complexity", help="parameters and MACs of every preset, beside the paper's"
    )
    command.set_defaults(run=run_complexity)
    command.add_argument("--size", type=int, default=256, help="image side (256)")
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
    command.add_argument("--size", type=int, default=32, help="image side (32)")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--dtype", choices=("float32", "bfloat16"))
    command.add_argument("--out", default="runs/equivariance.png", help="the figure")
    command.add_argument("--json", action="store_true", help="print JSON instead")

    command = commands.add_parser(
        "noise", help="one sheet with every noise law at every level, with its PSNR"
    )
    command.set_defaults(run=run_noise)
    command.add_argument("--image", required=True, help="a clean photo")
    command.add_argument("--out", default="runs/noise.png", help="the sheet")
    command.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    use_compilation_cache()
    try:
        return args.run(args)
    except (ValueError, OSError) as error:
        print(f"eval.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
