"""eval.py features."""

import argparse
import sys
from pathlib import Path

from sevnet_jax.data import images
from sevnet_jax.evaluation import features, methods, report
from sevnet_jax.evaluation.commands import json_file
from sevnet_jax.evaluation.commands.arguments import whole_number

HELP = "how alike a network's last features are under different noise level maps"
SIZE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument(
        "--weights",
        nargs="+",
        metavar="W",
        help="weights to study: files, runs' folders or names (the bundled ones); "
        "LABEL=W shows them as LABEL",
    )
    parser.add_argument(
        "--noises",
        nargs="+",
        default=list(features.NOISES),
        metavar="N",
        help=f"the reference, then what to compare ({' '.join(features.NOISES)})",
    )
    parser.add_argument(
        "--size",
        type=whole_number(1),
        default=SIZE,
        help=f"side of the central part that is studied ({SIZE})",
    )
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--out", default="runs/features.png", help="the figure")
    parser.add_argument("--json", metavar="FILE", help="the similarities, as JSON")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    json_file.check(args.json)
    photo = images.to_float(images.read_named(args.image))
    clean = features.cut_centre(photo, args.size)
    noisy = features.add_noises(clean, args.noises, args.seed)
    networks = methods.open_methods(args.weights)
    studies = {
        network.name: features.study(network.denoiser.weights, noisy)
        for network in networks
    }
    height, width = clean.shape[:2]
    print(f"Similarity of the last decoder stage's features, {width}x{height} pixels,")
    print(f"one draw of noise, each against {args.noises[0]}:")
    print(features.format_studies(studies))
    features.draw(noisy, studies, args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    if args.json:
        json_file.write(
            args.json,
            {
                "image": Path(args.image).name,
                "reference": args.noises[0],
                "seed": args.seed,
                "size": [height, width],
                "networks": {
                    network.name: {
                        **network.provenance,
                        **features.to_json(studies[network.name]),
                    }
                    for network in networks
                },
            },
        )
    return 0
