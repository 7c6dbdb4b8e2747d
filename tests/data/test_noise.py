"""Every law has the mean and spread that its formula states, and the tables' levels."""

import collections
import io
import math

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from sevnet_jax import metrics
from sevnet_jax.data import noise

# Mean PSNR in dB of the noisy image, in the order of PAPER_COLUMNS.
CHECK_VALUES = {
    "Kodak24": "22.11 16.88 14.64 13.79 16.39 14.66 13.35 11.40 13.61 13.94 13.37 "
    "14.78 13.03 12.39 12.28 12.51 12.08",
    "CBSD68": "22.11 17.04 14.82 13.97 16.56 14.84 13.53 11.56 13.80 14.11 13.52 "
    "14.95 13.18 12.53 12.43 12.64 12.21",
}


def noisy_psnr(name: str, clean: np.ndarray, seed: tuple[int, int]) -> float:
    in_distribution = name.startswith("gaussian")
    noisy = noise.sample(noise.parse(name), clean, seed=seed, clip=not in_distribution)
    if in_distribution:  # its column is measured unclipped, so not on 8-bit pixels
        return -10 * math.log10(np.mean((noisy.astype(np.float64) - clean) ** 2))
    return metrics.psnr(metrics.to_rgb8(noisy), metrics.to_rgb8(clean))


@pytest.mark.parametrize(
    ("image_set", "every"),
    [
        ("Kodak24", 3),
        pytest.param("Kodak24", 1, marks=pytest.mark.slow),
        pytest.param("CBSD68", 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("column", range(len(noise.PAPER_COLUMNS)))
def test_reproduces_the_check_values(image_set, every, column, load_set):
    """Every third row and column will do: the laws know no neighbours."""
    name = noise.PAPER_COLUMNS[column]
    images = [x[::every, ::every] for x in load_set(f"test/{image_set}")]
    mean = np.mean([noisy_psnr(name, x, (0, i)) for i, x in enumerate(images)])
    expected = float(CHECK_VALUES[image_set].split()[column])
    assert mean == pytest.approx(expected, abs=0.05)


def mean_level_8bit(number: int) -> tuple[float, float]:
    """The mean of phi and of phi^2 over a level map, by hand."""
    from sevnet_jax.data import maps

    phi = 60 + 60 * maps.level_map(number, 256, 256).astype(np.float64)
    return phi.mean(), (phi**2).mean()


# name -> variance of the noise at intensity x
VARIANCES = {
    "gaussian:20": lambda x: (20 / 255) ** 2,
    "speckle:60": lambda x: (60 / 255) ** 2 * x,
    "speckle*:60": lambda x: 2 * (60 / 255) ** 2 * x,
    "poisson:6": lambda x: 36 * x / 256,
    "mixture": lambda x: (90 / 255) ** 2 * x + 36 * x / 256,
    "variant1": lambda x: mean_level_8bit(1)[1] / 255**2 * x,
    "variant2": lambda x: mean_level_8bit(2)[1] / 255**2 * x,
    "variant3*": lambda x: 2 * mean_level_8bit(3)[1] / 255**2 * x,
}


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("x", [0.0, 0.04, 0.25, 0.81])
def test_flat_field_keeps_its_mean_and_has_the_stated_variance(name, x):
    """At 0.04 the square root is 5 times the intensity: x for sqrt(x) cannot pass."""
    clean = np.full((256, 256, 3), x, np.float32)
    noisy = noise.sample(noise.parse(name), clean, seed=3, clip=False)
    difference = noisy.astype(np.float64) - clean
    variance = VARIANCES[name](x)
    assert difference.mean() == pytest.approx(0, abs=5 * (variance / clean.size) ** 0.5)
    assert difference.var() == pytest.approx(variance, rel=0.04, abs=1e-12)


def test_a_range_of_levels_is_drawn_once_an_image():
    clean = np.full((128, 128, 3), 0.5, np.float32)
    law = noise.parse("gaussian:5-20")
    stds = [
        np.std(noise.sample(law, clean, seed=(0, i), clip=False) - clean) * 255
        for i in range(200)
    ]
    assert 4.9 < min(stds) < 6
    assert 19 < max(stds) < 20.1
    assert np.mean(stds) == pytest.approx(12.5, abs=1)


def test_laplace_base_has_laplace_tails():
    clean = np.ones((256, 256, 3), np.float32)
    n = noise.sample(noise.parse("speckle*:60"), clean, seed=0, clip=False) - clean
    kurtosis = np.mean(n.astype(np.float64) ** 4) / np.var(n) ** 2
    assert kurtosis == pytest.approx(6, rel=0.05)


def test_channels_are_independent():
    clean = np.full((256, 256, 3), 0.5, np.float32)
    for name in noise.PAPER_COLUMNS:
        n = noise.sample(noise.parse(name), clean, seed=0, clip=False) - clean
        correlation = np.corrcoef(n.reshape(-1, 3), rowvar=False)
        assert np.abs(correlation - np.eye(3)).max() < 0.02, name


def test_shared_noise_has_its_level_in_each_channel_and_every_share():
    clean = np.full((64, 64, 3), 0.5, np.float32)
    law = noise.parse("shared:20")
    shares = []
    for seed in range(40):
        n = noise.sample(law, clean, seed=seed, clip=False) - clean
        np.testing.assert_allclose(n.std((0, 1)) * 255, 20, rtol=0.06)
        found = np.corrcoef(n.reshape(-1, 3), rowvar=False)[np.triu_indices(3, 1)]
        assert np.ptp(found) < 0.06
        shares.append(found.mean())
    assert min(shares) < 0.1
    assert max(shares) > 0.9
    assert np.mean(shares) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("channels", [1, 3])
def test_compressed_noise_is_what_a_jpeg_file_has(rng, channels):
    clean = rng.uniform(size=(24, 17, channels)).astype(np.float32)
    noisy = noise.sample(noise.parse("jpeg:gaussian:60"), clean, seed=3)
    draw = noise.NumpyDraw(3)
    expected = np.clip(noise.Gaussian(60)(clean, draw), 0, 1)
    quality = 60 + int(draw.uniform((), 0, 1) * 41)
    mode = {1: "L", 3: "RGB"}[channels]
    pixels = np.rint(expected * 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(), mode).save(file, "JPEG", quality=quality)
    read = np.asarray(Image.open(file)).reshape(clean.shape)
    np.testing.assert_array_equal(np.rint(noisy * 255), read)
    assert np.abs(noisy - expected).max() > 0.01  # the control: it changes the image


def test_enlarged_noise_has_a_larger_grain_and_leaves_the_image_sharp(rng):
    clean = (rng.uniform(size=(96, 80, 3)) > 0.5).astype(np.float32) / 2 + 0.25

    def correlate(law, seed):  # of neighbours
        n = noise.sample(noise.parse(law), clean, seed=seed, clip=False) - clean
        return np.mean(n[:, 1:] * n[:, :-1]) / np.mean(n**2)

    grown = [correlate("enlarged:gaussian:20", seed) for seed in range(30)]
    assert abs(correlate("gaussian:20", 0)) < 0.02  # the control
    assert min(grown) < 0.35
    assert max(grown) > 0.6
    still = noise.sample(noise.parse("enlarged:gaussian:0"), clean, seed=0)
    np.testing.assert_array_equal(still, clean)


def test_smoothed_noise_is_that_of_a_camera_that_smooths_colour_most():
    clean = np.full((96, 80, 3), 0.5, np.float32)
    clean[::2] = 0.25
    luma = np.array([0.299, 0.587, 0.114])

    def measure(law, seed):  # what is left of brightness and of colour
        n = noise.sample(noise.parse(law), clean, seed=seed, clip=False) - clean
        bright = n @ luma
        return bright.std() * 255, (n - bright[..., None]).std() * 255

    bright, colour = np.transpose(
        [measure("smoothed:gaussian:20", seed) for seed in range(30)]
    )
    untouched = measure("gaussian:20", 0)  # the control
    assert bright.max() < 1.03 * untouched[0]
    assert colour.max() < 1.03 * untouched[1]
    assert bright.min() > 0.3 * untouched[0]
    assert colour.min() < 0.12 * untouched[1]
    assert np.median(bright / colour) > 3 * untouched[0] / untouched[1]
    grey = noise.sample(noise.parse("smoothed:gaussian:20"), clean[..., :1], seed=3)
    assert 0.3 < 255 / 20 * np.std(grey - clean[..., :1]) < 1
    still = noise.sample(noise.parse("smoothed:gaussian:0"), clean, seed=0)
    np.testing.assert_array_equal(still, clean)


def test_a_camera_smooths_by_as_much_as_the_docs_say(monkeypatch):
    used = []
    monkeypatch.setattr(
        ndimage, "gaussian_filter", lambda x, widths, **_: used.append(widths[0]) or x
    )
    clean = np.full((16, 16, 3), 0.5, np.float32)
    for seed in range(200):
        noise.sample(noise.parse("smoothed:gaussian:20"), clean, seed=seed)
    bright, colour = np.reshape(used, (-1, 2)).T
    assert 0.75 < bright.max() < 0.8
    assert 2.9 < colour.max() < 3.0


@pytest.mark.parametrize(
    "law", ["enlarged:gaussian:20", "smoothed:isp_wide", "jpeg:shared:5-9", "isp"]
)
@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 9, 1)])
def test_the_smallest_images_have_noise_too(law, shape):
    clean = np.full(shape, 0.5, np.float32)
    noisy = noise.sample(noise.parse(law), clean, seed=0)
    assert noisy.shape == shape
    assert np.isfinite(noisy).all()


def test_seeds_give_frozen_and_distinct_streams():
    clean = np.full((8, 8, 3), 0.5, np.float32)

    def first(seed):
        return noise.sample(noise.parse("gaussian:20"), clean, seed=seed)[0, 0]

    # NumPy promises this stream for good: a change here changes every table.
    np.testing.assert_array_equal(first((0, 1)), first((0, 1)))
    np.testing.assert_allclose(
        first((0, 1)), [0.5166169, 0.5382804, 0.5286977], rtol=1e-6
    )
    seeds = [0, 1, (0, 0), (0, 1), (1, 0), 2**32, (2**32, 0)]
    assert len({first(seed).tobytes() for seed in seeds}) == len(seeds)


def test_sample_clips_only_when_asked():
    clean = np.ones((32, 32, 3), np.float32)
    law = noise.parse("speckle:90")
    clipped = noise.sample(law, clean, seed=0)
    free = noise.sample(law, clean, seed=0, clip=False)
    assert clipped.dtype == free.dtype == np.float32
    assert free.max() > 1
    np.testing.assert_array_equal(clipped, np.clip(free, 0, 1))


@pytest.mark.parametrize("name", [*noise.PAPER_COLUMNS, "gaussian:5-20", "isp"])
def test_parse_gives_equal_laws_for_equal_names(name):
    assert noise.parse(name) == noise.parse(name)
    assert hash(noise.parse(name)) == hash(noise.parse(name))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("salt", "choose from gaussian"),
        ("gaussian", "choose from gaussian"),
        ("mixture:3", "choose from gaussian"),
        ("variant4", "choose from gaussian"),
        ("gaussian:-5", "-5"),
        ("gaussian:nan", "nan"),
        ("gaussian:inf", "inf"),
        ("gaussian:20-5", "20-5"),
        ("gaussian:5--20", "-20"),
        ("speckle:-1", "-1"),
        ("speckle:60-80", "60-80"),
        ("speckle*:nan", "nan"),
        ("poisson:-6", "-6"),
        ("poisson:inf", "inf"),
        ("poisson:many", "many"),
        ("isp:no/such.mat", "no/such.mat"),
    ],
)
def test_parse_names_what_is_wrong(name, said):
    with pytest.raises(ValueError, match=r".+") as caught:
        noise.parse(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("clean", "said"),
    [
        (np.zeros((4, 4, 3), np.uint8), "uint8"),
        (np.zeros((4, 4), np.float32), r"\(4, 4\)"),
        (np.full((4, 4, 3), 255, np.float32), "255"),
        (np.full((4, 4, 3), -0.5, np.float32), "-0.5"),
        (np.full((4, 4, 3), np.nan, np.float32), "nan"),
    ],
)
def test_sample_refuses_what_is_not_a_clean_image(clean, said):
    with pytest.raises(ValueError, match=said):
        noise.sample(noise.parse("speckle:60"), clean, seed=0)


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match="-1"):
        noise.sample(noise.parse("mixture"), np.zeros((4, 4, 3), np.float32), seed=-1)


def test_one_of_draws_each_law_as_often_as_it_is_named():
    law = noise.parse("one_of:gaussian:0+gaussian:0+gaussian:20+isp")
    clean = np.full((8, 8, 3), 0.5, np.float32)
    kinds = collections.Counter()
    for seed in range(400):
        noisy = noise.sample(law, clean, seed=seed)
        strength = float(np.std(noisy - clean))
        kinds["none" if strength == 0 else "some"] += 1
    assert kinds["none"] == pytest.approx(200, abs=40)


@pytest.mark.parametrize(
    "name",
    [
        "one_of",
        "one_of:",
        "one_of:pink",
        "one_of:isp+",
        "jpeg",
        "jpeg:pink",
        "enlarged:",
        "smoothed:pink",
    ],
)
def test_one_of_what_is_not_known_is_refused(name):
    with pytest.raises(ValueError, match="noise '"):
        noise.parse(name)
