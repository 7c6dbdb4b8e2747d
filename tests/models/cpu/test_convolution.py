"""The CPU's own convolution agrees with XLA's, value and gradients, wherever used."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from sevnet_jax import equivariance
from sevnet_jax.models import ops
from sevnet_jax.models.cpu import convolution

pytestmark = pytest.mark.optimized
# kernel size, stride, transposed
USES = [(3, 1, False), (1, 1, False), (2, 2, False), (2, 2, True)]
every_use = pytest.mark.parametrize(("size", "stride", "transposed"), USES)


def draw(rng, shape, dtype="float32"):
    return jnp.asarray(rng.normal(size=shape), dtype)


def by_xla(x, kernel, stride, transposed):
    return convolution._convolve_by_xla(stride, transposed, None, x, kernel)


@every_use
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "shape",
    [
        (3, 4, 10, 5),
        pytest.param((1, 8, 8, 6), marks=pytest.mark.slow),
        pytest.param((2, 10, 2, 3), marks=pytest.mark.slow),
    ],
)
def test_value_and_gradients_are_xlas(rng, size, stride, transposed, dtype, shape):
    x, kernel = draw(rng, shape, dtype), draw(rng, (size, size, shape[-1], 4), dtype)
    shape = jax.eval_shape(lambda: by_xla(x, kernel, stride, transposed)).shape
    cotangent = draw(rng, shape, dtype)

    @functools.partial(jax.jit, static_argnums=0)
    def run(convolve, x, kernel, cotangent):
        fn = lambda x, k: convolve(x, k, stride, transposed)  # noqa: E731
        value, pull = jax.vjp(fn, x, kernel)
        return value, *pull(cotangent)

    ours, theirs = (run(f, x, kernel, cotangent) for f in (ops.convolve, by_xla))
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2}[dtype]
    for a, b in zip(ours, theirs, strict=True):
        chex.assert_equal_shape([a, b])
        chex.assert_type(a, dtype)
        error = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max()
        assert error <= tolerance * np.abs(np.asarray(b, np.float64)).max()


@pytest.mark.parametrize("side", [1, 3, 5])
def test_sides_that_the_stride_does_not_divide(rng, side):
    x, kernel = draw(rng, (1, side, 4, 3)), draw(rng, (2, 2, 3, 2))
    chex.assert_trees_all_close(
        ops.convolve(x, kernel, 2), by_xla(x, kernel, 2, False), atol=1e-5
    )


@pytest.mark.parametrize(("sides", "channels"), [((1, 3), 4), ((3, 1), 64)])
def test_kernels_that_are_not_square_are_left_to_xla(rng, sides, channels):
    x, kernel = draw(rng, (1, 5, 6, channels)), draw(rng, (*sides, channels, channels))
    chex.assert_trees_all_close(
        ops.convolve(x, kernel), by_xla(x, kernel, 1, False), atol=1e-4
    )


@every_use
def test_gradients_commute_with_powers_of_two(rng, size, stride, transposed):
    x, kernel = draw(rng, (2, 8, 8, 4)), draw(rng, (size, size, 4, 6))
    loss = lambda x, k: ops.convolve(x, k, stride, transposed).sum()  # noqa: E731
    slope = jax.jit(jax.grad(loss, 1))
    equivariance.assert_homogeneous(lambda x: slope(x, kernel), x)


@every_use
def test_vmap_and_second_derivatives_work(rng, size, stride, transposed):
    x, kernel = draw(rng, (2, 1, 4, 4, 3)), draw(rng, (size, size, 3, 2))
    run = jax.jit(lambda x: ops.convolve(x, kernel, stride, transposed))
    batched, single = jax.vmap(run)(x), np.stack([run(a) for a in x])
    chex.assert_trees_all_close(batched, single, atol=1e-5)

    def curvature(convolve):
        loss = lambda k: (convolve(x[0], k, stride, transposed) ** 3).sum()  # noqa: E731
        slope = lambda k: (jax.grad(loss)(k) ** 2).sum()  # noqa: E731
        return jax.jit(jax.grad(slope))(kernel)

    theirs = curvature(by_xla)
    scale = np.abs(theirs).max()
    chex.assert_trees_all_close(
        curvature(ops.convolve) / scale, theirs / scale, atol=1e-4
    )


def test_forward_mode_is_refused_with_a_reason(rng):
    x, kernel = draw(rng, (1, 4, 4, 3)), draw(rng, (3, 3, 3, 2))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: ops.convolve(x, kernel), (x,), (x,))


@every_use
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_each_platform_gets_its_own_program(size, stride, transposed, platform):
    x = jax.ShapeDtypeStruct((2, 8, 8, 4), jnp.float32)
    kernel = jax.ShapeDtypeStruct((size, size, 4, 6), jnp.float32)

    def gradients(x, kernel):
        loss = lambda x, k: (ops.convolve(x, k, stride, transposed) ** 2).sum()  # noqa: E731
        return jax.grad(loss, argnums=(0, 1))(x, kernel)

    program = export.export(jax.jit(gradients), platforms=[platform])(x, kernel)
    products = program.mlir_module().count("stablehlo.dot_general")
    convolutions = program.mlir_module().count("stablehlo.convolution(")
    if platform == "cpu":  # too few channels for Winograd's products
        assert (products, convolutions) == ((0, 3) if size == 3 else (3, 0))
    else:
        assert (products, convolutions) == (0, 3)


def test_many_channels_go_by_winograds_products():
    """The value alone needs more of them: it must compile fast."""

    def count(fn, channels, platform="cpu", dtype=jnp.float32):
        shapes = (2, 8, 8, channels), (3, 3, channels, channels)
        given = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
        text = export.export(jax.jit(fn), platforms=[platform])(*given).mlir_module()
        products = text.count("stablehlo.dot_general")
        return products, text.count("stablehlo.convolution(")

    def gradients(x, kernel):
        return jax.grad(lambda x, k: (ops.convolve(x, k) ** 2).sum(), (0, 1))(x, kernel)

    # A value has a product of its own and two that change the basis, gradients have
    # two more values' worth.
    assert count(gradients, 47) == (0, 3)
    assert count(gradients, 48) == (9, 0)
    assert count(gradients, 48, "tpu") == (0, 3)
    assert count(gradients, 48, dtype=jnp.bfloat16) == (0, 3)
    assert count(ops.convolve, 63) == (0, 1)
    assert count(ops.convolve, 64) == (3, 0)
    assert count(ops.convolve, 64, "tpu") == (0, 1)


def test_symbols_for_sides_are_left_to_xla():
    sides = export.symbolic_shape("b, h, w, 96")
    x = jax.ShapeDtypeStruct(sides, jnp.float32)
    kernel = jax.ShapeDtypeStruct((3, 3, 96, 96), jnp.float32)
    loss = lambda x, k: (ops.convolve(x, k) ** 2).sum()  # noqa: E731
    program = export.export(jax.jit(jax.grad(loss, 1)))(x, kernel)
    assert "stablehlo.convolution(" in program.mlir_module()


def test_symbols_for_sides_are_left_to_xla_without_gradients_too():
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, h, w, 192"), jnp.float32)
    kernel = jax.ShapeDtypeStruct((3, 3, 192, 4), jnp.float32)
    program = export.export(jax.jit(ops.convolve))(x, kernel)
    assert "stablehlo.convolution(" in program.mlir_module()
