"""A sheet shows the very pixels, in every format, and room for the words."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.evaluation import sheet
from sevnet_jax.evaluation.sheet import Panel


@pytest.fixture
def pixels(rng):
    return rng.integers(0, 256, (33, 47, 3), np.uint8)


@pytest.fixture
def rows(pixels):
    flipped = np.ascontiguousarray(pixels[::-1, ::-1])
    return [
        [Panel("a", pixels), Panel("b", flipped, frame=(3, 4, 6, 5))],
        [Panel("", pixels.repeat(2, 0).repeat(2, 1))],
    ]


def test_the_picture_holds_the_pixels_exactly(rows, tmp_path):
    canvas, captions = sheet.lay_out(rows, text=15, gap=8)
    sheet.draw(rows, tmp_path / "sheet.png")
    drawn = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB"))
    assert drawn.shape == canvas.shape
    top = canvas.shape[0] - 8 - 66
    np.testing.assert_array_equal(drawn[top : top + 66, 8 : 8 + 94], rows[1][0].pixels)
    np.testing.assert_array_equal(drawn[26 : 26 + 33, 8 : 8 + 47], rows[0][0].pixels)
    assert [words for _, _, words in captions] == ["a", "b"]
    assert (drawn[:26] < 128).any()  # the captions


def test_vector_formats_keep_the_pixels(rows, tmp_path):
    canvas, _ = sheet.lay_out(rows, text=15, gap=8)
    for ending in ("svg", "pdf"):
        sheet.draw(rows, tmp_path / f"sheet.{ending}")
    text = (tmp_path / "sheet.svg").read_text()
    (coded,) = re.findall(r"data:image/png;base64,([^\"]*)", text)
    found = Image.open(io.BytesIO(base64.b64decode(coded))).convert("RGB")
    inside = np.asarray(found)
    assert any(np.array_equal(canvas, turned) for turned in (inside, inside[::-1]))
    height, width = canvas.shape[:2]
    written = (tmp_path / "sheet.pdf").read_bytes()
    assert f"/Width {width}".encode() in written
    assert f"/Height {height}".encode() in written


def test_a_frame_lies_around_its_pixels(rows):
    canvas, _ = sheet.lay_out(rows, text=15, gap=8)
    left, top = 8 + 94 + 8 + 3, 26 + 4  # the second column is as wide as the first
    inside = canvas[top : top + 5, left : left + 6]
    np.testing.assert_array_equal(inside, rows[0][1].pixels[4:9, 3:9])
    ring = canvas[top - 2 : top + 7, left - 2 : left + 8]
    assert (ring == sheet.FRAME).all(-1).sum() == 9 * 10 - 5 * 6
    assert (canvas == sheet.FRAME).all(-1).sum() == 9 * 10 - 5 * 6


def test_columns_grow_with_their_captions(pixels):
    short, _ = sheet.lay_out([[Panel("a", pixels)]], 15, 8)
    long, _ = sheet.lay_out([[Panel("a caption of some length, $5", pixels)]], 15, 8)
    assert short.shape[1] == 47 + 16
    assert long.shape[1] > 150
