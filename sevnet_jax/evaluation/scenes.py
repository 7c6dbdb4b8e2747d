"""What is restored in a table: clean images under noises, or real noisy pairs."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from sevnet_jax.data import images, noise
from sevnet_jax.evaluation import metrics

REAL = "real"  # the noise of pairs
# How the two files of a pair are told apart: endings of their names, or folders.
SUFFIXES = (("_real", "_mean"), ("_noisy", "_clean"), ("_NOISY", "_GT"))
FOLDERS = (("noisy", "clean"), ("input", "groundtruth"), ("noisy", "reference"))


@dataclasses.dataclass(frozen=True)
class Input:
    """A noisy image, its reference, and the true rms of its noise."""

    noise: str
    noisy: np.ndarray  # float32 [H, W, 3]
    sigma: float
    reference: metrics.Reference


@dataclasses.dataclass(frozen=True)
class Scene:
    """One image of a set. `inputs()` makes its noisy versions, one after another."""

    data: str
    image: str
    noises: tuple[str, ...]
    inputs: Callable[[], Iterator[Input]]


def from_folder(
    folder: str | Path, noises: Sequence[str], seed: int = 0, limit: int | None = None
) -> list[Scene]:
    """Returns the images below a folder; noise is a function of (seed, position)."""
    for name in noises:
        noise.parse(name)
    root = Path(folder)
    return [
        Scene(
            root.resolve().name,
            path.relative_to(root).as_posix(),
            tuple(noises),
            lambda path=path, index=index: _add_noises(path, noises, (seed, index)),
        )
        for index, path in enumerate(images.list_files(root)[:limit])
    ]


def _add_noises(path: Path, noises: Sequence[str], seed: tuple) -> Iterator[Input]:
    yield from add_noises(images.to_float(images.read(path)), noises, seed)


def add_noises(
    clean: np.ndarray, noises: Sequence[str], seed: tuple[int, int]
) -> Iterator[Input]:
    """Yields a float32 image under each noise, as the tables have it."""
    reference = _refer(clean)
    for name in noises:
        noisy = noise.sample_for_test(name, clean, seed=seed)
        yield Input(name, noisy, _rms(noisy - clean), reference)


def from_pairs(spec: str, limit: int | None = None) -> list[Scene]:
    """Returns real pairs: of one folder, or of two, as NOISY,REFERENCE.

    In one folder a pair is NAME_real and NAME_mean (or _noisy and _clean, _NOISY and
    _GT), or a file each in parallel folders such as noisy and clean.
    """
    if Path(spec).is_dir():
        pairs, label = _find_pairs(Path(spec)), Path(spec).resolve().name
    else:
        first, comma, second = spec.partition(",")
        if not comma:
            raise ValueError(
                f"no folder {spec!r}; pairs are one folder or two: NOISY,REFERENCE"
            )
        pairs = _match_folders(Path(first), Path(second))
        label = Path(first).resolve().name
    for noisy, reference in pairs:
        sizes = [_read_size(path) for path in (noisy, reference)]
        if None not in sizes and sizes[0] != sizes[1]:
            raise ValueError(
                f"{noisy} is {_format(sizes[0])}, its reference {reference} is "
                f"{_format(sizes[1])}"
            )
    return [
        Scene(
            label,
            noisy.name,
            (REAL,),
            lambda noisy=noisy, reference=reference: _read_pair(noisy, reference),
        )
        for noisy, reference in pairs[:limit]
    ]


def _read_pair(noisy_path: Path, reference_path: Path) -> Iterator[Input]:
    noisy, clean = (
        images.to_float(images.read(path)) for path in (noisy_path, reference_path)
    )
    yield Input(REAL, noisy, _rms(noisy - clean), _refer(clean))


def _find_pairs(folder: Path) -> list[tuple[Path, Path]]:
    files = images.list_files(folder)
    for noisy, clean in SUFFIXES:
        # Any kind of file will do for the other half.
        references = {p.with_suffix(""): p for p in files if p.stem.endswith(clean)}
        found = [p for p in files if p.stem.endswith(noisy)]
        pairs = [
            (p, references.get(p.with_name(p.stem.removesuffix(noisy) + clean)))
            for p in found
        ]
        for path, reference in pairs:
            if reference is None:
                raise ValueError(f"{path} has no {clean} image beside it")
        if pairs:
            return pairs
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


def _match_folders(first: Path, second: Path) -> list[tuple[Path, Path]]:
    references = {
        p.relative_to(second).with_suffix(""): p for p in images.list_files(second)
    }
    pairs = []
    for path in images.list_files(first):
        name = path.relative_to(first).with_suffix("")
        if name not in references:
            raise ValueError(f"{path} has no image of its name in {str(second)!r}")
        pairs.append((path, references[name]))
    return pairs


def _refer(clean: np.ndarray) -> metrics.Reference:
    if min(clean.shape[:2]) < metrics.WINDOW_TAPS:
        raise ValueError(
            f"{_format(clean.shape)} is too small to be scored: SSIM needs "
            f"{metrics.WINDOW_TAPS} pixels a side"
        )
    return metrics.Reference(metrics.to_rgb8(clean))


def _rms(difference: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(difference), dtype=np.float64)))


def _read_size(path: Path) -> tuple[int, int] | None:
    try:
        return images.read_size(path)
    except Exception:  # a broken file is named when it is its turn
        return None


def _format(shape: tuple[int, ...]) -> str:
    return f"{shape[0]}x{shape[1]}"
