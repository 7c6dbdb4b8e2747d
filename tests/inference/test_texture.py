"""What is removed in a few places only stays; noise that is everywhere goes."""

import numpy as np
import pytest
from scipy import ndimage

import sevnet_jax
from sevnet_jax import images
from sevnet_jax.inference import texture
from sevnet_jax.inference.automatic import CAMERA

SIDE = 192
BLOB = np.s_[32:96, 48:112]  # whole cells
NEAR = np.s_[16:112, 32:128]  # and those around, over which the change is spread


@pytest.fixture
def smooth(rng):
    """A picture without fine detail, float64 [SIDE, SIDE, 3] in 0.2 to 0.8."""
    soft = ndimage.gaussian_filter(rng.uniform(size=(SIDE, SIDE, 3)), (16, 16, 0))
    return 0.2 + 0.6 * (soft - soft.min()) / np.ptp(soft)


def draw(rng, level, shape=(SIDE, SIDE, 3)):
    return level * rng.standard_normal(shape)


def find_level(change):
    return np.sqrt(np.mean(np.square(change)))


def keep(noisy, restored):
    result = restored.copy()
    texture.keep(noisy, result)
    return result


def test_a_blob_keeps_all_but_twice_what_is_usual(rng, smooth):
    noisy = smooth + draw(rng, 0.004)
    noisy[BLOB] += draw(rng, 0.08, (64, 64, 3))
    result = keep(noisy, smooth)
    inner = np.s_[48:80, 64:96]
    assert find_level((noisy - result)[inner]) == pytest.approx(0.008, rel=0.1)
    assert find_level((noisy - smooth)[inner]) > 0.07  # the control
    outside = np.ones(noisy.shape, bool)
    outside[NEAR] = False
    np.testing.assert_array_equal(result[outside], smooth[outside])


@pytest.mark.parametrize(
    "level",
    [
        lambda clean: 0.05,
        lambda clean: 0.02 + 0.3 * clean**3,  # 0.022 to 0.17: eight times as much
        lambda clean: 0.2 * (1 - clean) ** 2,
        lambda clean: 0.03 * (1 + (np.arange(SIDE)[:, None, None] > SIDE // 2)),
    ],
    ids=["even", "in the light", "in the dark", "twice as strong on one half"],
)
def test_noise_that_depends_on_brightness_goes(rng, smooth, level):
    clean = np.repeat(smooth[..., :1], 3, -1)
    noisy = clean + level(clean) * draw(rng, 1)
    result = keep(noisy, clean)
    assert find_level(result - clean) < 0.1 * find_level(noisy - clean)


def test_flat_places_do_not_tell_what_is_usual(rng):
    """A photo on a white page: two thirds have no noise, and none to remove."""
    clean = np.ones((SIDE, SIDE, 3))
    clean[:64] = 0.5
    noisy = clean.copy()
    noisy[:64] += draw(rng, 0.05, (64, SIDE, 3))
    np.testing.assert_array_equal(keep(noisy, clean), clean)
    noisy[64:] += draw(rng, 0.001, (128, SIDE, 3))  # the control: it is not flat
    assert find_level((keep(noisy, clean) - clean)[16:48]) < 0.01  # another brightness
    noisy[64:] -= 0.5
    assert find_level((keep(noisy, noisy.round(1)) - clean)[16:48]) > 0.02


def test_scaling_the_image_scales_the_result(rng, smooth):
    noisy = smooth + draw(rng, 0.004)
    noisy[BLOB] += draw(rng, 0.08, (64, 64, 3))
    result = keep(noisy, smooth)
    for k in (2.0**-40, 0.25, 2.0**60):
        np.testing.assert_array_equal(keep(k * noisy, k * smooth), k * result)


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (48, 64), (49, 65), (193, 177)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
def test_sizes_and_types(rng, size, dtype):
    white = np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1
    noisy, restored = (
        (white * rng.uniform(size=(*size, 1)) ** power).astype(dtype)
        for power in (1, 1.2)
    )
    result = keep(noisy, restored)
    assert result.dtype == dtype
    low, high = np.minimum(noisy, restored), np.maximum(noisy, restored)
    assert ((result >= low) & (result <= high)).all()


def test_too_few_cells_change_nothing(rng, smooth):
    noisy = smooth[:48, :80] + draw(rng, 0.004, (48, 80, 3))
    noisy[:16, :16] += draw(rng, 0.2, (16, 16, 3))
    assert (keep(noisy, smooth[:48, :80]) == smooth[:48, :80]).all()  # 15 cells


@pytest.mark.parametrize(("channels", "kind"), [(1, "grey"), (3, "colour")])
def test_the_denoiser_keeps_texture_in_a_picture_without_noise(
    rng, smooth, channels, kind
):
    clean = smooth[..., :channels].copy()
    clean[BLOB] += draw(rng, 0.03, (64, 64, channels))
    picture = np.rint(255 * np.clip(clean, 0, 1)).astype(np.uint8)

    alone = sevnet_jax.load(CAMERA[kind])(picture)
    kept = sevnet_jax.load()(picture, noise="camera")
    lost, less = (
        find_level(images.to_float(i) - images.to_float(picture)) for i in (alone, kept)
    )
    assert lost > 0.002
    assert less < 0.1 * lost
