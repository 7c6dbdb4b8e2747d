"""The images of a table: clean images under noises, or real noisy pairs."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from sevnet_jax import images, metrics
from sevnet_jax.data import noise

REAL = "real"  # the noise of pairs
# How the two files of a pair are told apart: a part of their names, or their folders.
NAMES = (("real", "mean"), ("noisy", "clean"), ("noisy", "gt"))
FOLDERS = (("noisy", "clean"), ("input", "groundtruth"), ("noisy", "reference"))


@dataclasses.dataclass(frozen=True)
class Input:
    """A noisy image, its reference, and the true rms of its noise."""

    noise: str
    noisy: np.ndarray  # float32 [H, W, C], read-only
    sigma: float
    reference: metrics.Reference


@dataclasses.dataclass(frozen=True)
class Scene:
    """One image of a set. `inputs()` makes its noisy versions, one after another."""

    data: str
    image: str
    noises: tuple[str, ...]
    inputs: Callable[[], Iterator[Input]]
    files: tuple[Path, ...]
    root: Path  # of the set
    set_size: int  # images of the set, also those that are not to be scored


def from_folder(
    folder: str | Path,
    noises: Sequence[str],
    seed: int = 0,
    limit: int | None = None,
    channels: int = 3,
) -> list[Scene]:
    """Returns the images below a folder; noise is a function of (seed, position).

    Of colour images, one channel is the luminance.
    """
    noises = tuple(dict.fromkeys(noises))
    for name in noises:
        noise.parse(name)
    root = Path(folder)
    files = images.list_files(root)
    return [
        Scene(
            _name_set(root, channels),
            path.relative_to(root).as_posix(),
            noises,
            functools.partial(_read_and_add, path, channels, noises, (seed, index)),
            (path,),
            root.resolve(),
            len(files),
        )
        for index, path in enumerate(files[:limit])
    ]


def _name_set(root: Path, channels: int) -> str:
    """What was scored in grey is another set, which the paper does not have."""
    return root.resolve().name + (" in grey" if channels == 1 else "")


def _read_and_add(
    path: Path, channels: int, noises: Sequence[str], seed: tuple
) -> Iterator[Input]:
    clean = images.to_float(images.to_channels(images.read_pixels(path), channels))
    _check_size(clean)
    yield from add_noises(clean, noises, seed)


def add_noises(
    clean: np.ndarray, noises: Sequence[str], seed: tuple[int, int]
) -> Iterator[Input]:
    """Yields a float32 image under each noise, as the tables have it."""
    reference = metrics.Reference(metrics.to_rgb8(clean))
    for name in noises:
        noisy = noise.sample_for_test(name, clean, seed=seed)
        yield _make_input(name, noisy, clean, reference)


def _make_input(
    name: str, noisy: np.ndarray, clean: np.ndarray, reference: metrics.Reference
) -> Input:
    sigma = float(np.sqrt(np.mean(np.square(noisy - clean), dtype=np.float64)))
    noisy.setflags(write=False)  # a method that works in place would spoil the next
    return Input(name, noisy, sigma, reference)


def from_pairs(spec: str, limit: int | None = None, channels: int = 3) -> list[Scene]:
    """Returns real pairs: of one folder, or of two, as NOISY,REFERENCE.

    In one folder a pair is NAME_real and NAME_mean (or noisy and clean, NOISY and GT,
    in any case, also inside of the name), or a file each in two folders such as noisy
    and clean.
    """
    if Path(spec).is_dir():
        root = Path(spec)
        pairs = _find_pairs(root)
        _check_all_are_paired(root, pairs)
    else:
        first, _, second = spec.partition(",")
        if not first or not second:
            raise ValueError(
                f"no folder {spec!r}; pairs are one folder or two: NOISY,REFERENCE"
            )
        root, reference = Path(first).resolve(), Path(second).resolve()
        pairs = _match_folders(root, reference)
        if root.parent == reference.parent:
            root = root.parent  # of .../CC/noisy and .../CC/clean the set is CC
    for pair in pairs:
        first_size, second_size = (_read_size(path) for path in pair)
        if first_size and second_size and first_size != second_size:
            raise ValueError(_describe_difference(*pair, first_size, second_size))
    return [
        Scene(
            _name_set(root, channels),
            pair[0].absolute().relative_to(root.absolute()).as_posix(),
            (REAL,),
            functools.partial(_read_pair, *pair, channels),
            pair,
            root.resolve(),
            len(pairs),
        )
        for pair in pairs[:limit]
    ]


def _read_pair(
    noisy_path: Path, reference_path: Path, channels: int
) -> Iterator[Input]:
    noisy, clean = (
        images.to_float(images.to_channels(images.read_named_pixels(path), channels))
        for path in (noisy_path, reference_path)
    )
    _check_size(clean)
    if noisy.shape != clean.shape:
        raise ValueError(
            _describe_difference(noisy_path, reference_path, noisy.shape, clean.shape)
        )
    yield _make_input(REAL, noisy, clean, metrics.Reference(metrics.to_rgb8(clean)))


def _find_pairs(folder: Path) -> list[tuple[Path, Path]]:
    files = images.list_files(folder)
    for noisy, clean in NAMES:
        part = re.compile(f"_{noisy}(?=_|$)", re.IGNORECASE)
        named = [path for path in files if part.search(path.stem)]
        if not any(re.search(f"_{clean}(_|$)", p.stem, re.IGNORECASE) for p in files):
            continue  # "noisy" has more than one counterpart
        if named:
            return [
                (path, _find_one(files, path.parent, part.sub(f"_{clean}", path.stem)))
                for path in named
            ]
    inner = [p for p in sorted(folder.iterdir()) if p.is_dir()]
    for noisy, clean in FOLDERS:
        first = [p for p in inner if p.name.lower().endswith(noisy)]
        second = [p for p in inner if p.name.lower().endswith(clean)]
        if len(first) == len(second) == 1:
            return _match_folders(first[0], second[0])
    raise ValueError(
        f"no pairs in {str(folder)!r}: looked for NAME_real and NAME_mean, _noisy and "
        "_clean, _NOISY and _GT, and for folders such as noisy and clean"
    )


def _check_all_are_paired(folder: Path, pairs: Sequence[tuple[Path, Path]]) -> None:
    """Raises ValueError at images of no pair: a part of a set is not to pass for it."""
    paired = {path for pair in pairs for path in pair}
    alone = [path for path in images.list_files(folder) if path not in paired]
    if alone:
        raise ValueError(
            f"images in {str(folder)!r} that belong to no pair: {len(alone)}, such as "
            f"{alone[0].relative_to(folder).as_posix()!r}; move them elsewhere, or "
            "give two folders: NOISY,REFERENCE"
        )


def _match_folders(first: Path, second: Path) -> list[tuple[Path, Path]]:
    references = images.list_files(second)
    return [
        (
            path,
            _find_one(references, second / path.relative_to(first).parent, path.stem),
        )
        for path in images.list_files(first)
    ]


def _find_one(files: list[Path], folder: Path, stem: str) -> Path:
    """The one file of that name, in any case and with any ending, in a folder."""
    found = [
        path
        for path in files
        if path.parent == folder and path.stem.lower() == stem.lower()
    ]
    if not found:
        raise ValueError(f"a pair is incomplete: no image {stem!r} in {str(folder)!r}")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ValueError(f"a pair has several references in {str(folder)!r}: {names}")
    return found[0]


def _check_size(clean: np.ndarray) -> None:
    if min(clean.shape[:2]) < metrics.WINDOW_TAPS:
        raise ValueError(
            f"{_format(clean.shape)} is too small to be scored: SSIM needs "
            f"{metrics.WINDOW_TAPS} pixels per side"
        )


def _read_size(path: Path) -> tuple[int, int] | None:
    try:
        return images.read_size(path)
    except Exception:  # a broken file is named when it is its turn
        return None


def _describe_difference(noisy: Path, reference: Path, a: tuple, b: tuple) -> str:
    return f"{noisy} is {_format(a)}, its reference {reference} is {_format(b)}"


def _format(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}x{shape[1]}"
