"""Grey or colour, white or camera noise: told apart by the image itself."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from sevnet_jax.inference.choose import (
    Choice,
    choose,
    measure_correlation,
    measure_sharing,
)


def draw_noise(rng, shape=(128, 160, 3), level=20):
    noisy = 128 + level * rng.standard_normal(shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def as_jpeg(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


@pytest.mark.parametrize("level", [1, 5, 20, 60])
@pytest.mark.parametrize("channels", [1, 3])
def test_white_noise_is_white(rng, level, channels):
    noisy = draw_noise(rng, (128, 160, channels), level)
    assert 1 <= measure_correlation(noisy) < 1.25
    assert choose(noisy).noise == "white"


@pytest.mark.parametrize("channels", [1, 3])
def test_white_noise_of_about_a_step_is_white(rng, channels):
    noisy = draw_noise(rng, (512, 512, channels), 0.7)  # most blocks may be rounding
    assert 1 <= measure_correlation(noisy) < 1.5
    assert choose(noisy).noise == "white"


@pytest.mark.parametrize(("channels", "quality"), [(1, 75), (3, 60)])
def test_what_jpeg_leaves_in_flat_places_is_not_white_noise(rng, channels, quality):
    level = np.where(np.arange(256) < 200, 1.5, 8)[None, :, None]
    ramp = np.add.outer(np.arange(256) / 30, np.arange(256) / 24)[..., None]
    for _ in range(10):
        noisy = 60 + ramp + level * rng.standard_normal((256, 256, channels))
        pixels = np.squeeze(np.rint(noisy).astype(np.uint8))
        image = as_jpeg(pixels, quality).reshape(noisy.shape)
        assert choose(image).noise == "camera"


def test_white_noise_is_white_in_small_images(rng):
    images = [draw_noise(rng, (32, 32, 3)) for _ in range(50)]
    assert sum(choose(image).noise == "camera" for image in images) <= 1


def test_noise_of_a_varying_level_is_white(rng):
    level = np.linspace(2, 50, 160)[None, :, None]
    assert choose(draw_noise(rng, level=level)).noise == "white"


@pytest.mark.parametrize(
    "correlate",
    [
        lambda image: ndimage.uniform_filter(image, (2, 2, 0)),
        lambda image: as_jpeg(image, 75),
        lambda image: np.asarray(Image.fromarray(image).resize((208, 166))),
    ],
    ids=["smoothed", "jpeg 75", "enlarged"],
)
def test_correlated_noise_is_a_cameras(rng, correlate):
    assert choose(correlate(draw_noise(rng))).noise == "camera"


@pytest.mark.parametrize(
    ("channels", "white", "camera"),
    [(1, (1.4, 1.7), (1.8, 2.1)), (3, (2, 2.4), (2.6, 3))],
)
def test_grey_images_may_have_less_correlation_than_colour(
    rng, channels, white, camera
):
    pattern = rng.standard_normal((256, 256, channels))
    for noise, (low, high) in {"white": white, "camera": camera}.items():
        for width in np.arange(0.3, 0.6, 0.005):
            smoothed = ndimage.gaussian_filter(pattern, (width, width, 0))
            image = np.rint(128 + 30 * smoothed).clip(0, 255).astype(np.uint8)
            if low < measure_correlation(image) < high:
                break
        else:
            pytest.fail(f"no width has a correlation of {low} to {high}")
        assert choose(image).noise == noise


@pytest.mark.parametrize("measure", [measure_correlation, measure_sharing])
def test_the_unit_does_not_matter(rng, measure):
    image = ndimage.uniform_filter(rng.uniform(size=(64, 64, 3)), (2, 2, 0))
    found = measure(image)
    for exponent in (-900, -3, 500):
        assert measure(image * 2.0**exponent) == found


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_noise_that_channels_share_is_measured(rng, share):
    own, common = rng.normal(size=(128, 160, 3)), rng.normal(size=(128, 160, 1))
    noise = np.sqrt(1 - share) * own + np.sqrt(share) * common
    noise *= [1.2, 1, 0.7]  # as in a toned scan
    assert measure_sharing(noise) == pytest.approx(share, abs=0.1)
    assert 1 <= measure_correlation(noise) < 1.25  # it is white from pixel to pixel
    choice = choose(noise)
    assert (choice.kind, choice.noise) == ("shared" if share else "colour", "white")


TONES = {
    "sepia": lambda grey: grey * [1, 0.9, 0.7] + 5,
    "low contrast": lambda grey: 100 + 0.1 * grey * [1, 0.9, 0.8],
    "curves": lambda grey: 255 * np.clip(grey / 255, 0, 1) ** [0.9, 1, 1.2],
    "one channel": lambda grey: grey * [1, 0, 0],
    "a constant channel": lambda grey: grey * [1, 0, 0.8] + [0, 80, 0],
}


@pytest.mark.parametrize("tone", TONES)
@pytest.mark.parametrize("noise", ["white", "camera"])
def test_toned_pictures_are_told_from_photos(rng, noise, tone):
    grey = np.linspace(20, 200, 160)[:, None] + draw_noise(rng, (128, 160, 1)) - 128
    if noise == "camera":
        grey = ndimage.uniform_filter(grey, (2, 2, 0))
    toned = TONES[tone](grey)
    choice = choose(toned)
    # With camera noise, a toned picture is told from a photo by an empty channel only.
    found = noise == "white" or "channel" in tone
    assert (choice.kind, choice.noise) == ("shared" if found else "colour", noise)
    for exponent in (-900, 500):
        assert choose(toned * 2.0**exponent) == choice


@pytest.mark.parametrize("smooth", [8, 0])
def test_cameras_share_the_finest_noise_only(rng, smooth):
    """JPEG keeps little of the differences of colours, and that is coarse."""
    noise = rng.normal(size=(128, 160, 1)) + np.zeros(3)
    own = rng.normal(size=(128, 160, 3))
    noise += smooth * ndimage.gaussian_filter(own, (2, 2, 0)) if smooth else 0
    assert measure_sharing(noise) > 0.9
    kinds = {8: ("colour", "camera"), 0: ("grey", "white")}  # the control
    choice = choose(noise)
    assert (choice.kind, choice.noise) == kinds[smooth]


def test_channels_without_noise_do_not_count(rng):
    image = np.zeros((64, 64, 3))
    assert measure_sharing(image) == 0
    image[..., 1] = rng.normal(size=(64, 64))
    assert measure_sharing(image) == 1
    assert measure_sharing(image[..., 1:2]) == 0  # grey
    image[..., 2] = rng.normal(size=(64, 64))
    assert measure_sharing(image) < 0.15


def test_each_of_independent_channels_decides_by_itself(rng):
    white = draw_noise(rng, (128, 160, 5))
    smooth = ndimage.uniform_filter(white[..., :2], (2, 2, 0))
    choice = choose(np.concatenate([smooth, white], -1))
    assert [part.noise for part in choice.parts] == 2 * ["camera"] + 5 * ["white"]
    assert (choice.kind, choice.noise, choice.passes) == ("independent", "both", 7)
    text = "independent channels, 5 with white and 2 with camera noise"
    assert str(choice) == text
    assert str(choose(white)) == "independent channels, white noise"
    assert {part.noise for part in choose(white, "camera").parts} == {"camera"}


def test_what_is_said_is_not_measured(rng):
    noisy = draw_noise(rng)
    choice = choose(noisy, "camera")
    assert (choice.noise, choice.correlation) == ("camera", None)
    with pytest.raises(ValueError, match="noise must be one of auto, white, camera"):
        choose(noisy, "grey")
    with pytest.raises(ValueError, match="channels must be one of"):
        choose(noisy, channels="3")


@pytest.mark.parametrize(
    ("count", "channels", "kind"),
    [
        (1, "auto", "grey"),
        (2, "auto", "grey"),
        (3, "auto", "colour"),
        (4, "auto", "colour"),
        (5, "auto", "independent"),
        (1, "independent", "grey"),
        (3, "independent", "independent"),
        (4, "independent", "independent"),
    ],
)
def test_kinds(rng, count, channels, kind):
    assert choose(draw_noise(rng, (32, 32, count)), channels=channels).kind == kind


@pytest.mark.parametrize("count", [3, 4])
def test_equal_channels_are_grey(rng, count):
    image = draw_noise(rng, (32, 32, count))
    image[..., :3] = image[..., :1]
    assert choose(image).kind == "grey"
    image[5, 7, 2] ^= 1  # one pixel of colour
    for noise in ("auto", "white", "camera"):
        assert choose(image, noise).kind == "shared"


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 300, 3), (16, 16, 1), (64, 64, 3)])
@pytest.mark.parametrize("value", [0, 128, 255])
def test_where_there_is_nothing_to_tell_it_is_white(shape, value):
    choice = choose(np.full(shape, value, np.uint8))
    assert (choice.noise, choice.clipped) == ("white", False)


def test_clipping_is_undone_under_white_noise(rng):
    noisy = draw_noise(rng, level=60)
    assert choose(noisy).clipped
    assert not choose(noisy, "camera").clipped
    assert choose(noisy, "camera", clipped=True).clipped


@pytest.mark.parametrize(
    ("tone", "undone"), [([1, 0.9, 0.7], False), ([1, 1, 1], True), ([1, 0, 0], True)]
)
def test_toned_highlights_keep_their_tone(rng, tone, undone):
    """Only red reaches white in sepia: it alone would become brighter."""
    grey = draw_noise(rng, (128, 160, 1), level=60)
    toned = np.rint(grey * np.array(tone)).astype(np.uint8)
    toned[0, 0, 1] ^= 1  # or equal channels would be grey
    toned[..., 1] *= np.uint8(tone[1] > 0)
    choice = choose(toned)
    assert (choice.kind, choice.clipped) == ("shared", undone)
    assert choose(toned, clipped=True).clipped


@pytest.mark.parametrize("value", [0, 255])
def test_an_empty_channel_is_not_a_clipped_one(rng, value):
    image = np.clip(rng.normal(128, 20, (128, 160, 3)), 1, 254).astype(np.uint8)
    image[..., 2] = value
    choice = choose(image)
    assert choice.kind == "shared"
    assert not choice.clipped
    image[:, :80, 0] = 255  # nothing but the empty channel made the difference
    assert choose(image, clipped=True).clipped


@pytest.mark.parametrize("offsets", [(0, 40, 90), (0, 5, 9)], ids=["bright", "dark"])
def test_rounding_is_not_taken_for_noise_that_channels_share(rng, offsets):
    ramp = 20 + np.add.outer(np.arange(160) / 7, np.arange(160) / 9)
    rounded = np.rint(ramp)[..., None] + np.array(offsets)
    assert measure_sharing(rounded.astype(np.uint8)) == 0
    assert measure_sharing(rounded) > 0.9  # of floats nobody knows the steps
    grain = rng.normal(0, 3, ramp.shape)
    noisy = np.rint(ramp + grain)[..., None] + np.array(offsets)
    assert measure_sharing(noisy.astype(np.uint8)) > 0.9
    noisy[:32] = rounded[:32]  # a quiet border does not hide it
    assert measure_sharing(noisy.astype(np.uint8)) > 0.9


def test_files_of_16_bits_have_finer_steps(rng):
    ramp = 20 + np.add.outer(np.arange(160) / 7, np.arange(160) / 9)
    grain = (ramp + rng.normal(0, 0.4, ramp.shape))[..., None] + np.array([0, 40, 90])
    assert measure_sharing((257 * grain).astype(np.uint16)) > 0.9
    rounded = (np.rint(grain) + rng.integers(0, 2, grain.shape)).astype(np.uint16)
    as_8_bit = measure_sharing(rounded.astype(np.uint8))
    assert measure_sharing(257 * rounded) == as_8_bit  # with the steps of 8 bits


def test_a_smooth_jpeg_with_little_colour_is_a_cameras(rng):
    smooth = 60 + 40 * np.sin(np.arange(256) / 40)[:, None] + np.zeros(256)
    grain = rng.normal(0, 5, smooth.shape)
    image = as_jpeg(np.rint(smooth + grain)[..., None].repeat(3, -1).astype("u1"), 75)
    image = image.copy()
    image[240:250, 200:240] = 255, 120, 0
    assert choose(image).noise == "camera"


def test_a_choice_says_why():
    text = str(Choice("grey", "camera", True, 2.71, 0))
    assert text == "grey, camera noise (correlation 2.7), clipping undone"
    text = str(Choice("shared", "white", False, 1.04, 0.961))
    assert text.startswith("colour, channel by channel, white noise (")
    assert text.endswith("(correlation 1.0, 96% the same in all channels)")
    assert "(correlation over 99)" in str(Choice("colour", "camera", False, 1e27))
    assert Choice("grey", "camera", True, 2.71).what == (
        "grey, camera noise, clipping undone"
    )
    text = str(Choice("independent", "white", False))
    assert text == "independent channels, white noise"
