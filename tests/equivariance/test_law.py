"""The kit: it finds what is true of functions whose laws are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax import equivariance


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


def test_a_law_that_no_scale_could_show_does_not_hold():
    huge = np.full(3, 2.0**100, np.float32)
    law = equivariance.measure(lambda x: x, huge, scales=(2.0**40, 2.0**60))
    assert not any(row.in_range for row in law.scales)
    assert not law.holds()
    assert equivariance.measure(lambda x: x, huge, scales=(2.0**40, 2.0)).holds()


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


def test_nothing_to_test_is_an_error_not_a_pass(x):
    broken = lambda x: x + 1  # noqa: E731
    with pytest.raises(AssertionError):
        equivariance.assert_homogeneous(broken, x, scales=(2.0**n for n in (1, 2)))
    with pytest.raises(ValueError, match="at least one"):
        equivariance.assert_homogeneous(broken, x, scales=())
    with pytest.raises(ValueError, match="no values"):
        equivariance.assert_homogeneous(lambda x: x, x[:0])
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="overflow or underflow"),
    ):
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


def test_a_function_that_overwrites_its_input_is_judged_like_any_other(x):
    def relu(x):
        return np.maximum(x, 0, out=x)

    def dead_zone(x):
        x[np.abs(x) < 1e-3] = 0
        return x

    equivariance.assert_homogeneous(relu, x)
    with pytest.raises(AssertionError):
        equivariance.assert_homogeneous(dead_zone, np.abs(x) + np.float32(0.2))


def test_a_function_that_is_given_its_input_is_measured(x):
    donating = jax.jit(lambda x: 2 * x, donate_argnums=0)
    equivariance.assert_homogeneous(donating, jnp.asarray(x))


def test_a_function_that_returns_the_same_memory_each_time_is_measured(x):
    memory = np.empty_like(x)
    found = equivariance.measure(lambda x: np.multiply(x, 1, out=memory), x)
    assert found.holds()
    assert all(row.bit_exact for row in found.shifts)


def test_each_result_has_the_range_of_its_own_dtype(x):
    def fn(x):  # the coarser dtype has the wider range
        return {"narrow": x.astype(jnp.float16), "wide": x.astype(jnp.bfloat16)}

    found = equivariance.measure(fn, jnp.asarray(x), scales=(2.0, 2.0**20))
    assert [row.in_range for row in found.scales] == [True, False]
    assert found.holds()


def test_measure_works_on_jitted_jax_functions(x):
    equivariance.assert_homogeneous(jax.jit(jax.nn.relu), jnp.asarray(x))


def test_numpy_float64_is_judged_by_its_own_rounding():
    x = np.random.default_rng(0).uniform(size=64)
    assert equivariance.measure(lambda x: 3 * x, x).rounding < 1e-13
    with pytest.raises(AssertionError):
        equivariance.assert_homogeneous(lambda x: x + 1e-9, x, scales=(3.0, 1000.0))


def test_a_function_without_a_finite_value_does_not_pass():
    x = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="no finite value"):
        equivariance.assert_homogeneous(lambda x: x * np.float32(np.nan), x)


def test_inputs_that_overflow_are_not_blamed_on_the_function():
    counts = np.linspace(100, 400, 16).astype(np.float16)
    equivariance.assert_homogeneous(lambda x: x / np.float16(64), counts)


def test_plain_numbers_are_arrays():
    equivariance.assert_homogeneous(lambda x: 2 * x["a"], {"a": 1.5})


def test_inputs_that_are_rounded_when_scaled_are_not_blamed_on_the_function(rng):
    x = rng.uniform(size=(1, 96, 96, 1)).astype(np.float16)
    assert (x < 2.0**-6).any()  # subnormal at 2^-8

    def blur(x):
        wide = np.pad(x[0, :, :, 0].astype(np.float32), 1)
        total = sum(wide[i : i + 96, j : j + 96] for i in range(3) for j in range(3))
        return (total / 8).astype(np.float16)

    equivariance.assert_homogeneous(blur, x)
    # What is seen at the other scales still counts.
    with pytest.raises(AssertionError, match="fails at k = 2"):
        equivariance.assert_homogeneous(lambda x: blur(x) + np.float16(0.01), x)
