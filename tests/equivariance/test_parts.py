"""The kit names the parts of a network that break a law, and no others."""

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn

from sevnet_jax import create_model, equivariance
from sevnet_jax.models import layers
from studies.ablation.rows import ABLATIONS


@pytest.fixture
def x(rng):
    return jnp.asarray(rng.normal(size=(2, 4, 4, 3)), "float32")


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
    found = equivariance.locate(model, {}, x)
    assert [(part.path, part.kind) for part in found] == culprits


def test_parts_inside_of_a_transformation_are_left_to_their_parent(draw_params, x):
    model = small_row("1d").clone(remat=True, blocks=())
    found = equivariance.locate(model, draw_params(model, x), x)
    assert found
    assert not any("activate" in part.path for part in found)


def test_parts_are_selected_by_path(draw_params, x):
    model = small_row("1a")
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


def test_biases_that_start_at_zero_show_after_perturb(x):
    model = nn.Sequential([nn.Conv(4, (3, 3)), nn.relu, nn.Dense(3)])
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
    model = Classifier()
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
    found = equivariance.locate(CalledTwice(), {}, x, scales=(0.5, 2.0))
    assert [part.holds for part in found] == [False]


def test_a_bfloat16_model_with_float32_ends_is_judged_by_its_inside(draw_params, x):
    model = create_model("sevnet_s", width=8, blocks=(), dtype="bfloat16")
    assert equivariance.locate(model, draw_params(model, x), x) == []


def test_locate_inside_of_jit_is_refused(x):
    model = small_row("1a")
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(lambda x: equivariance.locate(model, {}, x))(x)


class Product(nn.Module):
    @nn.compact
    def __call__(self, x, kernel):
        return x @ kernel


class GivesItsKernel(nn.Module):
    broken: bool

    @nn.compact
    def __call__(self, x):
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (3, 3))
        return Product(name="product")(x, kernel) + float(self.broken)


def test_parameters_that_a_part_is_given_are_not_scaled(x):
    for broken in (False, True):
        model = GivesItsKernel(broken)
        found = equivariance.locate(model, model.init(jax.random.key(0), x), x)
        # Of degree 2 in both, of degree 1 in the image: not to blame.
        assert [part.path for part in found] == ([""] if broken else [])


class Tiny(nn.Module):
    """Its signal is so small that float16 cannot hold it at other scales."""

    @nn.compact
    def __call__(self, x):
        tiny = (x * 2.0**-20).astype(jnp.float16)
        return layers.identity(name="part")(tiny).astype(x.dtype)


class OneIsNan(nn.Module):
    @nn.compact
    def __call__(self, x):
        nan = layers.Pointwise(lambda x: x * jnp.nan, name="nan")(x)
        broken = layers.Pointwise(lambda x: x + 1, name="broken")(x)
        return jnp.where(jnp.isnan(nan), broken, nan)


def test_a_part_of_which_nothing_can_be_told_is_no_culprit(x):
    parts = equivariance.measure_parts(Tiny(), {}, jnp.ones_like(x), scales=(0.5, 3.0))
    assert [part.path for part in parts] == [""]


def test_a_part_without_a_finite_value_does_not_end_the_search(x):
    found = equivariance.locate(OneIsNan(), {}, x)
    assert [part.path for part in found] == ["broken"]


def test_scales_that_a_part_cannot_hold_are_left_out_for_it(x):
    class Half(nn.Module):
        @nn.compact
        def __call__(self, x):
            half = x.astype(jnp.float16)
            return layers.identity(name="part")(half).astype(x.dtype)

    scales = (2.0**-30, 2.0)
    whole, part = (
        next(
            p
            for p in equivariance.measure_parts(Half(), {}, x, scales=scales)
            if p.path == path
        )
        for path in ("", "part")
    )
    assert len(whole.measurement.scales) == 2
    assert [row.value for row in part.measurement.scales] == [2.0]


@pytest.mark.parametrize(
    ("scales", "words"),
    [
        ((-1.0, 2.0), "all above 0"),
        ((0.0, 2.0), "all above 0"),
        ((), "at least one"),
        ((2.0, 1e50), "1e[+]50 is 0 or not finite"),
    ],
)
def test_scales_that_the_whole_model_cannot_take_are_named(x, scales, words):
    with pytest.raises(ValueError, match=words):
        equivariance.measure_parts(layers.identity(), {}, x, scales=scales)
