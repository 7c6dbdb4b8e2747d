"""docs/export.md: its programs run as they stand there, and restore as denoise.py."""

import re

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.inference import export
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights

# As the page says: what a program that takes the mean needs.
WITH_CENTRE = {
    "onnx": (
        '{"image": padded}',
        '{"image": padded, "centre": noisy.mean(keepdims=True)[None]}',
    ),
    "stablehlo": (
        "restore(padded)",
        "restore(padded, noisy.mean(keepdims=True)[None])",
    ),
}


@pytest.fixture(scope="module")
def page(project):
    return (project / "docs" / "export.md").read_text()


@pytest.mark.parametrize(
    ("centre", "size"), [("inside", (16, 24)), ("input", (13, 22))]
)
@pytest.mark.parametrize("to", WITH_CENTRE)
def test_the_program_of_the_page_restores_a_photo(
    page, weights_file, to, centre, size, rng, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    out = f"denoiser.{to}"
    argv = ["--to", to, "--weights", str(weights_file), "-o", out, "--centre", centre]
    assert export.main(argv) == 0
    pixels = rng.integers(60, 190, (*size, 3), np.uint8)
    Image.fromarray(pixels).save("photo.png")
    code = re.search(rf"```python\n# run_{to}\.py\n(.*?)```", page, re.DOTALL)[1]
    if centre == "input":
        before, after = WITH_CENTRE[to]
        assert f"`{before}`" in page
        assert f"`{after}`" in page
        assert before in code
        code = code.replace(before, after)
    exec(compile(code, to, "exec"), {})
    restored = np.asarray(Image.open("restored.png")).astype(int)
    expected = Denoiser(load_weights(weights_file))(pixels).astype(int)
    assert np.abs(expected - pixels).max() > 20
    assert np.abs(restored - expected).max() <= 1  # rounded to another whole number
