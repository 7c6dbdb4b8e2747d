"""Every network keeps the contract of `models.base`, whoever wrote it."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax import equivariance
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.models import (
    Network,
    base,
    create_model,
    layers,
    list_models,
    probe,
    register,
)
from sevnet_jax.models.wrapper import NormalizationWrapper
from sevnet_jax.weights import Weights, load_weights, save_weights

# Fields that make a network of a family quick to run, its design being kept.
SMALL = {
    name: {"width": 4}
    for family in ("sevnet", "baseline", "translator")
    for name in list_models(family)
}
# Rivals keep the same contract, by a test of their own (rivals/test_contract.py).
NAMES = [name for name in list_models() if name not in list_models("rival")]
QUICK = ("sevnet_xs", "unet_relu_xs")


def in_time(names):
    return [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


def make(name, **fields):
    return create_model(name, **{**SMALL.get(name, {}), **fields})


@pytest.mark.parametrize("name", in_time(NAMES))
def test_any_size_and_type_comes_back(name):
    model = make(name)
    large, small = (
        jax.ShapeDtypeStruct((2, *size, model.channels), dtype)
        for size, dtype in (((7, 13), "float32"), ((1, 1), "bfloat16"))
    )
    params = jax.eval_shape(model.init, jax.random.key(0), large)
    assert all(leaf.dtype == "float32" for leaf in jax.tree.leaves(params))
    for method, x in (
        ("__call__", large),
        ("__call__", small),
        ("restore_tile", large),
    ):
        y = jax.eval_shape(functools.partial(model.apply, method=method), params, x)
        assert (y.shape, y.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_itself_goes_together(name):
    model = create_model(name)
    assert model.channels == 3
    assert model.multiple >= 1
    assert model.reach is None or model.reach % model.multiple == 0
    assert set(model.told) <= {"centre", "spread"}
    with pytest.raises(ValueError, match="unknown model field 'colour'"):
        model.with_fields(colour=1)
    with pytest.raises(ValueError, match=r"takes 3 channels last, got \(1, 8, 8, 5\)"):
        jax.eval_shape(
            model.init, jax.random.key(0), jax.ShapeDtypeStruct((1, 8, 8, 5), "float32")
        )


@pytest.mark.parametrize("name", in_time(NAMES))
def test_the_declared_law_is_the_measured_one(name, draw_params, rng):
    model = make(name)
    side = 2 * model.multiple
    x = jnp.asarray(rng.uniform(size=(1, side, side, 3)), "float32")
    params = draw_params(model, x)
    found = equivariance.measure(jax.jit(lambda x: model.apply(params, x)), x)
    # Exact for powers of two. Other scales round, and norms of few channels amplify it.
    assert found.holds(tolerance=1e-4) == model.keeps_the_law


@pytest.mark.parametrize("name", in_time(NAMES))
def test_tiles_equal_the_whole_or_are_refused(name, draw_params, rng, tmp_path):
    model = make(name)
    length = 2 * (model.reach or 20) + 8 * model.multiple
    image = rng.uniform(size=(length, 2 * model.multiple, 3)).astype("float32")
    params = draw_params(model, image[None])
    config = {"name": name, **SMALL.get(name, {})}
    save_weights(tmp_path / "w.safetensors", params, config, {})
    weights = load_weights(tmp_path / "w.safetensors")
    whole = Denoiser(weights)
    tiled = Denoiser(weights, tile_pixels=image[..., 0].size - 1)
    if model.reach is None:
        with pytest.raises(ValueError, match="depends on the whole image"):
            tiled(image)
        return
    parts = []
    restored = tiled(image, progress=lambda windows: parts.extend(windows) or windows)
    assert len(parts) > 1
    np.testing.assert_allclose(restored, whole(image), atol=1e-5)


class Blur(Network):
    """Nobody's: a bias, no law; what it does not say is the default."""

    @nn.compact
    def __call__(self, x):
        return x + 0.1 * nn.Conv(x.shape[-1], (3, 3), dtype=x.dtype)(jnp.tanh(x))


def register_for_test(monkeypatch, name, network):
    monkeypatch.setattr(base, "_PRESETS", dict(base._PRESETS))
    register(name, network)


@pytest.fixture
def blur(monkeypatch):
    register_for_test(monkeypatch, "blur", Blur)
    return create_model("blur")


def test_a_foreign_network_is_listed_by_its_family(blur):
    assert list_models("blur") == ["blur"]
    assert "blur" in list_models()
    assert "blur" not in list_models("sevnet")
    with pytest.raises(ValueError, match="unknown family 'none'; choose from"):
        list_models("none")


def test_what_it_does_not_say_is_safe(blur, draw_params, rng):
    assert (blur.channels, blur.multiple, blur.reach, blur.told) == (3, 1, None, ())
    assert not blur.keeps_the_law
    image = rng.uniform(size=(9, 7, 3)).astype("float32")
    weights = Weights(blur, draw_params(blur, image[None]), {"name": "blur"}, {}, "")
    expected = blur.apply(weights.params, image[None])[0]
    np.testing.assert_allclose(Denoiser(weights)(image), expected, atol=1e-6)
    with pytest.raises(ValueError, match="7x9 is more than the 62 pixels"):
        Denoiser(weights, tile_pixels=62)(image)
    fast = Denoiser(weights, tile_pixels=62)(image, fast=True)
    assert fast.shape == image.shape


@pytest.mark.parametrize(
    ("name", "field", "value", "kind"),
    [
        ("sevnet_s", "remat", "no", "bool"),
        ("sevnet_s", "remat", 1, "bool"),
        ("nafnet", "width", "48", "int"),
        ("nafnet", "width", 48.0, "int"),
        ("nafnet", "width", True, "int"),
        ("nafnet", "encoder", 3, r"tuple\[int, ...\]"),
        ("nafnet", "encoder", [1, 1.5], r"tuple\[int, ...\]"),
        ("nafnet", "train_size", "256", r"int \| None"),
        ("swinir", "expansion", "4", "float"),
        ("crwkv", "shift", 1, "str"),
    ],
)
def test_a_value_of_another_kind_is_refused(name, field, value, kind):
    message = f"^{field} of this .* must be {kind}, got "
    for build in (
        functools.partial(create_model, name),
        create_model(name).with_fields,
    ):
        with pytest.raises(ValueError, match=message) as error:
            build(**{field: value})
        assert "\n" not in str(error.value)


def test_numbers_of_numpy_are_plain_numbers():
    """As a sweep over np.linspace has them."""
    for build in (
        functools.partial(create_model, "nafnet"),
        create_model("nafnet").with_fields,
    ):
        network = build(width=np.int64(8), encoder=list(np.arange(1, 4)))
        assert (network.width, network.encoder) == (8, (1, 2, 3))
        assert {type(n) for n in (network.width, *network.encoder)} == {int}
    with pytest.raises(ValueError, match=r"must be int, got 8\.5"):
        create_model("nafnet", width=np.float64(8.5))


def test_values_of_a_foreign_network_are_its_own_affair(monkeypatch):
    class Loose(Blur):
        act: Callable = jnp.tanh
        eps: int = 1e-5  # a default that is not what it says
        size: "int" = 3
        side: int | None = None
        scale: float = 1.0

    register_for_test(monkeypatch, "loose", Loose)
    assert create_model("loose").eps == 1e-5
    for side in (None, 8):
        model = create_model("loose", act=jnp.sin, size=5, side=side, scale=2)
        assert (model.size, model.side, model.scale) == (5, side, 2)


class Wide(nn.Module):
    """Sees two tokens to each side, and says nothing of it."""

    @nn.compact
    def __call__(self, x):
        first, second = jnp.split(x, 2, axis=-1)
        return jnp.maximum(
            nn.Conv(first.shape[-1], (5, 5), use_bias=False)(first), second
        )


class Shifted(nn.Module):
    """A bias: no law. The mean over all: no reach."""

    @nn.compact
    def __call__(self, x):
        bias = self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        return x + bias[None, None, None] + x.mean((1, 2), keepdims=True)


def test_a_part_that_says_nothing_is_measured():
    assert probe.find_reach(Wide()) == 2
    assert probe.find_law(Wide())
    assert probe.find_reach(nn.Conv(8, (3, 3), kernel_dilation=(5, 5))) == 5
    # Beyond the middle's distance from the border, in any direction.
    assert probe.find_reach(nn.Conv(8, (3, 3), kernel_dilation=(26, 26))) is None
    for padding in ((26, 0), (0, 26)):
        one_side = nn.Conv(8, (2, 2), kernel_dilation=(26, 26), padding=(padding,) * 2)
        assert probe.find_reach(one_side) is None
    assert probe.find_reach(Shifted()) is None
    assert not probe.find_law(Shifted())
    declared = type("Declared", (Shifted,), {"reach": 7, "keeps_the_law": True})()
    assert (probe.find_reach(declared), probe.find_law(declared)) == (7, True)


def test_limits_and_extremes_of_the_whole_image_are_found():
    class Limited(nn.Module):
        def __call__(self, x):
            return jnp.clip(x, -10, 10)

    class Relative(nn.Module):
        def __call__(self, x):
            return x / jnp.abs(x).max((1, 2, 3), keepdims=True)

    assert not probe.find_law(Limited())
    assert probe.find_reach(Relative()) is None


def test_a_part_that_depends_on_the_place_has_no_reach():
    class Windows(nn.Module):
        side: int

        def __call__(self, x):
            rows = x.reshape(x.shape[0], -1, self.side, 8)
            return (rows - rows.mean(2, keepdims=True)).reshape(x.shape)

    class Checked(nn.Module):
        def __call__(self, x):
            odd = jnp.indices(x.shape[1:3]).sum(0) % 2
            return x * odd[None, ..., None].astype(x.dtype)

    class Fading(nn.Module):
        def __call__(self, x):
            return x * jnp.linspace(0, 1, x.shape[1])[None, :, None, None]

    for part in (Windows(2), Windows(3), Checked(), Fading()):
        assert probe.find_reach(part) is None
        assert probe.find_law(part)
    with pytest.raises(ValueError, match="Windows fails on 48x48 tokens"):
        probe.find_reach(Windows(5))


def test_a_network_that_is_told_something_needs_its_own_restore_tile():
    class Told(Network):
        reach = 1
        told = ("centre",)

        def __call__(self, x):
            return x

    with pytest.raises(ValueError, match="Told is told the centre of whole images"):
        Told().restore_tile(jnp.zeros((1, 4, 4, 3)))
    with pytest.raises(ValueError, match="must define restore_tile"):
        base.check_tiles(Told())
    with pytest.raises(ValueError, match="must define restore_tile"):
        base.check_tiles(NormalizationWrapper(Told()))


def test_a_network_knows_the_reach_of_its_parts(monkeypatch):
    gates = {**layers.GATES, "wide": Wide, "shifted": Shifted}
    monkeypatch.setattr(layers, "GATES", gates)
    plain = make("sevnet_s", gate="relu")
    # Two more tokens of 2 pixels in each of 4 blocks, of 4 in 4, of 8 in one.
    assert make("sevnet_s", gate="wide").reach > plain.reach + 2 * (4 * 2 + 4 * 4)
    assert make("sevnet_s", gate="shifted").reach is None
    assert make("sevnet_s", gate="wide").keeps_the_law
    assert not make("sevnet_s", gate="shifted").keeps_the_law
