"""Clean images: `len(source)` and `source[i]` -> [H, W, C], uint8 or uint16.

An image is decoded when it is first used, and kept while the cache has room. A new kind
of source is a subclass of `Source` and an entry in KINDS.
"""

import abc
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from sevnet_jax import images
from sevnet_jax.data import dead_leaves

CACHE_BYTES = 2 * 1024**3

_log = logging.getLogger(__name__)


class Cache:
    """Images in memory up to a budget of bytes, shared by several sources.

    It fills up and then stays: with uniform draws no image is likelier than another.
    """

    def __init__(self, budget: int = CACHE_BYTES):
        self.budget = budget
        self.used = 0
        self._images: dict[object, np.ndarray] = {}
        self._lock = threading.Lock()

    def get(self, key: object) -> np.ndarray | None:
        return self._images.get(key)

    def put(self, key: object, image: np.ndarray) -> None:
        with self._lock:
            if key not in self._images and self.used + image.nbytes <= self.budget:
                self.used += image.nbytes
                self._images[key] = image


class Source(abc.ABC):
    """Numbered images of which unreadable ones are replaced by the next readable.

    Which image stands at a number depends on the files alone, not on the order of
    the requests: batches stay reproducible. `skipped` counts what was left out.
    """

    def __init__(self, name: str, count: int, min_side: int, cache: Cache):
        self.name, self.min_side = name, min_side
        self.channels: int | None = None  # that images must be made of; None: any
        self.skipped = 0
        self._reason = ""  # of the last one
        self._count = count
        self._cache = cache
        self._bad: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    @abc.abstractmethod
    def load(self, index: int) -> np.ndarray:
        """Returns an image, [H, W, C], uint8 or uint16; one that raises is skipped."""

    def label(self, index: int) -> str:
        return f"{self.name} number {index}"

    def skip(self, label: str, error: Exception) -> None:
        self.skipped += 1
        self._reason = " ".join(str(error).split()) or type(error).__name__
        _log.warning("skipped %s: %s", label, self._reason)

    def __getitem__(self, index: int) -> np.ndarray:
        for step in range(self._count):
            image = self._get((index + step) % self._count)
            if image is not None:
                return image
        reason = f": {self._reason}" if self._reason else ""
        raise ValueError(f"none of the images of {self.name!r} can be read{reason}")

    def _get(self, index: int) -> np.ndarray | None:
        image = self._cache.get((self, index))
        if image is not None or index in self._bad:
            return image
        try:
            image = self.load(index)
            if min(image.shape[:2]) < self.min_side:
                raise ValueError(too_small(image.shape, self.min_side))
            if self.channels is not None:
                images.to_channels(image[:1, :1], self.channels)
        except Exception as error:  # a decoder may raise anything on a broken file
            _raise_if_passing(error)
            with self._lock:
                if index not in self._bad:  # another thread may have been here
                    self._bad.add(index)
                    self.skip(self.label(index), error)
            return None
        self._cache.put((self, index), image)
        return image


def _raise_if_passing(error: Exception) -> None:
    """A system that fails for a moment must not change the images for good."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None):
        raise error


def too_small(shape: tuple[int, ...], min_side: int) -> str:
    return f"{shape[0]}x{shape[1]} is smaller than {min_side}x{min_side}"


class Folder(Source):
    """The images below a folder, in the order of their paths."""

    def __init__(self, path: str | Path, min_side: int = 1, cache: Cache | None = None):
        super().__init__(str(path), 0, min_side, cache or Cache())
        found = images.list_files(path)
        self._paths = [p for p in found if self._fits(p)]
        self._count = len(self._paths)
        if not self._paths:
            raise ValueError(
                f"none of the {len(found)} images in {str(path)!r} can be read and is "
                f"{min_side}x{min_side} or larger"
            )

    def _fits(self, path: Path) -> bool:
        try:
            size = images.read_size(path)
        except Exception as error:
            _raise_if_passing(error)
            self.skip(str(path), error)
            return False
        if min(size) < self.min_side:
            self.skip(str(path), ValueError(too_small(size, self.min_side)))
            return False
        return True

    def load(self, index: int) -> np.ndarray:
        return images.read_pixels(self._paths[index])

    def label(self, index: int) -> str:
        return str(self._paths[index])


class DeadLeaves(Source):
    """Drawn images: no files, no download, no licence."""

    def __init__(
        self,
        count: int = 1000,
        size: int = 256,
        seed: int = 0,
        min_side: int = 1,
        cache: Cache | None = None,
    ):
        size = max(size, min_side)
        super().__init__("dead_leaves", count, min_side, cache or Cache())
        self._size, self._seed = size, seed

    def load(self, index: int) -> np.ndarray:
        return dead_leaves.render(self._size, seed=(self._seed, index))


def _open_dead_leaves(text: str, min_side: int, cache: Cache) -> Source:
    if text and not text.isdecimal():
        raise ValueError(f"dead_leaves:SEED takes a whole number, got {text!r}")
    if int(text or 0) >= 2**32:
        raise ValueError(f"the seed of dead_leaves is below 2**32, got {text}")
    return DeadLeaves(seed=int(text or 0), min_side=min_side, cache=cache)


def _open_tfds(text: str, min_side: int, cache: Cache) -> Source:
    from sevnet_jax.data import tfds_source

    return tfds_source.open_prepared(text, min_side, cache)


# The kinds of source that have a name: what makes one from the text after the colon.
KINDS: dict[str, Callable[[str, int, Cache], Source]] = {
    "dead_leaves": _open_dead_leaves,
    "tfds": _open_tfds,
}


def open_one(
    spec: str,
    min_side: int = 1,
    cache: Cache | None = None,
    channels: int | None = None,
) -> Source:
    """Returns the source of a folder, or of a name in KINDS: `tfds:NAME[:SPLIT]`."""
    source = _open(spec, min_side, cache or Cache())
    source.channels = channels
    return source


def _open(spec: str, min_side: int, cache: Cache) -> Source:
    kind, _, text = spec.partition(":")
    if kind in KINDS and not Path(spec).is_dir():
        return KINDS[kind](text, min_side, cache)
    if not Path(spec).is_dir():
        raise ValueError(
            f"no folder {spec!r}; a source is a folder or one of "
            f"{', '.join(KINDS)}, with its own name or seed behind a colon"
        )
    return Folder(spec, min_side, cache)


def parse_weights(spec: str | Mapping[str, float]) -> dict[str, float]:
    """Returns sources with weights, from a mapping or "PHOTOS=3,dead_leaves=1"."""
    if not isinstance(spec, str):
        return dict(spec)
    if "," not in spec or Path(spec).is_dir():
        return {spec: 1.0}
    weights: dict[str, float] = {}
    for part in spec.split(","):
        name, _, weight = part.strip().rpartition("=")
        name, weight = (name, weight) if name else (weight, "1")
        if name in weights:
            raise ValueError(f"{name} is named twice in {spec!r}; give {name}=2")
        try:
            weights[name] = float(weight)
        except ValueError:
            raise ValueError(f"no weight in {part!r}; write SOURCE=NUMBER") from None
    return weights


def without_paths(spec: str | Mapping[str, float]) -> str:
    """Returns a spec with its folders' last names only, for publication."""
    try:
        weights = parse_weights(spec)
    except ValueError:  # of an earlier version, or of a folder with a comma, now gone
        return ",".join(_without_path(part) for part in str(spec).split(","))
    names = [_without_path(name) for name in weights]
    if len(names) == 1:
        return names[0]
    pairs = zip(names, weights.values(), strict=True)
    return ",".join(f"{name}={weight:g}" for name, weight in pairs)


def _without_path(name: str) -> str:
    """The last name of a folder, which may be gone; of a kind's, all."""
    folder = name.partition(":")[0] not in KINDS or Path(name).is_dir()
    return Path(name).name if folder else name


def open_sources(
    spec: str | Mapping[str, float],
    min_side: int = 1,
    cache_bytes: int = CACHE_BYTES,
    channels: int | None = None,
) -> list[tuple[Source, float]]:
    """Returns sources and their shares, which sum to 1.

    `spec` is one source, or several with weights: {"photos": 3, "dead_leaves": 1} or
    "photos=3,dead_leaves=1". Images with a side below `min_side` are skipped, and those
    of which `images.to_channels` cannot make so many `channels`.
    """
    weights = parse_weights(spec)
    if not weights:
        raise ValueError("no source is given")
    for name, weight in weights.items():
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight of {name!r} must be positive, got {weight}")
    cache, total = Cache(cache_bytes), sum(weights.values())
    return [
        (open_one(name, min_side, cache, channels), weight / total)
        for name, weight in weights.items()
    ]
