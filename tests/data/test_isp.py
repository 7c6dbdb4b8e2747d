"""Camera noise: each step against an oracle, and the noise as strong as stated."""

import math

import numpy as np
import pytest

from sevnet_jax.data import isp, noise, postprocessing

GREEN = np.array(
    [
        [0, 0, -1, 0, 0],
        [0, 0, 2, 0, 0],
        [-1, 2, 4, 2, -1],
        [0, 0, 2, 0, 0],
        [0, 0, -1, 0, 0],
    ]
)
ALONG_ROW = np.array(
    [
        [0, 0, 0.5, 0, 0],
        [0, -1, 0, -1, 0],
        [-1, 4, 5, 4, -1],
        [0, -1, 0, -1, 0],
        [0, 0, 0.5, 0, 0],
    ]
)
OPPOSITE = np.array(
    [
        [0, 0, -1.5, 0, 0],
        [0, 2, 0, 2, 0],
        [-1.5, 0, 6, 0, -1.5],
        [0, 2, 0, 2, 0],
        [0, 0, -1.5, 0, 0],
    ]
)


def demosaic_pixel_by_pixel(raw, pattern):
    """Malvar's rules in words: which kernel, at which site, for which channel."""
    padded = np.pad(raw, 2, mode="reflect")
    image = np.empty((*raw.shape, 3))
    for y in range(raw.shape[0]):
        for x in range(raw.shape[1]):
            window = padded[y : y + 5, x : x + 5]
            here = pattern[y % 2, x % 2]
            for channel in range(3):
                if channel == here:
                    kernel = np.zeros((5, 5))
                    kernel[2, 2] = 8
                elif channel == 1:
                    kernel = GREEN
                elif here == 1:
                    in_row = pattern[y % 2, 1 - x % 2] == channel
                    kernel = ALONG_ROW if in_row else ALONG_ROW.T
                else:
                    kernel = OPPOSITE
                image[y, x, channel] = (kernel * window).sum() / 8
    return image


@pytest.mark.parametrize("pattern", isp.BAYER, ids=["RGGB", "GRBG", "GBRG", "BGGR"])
@pytest.mark.parametrize("shape", [(8, 8), (9, 11), (16, 7)])
def test_demosaic_equals_the_kernels_pixel_by_pixel(pattern, shape):
    raw = np.random.RandomState(0).uniform(size=shape)
    expected = demosaic_pixel_by_pixel(raw, pattern)
    np.testing.assert_allclose(isp.demosaic(raw, pattern), expected, atol=1e-12)


def test_the_four_patterns_are_the_four_shifts_of_one():
    shifts = [np.roll(isp.BAYER[0], (y, x), (0, 1)) for y in (0, 1) for x in (0, 1)]
    assert {s.tobytes() for s in shifts} == {p.tobytes() for p in isp.BAYER}


def test_demosaic_alone_on_kodak(load_set):
    """33.9 dB over the set's pixels: sRGB values, RGGB, whole images."""
    errors = []
    for clean in load_set("test/Kodak24"):
        restored = isp.demosaic(isp.mosaic(clean, isp.BAYER[0]), isp.BAYER[0])
        errors.append(np.mean((np.clip(restored, 0, 1) - clean) ** 2, dtype=np.float64))
    assert -10 * math.log10(np.mean(errors)) == pytest.approx(33.9, abs=0.05)


def test_without_noise_the_image_comes_back_exactly(rng_image):
    law = isp.Isp(shot=0.0, jpeg=0.0)
    for seed in range(8):
        np.testing.assert_array_equal(
            noise.sample(law, rng_image, seed=seed), rng_image
        )


@pytest.fixture
def rng_image():
    coarse = np.random.RandomState(1).uniform(size=(9, 12, 3)).astype(np.float32)
    return np.kron(coarse, np.ones((8, 8, 1), np.float32))


def test_jpeg_comes_with_probability_one_half(rng_image):
    law = isp.Isp(shot=0.0)
    untouched = [
        np.array_equal(noise.sample(law, rng_image, seed=seed), rng_image)
        for seed in range(200)
    ]
    assert np.mean(untouched) == pytest.approx(0.5, abs=0.12)
    compressed = noise.sample(isp.Isp(shot=0.0, jpeg=1.0), rng_image, seed=0)
    assert 0 < np.abs(compressed - rng_image).mean() < 0.05


def crops(images, size=128):
    """The centre and four corners' crops of each image."""
    for image in images:
        height, width = (side - size for side in image.shape[:2])
        for y, x in [(0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5)]:
            top, left = int(y * height), int(x * width)
            yield image[top : top + size, left : left + size]


@pytest.mark.parametrize("with_curves", [False, True])
def test_levels_spread_as_stated(with_curves, load_set, image_sets):
    """25.6 dB in the mean; a tenth below 17, half below 25, a tenth above 35."""
    curves = str(image_sets / "crf" / "201_CRF_data.mat") if with_curves else None
    levels = []
    for i, clean in enumerate(crops(load_set("test/Kodak24"))):
        noisy = noise.sample(isp.Isp(curves), clean, seed=(0, i))
        levels.append(-10 * math.log10(np.mean((noisy - clean) ** 2)))
    assert np.mean(levels) == pytest.approx(25.6, abs=0.5)
    spread = np.percentile(levels, [10, 50, 90])
    np.testing.assert_allclose(spread, [17, 25, 35], atol=0.5)


def test_noise_is_correlated_in_space_and_between_channels():
    """White noise has none: 3 standard errors of a correlation here are 0.03."""
    clean = np.full((128, 128, 3), 0.5, np.float32)
    law = isp.Isp(jpeg=0.0)
    beside, across = [], []
    for seed in range(8):
        n = noise.sample(law, clean, seed=seed) - clean
        beside.append(np.corrcoef(n[:, 1:, 0].ravel(), n[:, :-1, 0].ravel())[0, 1])
        across.append(np.corrcoef(n[..., 0].ravel(), n[..., 1].ravel())[0, 1])
    assert np.mean(beside) > 0.15
    assert np.mean(np.abs(across)) > 0.05


class Fixed:
    """A `draw` that gives the same value each time."""

    def __init__(self, value):
        self.value = value

    def uniform(self, shape, low, high):
        return np.full(shape, low + self.value * (high - low), np.float32)

    def normal(self, shape):
        return np.full(shape, self.value, np.float32)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_raw_variance_is_affine_in_the_light(value):
    raw = np.array([0.0, 0.3, 1.0], np.float32)
    sigma = isp.Isp()._sigma(raw, Fixed(value))
    shot = 10 ** (-4 + 2 * value)
    read = math.exp(2.2 * math.log(shot) + 1.2 + 0.26 * value)
    np.testing.assert_allclose(sigma**2, shot * raw + read, rtol=1e-4)


def test_colour_matrices_keep_grey():
    for seed in range(5):
        matrix = isp._rgb_to_camera(noise.NumpyDraw(seed))
        np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-6)
        assert np.linalg.cond(matrix) < 20


def test_every_measured_curve_and_its_inverse_cancel(image_sets):
    law = isp.Isp(str(image_sets / "crf" / "201_CRF_data.mat"))
    light = np.linspace(0, 1, 1001, dtype=np.float32)
    for value in np.linspace(0, 1, 202):
        to_light, to_image = law._response(Fixed(value))
        image = to_image(light)
        np.testing.assert_allclose(to_image(to_light(image)), image, atol=2e-3)


def test_a_file_without_curves_is_named(tmp_path):
    path = tmp_path / "other.mat"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"other\.mat"):
        isp.Isp(str(path))


@pytest.mark.parametrize("shot", [-1.0, float("nan"), float("inf")])
def test_bad_shot_noise_is_named(shot):
    with pytest.raises(ValueError, match=str(shot)):
        isp.Isp(shot=shot)


@pytest.mark.parametrize("value", [1e-7, 1.0])
def test_the_ends_of_every_draw_are_usable(value):
    """float32 rounds the largest uniform numbers to 1."""
    clean = np.full((8, 8, 3), 0.5, np.float32)
    assert np.isfinite(isp.Isp()(clean, Fixed(value))).all()


def test_every_pattern_gain_and_quality_is_drawn(monkeypatch):
    seen = {"pattern": set(), "quality": set(), "gains": []}
    demosaic = isp.demosaic

    def record_pattern(raw, pattern):
        seen["pattern"].add(pattern.tobytes())
        return demosaic(raw, pattern)

    def record_quality(image, quality):
        seen["quality"].add(quality)
        return image

    def record_gains(pattern, height, width):
        if pattern.dtype == np.float32:
            seen["gains"].append(pattern)
        return tile(pattern, height, width)

    tile = isp._tile
    monkeypatch.setattr(isp, "demosaic", record_pattern)
    monkeypatch.setattr(postprocessing, "compress", record_quality)
    monkeypatch.setattr(isp, "_tile", record_gains)
    clean = np.full((4, 4, 3), 0.5, np.float32)
    for seed in range(600):
        noise.sample(isp.Isp(jpeg=1.0), clean, seed=seed)
    assert seen["pattern"] == {pattern.tobytes() for pattern in isp.BAYER}
    assert seen["quality"] == set(range(60, 101))
    gains = np.array(seen["gains"])
    assert 0.75 <= gains.min() < 0.76
    assert (np.sort(gains.reshape(-1, 4))[:, 2:] == 1).all()


def test_the_chain_is_the_stated_one_step_by_step():
    """Every step written out, with draws that are all one half."""
    clean = np.random.RandomState(1).uniform(0.1, 0.9, (6, 6, 3)).astype(np.float32)
    gamma = 2.15
    encoded = clean.astype(np.float64) ** gamma
    linear = np.where(
        encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4
    )
    xyz_to_camera = np.array(
        [
            [
                1.0234,
                -0.2969,
                -0.2266,
                -0.5625,
                1.6328,
                -0.0469,
                -0.0703,
                0.2188,
                0.6406,
            ],
            [0.4913, -0.0541, -0.0202, -0.613, 1.3513, 0.2906, -0.1564, 0.2151, 0.7183],
            [0.838, -0.263, -0.0639, -0.2887, 1.0725, 0.2496, -0.0627, 0.1427, 0.5438],
            [0.6596, -0.2079, -0.0562, -0.4782, 1.3016, 0.1933, -0.097, 0.1581, 0.5181],
        ]
    ).mean(0)
    rgb_to_xyz = np.array(
        [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    )
    matrix = xyz_to_camera.reshape(3, 3) @ rgb_to_xyz
    matrix /= matrix.sum(1, keepdims=True)
    pattern = isp.BAYER[2]
    gains = np.tile(np.array([0.875, 1, 0.875])[pattern], (3, 3))
    raw = isp.mosaic(linear @ matrix.T, pattern) * gains
    shot = 1e-3
    read = np.exp(2.2 * np.log(shot) + 1.2 + 0.26 * 0.5)
    noisy_raw = raw + 0.5 * np.sqrt(shot * raw + read)

    def develop(raw):
        camera = isp.demosaic(raw / gains, pattern)
        light = np.clip(camera @ np.linalg.inv(matrix).T, 0, 1)
        curve = 1.055 * light ** (1 / 2.4) - 0.055
        return np.where(light <= 0.0031308, 12.92 * light, curve) ** (1 / gamma)

    expected = np.clip(clean + develop(noisy_raw) - develop(raw), 0, 1)
    got = isp.Isp(jpeg=0.0)(clean, Fixed(0.5))
    np.testing.assert_allclose(got, expected, atol=2e-3)
    assert np.abs(expected - clean).max() > 0.02


@pytest.mark.parametrize("jpeg", [-1, 7, float("nan")])
def test_a_jpeg_share_that_is_no_probability_is_named(jpeg):
    with pytest.raises(ValueError, match="probability"):
        isp.Isp(jpeg=jpeg)


def test_a_grey_image_is_a_grey_scene(rng_image):
    """The noise of its photo is the luminance of a colour camera's noise."""
    grey = rng_image[..., :1]
    law = isp.Isp(jpeg=0.0)
    found = noise.sample(law, grey, seed=3)
    assert (found.shape, found.dtype) == (grey.shape, grey.dtype)
    photo = noise.sample(law, np.repeat(grey, 3, -1), seed=3)
    expected = photo @ np.array([[0.299], [0.587], [0.114]], np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found - grey).mean() > 1e-3
    with pytest.raises(ValueError, match="a camera has 1 or 3 channels"):
        law(rng_image[..., :2], noise.NumpyDraw(0))


def test_a_wide_range_has_weaker_noise_too(rng_image):
    def measure(law):
        noisy = (noise.sample(law, rng_image, seed=seed) for seed in range(60))
        return np.percentile([np.abs(i - rng_image).mean() for i in noisy], [20, 95])

    wide, strong = measure(isp.Isp(jpeg=0.0, least_shot=1e-6)), measure(isp.Isp(jpeg=0))
    assert wide[0] < strong[0] / 3
    assert wide[1] == pytest.approx(strong[1], rel=0.5)


@pytest.mark.parametrize("least", [0.0, -1.0, 0.1])
def test_a_wrong_range_is_refused(least):
    with pytest.raises(ValueError, match="least_shot must be in"):
        isp.Isp(least_shot=least)
