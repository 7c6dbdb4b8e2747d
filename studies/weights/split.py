"""Splits a folder of crops into training and held-out crops, photo by photo.

python -m studies.weights.split CROPS OUT --held-out 40

A crop is named PHOTO_anything, and all crops of a photo go to the same side. Those with
the smallest hashes of the photo's name are held out, so the split is the same on every
machine. More photos make another split, which needs a new OUT.
"""

import argparse
import hashlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from sevnet_jax import images

HELD_OUT = 40


def find_photo(path: Path) -> str:
    """Returns the name of the photo that a crop is of."""
    return path.name.partition("_")[0]


def choose_held_out(crops: Iterable[Path], count: int = HELD_OUT) -> set[Path]:
    """Returns `count` crops, whole photos of them."""
    photos: dict[str, list[Path]] = {}
    for crop in sorted(crops):
        photos.setdefault(find_photo(crop), []).append(crop)
    chosen: set[Path] = set()
    for name in sorted(photos, key=lambda n: hashlib.sha256(n.encode()).hexdigest()):
        if len(chosen) + len(photos[name]) <= count:
            chosen.update(photos[name])
    if len(chosen) < count:
        raise ValueError(f"only {len(chosen)} of {count} crops can be held out")
    return chosen


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crops", type=Path, help="folder of crops")
    parser.add_argument(
        "out", type=Path, help="folder to write the folders train and held_out into"
    )
    parser.add_argument(
        "--held-out",
        type=int,
        default=HELD_OUT,
        metavar="N",
        help=f"crops to hold out (default: {HELD_OUT})",
    )
    args = parser.parse_args(argv)
    try:
        crops = images.list_files(args.crops)
        if len({crop.name for crop in crops}) < len(crops):
            raise ValueError(f"two crops below {args.crops} have the same name")
        if args.out.is_dir() and any(args.out.iterdir()):
            raise ValueError(f"{args.out} is not empty")
        held_out = choose_held_out(crops, args.held_out)
        for crop in crops:
            folder = args.out / ("held_out" if crop in held_out else "train")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(crop, folder / crop.name)
    except (ValueError, OSError) as error:
        print(f"split: {error}", file=sys.stderr)
        return 2
    print(f"{len(crops) - len(held_out)} crops to train on, {len(held_out)} held out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
