"""The sheet shows every column of the tables at its own pixels."""

import numpy as np
import pytest

from sevnet_jax.data import noise
from sevnet_jax.evaluation.commands import noise as noise_sheet


@pytest.fixture(scope="module")
def photo():
    coarse = np.random.RandomState(0).randint(0, 256, (10, 15, 3), np.uint8)
    return np.kron(coarse, np.ones((8, 8, 1), np.uint8))


def test_every_law_and_map_is_on_the_sheet(photo):
    captions = [caption for caption, _ in noise_sheet.panels(photo)]
    for name in [*noise.PAPER_COLUMNS, "isp", "level", "clean"]:
        assert any(caption.split()[0] == name for caption in captions), name
    assert sum("dB" in c for c in captions) == len(noise.PAPER_COLUMNS) + 3


def test_panels_are_drawn_without_resampling(photo, tmp_path):
    from PIL import Image

    path = tmp_path / "sheet.png"
    noise_sheet.draw(photo, path)
    assert [p.name for p in tmp_path.iterdir()] == ["sheet.png"]
    sheet = np.asarray(Image.open(path).convert("RGB"))
    found = np.lib.stride_tricks.sliding_window_view(sheet, photo.shape)[
        ..., 0, :, :, :
    ]
    top, left = noise_sheet.GAP, noise_sheet.GAP
    rows = sheet.shape[0] // 4
    corner = [(y, left) for y in range(rows) if np.array_equal(found[y, left], photo)]
    assert len(corner) == 1
    assert corner[0][0] >= top


def test_a_large_photo_is_reduced_before_the_noise():
    photo = np.zeros((1000, 1600, 3), np.float32)
    assert noise_sheet.panels(photo)[0][1].shape == (200, 320, 3)


def test_sheet_is_a_function_of_the_seed(photo):
    first, again, other = (noise_sheet.panels(photo, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first[3][1], again[3][1])
    assert not np.array_equal(first[3][1], other[3][1])


def test_an_elongated_photo_fits():
    panels = noise_sheet.panels(np.zeros((3, 1000, 3), np.uint8))
    assert panels[0][1].shape == (1, 333, 3)
