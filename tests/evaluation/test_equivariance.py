"""The kit: it finds what is true of functions whose laws are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax import create_model, equivariance
from sevnet_jax.models import ABLATIONS, layers


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 4, 4, 3)).astype("float32")


@pytest.mark.parametrize(
    ("fn", "degree"),
    [
        (lambda x: x / np.abs(x).max(), 0),
        (lambda x: np.maximum(x, 0), 1),
        (lambda x: x * np.abs(x).mean(), 2),
        (lambda x: np.sqrt(np.abs(x)), 0.5),
        (lambda x: 1 / x, -1),
    ],
)
def test_the_degree_is_found_and_asserted(x, fn, degree):
    law = equivariance.measure(fn, x, degree=degree)
    assert law.degree == pytest.approx(degree, abs=1e-6)
    assert law.degree_spread < 1e-5
    assert law.holds()
    equivariance.assert_homogeneous(fn, x, degree)
    with pytest.raises(AssertionError):
        equivariance.assert_homogeneous(fn, x, degree + 1)


def test_a_function_without_a_degree_shows_in_the_spread(x):
    law = equivariance.measure(lambda x: np.tanh(x), x)
    assert law.degree_spread > 0.1
    assert not law.holds()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_powers_of_two_are_exact_in_every_dtype(x, dtype):
    x = jnp.asarray(x).astype(dtype) if dtype == "bfloat16" else x.astype(dtype)
    law = equivariance.measure(lambda x: x + x, x, scales=(0.5, 8.0, 3.0))
    assert [row.bit_exact for row in law.scales][:2] == [True, True]
    assert law.holds()


def test_one_wrong_bit_is_noticed(x):
    def off_by_one_bit(x):
        y = x.copy()
        if np.abs(x).max() > 100:
            y[1, 2, 3, 0] = np.nextafter(y[1, 2, 3, 0], np.float32(np.inf))
        return y

    law = equivariance.measure(off_by_one_bit, x, scales=(2.0, 1024.0))
    assert [row.bit_exact for row in law.scales] == [True, False]
    with pytest.raises(AssertionError, match=r"k = 2\^8.*worst at \[1, 2, 3, 0\]"):
        equivariance.assert_homogeneous(off_by_one_bit, x)


def test_the_message_names_scale_pixel_and_both_values():
    x = np.ones((1, 2), "float32")
    with pytest.raises(AssertionError) as caught:
        equivariance.assert_homogeneous(lambda x: x + 1, x, scales=(2.0,))
    message = str(caught.value)
    for words in ("k = 2^1", "[0, 0]", "got 3", "expected 4", "exact", "degree"):
        assert words in message


def test_other_scales_have_a_tolerance(x):
    noisy = lambda x: x * np.float32(1 + 1e-4 * (np.abs(x).max() > 5))  # noqa: E731
    with pytest.raises(AssertionError, match="the limit is"):
        equivariance.assert_homogeneous(noisy, x, scales=(3.0,))
    equivariance.assert_homogeneous(noisy, x, scales=(3.0,), tolerance=1e-3)


def test_shifts_are_measured(x):
    law = equivariance.measure(lambda x: x - 0.5 * x.mean(), x)
    assert law.shift_gain == pytest.approx(0.5, abs=1e-5)
    assert law.shift_spread < 1e-5
    assert max(row.relative_error for row in law.shifts) > 0.1
    assert equivariance.measure(lambda x: x, x).shifts[0].bit_exact


def test_pytrees_in_and_out(x):
    def fn(tree):
        return {"sum": tree["a"] + tree["b"], "half": tree["a"] / 2}

    tree = {"a": x, "b": 2 * x}
    equivariance.assert_homogeneous(fn, tree)
    broken = lambda tree: {**fn(tree), "half": tree["a"] ** 2}  # noqa: E731
    with pytest.raises(AssertionError, match="'half'"):
        equivariance.assert_homogeneous(broken, tree)


def test_overflow_is_told_from_a_wrong_value():
    x = np.full((2, 2), 1e30, "float32")
    with np.errstate(over="ignore"):
        law = equivariance.measure(lambda x: x, x, scales=(2.0**40, 2.0))
    assert [row.in_range for row in law.scales] == [False, True]
    assert law.degree == pytest.approx(1)


def test_nan_in_and_nan_out_agree(x):
    x[0, 0, 0, 0] = np.nan
    law = equivariance.measure(lambda x: x, x, scales=(2.0, 4.0))
    assert all(row.bit_exact for row in law.scales)


@pytest.mark.parametrize(
    ("x", "scales", "words"),
    [
        (np.ones(3, "int32"), (2.0,), "floating-point arrays, got int32"),
        ({}, (2.0,), "got none"),
        (np.ones(3, "float16"), (2.0**40,), "not finite as a float16"),
        (np.ones(3, "float32"), (-1.0,), "above 0"),
        (np.ones(3, "float32"), (float("nan"),), "nan is 0 or not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_bad_input_is_named(x, scales, words):
    with pytest.raises(ValueError, match=words):
        equivariance.measure(lambda x: x, x, scales)


def small_row(row):
    return create_model("sevnet_s", width=4, blocks=(1,), **ABLATIONS[row])


@pytest.mark.parametrize(
    ("row", "culprits"),
    [
        ("1a", ()),
        ("1d", ("activate",)),
        ("1h", ("normalize/modulator",)),
        ("2d", ("normalize/norm",)),
        ("2f", ("normalize/norm", "activate")),
        ("unscaled", ("activate",)),
        ("pre_ln", ("prepare/norm",)),
    ],
)
def test_locate_points_at_the_broken_parts_in_order(draw_params, x, row, culprits):
    model = small_row(row)
    x = jnp.asarray(x)
    found = equivariance.locate(model, draw_params(model, x), x)
    blocks = ("encoder_0_block_0", "bottleneck_block_0", "decoder_0_block_0")
    expected = [f"{block}/{part}" for block in blocks for part in culprits]
    assert [part.path for part in found] == expected


class Rescaled(nn.Module):
    """A part of degree 0 that serves a whole of degree 1."""

    @nn.compact
    def __call__(self, x, use_norm: bool):
        direction = layers.Pointwise(lambda x: x / jnp.abs(x).max(), name="unit")(x)
        return jnp.abs(x).max() * direction if use_norm else direction


class Network(nn.Module):
    bias: float = 0.0
    use_norm: bool = True

    @nn.compact
    def __call__(self, x):
        return Rescaled(name="inner")(x, self.use_norm) + self.bias


@pytest.mark.parametrize(
    ("model", "culprits"),
    [
        (Network(), []),
        (Network(bias=0.1), [("", "Network")]),
        (Network(use_norm=False), [("inner/unit", "Pointwise")]),
    ],
)
def test_locate_blames_what_breaks_not_what_serves(x, model, culprits):
    found = equivariance.locate(model, {}, jnp.asarray(x))
    assert [(part.path, part.kind) for part in found] == culprits


def test_parts_inside_of_a_transformation_are_left_to_their_parent(draw_params, x):
    model = small_row("1d").clone(remat=True)
    x = jnp.asarray(x)
    found = equivariance.locate(model, draw_params(model, x), x)
    assert found
    assert not any("activate" in part.path for part in found)


def test_depth_limits_the_parts(draw_params, x):
    model = small_row("1a")
    x = jnp.asarray(x)
    parts = equivariance.measure_parts(model, draw_params(model, x), x, (2.0,), depth=1)
    paths = [part.path for part in parts]
    assert paths[0] == "head"
    assert paths[-2:] == ["tail", ""]
    assert not any("/" in path for path in paths)


def test_measure_works_on_jitted_jax_functions(x):
    equivariance.assert_homogeneous(jax.jit(jax.nn.relu), jnp.asarray(x))
