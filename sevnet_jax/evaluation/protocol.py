"""Scores of methods on image sets, by the protocol "rgb8".

Images are whole, and the score of a set is the mean over its images. While a network
restores an image, the next noisy image is made and the last result is scored.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from sevnet_jax import metrics
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.scenes import Input, Scene

DESCRIPTION = f"{metrics.PROTOCOL}, whole images"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Score:
    """What one image under one noise scores; NaN where the result is not finite."""

    data: str
    image: str
    noise: str
    method: str
    values: Mapping[str, float]  # by metric

    def flatten(self) -> dict[str, Any]:
        """Returns the same without the mapping, for files."""
        fields = dataclasses.asdict(self)
        return fields | fields.pop("values")

    @classmethod
    def unflatten(cls, fields: Mapping[str, Any]) -> "Score":
        values = {name: fields[name] for name in metrics.METRICS}
        own = ("data", "image", "noise", "method")
        return cls(**{name: fields[name] for name in own}, values=values)


@dataclasses.dataclass(frozen=True)
class Result:
    """The scores of one scene, or why there are none."""

    scene: Scene
    scores: tuple[Score, ...]
    error: str = ""
    seconds: float = 0.0  # spent in the methods


def score_scenes(
    scenes: Iterable[Scene],
    methods: Sequence[Method],
    tick: Callable[[], Any] = lambda: None,
) -> Iterator[Result]:
    """Yields a result for each scene, in order; memory does not grow with the set.

    `tick` is called after each noise of each image.
    """
    # One thread each: NumPy and SciPy leave the interpreter to the others meanwhile.
    with ThreadPoolExecutor(1) as makers, ThreadPoolExecutor(1) as scorers:
        for scene in scenes:
            pending: list[tuple[str, str, Future]] = []
            seconds = 0.0
            try:
                for given in _stay_ahead(makers, scene.inputs()):
                    for method in methods:
                        began = time.perf_counter()
                        pixels = _to_pixels(restore(method, given, scene.image))
                        seconds += time.perf_counter() - began
                        if len(pending) > 1:  # or a fast method would fill the memory
                            pending[-2][-1].result()
                        score = scorers.submit(_measure, given.reference, pixels)
                        pending.append((given.noise, method.name, score))
                    tick()
            except BadImage as error:
                yield Result(scene, (), str(error))
                continue
            scores = tuple(
                Score(scene.data, scene.image, noise, name, score.result())
                for noise, name, score in pending
            )
            yield Result(scene, scores, seconds=seconds)


class BadImage(Exception):
    """An image that cannot be read or scored."""


def _stay_ahead(pool: ThreadPoolExecutor, items: Iterator[T]) -> Iterator[T]:
    """Yields the items, the next of which is always being made."""

    def advance() -> T | None:
        try:
            return next(items, None)
        except Exception as error:  # a decoder may raise anything on a broken file
            if isinstance(error, MemoryError):
                raise
            raise BadImage(" ".join(str(error).split())) from error

    future = pool.submit(advance)
    while (item := future.result()) is not None:
        future = pool.submit(advance)
        yield item


def restore(method: Method, given: Input, image: str) -> np.ndarray:
    """Returns what the method makes of the input: floats of its shape."""
    try:
        restored = np.asarray(method.restore(given.noisy, given.sigma))
    except (Exception, SystemExit) as error:  # a method is anybody's code
        raise ValueError(
            f"{method.name} failed on {image} with {given.noise}: "
            f"{type(error).__name__}: {error}"
        ) from error
    wanted = given.noisy.shape
    if restored.shape != wanted or restored.dtype.kind != "f":
        raise ValueError(
            f"{method.name} returned {restored.dtype} {restored.shape}; floats of "
            f"{wanted} in [0, 1] were expected"
        )
    return restored


def _to_pixels(restored: np.ndarray) -> np.ndarray | None:
    """What a file would hold; None if that is nothing.

    Done before the next call of the method, which may use the same memory again.
    """
    return metrics.to_rgb8(restored) if np.isfinite(restored).all() else None


def _measure(
    reference: metrics.Reference, pixels: np.ndarray | None
) -> dict[str, float]:
    if pixels is None:
        return dict.fromkeys(metrics.METRICS, math.nan)
    return metrics.measure(pixels, reference)


def summarize(scores: Sequence[Score]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Returns the means for each (set, method, noise), in the order of the scores.

    An image restored exactly has an infinite PSNR; such images are counted and left out
    of the mean.
    """
    groups: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        key = (score.data, score.method, score.noise)
        groups.setdefault(key, []).append(score)
    return {
        key: {
            "images": len(group),
            "exact": sum(s.values["psnr"] == math.inf for s in group),
            **{
                name: _mean([s.values[name] for s in group]) for name in group[0].values
            },
        }
        for key, group in groups.items()
    }


def count_images(scored: int, set_size: int) -> str:
    """Returns how many images a score is of, as titles have it."""
    of = "" if scored == set_size else f" of {set_size}"
    return f"{scored}{of} images"


def _mean(values: Sequence[float]) -> float:
    within = [value for value in values if value != math.inf]
    return float(np.mean(within)) if within else math.inf
