"""The scores of a set, against the metrics by hand."""

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.data import noise
from sevnet_jax.evaluation import metrics, protocol


@pytest.fixture
def photos(rng, tmp_path):
    for name in "ab":
        pixels = rng.integers(0, 256, (16, 20, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return tmp_path


def test_scores_are_the_metrics_of_what_a_file_would_hold(photos):
    noises = ("gaussian:20", "speckle:90")
    scores = protocol.score_set(lambda x: x * np.float32(0.9), photos, noises, seed=3)
    assert [(s.image, s.noise) for s in scores] == [
        (f"{image}.png", name) for image in "ab" for name in noises
    ]
    clean = np.asarray(Image.open(photos / "b.png"))
    noisy = noise.sample_for_test(
        "speckle:90", clean.astype(np.float32) / np.float32(255), seed=(3, 1)
    )
    restored = np.rint(np.clip(noisy * np.float32(0.9), 0, 1) * 255)
    error = np.mean((restored - clean) ** 2)
    assert scores[3].psnr == pytest.approx(10 * np.log10(255**2 / error), abs=1e-9)
    assert scores[3].noisy_psnr == metrics.psnr(metrics.to_rgb8(noisy), clean)
    assert 0 < scores[3].ssim < 1


def test_gaussian_noise_alone_is_not_clipped(photos):
    seen = {}

    def look(x):
        seen[len(seen)] = x
        return x

    protocol.score_set(look, photos, ("gaussian:20", "speckle:90"), limit=1)
    assert seen[0].min() < 0
    assert seen[1].min() >= 0


def test_a_set_scores_the_mean_of_its_images(photos):
    scores = protocol.score_set(lambda x: x, photos, ("gaussian:20",))
    summary = protocol.summarize(scores)[(photos.name, "gaussian:20")]
    assert summary["images"] == 2
    assert summary["psnr"] == pytest.approx((scores[0].psnr + scores[1].psnr) / 2)
    assert summary["psnr"] == summary["noisy_psnr"]
