"""Scores of methods on image sets, by the tables' protocol.

Whole images; PSNR and SSIM "rgb8"; a set's score is the mean over its images. While a
network restores, the next noisy image is made and the last result is scored.
"""

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from sevnet_jax.evaluation import metrics
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
    psnr: float
    ssim: float


@dataclasses.dataclass(frozen=True)
class Result:
    """The scores of one scene, or why there are none."""

    scene: Scene
    scores: tuple[Score, ...]
    error: str = ""
    seconds: float = 0.0  # spent in the methods


def score_scenes(
    scenes: Iterable[Scene], methods: Sequence[Method]
) -> Iterator[Result]:
    """Yields a result for each scene, in order; memory does not grow with the set."""
    # One thread each: NumPy and SciPy leave the interpreter to the others meanwhile.
    with ThreadPoolExecutor(1) as makers, ThreadPoolExecutor(1) as scorers:
        for scene in scenes:
            pending: list[tuple[str, str, Future]] = []
            seconds = 0.0
            try:
                for given in _stay_ahead(makers, scene.inputs()):
                    for method in methods:
                        began = time.perf_counter()
                        restored = restore(method, given, scene.image)
                        seconds += time.perf_counter() - began
                        score = scorers.submit(_measure, given.reference, restored)
                        pending.append((given.noise, method.name, score))
            except BadImage as error:
                yield Result(scene, (), str(error))
                continue
            scores = tuple(
                Score(scene.data, scene.image, noise, name, *score.result())
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
    """Returns what the method makes of the input, of its shape."""
    try:
        restored = np.asarray(method.restore(given.noisy, given.sigma))
    except Exception as error:  # a method is anybody's code
        raise ValueError(
            f"{method.name} failed on {image} with {given.noise}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if restored.shape != given.noisy.shape:
        raise ValueError(
            f"{method.name} returned {restored.shape} for {given.noisy.shape}"
        )
    return restored


def _measure(reference: metrics.Reference, restored: np.ndarray) -> tuple[float, float]:
    if not np.isfinite(restored).all():
        return math.nan, math.nan
    pixels = metrics.to_rgb8(restored)
    return reference.psnr(pixels), reference.ssim(pixels)


def summarize(scores: Sequence[Score]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Returns the means for each (set, method, noise), in the order of the scores."""
    groups: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        key = (score.data, score.method, score.noise)
        groups.setdefault(key, []).append(score)
    return {
        key: {
            "images": len(group),
            "psnr": float(np.mean([s.psnr for s in group])),
            "ssim": float(np.mean([s.ssim for s in group])),
        }
        for key, group in groups.items()
    }
