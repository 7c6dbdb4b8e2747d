"""MACs from the traced program, and the paper's own figures."""

import jax
import jax.numpy as jnp
import pytest

from sevnet_jax import create_model
from sevnet_jax.evaluation.complexity import (
    count_macs,
    count_params,
    measure_complexity,
    measure_seconds,
)
from sevnet_jax.models import ops

IMAGE = jnp.zeros((1, 8, 6, 3))


@pytest.mark.parametrize(
    ("kernel", "stride", "transposed", "macs"),
    [
        ((3, 3, 3, 5), 1, False, 8 * 6 * 9 * 3 * 5),
        ((1, 1, 3, 5), 1, False, 8 * 6 * 3 * 5),
        ((2, 2, 3, 5), 2, False, 4 * 3 * 4 * 3 * 5),
        ((2, 2, 3, 5), 2, True, 8 * 6 * 4 * 3 * 5),
        # A CPU's way to the same, of which the kernel alone takes more products here.
        ((3, 3, 3, 4096), 1, False, 8 * 6 * 9 * 3 * 4096),
    ],
)
def test_convolutions(kernel, stride, transposed, macs):
    def fn(x, kernel):
        return ops.convolve(x, kernel, stride, transposed)

    assert count_macs(fn, IMAGE, jnp.zeros(kernel)) == macs


def test_depthwise_convolution():
    def fn(x, kernel):
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=3,
        )

    assert count_macs(fn, IMAGE, jnp.zeros((3, 3, 1, 3))) == 8 * 6 * 9 * 3


def test_products_inside_of_jit_remat_scan_and_cond():
    a, b = jnp.zeros((4, 5)), jnp.zeros((5, 5))

    def fn(a, b):
        a = jax.jit(jnp.matmul)(a, b)
        a = jax.checkpoint(jnp.matmul)(a, b)
        a, _ = jax.lax.scan(lambda a, _: (a @ b, None), a, length=7)
        return jax.lax.cond(a[0, 0] > 0, lambda a: a @ b, lambda a: a, a)

    assert count_macs(fn, a, b) == (1 + 1 + 7 + 1) * 4 * 5 * 5


def test_a_loop_of_unknown_length_is_refused():
    def fn(a):
        return jax.lax.while_loop(lambda a: a[0, 0] < 1, lambda a: a @ a, a)

    with pytest.raises(ValueError, match="while loop"):
        count_macs(fn, jnp.zeros((3, 3)))


@pytest.mark.parametrize(
    ("name", "params", "macs"),
    [("sevnet", 0.0003, 0.0011), ("sevnet_lw", 0.0052, 0.001)],
)
def test_presets_meet_the_paper(name, params, macs):
    """As closely as the table of `eval.py complexity` says."""
    cost = measure_complexity(name, create_model(name))
    assert cost.params == pytest.approx(cost.paper_params, rel=params)
    assert cost.macs == pytest.approx(cost.paper_macs, rel=macs)


def test_the_other_presets_meet_their_plan():
    baseline = measure_complexity("unet_relu", create_model("unet_relu"))
    assert baseline.params == pytest.approx(32.64e6, rel=0.001)
    assert baseline.macs == pytest.approx(138.7e9, rel=0.001)
    small = measure_complexity("sevnet_s", create_model("sevnet_s"))
    assert small.macs_per_pixel <= 250e3
    assert small.params < 4e6


def test_the_time_is_that_of_a_forward_pass():
    model = create_model("sevnet_s", width=4, blocks=(), bottleneck=1)
    assert 0 < measure_seconds(model, size=16) < 60


def test_params_of_real_arrays_equal_those_of_shapes(draw_params):
    model = create_model("sevnet_s", width=4)
    shapes = jax.eval_shape(model.init, jax.random.key(0), IMAGE)
    assert count_params(draw_params(model, IMAGE)) == count_params(shapes)


def test_the_paper_is_quoted_only_at_its_own_size():
    model = create_model("sevnet_xs")  # the paper's numbers are found by the name
    assert measure_complexity("sevnet", model, size=256).paper_params
    assert measure_complexity("sevnet", model, size=64).paper_params is None
    with pytest.raises(ValueError, match="at least 1, got 0"):
        measure_complexity("sevnet", model, size=0)
