"""Shapes, types and units go in and come out; tiles give what the whole gives."""

import dataclasses
import itertools
import types

import jax
import numpy as np
import pytest

import sevnet_jax
from sevnet_jax.inference import program
from sevnet_jax.inference.denoiser import Denoiser, blend
from sevnet_jax.weights import load_weights

SHAPES = [
    (9, 13),
    (9, 13, 1),
    (9, 13, 2),
    (9, 13, 3),
    (9, 13, 4),
    (2, 9, 13, 3),
    (1, 1),
]
TYPES = ["uint8", "uint16", "float16", "float32", "float64"]


def draw(rng, shape, dtype="float32"):
    values = rng.uniform(size=shape)
    if np.dtype(dtype).kind == "u":
        values = np.round(values * np.iinfo(dtype).max)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shape_and_type_are_kept(denoiser, rng, shape, dtype):
    image = draw(rng, shape, dtype)
    before = image.copy()
    restored = denoiser(image)
    assert restored.shape == shape
    assert restored.dtype == dtype
    np.testing.assert_array_equal(image, before)


def test_it_is_the_network(denoiser, rng):
    image = draw(rng, (24, 40, 3))
    weights = denoiser.weights
    expected = jax.jit(weights.model.apply)(weights.params, image[None])[0]
    np.testing.assert_allclose(denoiser(image), expected, atol=1e-5)
    assert np.abs(denoiser(image) - image).max() > 0.01


@pytest.mark.optimized
@pytest.mark.parametrize("exponent", [-30, -6, 1, 17, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two_scale_the_result_exactly(denoiser, rng, exponent, dtype):
    image = draw(rng, (16, 24, 3), dtype)
    scale = np.asarray(2.0**exponent, dtype)
    np.testing.assert_array_equal(denoiser(image * scale), denoiser(image) * scale)


@pytest.mark.parametrize("unit", [1e5, 1e-6, 3.7e-12])
def test_any_unit_gives_the_scaled_result(denoiser, rng, unit):
    """Photon counts or volts: to the rounding of float32."""
    image = draw(rng, (16, 24, 3), "float64")
    restored = denoiser(image * unit) / unit
    np.testing.assert_allclose(restored, denoiser(image), rtol=0, atol=2e-6)


@pytest.mark.parametrize("size", [1e308, 1e-300, 5e-324, 0.0])
def test_the_ends_of_the_range_stay_finite(denoiser, rng, size):
    image = rng.uniform(size=(8, 8, 3)) * size
    assert np.isfinite(denoiser(image)).all()


def test_a_far_offset_costs_no_precision(denoiser, rng):
    image = rng.uniform(size=(16, 24, 3))
    moved = denoiser(image + 2.0**20) - 2.0**20
    np.testing.assert_allclose(moved, denoiser(image), rtol=0, atol=2e-6)


def test_weights_of_another_centre(denoiser, rng):
    changed = dataclasses.replace(
        denoiser.weights, model=denoiser.weights.model.clone(centre="none")
    )
    image = draw(rng, (16, 24, 3))
    expected = jax.jit(changed.model.apply)(changed.params, image[None])[0]
    np.testing.assert_allclose(Denoiser(changed)(image), expected, atol=1e-5)
    assert np.abs(denoiser(image) - expected).max() > 1e-3
    constant = dataclasses.replace(
        changed, model=changed.model.clone(centre="constant")
    )
    expected = jax.jit(constant.model.apply)(constant.params, image[None])[0]
    np.testing.assert_allclose(Denoiser(constant)(image), expected, atol=1e-5)


def test_an_offset_goes_through(denoiser, rng):
    image = draw(rng, (16, 24, 3))
    moved = denoiser(image + 1)
    np.testing.assert_allclose(moved, denoiser(image) + 1, rtol=0, atol=3e-6)


def test_integers_are_the_rounded_floats(denoiser, rng):
    image = draw(rng, (16, 24, 3), "uint16")
    expected = np.clip(np.rint(denoiser(image.astype("float64"))), 0, 65535)
    assert np.abs(denoiser(image) - expected).max() <= 1
    assert (denoiser(image) != image).any()


def test_alpha_is_untouched(denoiser, rng):
    image = draw(rng, (9, 13, 4), "uint8")
    restored = denoiser(image)
    np.testing.assert_array_equal(restored[..., 3], image[..., 3])
    np.testing.assert_array_equal(restored[..., :3], denoiser(image[..., :3]))


def test_the_order_in_memory_is_the_usual_one(denoiser, rng):
    """Whatever that of the image is, which may be read-only, too."""
    planes = rng.random((4, 20, 24)).astype(np.float32)
    image = np.moveaxis(planes, 0, -1)
    image.flags.writeable = False
    result = denoiser(image)
    assert result.flags.c_contiguous
    assert not image.flags.c_contiguous
    np.testing.assert_array_equal(result, denoiser(np.ascontiguousarray(image)))


def test_grey_is_the_mean_of_three_equal_channels(denoiser, rng):
    image = draw(rng, (9, 13))
    colour = denoiser(np.repeat(image[..., None], 3, -1))
    np.testing.assert_allclose(denoiser(image), colour.mean(-1), atol=1e-6)


def test_a_batch_is_its_images(denoiser, rng):
    batch = draw(rng, (3, 9, 13, 3))
    batch[1] *= 100
    np.testing.assert_array_equal(denoiser(batch), [denoiser(image) for image in batch])


def test_strength_blends(denoiser, rng):
    image = draw(rng, (16, 24, 3))
    for dtype in TYPES:
        same = draw(rng, (16, 24, 3), dtype)
        np.testing.assert_array_equal(denoiser(same, strength=0), same)
    full = denoiser(image) - image
    moves = [np.abs(denoiser(image, strength=s) - image) for s in (0.2, 0.5, 0.9, 1)]
    for less, more in itertools.pairwise(moves):
        assert (less <= more + 1e-6).all()
    np.testing.assert_allclose(moves[1], np.abs(full) / 2, atol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("options", [{}, {"clipped": True}, {"fast": True}])
def test_every_strength_is_a_blend_of_the_restored_image(denoiser, rng, dtype, options):
    """To the last bit: nothing has to be restored again for another one."""
    image = draw(rng, (16, 24, 4), dtype)
    full = denoiser(image, **options)
    for strength in (0, 0.3, 0.5, 1):
        restored = denoiser(image, strength=strength, **options)
        np.testing.assert_array_equal(restored, blend(image, full, strength))
        assert restored.dtype == image.dtype


@pytest.mark.parametrize("channels", [1, 3])
def test_the_ensemble_turns_with_the_image(write_weights, rng, channels):
    denoiser = Denoiser(load_weights(write_weights("own", channels=channels)))
    image = draw(rng, (16, 16, channels))
    turned = np.rot90(image)[:, ::-1]
    expected = np.rot90(denoiser(image, ensemble=True))[:, ::-1]
    np.testing.assert_allclose(denoiser(turned, ensemble=True), expected, atol=1e-5)
    plain = np.rot90(denoiser(image))[:, ::-1]
    assert np.abs(denoiser(turned) - plain).max() > 1e-3  # alone it does not


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (150, 103, 3),
        pytest.param((161, 64, 3), marks=pytest.mark.slow),
        (7, 1500, 1),
    ],
)
def test_tiles_give_what_the_whole_gives(denoiser, rng, shape, ensemble):
    image = draw(rng, shape)
    image[: shape[0] // 2] *= 0.1  # so that tiles have other means than the image
    tiled = Denoiser(denoiser.weights, tile_pixels=96 * 96)
    seen = []
    restored = tiled(image, ensemble=ensemble, progress=lambda i: seen.extend(i) or i)
    assert len(seen) > 1
    whole = denoiser(image, ensemble=ensemble)
    assert np.abs(restored - whole).max() <= 1e-5


def test_tiles_of_a_grey_network_give_what_the_whole_gives(write_weights, rng):
    weights = load_weights(write_weights("grey", channels=1))
    image = draw(rng, (150, 103, 1))
    image[:75] *= 0.1
    tiled = Denoiser(weights, tile_pixels=96 * 96)(image)
    assert np.abs(tiled - Denoiser(weights)(image)).max() <= 1e-5


def test_tiles_with_their_own_mean_would_not(denoiser, rng):
    """The control of the test above: the centre matters."""
    image = draw(rng, (96, 96, 3))
    image[:48] *= 0.1
    assert np.abs(denoiser(image)[48:] - denoiser(image[48:])).max() > 1e-3


def test_fast_tiles_are_not_the_whole(denoiser, rng, monkeypatch):
    """How close they are with trained weights is tested beside the samples."""
    monkeypatch.setattr(sevnet_jax.inference.denoiser, "FAST_MARGIN", 8)
    image = draw(rng, (150, 203, 3))
    tiled = Denoiser(denoiser.weights, tile_pixels=64 * 64)
    error = np.abs(tiled(image, fast=True) - denoiser(image))
    assert error.max() > 1e-5


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((4, 4, 3), np.int32), "got int32"),
        (np.zeros((4, 4, 3), bool), "got bool"),
        (np.zeros(5, np.float32), "got \\(5,\\)"),
        (np.zeros((4, 4, 7), np.float32), "got \\(4, 4, 7\\)"),
        (np.zeros((0, 4, 3), np.float32), "at least one pixel"),
        (np.full((4, 4, 3), np.nan, np.float32), "48 of 48 values are NaN"),
        (np.array([[1, np.inf]]), "1 of 2 values"),
    ],
)
def test_what_is_no_image_is_refused(denoiser, image, message):
    with pytest.raises(ValueError, match=message):
        denoiser(image)


@pytest.mark.parametrize("strength", [-0.1, 1.1, np.nan])
def test_strength_is_checked(denoiser, strength):
    with pytest.raises(ValueError, match="strength must be 0 to 1"):
        denoiser(np.zeros((4, 4, 3)), strength=strength)


def test_unknown_weights_are_named():
    with pytest.raises(ValueError, match="there are no weights 'sevnet_xl'"):
        sevnet_jax.load("sevnet_xl")


def test_a_path_is_loaded(weights_file, rng):
    image = draw(rng, (8, 8, 3))
    assert sevnet_jax.load(weights_file)(image).shape == (8, 8, 3)
    assert sevnet_jax.load(str(weights_file))(image).shape == (8, 8, 3)


def test_only_so_many_programs_are_kept(weights_file, rng, monkeypatch):
    monkeypatch.setattr(program, "PROGRAMS", 2)
    restore = Denoiser(load_weights(weights_file), devices=jax.devices()[:1])
    for side in (8, 16, 24, 8):
        restore(rng.uniform(size=(side, 8, 3)))
    kept = restore.program._compile.cache_info()
    assert (kept.currsize, kept.misses) == (2, 4)


@pytest.mark.parametrize("ensemble", [False, True])
def test_every_device_has_its_share_and_none_changes_a_bit(weights_file, rng, ensemble):
    weights, image = load_weights(weights_file), draw(rng, (300, 103, 3), "uint16")
    one, all_of_them = (
        Denoiser(weights, tile_pixels=96 * 96, devices=devices)
        for devices in (jax.devices()[:1], jax.devices())
    )
    used = []
    place = all_of_them.program._place
    all_of_them.program._place = lambda number: used.append(number) or place(number)
    assert len(jax.devices()) > 1
    found = all_of_them(image, ensemble=ensemble)
    np.testing.assert_array_equal(found, one(image, ensemble=ensemble))
    counts = np.bincount(used, minlength=len(jax.devices()))
    assert np.ptp(counts) <= 1 + 8 * ensemble + 1  # and the two compilations


@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_the_order_of_bytes_does_not_matter(denoiser, rng, dtype):
    image = rng.integers(0, 200, (8, 8, 3)).astype(f"<{dtype}")
    swapped = denoiser(image.astype(f">{dtype}"))
    np.testing.assert_array_equal(swapped, denoiser(image))


def test_the_precision_that_somebody_asked_for_stays(weights_file, monkeypatch):
    seen = []
    program = Denoiser(load_weights(weights_file)).program
    monkeypatch.setattr(
        program,
        "_restore",
        types.SimpleNamespace(
            lower=lambda *_: (
                seen.append(jax.config.jax_default_matmul_precision)
                or types.SimpleNamespace(compile=lambda: None)
            )
        ),
    )
    with jax.default_matmul_precision("highest"):
        program._compile_for((8, 8, 3), 0)
    assert seen == ["highest"]


def test_a_number_is_no_image(denoiser):
    with pytest.raises(ValueError, match=r"an image is .* got \(\)"):
        denoiser(np.float32(5))
