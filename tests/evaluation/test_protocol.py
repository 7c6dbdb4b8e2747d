"""The scores of a set, against the metrics by hand."""

import math
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.data import noise
from sevnet_jax.evaluation import protocol, scenes
from sevnet_jax.evaluation.methods import Method

NOISES = ("gaussian:20", "speckle:90")


def method(name, function):
    return Method(name, lambda noisy, sigma: function(noisy), {})


def score(folder, *methods, noises=NOISES, **keys):
    found = scenes.from_folder(folder, noises, **keys)
    return [s for r in protocol.score_scenes(found, methods) for s in r.scores]


def test_scores_are_the_metrics_of_what_a_file_would_hold(photos):
    dark = method("dark", lambda x: x * np.float32(0.9))
    scores = score(photos, dark, method("same", lambda x: x), seed=3)
    assert [(s.image, s.noise, s.method) for s in scores] == [
        (f"{image}.png", name, who)
        for image in "ab"
        for name in NOISES
        for who in ("dark", "same")
    ]
    clean = np.asarray(Image.open(photos / "b.png"))
    noisy = noise.sample_for_test(
        "speckle:90", clean.astype(np.float32) / np.float32(255), seed=(3, 1)
    )
    for found, factor in zip(scores[-2:], (0.9, 1), strict=True):
        restored = np.rint(np.clip(noisy * np.float32(factor), 0, 1) * 255)
        restored = restored.astype(np.float64)
        error = np.mean((restored - clean) ** 2)
        assert found.values["psnr"] == pytest.approx(
            10 * np.log10(255**2 / error), abs=1e-9
        )
        assert 0 < found.values["ssim"] < 1


def test_gaussian_noise_alone_is_not_clipped(photos):
    seen = []
    score(photos, method("look", lambda x: seen.append(x) or x), limit=1)
    assert seen[0].min() < 0
    assert seen[1].min() >= 0


def test_methods_are_told_the_true_level(photos):
    told = []
    spy = Method("spy", lambda noisy, sigma: told.append(sigma) or noisy, {})
    score(photos, spy, noises=("gaussian:20",))
    assert told == pytest.approx([20 / 255] * 2, rel=0.05)


def test_a_set_scores_the_mean_of_its_images(photos):
    scores = score(photos, method("same", lambda x: x), noises=("gaussian:20",))
    mean = protocol.summarize(scores)["photos", "same", "gaussian:20"]
    assert mean["images"] == 2
    assert mean["psnr"] == pytest.approx(
        (scores[0].values["psnr"] + scores[1].values["psnr"]) / 2
    )


def test_a_result_that_is_not_finite_scores_nan(photos):
    scores = score(photos, method("bad", lambda x: np.full_like(x, np.inf)))
    assert all(
        math.isnan(s.values["psnr"]) and math.isnan(s.values["ssim"]) for s in scores
    )


def test_a_corrupt_image_is_one_result_with_an_error(photos):
    (photos / "a.png").write_bytes((photos / "a.png").read_bytes()[:80])
    found = scenes.from_folder(photos, NOISES)
    bad, good = protocol.score_scenes(found, [method("same", lambda x: x)])
    assert bad.error
    assert not bad.scores
    assert len(good.scores) == 2


def test_the_noise_of_an_image_does_not_depend_on_corrupt_neighbours(photos):
    same = method("same", lambda x: x)
    before = score(photos, same)[2:]
    (photos / "a.png").write_bytes(b"")
    assert score(photos, same) == before


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x[1:], r"odd returned float32 \(15, 20, 3\); .* of \(16, 20, 3\)"),
        (lambda x: (255 * x).astype(np.uint8), "odd returned uint8"),
        (lambda x: x.astype(object), "odd returned object"),
        (lambda x: np.multiply(x, 2, out=x), "odd failed on a.png .* read-only"),
        (lambda x: sys.exit(3), "odd failed on a.png with gaussian:20: SystemExit"),
        (lambda x: 1 / 0, "odd failed on a.png with gaussian:20: ZeroDivisionError"),
    ],
)
def test_a_method_that_fails_is_named(photos, function, words):
    with pytest.raises(ValueError, match=words):
        score(photos, method("odd", function))


def test_a_method_may_use_its_memory_again(photos):
    """What it returned is taken over before it is called the next time."""
    memory = np.zeros((16, 20, 3), np.float32)

    def fill(x):
        memory[...] = x
        return memory

    both = score(photos, method("same", lambda x: x), method("fill", fill))
    same, filled = (
        [s.values["psnr"] for s in both if s.method == m] for m in ("same", "fill")
    )
    assert same == filled


def test_exact_images_are_left_out_of_the_mean(photos):
    black = np.zeros((16, 20, 3), np.uint8)
    Image.fromarray(black).save(photos / "a.png")  # speckle leaves black as it is
    same = method("same", lambda x: x)
    scores = score(photos, same, noises=("speckle:90", "speckle:90"))
    assert len(scores) == 2  # a noise given twice counts once
    mean = protocol.summarize(scores)["photos", "same", "speckle:90"]
    assert mean["exact"] == 1
    assert mean["psnr"] == scores[1].values["psnr"] < math.inf


def test_the_next_image_is_made_while_a_method_works(photos, monkeypatch):
    """A method that waits for the next noise would wait for ever otherwise."""
    made = threading.Event()
    sample = noise.sample_for_test

    def watch(name, *args, **keys):
        if name == "speckle:90":
            made.set()
        return sample(name, *args, **keys)

    monkeypatch.setattr(noise, "sample_for_test", watch)
    waited = []
    score(photos, method("slow", lambda x: waited.append(made.wait(10)) or x), limit=1)
    assert waited == [True, True]
