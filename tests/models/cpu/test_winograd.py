"""Winograd's products give the convolution and its gradients, and keep the law."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax import create_model, equivariance
from sevnet_jax.models import ops
from sevnet_jax.models.cpu import convolution, winograd

pytestmark = pytest.mark.optimized
SHAPES = [(2, 8, 6, 5), (1, 7, 9, 3), (1, 1, 1, 2)]
MORE_SHAPES = [(3, 1, 4, 2), (1, 2, 5, 7)]


def draw(rng, shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


@jax.jit  # one program, not one for each of its many small steps
def by_winograd(x, kernel):
    return winograd.convolve(x, kernel, None)


@jax.jit
def by_xla(x, kernel):
    return convolution._convolve_by_xla(1, False, None, x, kernel)


@pytest.mark.parametrize(
    "shape",
    [*SHAPES, *(pytest.param(s, marks=pytest.mark.slow) for s in MORE_SHAPES)],
)
def test_value_and_gradients_are_the_convolutions(rng, shape):
    x, kernel = draw(rng, shape), draw(rng, (3, 3, shape[-1], 4))
    expected, transpose = jax.vjp(by_xla, x, kernel)
    got, backward = jax.vjp(by_winograd, x, kernel)
    cotangent = draw(rng, expected.shape)
    for ours, theirs in zip(
        (got, *backward(cotangent)), (expected, *transpose(cotangent)), strict=True
    ):
        chex.assert_equal_shape([ours, theirs])
        assert np.abs(ours - theirs).max() <= 1e-6 * np.abs(theirs).max()


def test_no_images_are_none(rng):
    x, kernel = jnp.zeros((0, 8, 6, 5)), draw(rng, (3, 3, 5, 4))
    y, backward = jax.vjp(by_winograd, x, kernel)
    assert y.shape == (0, 8, 6, 4)
    by_x, by_kernel = backward(y)
    assert by_x.shape == x.shape
    chex.assert_trees_all_equal(by_kernel, jnp.zeros_like(kernel))


def test_one_pixel_shows_the_kernel(rng):
    """By hand: wherever it stands in its tile, it gives the kernel turned round."""
    kernel = draw(rng, (3, 3, 1, 1))
    for row in range(2, 2 + winograd.STEP):
        for column in range(2, 2 + winograd.STEP):
            x = jnp.zeros((1, 8, 8, 1)).at[0, row, column, 0].set(1)
            y = by_winograd(x, kernel)[0, row - 1 : row + 2, column - 1 : column + 2]
            chex.assert_trees_all_close(y[..., 0], kernel[::-1, ::-1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("exponent", [-12, -3, 1, 9])
def test_powers_of_two_stay_exact(rng, exponent):
    x, kernel = draw(rng, (2, 7, 8, 4)), draw(rng, (3, 3, 4, 6))
    scale = 2.0**exponent
    chex.assert_trees_all_equal(
        by_winograd(scale * x, kernel), scale * by_winograd(x, kernel)
    )
    chex.assert_trees_all_equal(
        by_winograd(x, scale * kernel), scale * by_winograd(x, kernel)
    )


def test_gradients_commute_with_powers_of_two(rng):
    x, kernel = draw(rng, (2, 8, 8, 4)), draw(rng, (3, 3, 4, 6))
    slope = jax.jit(jax.grad(lambda x, k: (by_winograd(x, k) ** 2).sum(), 1))
    equivariance.assert_homogeneous(lambda x: slope(x, kernel), x, degree=2)


def test_vmap_and_second_derivatives_work(rng):
    x, kernel = draw(rng, (2, 1, 5, 4, 3)), draw(rng, (3, 3, 3, 2))
    batched = jax.jit(jax.vmap(by_winograd, (0, None)))(x, kernel)
    chex.assert_trees_all_close(
        batched, jnp.stack([by_xla(a, kernel) for a in x]), atol=1e-5
    )

    def curvature(convolve):
        loss = lambda k: (convolve(x[0], k) ** 3).sum()  # noqa: E731
        return jax.jit(jax.grad(lambda k: (jax.grad(loss)(k) ** 2).sum()))(kernel)

    theirs = curvature(by_xla)
    scale = np.abs(theirs).max()
    chex.assert_trees_all_close(
        curvature(by_winograd) / scale, theirs / scale, atol=1e-4
    )


@pytest.fixture
def without_winograd(monkeypatch):
    """A function that leaves all convolutions to XLA until the end of the test."""

    def forbid():
        for name in ("WINOGRAD_CHANNELS", "WINOGRAD_CHANNELS_IN_TRAINING"):
            monkeypatch.setattr(convolution, name, 2**20)
        jax.clear_caches()

    yield forbid
    monkeypatch.undo()
    jax.clear_caches()


def find_error(ours, theirs):
    return max(
        float(np.abs(a - b).max() / np.abs(b).max())
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    )


def test_training_takes_it_where_there_are_many_channels(rng, without_winograd):
    """Through the one convolution of the models, against XLA's."""
    x, kernel = draw(rng, (2, 6, 7, 48)), draw(rng, (3, 3, 48, 48))
    gradients = jax.grad(lambda x, k: (ops.convolve(x, k) ** 2).sum(), (0, 1))
    ours = jax.jit(gradients)(x, kernel)
    without_winograd()
    # 0: both were the same program.
    assert 0 < find_error(ours, jax.jit(gradients)(x, kernel)) < 5e-6


def test_values_take_it_where_there_are_more(rng, without_winograd):
    x, kernel = draw(rng, (2, 5, 7, 96)), draw(rng, (3, 3, 96, 96))
    apply = lambda x: ops.convolve(x, kernel)  # noqa: E731
    by_products = jax.jit(apply)
    equivariance.assert_homogeneous(by_products, x)
    ours = by_products(x)
    batched = jax.jit(jax.vmap(apply))(x[:, None])[:, 0]
    chex.assert_trees_all_close(batched, ours, rtol=1e-4)
    without_winograd()
    assert 0 < find_error(ours, jax.jit(apply)(x)) < 5e-6


@pytest.mark.slow
def test_a_whole_network_gives_the_same_with_and_without(
    rng, draw_params, without_winograd
):
    x = draw(rng, (1, 21, 35, 3))
    model = create_model("sevnet_s", blocks=(1, 1), remat=True)
    params = draw_params(model, x)

    def run(params, x):
        loss = lambda params: jnp.abs(model.apply(params, x)).mean()  # noqa: E731
        return model.apply(params, x), jax.grad(loss)(params)

    ours = jax.jit(run)(params, x)
    without_winograd()
    assert 0 < find_error(ours, jax.jit(run)(params, x)) < 1e-5
