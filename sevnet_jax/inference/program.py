"""Runs a network on tiles or strips: compiled once per size of these."""

import collections
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from sevnet_jax.inference import estimate
from sevnet_jax.models import strips
from sevnet_jax.runtime import compiler_options
from sevnet_jax.weights import Weights

SYMMETRIES = 8
PROGRAMS = (
    8  # compiled ones that are kept for each device, one for each size of tile or strip
)


def list_devices() -> list[jax.Device]:
    """Returns this host's devices of the kind that computes by default."""
    default = getattr(jax.config, "jax_default_device", None)  # a device or its kind
    return jax.local_devices(backend=getattr(default, "platform", default))


class Program:
    """What a network adds to tiles or strips of images.

    Tiles take the devices in turn, so all have the same share of the work, and a device
    has one tile at a time. All compute the same: which one it is changes no bit. The
    strips of an image are all for one device.
    """

    def __init__(
        self,
        weights: Weights,
        precision: str | None = None,
        devices: Sequence[jax.Device] | None = None,
    ):
        self.model = weights.model
        self.precision, self._params = precision, weights.params
        self.devices = list(devices or list_devices())
        self._turns = itertools.count()
        self._locks = [threading.Lock() for _ in self.devices]
        # A tile must be seen with the statistics of its whole image: who calls this
        # has found them and taken them out.
        self._restore = jax.jit(
            lambda params, tile: self.model.apply(
                params, tile[None], method="restore_tile"
            )[0],
            compiler_options=compiler_options(forward=True),
        )
        # Least memory is asked for above only: strips have more results than one, and
        # with that order they need five times the memory.
        self._restore_strip = jax.jit(
            lambda params, strip, waiting, top, height, arrivals: strips.restore_strip(
                self.model, params, strip, waiting, top, height, dict(arrivals)
            ),
            static_argnums=5,
            donate_argnums=2,
            compiler_options=compiler_options(),
        )
        # Images of many sizes need many programs; only the last ones are kept.
        most = PROGRAMS * len(self.devices)
        self._compile = functools.lru_cache(most)(self._compile_for)
        self._compile_strip = functools.lru_cache(most)(self._compile_for_strip)
        self._place = functools.cache(
            lambda number: jax.device_put(self._params, self.devices[number])
        )

    @functools.cached_property
    def seconds_per_pixel(self) -> float:
        """About what a pixel costs, without the ensemble."""
        channels = self.model.channels
        seconds = estimate.seconds_per_pixel(self._restore, self._params, channels)
        return seconds / len(self.devices)

    def find_residuals(
        self, tiles: Iterable[np.ndarray], ensemble: bool
    ) -> Iterator[np.ndarray]:
        """Yields what is added to each tile, in order; a tile a device is at work."""
        if len(self.devices) == 1:
            yield from (self.find_residual(tile, ensemble) for tile in tiles)
            return
        with ThreadPoolExecutor(len(self.devices)) as pool:
            ahead: collections.deque[Future] = collections.deque()
            for tile in tiles:
                ahead.append(pool.submit(self.find_residual, tile, ensemble))
                if len(ahead) == len(self.devices):
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def stream_residuals(
        self, cut: Iterable[np.ndarray], height: int
    ) -> Iterator[np.ndarray]:
        """Yields what is added to the rows of an image that comes in strips.

        All strips have one height, but for the end of the image, which may be shorter,
        and strips without a row until all is restored. For networks that stream; one
        device has all strips.
        """
        number = next(self._turns) % len(self.devices)
        noisy: np.ndarray | None = None  # rows that are not restored yet
        for index, strip in enumerate(cut):
            seen = self._to_channels(strip)[None]
            with self._locks[number]:
                if noisy is None:
                    shape, noisy = seen.shape, strip[:0]
                    run, start, lag = self._compile_strip(shape, number)
                    zeros = {path: np.zeros(*array) for path, array in start}
                    waiting = jax.device_put(zeros, self.devices[number])
                top = index * shape[1]
                if missing := shape[1] - len(strip):
                    seen = np.pad(seen, ((0, 0), (0, missing), (0, 0), (0, 0)))
                place = np.int32(top), np.int32(height)
                rows, waiting = run(self._place(number), seen, waiting, *place)
                restored = np.asarray(rows)[0]
            restored = restored[max(0, lag - top) : max(0, height + lag - top)]
            noisy = np.concatenate([noisy, strip])
            yield _from_channels(restored - noisy[: len(restored)], strip)
            noisy = noisy[len(restored) :]

    def find_residual(self, noisy: np.ndarray, ensemble: bool) -> np.ndarray:
        """Returns what is added to a tile, float32 [H, W, C].

        With `ensemble`, the mean over its eight flips and rotations. A tile of one
        channel becomes as many equal ones as the network takes.
        """
        seen = self._to_channels(noisy)
        symmetries = range(SYMMETRIES if ensemble else 1)
        total = np.zeros((), np.float32)
        number = next(self._turns) % len(self.devices)
        with self._locks[number]:
            for symmetry in symmetries:
                turned = _turn(seen, symmetry)
                run = self._compile(turned.shape, number)
                restored = np.asarray(run(self._place(number), turned))
                total = total + _turn_back(restored - turned, symmetry)
        total /= len(symmetries)
        return _from_channels(total, noisy)

    def _to_channels(self, noisy: np.ndarray) -> np.ndarray:
        """An image of one channel as many equal ones, if the network takes more."""
        if noisy.shape[-1] == self.model.channels:
            return noisy
        return np.repeat(noisy, self.model.channels, axis=-1)

    def _compile_for(self, shape: tuple[int, ...], number: int) -> Callable:
        with jax.default_matmul_precision(self.precision):
            tile = self._expect(shape, np.float32, number)
            return self._restore.lower(self._place(number), tile).compile()

    def _compile_for_strip(
        self, shape: tuple[int, ...], number: int
    ) -> tuple[Callable, list[tuple[str, tuple]], int]:
        """The program, the arrays that wait above an image, and the rows it lags."""
        params, row = self._place(number), np.int32(0)
        strip = self._expect(shape, np.float32, number)
        with jax.default_matmul_precision(self.precision):
            waiting, arrivals = strips.plan(self.model, params, strip)
            arrays = {p: (rows.shape, rows.dtype) for p, rows in waiting.items()}
            above = {p: self._expect(*array, number) for p, array in arrays.items()}
            static = tuple(arrivals.items())
            run = self._restore_strip.lower(params, strip, above, row, row, static)
            lag = shape[1] - arrivals[strips.OUTPUT]
            return run.compile(), list(arrays.items()), lag

    def _expect(self, shape: tuple[int, ...], dtype: Any, number: int):
        """An array on a device, for the compiler."""
        place = jax.sharding.SingleDeviceSharding(self.devices[number])
        return jax.ShapeDtypeStruct(shape, dtype, sharding=place)


def _from_channels(residual: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """The mean over equal channels, if the image has only one."""
    if noisy.shape[-1] == residual.shape[-1]:
        return residual
    return residual.mean(-1, keepdims=True)


def _turn(image: np.ndarray, number: int) -> np.ndarray:
    turned = np.rot90(image, number % 4)
    return turned[:, ::-1] if number >= 4 else turned


def _turn_back(image: np.ndarray, number: int) -> np.ndarray:
    return np.rot90(image[:, ::-1] if number >= 4 else image, -(number % 4))
