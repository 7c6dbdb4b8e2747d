"""Noisy batches for training, each value a function of (seed, step, row).

Only this module imports TensorFlow. Rows are counted in the global batch: one host or
eight hosts make the same batch, each its own rows, from any step on and with any
parallelism.
"""

import collections
import itertools
import math
import os
import weakref
from collections.abc import Iterable, Iterator

import jax
import numpy as np
import tensorflow as tf

from sevnet_jax import images
from sevnet_jax.data import noise, patches, sources
from sevnet_jax.data.config import MAX_BATCH, Data

PREFETCH = 4  # batches
ANGLE_BITS = 12  # of the 32 that make two normal numbers

Batch = dict[str, np.ndarray]


class TensorFlowDraw:
    """Random tensors for one example, without state; every call gives fresh ones."""

    def __init__(self, seed: int, step: tf.Tensor, row: tf.Tensor):
        self._seed = seed
        self._example = tf.cast(step, tf.int64) * MAX_BATCH + tf.cast(row, tf.int64)
        self._calls = 0

    def _key(self) -> tf.Tensor:
        call = self._seed << 32 | self._calls
        self._calls += 1
        return tf.stack([tf.constant(call, tf.int64), self._example])

    def _words(self, count: int) -> tf.Tensor:
        """Random int32 [count] over the whole range."""
        return tf.random.stateless_uniform(
            (count,), self._key(), minval=None, maxval=None, dtype=tf.int32
        )

    def uniform(self, shape, low=0.0, high=1.0):
        word = tf.cast(self._words(math.prod(shape)), tf.float32)
        unit = tf.reshape(word * 2.0**-32 + 0.5, shape)
        return low + (high - low) * unit

    def normal(self, shape):
        # Noise is most of the pipeline's work, and random bits most of the noise. So
        # one word makes two numbers by Box and Muller: 20 bits for the radius, up to
        # 5.4, and 12 for the angle, whose sine and cosine are looked up.
        count = math.prod(shape)
        word = self._words((count + 1) // 2)
        high = tf.cast(tf.bitwise.right_shift(word, ANGLE_BITS), tf.float32)  # signed
        angle = tf.bitwise.bitwise_and(word, 2**ANGLE_BITS - 1)
        radius = tf.sqrt(-2.0 * tf.math.log((high + 0.5) * 2.0**-20 + 0.5))
        both = radius[:, None] * tf.gather(_make_circle(), angle)
        return tf.reshape(tf.reshape(both, [-1])[:count], shape)

    def laplace(self, shape):
        # Sign and size of one uniform number in [-1, 1].
        signed = tf.cast(self._words(math.prod(shape)), tf.float32) * 2.0**-31
        size = -tf.math.log(tf.maximum(1.0 - tf.abs(signed), 2.0**-26))
        return tf.reshape(tf.sign(signed) * size, shape)

    def poisson(self, rate):
        return tf.random.stateless_poisson(
            tf.shape(rate), self._key(), rate, tf.float32
        )

    def sqrt(self, x):
        return tf.sqrt(x)


def _make_circle() -> np.ndarray:
    """Points on the circle at even angles, float32 [2^ANGLE_BITS, 2]; none is 0."""
    angles = (np.arange(2**ANGLE_BITS) + 0.5) * (2 * np.pi / 2**ANGLE_BITS)
    return np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)


class _Reader:
    """Clean patches, uint16, from uniform numbers; NumPy, called from the graph."""

    COUNT = 8  # uniform numbers a patch

    def __init__(self, config: Data, channels: int = 3):
        self._config, self._channels = config, channels
        opened = sources.open_sources(
            config.source, config.patch_size, config.cache_bytes, channels
        )
        self._sources = [source for source, _ in opened]
        self._shares = np.cumsum([share for _, share in opened])
        for source in self._sources:
            source[0]  # a source of which nothing can be read fails here

    def __call__(self, u: np.ndarray) -> np.ndarray:
        config, side = self._config, self._config.patch_size
        chosen = np.searchsorted(self._shares, u[0], side="right")
        source = self._sources[min(chosen, len(self._sources) - 1)]
        image = source[patches.pick(u[1], len(source))]
        size, factor = side, 1
        if u[2] < config.downscale_probability:
            factor = config.downscale_factors[
                patches.pick(u[3], len(config.downscale_factors))
            ]
            factor = patches.fitting_factor(image, factor, side)
            size = side * factor
        elif u[2] < config.downscale_probability + config.enlarge_probability:
            size = max(1, round(side / patches.enlargement(u[3])))
        patch = patches.crop(image, u[4], u[5], size)
        patch = images.to_channels(patch, self._channels)
        patch = patches.orient(patch, u[6] < 0.5, patches.pick(u[7], 4))
        patch = patches.shrink(patch, factor)
        return patch if size >= side else patches.enlarge(patch, side)


def count_images(config: Data) -> int:
    """Returns how many images the sources of a config have."""
    opened = sources.open_sources(config.source, config.patch_size)
    return sum(len(source) for source, _ in opened)


def hide_accelerators() -> None:
    """Leaves GPUs to JAX: TensorFlow would take their memory at its first use."""
    tf.config.set_visible_devices([], "GPU")


def make_dataset(
    config: Data,
    start_step: int = 0,
    *,
    seed: int = 0,
    channels: int = 3,
    host: int = 0,
    hosts: int = 1,
    parallelism: int | None = None,
) -> tf.data.Dataset:
    """Returns this host's rows of every batch from `start_step` on, without end.

    An element is {"clean", "noisy"}, float32 [batch_size / hosts, H, W, channels].
    """
    if start_step < 0:
        raise ValueError(f"start_step must not be negative, got {start_step}")
    if hosts < 1 or not 0 <= host < hosts or config.batch_size % hosts:
        raise ValueError(
            f"batch_size {config.batch_size} cannot be split for host {host} of {hosts}"
        )
    if parallelism is not None and parallelism < 1:
        raise ValueError(f"parallelism must be 1 or more, got {parallelism}")
    hide_accelerators()
    read, law = _Reader(config, channels), noise.parse(config.noise)
    shape = (config.patch_size, config.patch_size, channels)
    rows = config.batch_size // hosts

    def numpy_noise(clean, step, row):
        return law(clean, noise.NumpyDraw((seed, int(step), int(row))))

    def make_example(count: tf.Tensor) -> dict[str, tf.Tensor]:
        step, row = count // rows, host * rows + count % rows
        draw = TensorFlowDraw(seed, step, row)
        pixels = tf.numpy_function(read, [draw.uniform((read.COUNT,))], tf.uint16)
        clean = tf.cast(tf.ensure_shape(pixels, shape), tf.float32) / 65535.0
        if getattr(law, "numpy_only", False):
            noisy = tf.numpy_function(numpy_noise, [clean, step, row], tf.float32)
            noisy = tf.ensure_shape(noisy, shape)
        else:
            noisy = law(clean, draw)
        if config.clip:
            noisy = tf.clip_by_value(noisy, 0.0, 1.0)
        return {"clean": clean, "noisy": noisy}

    parallelism = parallelism or os.cpu_count() or 1
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = parallelism
    options.threading.max_intra_op_parallelism = 1  # examples run side by side
    return (
        tf.data.Dataset.range(start_step * rows, np.iinfo(np.int64).max)
        .map(make_example, num_parallel_calls=parallelism)
        .batch(rows, drop_remainder=True)
        .prefetch(PREFETCH)
        .with_options(options)
    )


class Batches(Iterator[Batch]):
    """The elements of a dataset as NumPy arrays.

    The dataset's threads call Python. They have to end before the interpreter does,
    or its exit waits for them for ever: hence the finalizer, which also runs at exit.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._held = [dataset.as_numpy_iterator()]
        weakref.finalize(self, self._held.clear)

    def __next__(self) -> Batch:
        try:
            return next(self._held[0])
        except tf.errors.OpError as error:
            reason = error.message.strip().splitlines()[0].split("}} ")[-1]
            raise OSError(f"the data cannot be read any more: {reason}") from error


def make_batches(config: Data, start_step: int = 0, **options: int) -> Batches:
    """Returns the elements of `make_dataset` as NumPy arrays."""
    return Batches(make_dataset(config, start_step, **options))


def prefetch_to_device(
    batches: Iterable[Batch],
    sharding: jax.sharding.Sharding | None = None,
    depth: int = 2,
) -> Iterator[dict[str, jax.Array]]:
    """Yields batches as device arrays, `depth` ahead of their use.

    With a sharding, every host passes its own rows and gets the global array.
    """

    if depth < 1:
        raise ValueError(f"depth must be 1 or more, got {depth}")

    def put(array: np.ndarray) -> jax.Array:
        if sharding is None:
            return jax.device_put(array)
        return jax.make_array_from_process_local_data(sharding, array)

    iterator = iter(batches)
    ahead = collections.deque(
        jax.tree.map(put, batch) for batch in itertools.islice(iterator, depth)
    )
    while ahead:
        yield ahead.popleft()
        ahead.extend(jax.tree.map(put, b) for b in itertools.islice(iterator, 1))
