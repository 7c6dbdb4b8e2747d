"""Shows what more training buys: held-out scores against the pixels seen so far.

python -m studies.weights.curve --run runs/wide --before 8.5e8 \
    --weights 2.9e8=first.safetensors 5.9e8=sevnet_s 8.5e8=sevnet_s_wide \
    --write studies/weights/README.md

A run's own validations are its points; it began after --before pixels. Weights of
earlier stages are scored here, on the images and noises of that run's validation. The
points go to curve.json, to those that are there of other runs and weights. Table and
figure are made from it; without --run, only these are made again.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sevnet_jax.evaluation.report import format_json, format_markdown, save_figure
from sevnet_jax.files import write_atomically
from sevnet_jax.training import recipe, workdir
from sevnet_jax.training.logs import read_metrics
from studies import results, trainings

RESULTS = Path(__file__).parent / "results"
PSNR = "psnr "
USED = ("model", "data", "watch", "seed")  # of a recipe
Point = dict[str, Any]  # "pixels", "from", "images" scored on, and PSNR by noise


def read_recipe(folder: Path) -> recipe.Recipe:
    """Returns what a run scores on, and what it sees in a step."""
    config = json.loads((folder / workdir.CONFIG).read_text(encoding="utf-8"))
    return recipe.from_mapping({key: config[key] for key in USED if key in config})


def read_run(folder: Path, used: recipe.Recipe, before: float) -> list[Point]:
    """Returns a point for each validation of a run."""
    step = used.data.batch_size * used.data.patch_size**2
    return [
        _make_point(before + step * record["step"], folder.name, record, used)
        for record in read_metrics(folder)
        if record["kind"] == "validation"
    ]


def load(file: Path) -> list[Point]:
    """Returns the points of a file, which has null for scores that are no number."""
    points = json.loads(file.read_text(encoding="utf-8"))
    return [p | {"psnr": _read_scores(p["psnr"])} for p in points]


def tabulate(points: Sequence[Point]) -> str:
    """Returns the points as a table."""
    noises = list(points[0]["psnr"])
    header = ["pixels seen", "weights", *(noise.replace(":", " ") for noise in noises)]
    cells = [
        [f"{p['pixels']:.3g}", p["from"], *(f"{p['psnr'][n]:.2f}" for n in noises)]
        for p in points
    ]
    return format_markdown(header, cells)


def draw(points: Sequence[Point], path: Path) -> None:
    """Draws each noise's gain over the first point."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    first = points[0]["psnr"]
    for noise in first:
        gains = [point["psnr"][noise] - first[noise] for point in points]
        axes.plot([p["pixels"] for p in points], gains, "o-", ms=4, label=noise)
    axes.set_xscale("log")
    axes.set_xlabel("pixels seen in training")
    axes.set_ylabel("gain over the first point, dB")
    axes.grid(color="#e6e6e6", which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def _make_point(
    pixels: float, name: str, scores: dict[str, Any], used: recipe.Recipe
) -> Point:
    found = {
        key.removeprefix(PSNR): value
        for key, value in scores.items()
        if key.startswith(PSNR)
    }
    return {
        "pixels": pixels,
        "from": name,
        "images": describe_images(used.watch),
        "psnr": _read_scores(found),
    }


def _read_scores(found: dict[str, float | None]) -> dict[str, float]:
    return {key: math.nan if value is None else value for key, value in found.items()}


def describe_images(watch: recipe.Watch) -> str:
    """Returns what is scored on: points of other images do not compare."""
    folder = Path(watch.source).name
    return f"{watch.images} of {folder}, {watch.size}x{watch.size}"


def check(old: Sequence[Point], used: recipe.Recipe) -> None:
    """Raises ValueError unless all points are scored as a run scores itself."""
    images, noises = describe_images(used.watch), [*used.watch.noises]
    for point in old:
        if (point["images"], [*point["psnr"]]) != (images, noises):
            raise ValueError(
                f"the points of {point['from']} are scored on {point['images']} under "
                f"{', '.join(point['psnr'])}; the run scores on {images} under "
                f"{', '.join(noises)}; give another --out"
            )


def merge(old: Sequence[Point], new: Sequence[Point]) -> list[Point]:
    """Returns all points in order; new ones replace the old ones of the same name."""
    names = {point["from"] for point in new}
    kept = [point for point in old if point["from"] not in names]
    return sorted([*kept, *new], key=lambda point: point["pixels"])


def _read_weights(text: str) -> tuple[float, str]:
    pixels, _, name = text.partition("=")
    try:
        return float(pixels), name
    except ValueError:
        raise ValueError(
            f"--weights takes PIXELS=WEIGHTS, such as 5.9e8=sevnet_s, got {text!r}"
        ) from None


def make_points(
    folder: Path, used: recipe.Recipe, before: float, earlier: Sequence[str]
) -> list[Point]:
    """Returns the points of a run and of earlier weights."""
    points = read_run(folder, used, before)
    points += [
        _make_point(pixels, Path(name).stem, trainings.validate(name, used), used)
        for pixels, name in map(_read_weights, earlier)
    ]
    if not points:
        raise ValueError(f"the run {str(folder)!r} has no validations yet")
    return points


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="the folder of a run")
    parser.add_argument(
        "--before", type=float, default=0.0, help="pixels seen before that run"
    )
    parser.add_argument(
        "--weights",
        nargs="*",
        default=[],
        metavar="PIXELS=WEIGHTS",
        help="weights of earlier stages, and what they had seen",
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of curve.json"
    )
    parser.add_argument("--write", type=Path, help="a document to put the table into")
    args = parser.parse_args(argv)
    file = args.out / "curve.json"
    try:
        if args.run:
            used = read_recipe(args.run)
            old = load(file) if file.exists() else []
            check(old, used)
            points = merge(old, make_points(args.run, used, args.before, args.weights))
            args.out.mkdir(parents=True, exist_ok=True)
            text = format_json(points)
            write_atomically(file, lambda part: part.write_text(text, encoding="utf-8"))
        else:
            points = load(file)
        draw(points, args.out / "figures" / "curve.png")
        results.write_tables(tabulate(points) + "\n", args.write)
    except (ValueError, OSError) as error:
        print(f"curve: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
