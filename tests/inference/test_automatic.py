"""Every kind of image that people bring is restored, by no less than is promised.

An input from which nothing is removed must never ship again: each kind has its floor.
"""

import numpy as np
import pytest

import sevnet_jax
from sevnet_jax import images, metrics
from sevnet_jax.data import noise, postprocessing
from sevnet_jax.inference.automatic import CAMERA, WEIGHTS
from sevnet_jax.inference.denoiser import blend

SIDE = 128


@pytest.fixture(scope="module")
def denoise():
    return sevnet_jax.load()


@pytest.fixture(scope="module")
def colour(project):
    """A part of a photo, uint8 [SIDE, SIDE, 3]."""
    photo = images.read_pixels(project / "samples" / "parrots_clean.png")
    return photo[64 : 64 + SIDE, 64 : 64 + SIDE]


@pytest.fixture(scope="module")
def grey(colour):
    return images.to_channels(colour, 1)


def add_noise(clean, law="gaussian:25"):
    """8-bit pixels under noise, as files have it: clipped and rounded."""
    noisy = noise.sample(noise.parse(law), images.to_float(clean), seed=3, clip=True)
    return metrics.to_rgb8(noisy)


def measure_gain(noisy, restored, clean):
    """By how many dB the restored image is nearer to the clean one."""
    assert (restored.shape, restored.dtype) == (noisy.shape, noisy.dtype)
    errors = [np.mean(np.square(i - clean.astype(float))) for i in (noisy, restored)]
    return 10 * np.log10(errors[0] / errors[1])


GREY_FORMS = {
    "plane": lambda i: i[..., 0],
    "one channel": lambda i: i,
    "equal channels": lambda i: np.repeat(i, 3, -1),
    "with alpha": lambda i: np.concatenate([i, np.full_like(i, 255)], -1),
    "equal channels with alpha": lambda i: np.concatenate(
        [np.repeat(i, 3, -1), np.full_like(i, 255)], -1
    ),
    "pages": lambda i: np.stack([i, i[::-1]]),
    "float32": lambda i: i.astype(np.float32) / 255,
    "float64, other unit": lambda i: i.astype(np.float64) * 1e-9,
    "16 bit": lambda i: i.astype(np.uint16) * 257,
    "12 in 16 bit": lambda i: i.astype(np.uint16) * 16,
}


@pytest.mark.parametrize("form", GREY_FORMS)
def test_grey(denoise, grey, form):
    noisy, clean = (GREY_FORMS[form](i) for i in (add_noise(grey), grey))
    assert measure_gain(noisy, denoise(noisy), clean) > 7


def test_grey_by_the_colour_weights_is_the_control(denoise, grey):
    """What was shipped once: it removes nothing."""
    by_colour = sevnet_jax.load(WEIGHTS["colour"])
    noisy = add_noise(grey)
    assert measure_gain(noisy, by_colour(noisy), grey) < 3


COLOUR_FORMS = {
    "8 bit": lambda i: i,
    "with alpha": lambda i: np.concatenate([i, np.full_like(i[..., :1], 9)], -1),
    "pages": lambda i: np.stack([i, i[::-1]]),
    "float16": lambda i: i.astype(np.float16),
    "float32": lambda i: i.astype(np.float32) / 255,
    "16 bit": lambda i: i.astype(np.uint16) * 257,
}


@pytest.mark.parametrize("form", COLOUR_FORMS)
def test_colour(denoise, colour, form):
    noisy, clean = (COLOUR_FORMS[form](i) for i in (add_noise(colour), colour))
    assert measure_gain(noisy, denoise(noisy), clean) > 8


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_independent_channels(denoise, colour, count):
    clean = np.concatenate([colour, colour[::-1], colour[:, ::-1]], -1)[..., :count]
    noisy = add_noise(clean)
    restored = denoise(noisy, channels="independent")
    assert measure_gain(noisy, restored, clean) > 6
    one = denoise(noisy[..., -1], channels="independent")
    np.testing.assert_array_equal(restored[..., -1], one)


def test_independent_channels_have_weights_of_their_own(denoise, grey):
    """A stack of which some planes were enlarged: the first one does not decide."""
    laws = ["gaussian:25", "enlarged:gaussian:20", "gaussian:25", "gaussian:25"]
    clean = np.repeat(grey, len(laws), -1)
    noisy = np.concatenate([add_noise(grey, law) for law in laws], -1)
    restored = denoise(noisy, channels="independent")
    assert denoise.choose(noisy, channels="independent").noise == "both"
    for i in range(len(laws)):
        np.testing.assert_array_equal(restored[..., i], denoise(noisy[..., i]))
    as_first = denoise(noisy[..., 1], noise=denoise.choose(noisy[..., 0]).noise)
    gains = [
        measure_gain(noisy[..., 1], found, clean[..., 1])
        for found in (restored[..., 1], as_first)
    ]
    assert gains[0] > gains[1] + 1  # the control: what was shipped


@pytest.mark.parametrize("law", ["film", "film:jpeg"])
def test_film_grain(denoise, colour, law):
    """Noise of a colour photo that is the same in all channels."""
    grain = 50 * np.random.RandomState(3).standard_normal((SIDE, SIDE, 1))
    noisy = metrics.to_rgb8((colour + grain) / 255)
    if law == "film:jpeg":
        noisy = metrics.to_rgb8(postprocessing.compress(images.to_float(noisy), 90))
    assert denoise.choose(noisy).kind == "shared"
    gain = measure_gain(noisy, denoise(noisy), colour)
    assert gain > 6
    by_camera = sevnet_jax.load(CAMERA["colour"])(noisy)
    assert gain > measure_gain(noisy, by_camera, colour) + 0.3  # the control


@pytest.mark.parametrize("channels", ["auto", "independent"])
@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_every_strength_is_a_blend(denoise, request, kind, channels):
    noisy = add_noise(request.getfixturevalue(kind))
    noisy = np.broadcast_to(noisy, (SIDE, SIDE, 3))
    full = denoise(noisy, channels=channels)
    half = denoise(noisy, channels=channels, strength=0.5)
    np.testing.assert_array_equal(half, blend(noisy, full, 0.5))


@pytest.mark.parametrize(
    ("law", "floor"),
    [("speckle:90", 9), ("mixture", 9), ("gaussian:50", 10), ("gaussian:5", 2)],
)
@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_other_noise(denoise, request, kind, law, floor):
    clean = request.getfixturevalue(kind)
    noisy = add_noise(clean, law)
    assert measure_gain(noisy, denoise(noisy), clean) > floor - (kind == "grey")


# Noise that is not white, and what is gained at least, in colour and in grey.
OTHERS = {
    "isp": (3.5, 2.5),
    "jpeg:enlarged:gaussian:20": (2, 1),
    "enlarged:gaussian:20": (3, 1),
}


@pytest.mark.parametrize("law", OTHERS)
@pytest.mark.parametrize("kind", ["colour", "grey"])
def test_noise_that_is_not_white(denoise, request, kind, law):
    clean = request.getfixturevalue(kind)
    noisy = add_noise(clean, law)
    choice = denoise.choose(noisy)
    assert (choice.kind, choice.noise) == (kind, "camera")
    gain = measure_gain(noisy, denoise(noisy), clean)
    assert gain > OTHERS[law][kind == "grey"]
    as_white = denoise(noisy, noise="white", clipped=False)
    assert gain > 1 + measure_gain(noisy, as_white, clean)  # the control


@pytest.mark.parametrize("quality", [70, 95])
def test_jpeg_of_a_noisy_photo(denoise, colour, quality):
    clean = images.to_float(colour)
    noisy = noise.sample(noise.parse("gaussian:20"), clean, seed=3, clip=True)
    noisy = metrics.to_rgb8(postprocessing.compress(noisy, quality))
    assert measure_gain(noisy, denoise(noisy), colour) > 2.5
    assert measure_gain(noisy, denoise(noisy, noise="white"), colour) < 1


@pytest.mark.parametrize("alpha", [False, True])
def test_a_toned_grey_picture(denoise, grey, alpha):
    """Its noise is the same in all channels, but for a factor."""
    tone = np.array([1, 0.9, 0.7])
    noisy, clean = (metrics.to_rgb8(i / 255 * tone) for i in (add_noise(grey), grey))
    if alpha:
        clean, noisy = (np.dstack([i, noisy[..., 0]]) for i in (clean, noisy))
    choice = denoise.choose(noisy)
    assert (choice.kind, choice.noise) == ("shared", "white")
    restored = denoise(noisy)
    assert measure_gain(noisy, restored, clean) > 6
    assert measure_gain(noisy, denoise(noisy, noise="white"), clean) > 6
    if alpha:
        np.testing.assert_array_equal(restored[..., 3], noisy[..., 3])
    by_colour = sevnet_jax.load(WEIGHTS["colour"])(noisy)
    assert measure_gain(noisy, by_colour, clean) < 2  # the control: what was shipped


def test_clean_images_stay(denoise, grey, colour):
    assert metrics.psnr(denoise(grey), grey) > 45
    assert metrics.psnr(denoise(colour), colour) > 45
    assert metrics.psnr(denoise(colour, noise="white"), colour) > 44


@pytest.mark.parametrize(
    "image",
    [
        np.full((1, 1), 7, np.uint8),
        np.zeros((40, 24, 3), np.uint8),
        np.full((24, 40, 3), 255, np.uint8),
        np.zeros((0, 8, 8, 3), np.float32),
    ],
    ids=["one pixel", "black", "white", "no pages"],
)
def test_what_has_no_noise_stays(denoise, image):
    np.testing.assert_array_equal(denoise(image), image)


def test_one_colour_stays(denoise):
    image = np.full((24, 40, 3), [10, 200, 30], np.uint8)
    np.testing.assert_array_equal(denoise(image), image)
    by_colour = sevnet_jax.load(WEIGHTS["colour"])(image)
    assert 5 < np.abs(by_colour.astype(int) - image).max() <= 20  # docs/weights.md


def test_an_empty_channel_spoils_nothing(denoise, grey):
    """Fluorescence in one channel, or in two."""
    for tone in ([1, 0, 0], [1, 0, 0.8]):
        clean, noisy = (
            metrics.to_rgb8(i / 255 * np.array(tone)) for i in (grey, add_noise(grey))
        )
        assert metrics.psnr(denoise(clean), clean) > 45
        gain = measure_gain(noisy, denoise(noisy), clean)
        by_colour = sevnet_jax.load(CAMERA["colour"])(noisy)
        assert gain > 6
        assert gain > measure_gain(noisy, by_colour, clean) + 1  # what was shipped


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        (np.full((8, 8, 3), np.nan), {}, "192 of 192 values are NaN or infinite"),
        (np.zeros((8, 8, 3), np.int64), {}, "got int64"),
        (np.zeros(8), {}, "an image is"),
        (np.zeros((3, 16, 24)), {}, r"channels come last.* got \(3, 16, 24\)"),
        (np.zeros((8, 8, 3)), {"noise": "pink"}, "noise must be one of"),
        (np.zeros((8, 8, 3)), {"strength": 2}, "strength must be 0 to 1"),
    ],
)
def test_what_is_wrong_is_said(denoise, image, options, message):
    with pytest.raises(ValueError, match=message):
        denoise(image, **options)


def test_a_flat_image_of_many_channels_is_taken_if_it_is_named(denoise):
    flat = np.zeros((3, 8, 5), np.float32)
    np.testing.assert_array_equal(denoise(flat, channels="independent"), flat)


@pytest.mark.parametrize("shape", [(), (8,), (2, 8, 8, 3), (8, 0)])
def test_one_image_is_chosen_for_at_a_time(denoise, shape):
    with pytest.raises(ValueError, match=r"(one|an) image .* got \("):
        denoise.choose(np.zeros(shape))
