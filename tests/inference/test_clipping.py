"""Noise that was clipped at black and white: its mean is put back, and nothing else."""

import dataclasses

import numpy as np
import pytest
from scipy import ndimage

from sevnet_jax.inference import clipping
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_named

SIGMA = 50 / 255


def draw_flat(rng, value, sigma=SIGMA, side=256, white=255):
    """A field of one value under clipped noise, and the mean of its pixels."""
    noisy = np.clip(value + sigma * rng.standard_normal((side, side, 1)), 0, 1)
    noisy = np.rint(noisy * white).astype(np.uint8 if white == 255 else np.uint16)
    return noisy, np.full_like(noisy, np.rint(noisy.mean()))


@pytest.mark.parametrize("sigma", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("clean", [0.0, 0.1, 0.5, 0.97, 1.0])
def test_moments_are_those_of_clipped_samples(rng, clean, sigma):
    seen = np.clip(clean + sigma * rng.standard_normal(400_000), 0, 1)
    mean, variance = clipping.find_moments(np.array(clean), np.array(sigma))
    np.testing.assert_allclose(mean, seen.mean(), atol=4 * sigma / 600)
    np.testing.assert_allclose(variance, seen.var(), rtol=0.02)


@pytest.mark.parametrize("value", [0.0, 0.02, 0.1, 0.5, 0.9, 0.98, 1.0])
def test_flat_fields_come_back(rng, value):
    noisy, mean = draw_flat(rng, value)
    restored = mean.copy()
    clipping.undo(noisy, restored)
    assert abs(restored.mean() / 255 - value) < 0.01
    if value not in (0.5,):  # the control: the mean of clipped pixels is elsewhere
        assert abs(mean.mean() / 255 - value) > 0.02


def test_each_place_and_brightness_has_its_own_level(rng):
    """Speckle whose level varies: half of the image has three times the noise."""
    clean = np.where(np.arange(256)[:, None, None] % 64 < 32, 0.95, 0.3)
    clean = np.broadcast_to(clean, (256, 256, 1))
    sigma = np.where(np.arange(256)[None, :, None] < 128, 0.1, 0.3) * np.sqrt(clean)
    noisy = np.clip(clean + sigma * rng.standard_normal(clean.shape), 0, 1)
    mean, _ = clipping.find_moments(clean, sigma)  # what a perfect denoiser finds
    restored = mean.copy()
    clipping.undo(noisy, restored)
    before, after = (np.abs(image - clean).mean() for image in (mean, restored))
    assert after < before / 3


def test_what_is_not_clipped_stays(rng):
    noisy, restored = draw_flat(rng, 0.5, sigma=0.05)
    before = restored.copy()
    clipping.undo(noisy, restored)
    np.testing.assert_array_equal(restored, before)


def test_bright_texture_that_is_not_clipped_stays(rng):
    """It looks like noise near white, but nothing of it is at white."""
    texture = np.rint(rng.uniform(225, 254, (128, 128, 1))).astype(np.uint8)
    texture[0, 0] = 255  # one pixel is, far from the rest
    restored = np.full_like(texture, 240)
    clipping.undo(texture, restored)
    assert np.abs(restored[64:, 64:].astype(int) - 240).max() == 0


def draw_speckle(rng, height, width):
    """A ramp under clipped noise that grows with brightness and to the right."""
    clean = np.linspace(0, 1, height)[:, None, None] * np.ones((1, width, 1))
    sigma = np.linspace(0.1, 0.4, width)[None, :, None] * np.sqrt(clean)
    noisy = np.clip(clean + sigma * rng.standard_normal(clean.shape), 0, 1)
    mean, _ = clipping.find_moments(clean, np.maximum(sigma, 1e-9))
    return np.rint(noisy * 255) / 255, np.rint(mean * 255) / 255


@pytest.mark.parametrize("size", [(1, 1), (20, 30), (300, 75)])
def test_whole_pixels_are_corrected_as_floats_are(rng, size):
    """In 8 bit each brightness is in the table; in floats it is interpolated."""
    noisy, floats = draw_speckle(rng, *size)
    before = floats.copy()
    pixels = np.rint(floats * 255).astype(np.uint8)
    clipping.undo(noisy, floats)
    clipping.undo(np.rint(noisy * 255).astype(np.uint8), pixels)
    np.testing.assert_allclose(pixels / 255, np.clip(floats, 0, 1), atol=0.6 / 255)
    assert size == (1, 1) or np.abs(floats - before).max() > 0.05


@pytest.mark.parametrize("size", [(20, 30), (300, 75)])
def test_corrections_are_interpolated_between_cells_and_brightnesses(rng, size):
    """SciPy's interpolation between the cells' own corrections is the oracle."""
    noisy, restored = (image[..., 0] for image in draw_speckle(rng, *size))
    cells = clipping._find_cells(noisy, restored, 1.0)
    shifts = clipping._find_shifts(*cells, clipping.NODES)[1:-1, 1:-1, :-1]
    y, x = ((np.arange(side) + 0.5) / clipping.CELL - 0.5 for side in size)
    place = np.broadcast_arrays(y[:, None], x, restored * (clipping.NODES - 1))
    moved = ndimage.map_coordinates(shifts, place, order=1, mode="nearest")
    wanted = restored + moved
    clipping.undo(noisy[..., None], restored[..., None])
    np.testing.assert_allclose(restored, wanted, atol=1e-6)
    assert np.abs(moved).max() > 0.05


@pytest.mark.parametrize(
    ("brightest", "dtype", "white"),
    [
        (200, "uint8", 255),
        (255, "uint16", 255),
        (4095, "uint16", 4095),
        (4096, "uint16", 16383),
        (65535, "uint16", 65535),
        (7.0, "float32", 1),
    ],
)
def test_white_is_all_bits(brightest, dtype, white):
    """12 bits in a file of 16 are clipped at 4095."""
    assert clipping.find_white(np.array([[[0, brightest]]], dtype)) == white


def test_12_bits_in_a_file_of_16_are_undone(rng):
    noisy, restored = draw_flat(rng, 0.98, white=4095)
    clipping.undo(noisy, restored)
    assert abs(restored.mean() / 4095 - 0.98) < 0.01


def test_automatic_is_for_integers_with_strong_noise(rng):
    strong, weak = draw_flat(rng, 0.98)[0], draw_flat(rng, 0.995, sigma=0.004)[0]
    inner = draw_flat(rng, 0.5, sigma=0.05)[0]
    assert clipping.is_needed(strong)
    assert not clipping.is_needed(strong, False)
    assert not clipping.is_needed(strong / np.float32(255))
    assert clipping.is_needed(strong / np.float32(255), True)
    assert (weak == 255).any()
    assert not clipping.is_needed(weak)
    assert not clipping.is_needed(inner)
    assert not clipping.is_needed(inner, True)  # nothing is at the ends
    assert not clipping.is_needed(np.zeros((1, 1, 3), np.uint8))


def test_the_level_is_estimated(rng):
    noisy, _ = draw_flat(rng, 0.5, sigma=0.1)
    assert clipping.estimate_level(noisy) == pytest.approx(0.1, rel=0.05)


def test_the_denoiser_undoes_it_before_it_blends(denoiser, rng):
    noisy = np.repeat(draw_flat(rng, 0.98, side=64)[0], 3, -1)
    plain, undone = (denoiser(noisy, clipped=c) for c in (False, True))
    assert undone.mean() > plain.mean() + 1
    np.testing.assert_array_equal(denoiser(noisy), undone)
    np.testing.assert_array_equal(denoiser(noisy, clipped=True, strength=0), noisy)
    half = denoiser(noisy, strength=0.5).astype(float)
    np.testing.assert_allclose(half, (noisy + undone.astype(float)) / 2, atol=0.51)
    with pytest.raises(ValueError, match="clipped must be"):
        denoiser(noisy, clipped="yes")


def test_tiles_have_the_levels_of_the_whole(denoiser, rng):
    noisy = np.repeat(draw_flat(rng, 0.98, side=150)[0], 3, -1)
    tiled = Denoiser(denoiser.weights, tile_pixels=96 * 96)(noisy)
    assert np.abs(tiled.astype(int) - denoiser(noisy)).max() <= 1


@pytest.mark.parametrize("no", [0, np.False_])
@pytest.mark.parametrize("yes", [1, np.True_])
def test_truth_values_of_any_kind(rng, no, yes):
    image = rng.integers(0, 256, (32, 32, 3), np.uint8)
    image[:4] = 255
    assert not clipping.is_needed(image, no)
    assert clipping.is_needed(image, yes)
    flat = np.full((8, 8, 1), 0.5, np.float32)
    assert not clipping.is_needed(flat, yes)


@pytest.mark.parametrize(
    ("provenance", "white"),
    [
        ({"recipe": {"data": {"noise": "gaussian:0-75"}}}, True),
        ({"recipe": {"data": {"noise": "one_of:gaussian:0-75+gaussian:5-35"}}}, True),
        ({"recipe": {"data": {"noise": "one_of:gaussian:0-75+isp"}}}, False),
        ({"recipe": {"data": {"noise": "isp"}}}, False),
        ({}, True),
        ({"imported": {"file": "official.pth"}}, False),
    ],
)
def test_weights_undo_it_by_themselves_if_all_their_noise_was_white(
    provenance, white, rng
):
    found = dataclasses.replace(load_named("sevnet_s"), provenance=provenance)
    denoiser = Denoiser(found)
    noisy = np.concatenate([draw_flat(rng, 0.95, side=64)[0] for _ in range(3)], -1)
    auto, undone = (denoiser(noisy, clipped=c) for c in ("auto", True))
    assert np.array_equal(auto, undone) == white
