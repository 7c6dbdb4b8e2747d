"""Runs a network on tiles: compiled once per size, shared by all local devices."""

import collections
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import jax
import numpy as np

from sevnet_jax.inference import estimate
from sevnet_jax.models import ops
from sevnet_jax.runtime import compiler_options
from sevnet_jax.weights import Weights

SYMMETRIES = 8
PROGRAMS = 8  # compiled ones that are kept for each device, one for each size of tile


def list_devices() -> list[jax.Device]:
    """Returns this host's devices of the kind that computes by default."""
    default = getattr(jax.config, "jax_default_device", None)  # a device or its kind
    return jax.local_devices(backend=getattr(default, "platform", default))


class Program:
    """What a network adds to tiles of images.

    Tiles take the devices in turn, so all have the same share of the work, and a device
    has one tile at a time. All compute the same: which one it is changes no bit.
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
            compiler_options=compiler_options(self.devices[0].platform, forward=True),
        )
        # Images of many sizes need many programs; only the last ones are kept.
        most = PROGRAMS * len(self.devices)
        self._compile = functools.lru_cache(most)(self._compile_for)
        self._place = functools.cache(
            lambda number: jax.device_put(self._params, self.devices[number])
        )

    @functools.cached_property
    def seconds_per_pixel(self) -> float | None:
        """About what a pixel costs, without the ensemble; None if nobody can say."""
        channels = self.model.channels
        seconds = estimate.seconds_per_pixel(self._restore, self._params, channels)
        return seconds and seconds / len(self.devices)

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

    def find_residual(self, noisy: np.ndarray, ensemble: bool) -> np.ndarray:
        """Returns what is added to a tile, float32 [H, W, C].

        With `ensemble`, the mean over its eight flips and rotations. A tile of one
        channel becomes as many equal ones as the network takes.
        """
        as_colour = noisy.shape[-1] < self.model.channels
        if as_colour:
            noisy = np.repeat(noisy, self.model.channels, axis=-1)
        symmetries = range(SYMMETRIES if ensemble else 1)
        total = np.zeros((), np.float32)
        number = next(self._turns) % len(self.devices)
        with self._locks[number]:
            for symmetry in symmetries:
                turned = _turn(noisy, symmetry)
                run = self._compile(turned.shape, number)
                restored = np.asarray(run(self._place(number), turned))
                total = total + _turn_back(restored - turned, symmetry)
        total /= len(symmetries)
        return total.mean(-1, keepdims=True) if as_colour else total

    def _compile_for(self, shape: tuple[int, ...], number: int) -> Callable:
        place = jax.sharding.SingleDeviceSharding(self.devices[number])
        tile = jax.ShapeDtypeStruct(shape, np.float32, sharding=place)
        with ops.use_precision(self.precision):
            return self._restore.lower(self._place(number), tile).compile()


def _turn(image: np.ndarray, number: int) -> np.ndarray:
    turned = np.rot90(image, number % 4)
    return turned[:, ::-1] if number >= 4 else turned


def _turn_back(image: np.ndarray, number: int) -> np.ndarray:
    return np.rot90(image[:, ::-1] if number >= 4 else image, -(number % 4))
