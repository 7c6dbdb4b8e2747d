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
    assert law.holds()
    assert law.degree == pytest.approx(1)


def test_nan_in_and_nan_out_agree(x):
    x[0, 0, 0, 0] = np.nan
    law = equivariance.measure(lambda x: x, x)
    assert all(row.bit_exact for row in law.scales if row.must_be_exact)
    assert law.holds()


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


def test_parts_are_selected_by_path(draw_params, x):
    model = small_row("1a")
    x = jnp.asarray(x)
    parts = equivariance.measure_parts(
        model,
        draw_params(model, x),
        x,
        scales=(2.0,),
        select=lambda path: "/" not in path,
    )
    paths = [part.path for part in parts]
    assert paths[0] == "head"
    assert paths[-2:] == ["tail", ""]
    assert not any("/" in path for path in paths)


def test_nothing_to_test_is_an_error_not_a_pass(x):
    broken = lambda x: x + 1  # noqa: E731
    with pytest.raises(AssertionError):
        equivariance.assert_homogeneous(broken, x, scales=(2.0**n for n in (1, 2)))
    with pytest.raises(ValueError, match="at least one"):
        equivariance.assert_homogeneous(broken, x, scales=())
    with pytest.raises(ValueError, match="no values"):
        equivariance.assert_homogeneous(lambda x: x, x[:0])
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="leave the range"):
        equivariance.assert_homogeneous(lambda x: x, x, scales=(2.0**127,))


def test_bfloat16_errors_are_noticed_at_other_scales(x):
    x = jnp.asarray(x).astype("bfloat16")
    wrong = lambda x: x * jnp.bfloat16(1.1) if abs(x).max() > 5 else x  # noqa: E731
    equivariance.assert_homogeneous(lambda x: x * x.dtype.type(0.7), x, scales=(3.0,))
    with pytest.raises(AssertionError, match=r"the limit is 5\.0e-02"):
        equivariance.assert_homogeneous(wrong, x, scales=(3.0,))


def test_float16_and_high_degrees_use_the_scales_that_fit(x):
    equivariance.assert_homogeneous(lambda x: x + x, x.astype("float16"))
    with np.errstate(over="ignore", under="ignore"):
        law = equivariance.measure(lambda x: x**4, x, degree=4)
        equivariance.assert_homogeneous(lambda x: x**4, x, degree=4)
    assert not all(row.in_range for row in law.scales)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_turns_bad_at_one_scale_is_noticed(x, bad):
    def fn(x):
        y = x.copy()
        if abs(x).max() > 1000:
            y[0, 0, 0, 0] = bad
        return y

    with pytest.raises(AssertionError, match=r"error inf .*got (nan|inf)"):
        equivariance.assert_homogeneous(fn, x, scales=(2.0, 1000.0))


def test_the_tolerance_is_that_of_the_coarsest_dtype(x):
    """float32 in, bfloat16 out: rounding of the result is no error of the law."""
    rounded = lambda x: jnp.asarray(x).astype("bfloat16")  # noqa: E731
    equivariance.assert_homogeneous(rounded, x, scales=(3.0,))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x: None, "got none"),
        (lambda x: x.argmax(), "got int"),
        (lambda x: x + 1j, "got complex"),
        (lambda x: x[x > 1], "the result became"),
        (lambda x: {"a": x} if abs(x).max() < 9 else {"b": x}, "the result became"),
    ],
)
def test_results_that_cannot_be_compared_are_named(x, fn, words):
    with pytest.raises(ValueError, match=words):
        equivariance.measure(fn, x)


def test_python_numbers_count_as_arrays(x):
    equivariance.assert_homogeneous(lambda x: float(abs(x).max()), x)
    equivariance.assert_homogeneous(lambda x: 2 * x, np.float32(1.5))


def test_a_function_that_works_in_place_does_not_spoil_x(x):
    before = x.copy()
    equivariance.assert_homogeneous(lambda x: np.multiply(x, 2, out=x), x)
    np.testing.assert_array_equal(x, before)


def test_biases_that_start_at_zero_show_after_perturb(x):
    model = nn.Sequential([nn.Conv(4, (3, 3)), nn.relu, nn.Dense(3)])
    x = jnp.asarray(x)
    fresh = model.init(jax.random.key(0), x)
    assert equivariance.locate(model, fresh, x) == []
    found = equivariance.locate(model, equivariance.perturb(fresh), x)
    assert [part.path for part in found] == ["layers_0", "layers_2"]


class Classifier(nn.Module):
    """Somebody else's model: a flag, dropout, batch norm, an integer result."""

    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train, name="norm")(x)
        x = nn.Dropout(0.5, deterministic=not train)(x)
        y = nn.Dense(3, name="dense")(x)
        return y, y.argmax(-1)


@pytest.mark.parametrize("train", [False, True])
def test_locate_takes_what_the_model_takes(x, train):
    model, x = Classifier(), jnp.asarray(x)
    rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    variables = equivariance.perturb(model.init(rngs, x, True))
    options = {"rngs": rngs, "mutable": ["batch_stats"]} if train else {}
    found = equivariance.locate(model, variables, x, train=train, **options)
    assert [part.path for part in found] == ["norm", "dense"]


class CalledTwice(nn.Module):
    def setup(self):
        self.add = layers.Pointwise(lambda x: jnp.where(abs(x).max() < 99, x, x + 1))

    def __call__(self, x):
        return self.add(1000 * self.add(x))


def test_only_the_broken_call_of_a_shared_module_is_named(x):
    found = equivariance.locate(CalledTwice(), {}, jnp.asarray(x), scales=(0.5, 2.0))
    assert [part.holds for part in found] == [False]


def test_a_bfloat16_model_with_float32_ends_is_judged_by_its_inside(draw_params, x):
    model = create_model("sevnet_s", width=8, blocks=(1,), dtype="bfloat16")
    x = jnp.asarray(x)
    assert equivariance.locate(model, draw_params(model, x), x) == []


def test_locate_inside_of_jit_is_refused(draw_params, x):
    model = small_row("1a")
    with pytest.raises(ValueError, match=r"outside of jax\.jit"):
        jax.jit(lambda x: equivariance.locate(model, {}, x))(jnp.asarray(x))


def test_measure_works_on_jitted_jax_functions(x):
    equivariance.assert_homogeneous(jax.jit(jax.nn.relu), jnp.asarray(x))
