"""What is removed in a few places only stays; noise that is everywhere goes."""

import numpy as np
import pytest
from scipy import ndimage

import sevnet_jax
from sevnet_jax import images
from sevnet_jax.inference import texture
from sevnet_jax.inference.automatic import CAMERA

SIDE = 192  # 12 x 12 cells
BLOB = np.s_[32:96, 48:112]  # 4 x 4 of them
INSIDE = np.s_[40:88, 56:104]  # the part that neighbours do not change
NEAR = np.s_[16:112, 32:128]  # with the neighbours that change too


@pytest.fixture
def smooth(rng):
    """A picture without fine detail, float64 [SIDE, SIDE, 3] in 0.2 to 0.8."""
    soft = ndimage.gaussian_filter(rng.uniform(size=(SIDE, SIDE, 3)), (16, 16, 0))
    return 0.2 + 0.6 * (soft - soft.min()) / np.ptp(soft)


@pytest.fixture
def gravel(rng, smooth):
    """The picture with weak noise everywhere and a blob of coarse texture."""
    noisy = smooth + draw(rng, 0.004)
    noisy[BLOB] += draw(rng, 0.08, (64, 64, 3))
    return noisy


def draw(rng, level, shape=(SIDE, SIDE, 3)):
    return level * rng.standard_normal(shape)


def find_level(change):
    return np.sqrt(np.mean(np.square(change)))


def keep(noisy, restored):
    result = restored.copy()
    texture.keep(noisy, result)
    return result


def test_a_blob_keeps_all_but_a_few_times_what_is_usual(smooth, gravel):
    result = keep(gravel, smooth)
    removed = find_level((gravel - result)[INSIDE])
    assert removed == pytest.approx(texture.MOST * 0.004, rel=0.1)
    assert find_level((gravel - smooth)[INSIDE]) > 0.07  # the control
    outside = np.ones(gravel.shape, bool)
    outside[NEAR] = False
    np.testing.assert_array_equal(result[outside], smooth[outside])


def test_the_change_is_a_ramp_between_centres_of_cells(rng, smooth):
    noisy = smooth + 0.01
    noisy[BLOB] += 0.07
    result = keep(noisy, smooth)
    taken = ((noisy - result) / (noisy - smooth))[..., 0]
    # From all of it, at the centre of the cell outside, to so much of 0.08.
    expected = np.interp(np.arange(24, 40), [23.5, 39.5], [1, texture.MOST / 8])
    np.testing.assert_allclose(taken[24:40, 80], expected)
    np.testing.assert_allclose(taken[64, 40:56], expected)


def test_the_brightest_tenth_may_be_noisier(rng):
    """As in micrographs: a few cells on a dark ground, with noise where they shine."""
    clean = np.full((SIDE, SIDE, 1), 0.02) + draw(rng, 1e-3, (SIDE, SIDE, 1))
    clean[BLOB] += 0.6
    noisy = clean + np.where(clean > 0.3, 0.08, 0.004) * draw(rng, 1, clean.shape)
    result = keep(noisy, clean)
    assert find_level((result - clean)[INSIDE]) < 0.03  # some of the darkest of them
    clean[BLOB] -= 0.6  # the control: it is as bright as all the rest
    noisy[BLOB] -= 0.6
    assert find_level((keep(noisy, clean) - clean)[INSIDE]) > 0.06


@pytest.mark.parametrize(
    "level",
    [
        lambda clean: 0.05,
        lambda clean: 0.02 + 0.3 * clean**3,
        lambda clean: 0.2 * (1 - clean) ** 2,
        lambda clean: 0.03 * (1 + (np.arange(SIDE)[:, None, None] > SIDE // 2)),
    ],
    ids=["even", "in the light", "in the dark", "twice as strong on one half"],
)
def test_noise_that_depends_on_brightness_goes(rng, level):
    clean = np.linspace(0, 1, SIDE)[None, :, None] + np.zeros((SIDE, 1, 3))
    noisy = clean + level(clean) * draw(rng, 1)
    result = keep(noisy, clean)
    assert find_level(result - clean) < 0.1 * find_level(noisy - clean)


@pytest.mark.parametrize(("share", "left"), [(0.4, True), (0.6, False)])
def test_noise_in_less_than_half_of_an_image_stays(rng, smooth, share, left):
    """The limit that README states."""
    noisy = smooth + draw(rng, 0.002)
    part = np.s_[:, : int(share * SIDE)]
    noisy[part] += draw(rng, 0.05)[part]
    result = keep(noisy, smooth)
    ratio = find_level((result - smooth)[part]) / find_level((noisy - smooth)[part])
    assert ratio > 0.7 if left else ratio < 0.2


def test_flat_places_do_not_tell_what_is_usual(rng):
    """A photo on a white page: two thirds have no noise, and none to remove."""
    clean = np.full((SIDE, SIDE, 3), 0.5)
    noisy = clean.copy()
    noisy[:64] += draw(rng, 0.05, (64, SIDE, 3))
    np.testing.assert_array_equal(keep(noisy, clean), clean)
    noisy[64:] += draw(rng, 0.001, (128, SIDE, 3))  # the control: it is not flat
    assert find_level((keep(noisy, clean) - clean)[:48]) > 0.04


def test_a_channel_that_is_flat_does_not_make_a_cell_flat(rng, gravel, smooth):
    for picture in (gravel, smooth):
        picture[..., 2] = 0
    assert (keep(gravel, smooth) != smooth)[INSIDE].any()


@pytest.mark.parametrize("exponent", [-1000, -100, -2, 40, 600, 1000])
def test_scaling_the_image_scales_the_result(smooth, gravel, exponent):
    result = keep(gravel, smooth)
    assert (result != smooth).any()
    scaled = keep(np.ldexp(gravel, exponent), np.ldexp(smooth, exponent))
    np.testing.assert_array_equal(scaled, np.ldexp(result, exponent))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
@pytest.mark.parametrize("size", [(SIDE, SIDE), (191, 177), (101, 185)])
def test_all_types_and_sizes_have_what_float64_has(gravel, smooth, size, dtype):
    """Sides that are no multiple of a cell, so that the last cells are larger."""
    height, width = size
    whole = np.dtype(dtype).kind == "u"
    white = np.iinfo(dtype).max if whole else 1
    noisy, restored = (
        (np.rint(white * np.clip(i, 0, 1)) if whole else i).astype(dtype)
        for i in (gravel[:height, :width], smooth[:height, :width])
    )
    result = keep(noisy, restored)
    assert result.dtype == dtype
    wanted = keep(noisy.astype(np.float64), restored.astype(np.float64))
    assert (wanted != restored).any()
    if whole:
        np.testing.assert_array_equal(result, np.rint(wanted))
    else:
        np.testing.assert_allclose(result, wanted, rtol=np.finfo(dtype).eps)


def test_cells_at_the_end_are_measured_by_their_own_size(rng, smooth):
    """Of 183 pixels, the last 23 are one cell."""
    part = np.s_[:183, :183]
    noisy = smooth[part] + 0.01
    noisy[160:, 160:] += 0.01 * (texture.MOST - 1)  # no more than is left alone
    np.testing.assert_array_equal(keep(noisy, smooth[part]), smooth[part])
    noisy[160:, 160:] += 0.001
    assert (keep(noisy, smooth[part]) != smooth[part])[171:, 171:].all()


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (48, 80)])
def test_too_few_cells_change_nothing(gravel, smooth, size):
    part = tuple(slice(40, 40 + side) for side in size)
    np.testing.assert_array_equal(keep(gravel[part], smooth[part]), smooth[part])


@pytest.mark.parametrize(("channels", "kind"), [(1, "grey"), (3, "colour")])
def test_the_denoiser_keeps_texture_in_a_picture_without_noise(
    rng, smooth, channels, kind
):
    clean = smooth[..., :channels].copy()
    clean[BLOB] += draw(rng, 0.015, (64, 64, channels))
    picture = np.rint(255 * np.clip(clean, 0, 1)).astype(np.uint8)
    auto, alone = sevnet_jax.load(), sevnet_jax.load(CAMERA[kind])

    def lose(restored):
        return find_level(images.to_float(restored) - images.to_float(picture))

    lost = lose(alone(picture))
    assert lost > 0.001
    assert lose(auto(picture, noise="camera")) < 0.3 * lost
    both = auto(picture, noise="camera", keep_texture=False)
    np.testing.assert_array_equal(both, alone(picture))
    white = auto(picture, noise="white")
    by_white = auto(picture, noise="white", keep_texture=False)
    np.testing.assert_array_equal(white, by_white)


def test_independent_channels_and_pages_keep_it_too(rng, smooth):
    clean = smooth[..., :2].copy()
    clean[BLOB] += draw(rng, 0.03, (64, 64, 2))
    picture = np.rint(255 * np.clip(clean, 0, 1)).astype(np.uint8)
    auto = sevnet_jax.load()
    planes = [auto(picture[..., i], noise="camera") for i in range(2)]
    options = {"noise": "camera", "channels": "independent"}
    np.testing.assert_array_equal(auto(picture, **options), np.stack(planes, -1))
    pages = auto(np.stack([picture, picture]), **options)
    np.testing.assert_array_equal(pages[1], np.stack(planes, -1))
    all_removed = auto(picture, **options, keep_texture=False)
    assert (all_removed != pages[0]).any()
