"""eval.py translation: camera noise before and after a translator, as a figure."""

import argparse

import jax

from sevnet_jax.evaluation import report, scenes, sheet, translation
from sevnet_jax.evaluation.commands import arguments
from sevnet_jax.evaluation.commands.arguments import whole_number
from sevnet_jax.evaluation.methods import DEFAULT
from sevnet_jax.inference.automatic import TRANSLATOR
from sevnet_jax.weights import join, load_named

HELP = "camera noise before and after a translator: histogram, spectrum, and a crop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pairs",
        required=True,
        metavar="FOLDER",
        help="real noisy images with references",
    )
    parser.add_argument(
        "--translator",
        default=TRANSLATOR,
        metavar="T",
        help="a name, a file or a run (default: the bundled translator)",
    )
    parser.add_argument(
        "--weights",
        default=DEFAULT,
        metavar="W",
        help="the denoiser that the translator was trained for",
    )
    parser.add_argument(
        "--limit", type=whole_number(1), help="use only the first LIMIT pairs"
    )
    parser.add_argument(
        "--show",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="the pair to cut the crops from (default: 1, the first)",
    )
    parser.add_argument(
        "--crop",
        metavar="LEFT,TOP,SIDE",
        help="the square to show (default: where the reference varies most)",
    )
    parser.add_argument("--out", default="runs/translation.png", help="the figure")
    parser.add_argument("--json", metavar="FILE", help="the numbers, as JSON")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    arguments.check_json(args.json)
    crop = sheet.parse_crop(args.crop) if args.crop else None
    found = scenes.from_pairs(args.pairs, args.limit)
    if args.show > len(found):
        raise ValueError(
            f"--show {args.show} is out of range: there are {len(found)} pairs"
        )
    weights = join(load_named(args.translator), load_named(args.weights))
    # Elsewhere than on a CPU, float32 products may be rounded to fewer bits.
    with jax.default_matmul_precision("highest"):
        result = translation.study(weights, found, args.show - 1)
    reference = result.example.pixels["reference"]
    crop = crop or sheet.find_crop(reference)
    sheet.check_crop(crop, *reference.shape[:2])
    print(f"{found[0].data}, {result.images} pairs")
    print(translation.format_study(result))
    translation.draw(result, crop, args.out)
    print(f"figure: {args.out}; crop {crop.left},{crop.top},{crop.side}")
    if args.json:
        content = {"provenance": dict(weights.provenance), "pairs": found[0].data}
        arguments.write_json(args.json, {**content, **translation.to_json(result)})
    return 0
