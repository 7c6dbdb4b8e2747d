"""At full size: every official key is consumed, parameters and products are counted.

Shapes only. The lists are those beside this file, or those of the folder SEVNET_ZOO.
"""

import functools
import gzip
import math
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax import weights
from sevnet_jax.evaluation import complexity
from sevnet_jax.models import base, create_model, list_models
from sevnet_jax.models.rivals import official
from tests.models.rivals import make_golden

FOLDER = Path(os.environ.get("SEVNET_ZOO", make_golden.HERE)) / "keys"
# Preset: list of keys, parameters, billions of products at 256x256.
FULL_SIZE = {
    "akdt": ("akdt", 11_428_355, 59.6868),
    "cgnet": ("cgnet", 185_383_313, 114.0128),
    "cgnet_sidd": (None, 119_223_063, 61.7131),
    "crwkv": ("crwkv", 21_083_763, 113.3878),
    "esc": ("esc", 941_535, 164.5740),
    "grl": ("grl", 5_112_903, 353.730),
    "grl_gaussian": ("grl_official_base_dn", 19_805_263, 3645.861),
    "mhnet": ("mhnet", 67_543_311, 126.1094),
    "nafnet": ("nafnet", 29_159_715, 16.0450),
    "nafnet_sidd64": (None, 115_982_915, 63.236),
    "restormer": ("restormer_withbias", 26_126_644, 154.8820),
    "restormer_gaussian": ("restormer", 26_111_668, 154.8820),
    "sadnet": ("sadnet", 4_234_723, 20.1041),
    "swinir": ("swinir", 3_137_427, 220.792),
    "swinir_gaussian": ("swinir_official_colordn", 11_504_163, 800.297),
    "uformer": ("uformer", 20_628_317, 40.992),
    "uformer_sidd": ("uformer_official_b", 50_880_946, 86.574),
    "xformer": ("xformer", 25_222_318, 168.593),
    "xformer_gaussian": ("xformer_withbias", 25_228_078, 168.593),
}
QUICK = ("esc", "nafnet", "sadnet", "swinir")  # to trace
DEAD = {"mhnet": 15_747}  # parameters that the original has and never uses
XS = 62.1e3  # products a pixel of sevnet_xs


@functools.lru_cache
def read_keys(stem):
    """{official key: shape}."""
    full = FOLDER / f"{stem}.csv"
    lines = full.read_text() if full.exists() else ""
    lines = lines or gzip.decompress((FOLDER / f"{stem}.csv.gz").read_bytes()).decode()
    rows = [line.split(",") for line in lines.splitlines()[2:]]
    return {
        row[0]: tuple(int(side) for side in row[1].split("x") if side) for row in rows
    }


def in_time(names, quick):
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize(
    "name",
    in_time([n for n in FULL_SIZE if FULL_SIZE[n][0]], official.list_originals()),
)
def test_every_official_key_is_consumed(name):
    keys = read_keys(FULL_SIZE[name][0])
    matched = official.match(create_model(name), keys)
    assert len(matched) > 0.5 * len(keys)
    used = sum(math.prod(keys[key]) for key in matched)
    assert used + DEAD.get(name, 0) == FULL_SIZE[name][1]


@pytest.mark.parametrize("name", in_time(FULL_SIZE, QUICK))
def test_parameters_and_products_are_the_originals(name):
    counted = complexity.measure_complexity(name, create_model(name))
    _, params, products = FULL_SIZE[name]
    assert counted.params + DEAD.get(name, 0) == params
    assert counted.macs / 1e9 == pytest.approx(products, rel=5e-3)


@pytest.mark.parametrize("name", in_time(official.list_originals(), QUICK))
def test_the_smallest_preset_costs_what_ours_does(name):
    counted = complexity.measure_complexity(name, create_model(f"{name}_xs"))
    assert counted.macs_per_pixel == pytest.approx(XS, rel=0.2)


def test_every_preset_of_a_rival_is_counted_here():
    full = {n for n in list_models("rival") if not n.endswith("_xs")}
    assert full == FULL_SIZE.keys()


@pytest.fixture(scope="module")
def small():
    """A network, and a state that fits it."""
    network = create_model("restormer", width=8, blocks=(1, 1, 1, 1), refinement=1)
    rng = np.random.default_rng(0)
    shapes = guess_shapes(network)
    return network, {key: rng.normal(size=shape) for key, shape in shapes.items()}


def guess_shapes(network):
    """{official key: shape}, from our parameters."""
    image = jax.ShapeDtypeStruct((1, 8, 8, 3), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0), image)["params"]

    def walk(tree, prefix):
        for name, leaf in tree.items():
            if isinstance(leaf, dict):
                yield from walk(leaf, f"{prefix}{name}.")
            elif name == "kernel":
                h, w, i, o = leaf.shape
                yield f"{prefix}weight", (o, i, h, w)
            elif name == "temperature":
                yield f"{prefix}{name}", (*leaf.shape, 1, 1)
            else:
                yield prefix + {"scale": "weight"}.get(name, name), leaf.shape

    return dict(walk(params, ""))


def test_states_come_wrapped_and_prefixed(small):
    network, state = small
    prefixed = {f"module.{key}": value for key, value in state.items()}
    plain = official.convert(network, state)
    for wrapped in ({"params_ema": prefixed, "params": {}}, {"state_dict": prefixed}):
        same = jax.tree.map(np.array_equal, official.convert(network, wrapped), plain)
        assert all(jax.tree.leaves(same))
    kernel = plain["params"]["output"]["kernel"]
    assert kernel.dtype == jnp.float32
    np.testing.assert_array_equal(
        kernel, state["output.weight"].transpose(2, 3, 1, 0).astype("f4")
    )


def test_a_name_stands_for_its_preset_or_for_a_config(small):
    _, state = small
    config = {
        "dim": 8,
        "num_blocks": [1, 1, 1, 1],
        "num_refinement_blocks": 1,
        "_note": "ignored",
    }
    official.convert("restormer", state, config)
    with pytest.raises(ValueError, match="this Restormer"):
        official.convert("restormer_gaussian", state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("output.weight"), "lack output.weight"),
        (lambda s: s.update(other=np.ones(3)), "has no other"),
        (
            lambda s: s.update({"output.weight": np.ones((3, 3, 16, 3))}),
            r"output.weight has the shape \(3, 3, 16, 3\), .* takes \(3, 16, 3, 3\)",
        ),
    ],
)
def test_misfits_are_refused_by_name(small, change, message):
    network, state = small
    state = dict(state)
    change(state)
    with pytest.raises(ValueError, match=message) as error:
        official.convert(network, state)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"dims": 8}, "no hyper-parameter 'dims'; it has .*dim"),
        ({"LayerNorm_type": "Batch"}, "WithBias or BiasFree, got 'Batch'"),
        ({"dual_pixel_task": True}, "dual_pixel_task=False only, got True"),
        ({"inp_channels": 1, "out_channels": 3}, "out_channels=1 only, got 3"),
        ({"out_channels": 1}, "out_channels=3 only, got 1"),
        ({"dim": "48"}, "dim of restormer is of the kind of 48, got '48'"),
        ({"dim": True}, "of the kind of 48, got True"),
        ({"dim": -48}, "of the kind of 48, got -48"),
        ({"num_blocks": 4}, r"of the kind of \(4, 6, 6, 8\), got 4"),
        ({"num_blocks": [4, "6"]}, r"of the kind of \(4, 6, 6, 8\), got \(4, '6'\)"),
    ],
)
def test_configs_that_no_original_has_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        official.build("restormer", config)


@pytest.mark.parametrize("name", ["nafnet", "cgnet", "mhnet"])
@pytest.mark.parametrize("key", ["train_size", "tlc_train_size"])
def test_patches_for_local_pooling_are_a_field(name, key):
    for shape in (256, [1, 3, 256, 256]):
        built = official.build(name, {key: shape, "tlc_base_factor": 1.5})
        assert built == create_model(name, train_size=256)
    for shape in (0, "256", [1, 3, 256, 128], [256, 256]):
        with pytest.raises(ValueError, match=r"patches are squares .* got "):
            official.build(name, {key: shape})
    with pytest.raises(ValueError, match=r"tlc_base_factor=1\.5 only, got 2"):
        official.build(name, {"tlc_base_factor": 2})


@pytest.mark.parametrize("name", ["swinir", "grl"])
def test_no_upsampler_is_an_empty_name_or_none(name):
    for value in ("", None):
        assert official.build(name, {"upsampler": value}) == create_model(name)
    with pytest.raises(ValueError, match="upsampler='' only, got 'nearest"):
        official.build(name, {"upsampler": "nearest+conv"})


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("restormer", {"dim": 0}),
        ("restormer", {"heads": [5, 5, 5, 5]}),
        ("swinir", {"depths": [2, 2], "num_heads": [6]}),
        ("nafnet", {"enc_blk_nums": [1, 1], "dec_blk_nums": [1]}),
    ],
)
def test_numbers_that_do_not_go_together_are_one_line(name, config):
    with pytest.raises(ValueError, match="do not go together") as error:
        official.convert(name, {}, config)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("swinir_xs", {"width": 65}),
        ("swinir_xs", {"heads": (0, 0)}),
        ("sadnet_xs", {"width": 20}),
        ("sadnet_xs", {"width": 0}),
        ("grl_xs", {"width": 12, "local": True}),
        ("restormer_xs", {"heads": (1, 2)}),
    ],
)
def test_fields_that_do_not_go_together_are_one_line(name, fields):
    message = "^w uses an unknown model: the fields of this .* do not go together: "
    with pytest.raises(ValueError, match=message) as error:
        weights.check_fit("w", {}, create_model(name, **fields))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("mhnet_xs", "encoder", (1, 1, 1, 28, 4)),
        ("mhnet_xs", "decoder", (1, 1, 1)),
        ("nafnet_xs", "decoder", (1, 1, 1, 1, 1)),
        ("nafnet_xs", "encoder", (1, 1, -1, 1)),
        ("cgnet_xs", "decoder", (1, 1, 1, 1, 1)),
        ("cgnet_xs", "cascades", (3, 3, 2, 2, 2)),
        ("restormer_xs", "blocks", (1, 1, 1, 1, 1)),
        ("restormer_xs", "heads", (1, 2, 4, 8, 8)),
        ("akdt_xs", "blocks", (1, 1, 1, 1, 1)),
        ("akdt_xs", "heads", (1, 2, 4, 8, 8)),
        ("crwkv_xs", "blocks", (1, 1, 1, 1, 1)),
        ("xformer_xs", "windows", (8, 8, 8, 8, 8)),
        ("xformer_xs", "channel_blocks", (2, 2, 2, 2)),
        ("swinir_xs", "heads", (2, 2, 2)),
        ("grl_xs", "stripe", (8, 16, 16)),
        ("uformer_xs", "heads", (1,) * 10),
        ("uformer_xs", "blocks", (1,) * 8),
    ],
)
def test_a_tuple_of_another_length_is_refused(name, field, value):
    wanted = rf"{field} of this .* must have \d entries, none negative; got \("
    with pytest.raises(ValueError, match=wanted):
        base.find_shapes(create_model(name, **{field: value}))


def test_levels_that_the_original_does_not_look_at_are_refused():
    with pytest.raises(ValueError, match="enc_blk_nums of mhnet has 4 entries, got"):
        official.build("mhnet", {"enc_blk_nums": [1, 1, 1, 28, 4]})


def test_windows_and_stripes_meet_at_a_common_multiple():
    network = create_model("grl_xs", window=6)  # stripes of 8 and 16
    assert network.multiple == 48
    assert base.find_shapes(network)


def test_other_networks_have_no_original():
    with pytest.raises(ValueError, match="SEVNet has no original"):
        official.build("sevnet", {})
    with pytest.raises(ValueError, match="SEVNet has no original"):
        official.convert("sevnet", {})


def test_weights_files_keep_names_with_dots(small, tmp_path):
    network, state = small
    fields = {"width": 8, "blocks": (1, 1, 1, 1), "refinement": 1}
    variables = official.convert(network, state)
    path = tmp_path / "weights.safetensors"
    weights.save_weights(path, variables, {"name": "restormer", **fields}, {})
    loaded = weights.load_weights(path)
    assert jax.tree.structure(loaded.params) == jax.tree.structure(variables)
    same = jax.tree.map(np.array_equal, loaded.params, variables)
    assert all(jax.tree.leaves(same))
