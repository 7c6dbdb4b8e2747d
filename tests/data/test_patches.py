"""Each augmentation by hand."""

import numpy as np
import pytest

from sevnet_jax.data import patches


@pytest.fixture
def image():
    return np.arange(12 * 9 * 3, dtype=np.uint16).reshape(12, 9, 3)


@pytest.mark.parametrize(
    ("u", "count", "expected"), [(0, 4, 0), (0.99, 4, 3), (1, 4, 3)]
)
def test_pick_stays_in_range(u, count, expected):
    assert patches.pick(u, count) == expected


def test_crop_reaches_every_corner(image):
    np.testing.assert_array_equal(patches.crop(image, 0, 0, 5), image[:5, :5])
    np.testing.assert_array_equal(patches.crop(image, 1, 1, 5), image[-5:, -5:])
    np.testing.assert_array_equal(patches.crop(image, 1, 0, 5), image[-5:, :5])
    np.testing.assert_array_equal(patches.crop(image, 0.3, 0.9, 9), image[1:10])


def test_the_eight_orientations_differ_and_keep_the_pixels(image):
    square = image[:9]
    turned = [
        patches.orient(square, flip, turns)
        for flip in (False, True)
        for turns in range(4)
    ]
    assert len({t.tobytes() for t in turned}) == 8
    for t in turned:
        np.testing.assert_array_equal(np.sort(t, axis=None), np.sort(square, axis=None))
    np.testing.assert_array_equal(turned[0], square)
    np.testing.assert_array_equal(turned[4], square[:, ::-1])
    np.testing.assert_array_equal(turned[1], square.transpose(1, 0, 2)[::-1])


def test_shrink_averages_blocks():
    patch = np.random.RandomState(0).randint(0, 256, (6, 6, 3)).astype(np.uint8)
    result = patches.shrink(patch, 3)
    assert result.dtype == np.uint16
    expected = patch[3:6, :3].astype(np.float64).mean((0, 1)) / 255
    np.testing.assert_allclose(result[1, 0] / 65535, expected, atol=0.51 / 65535)


def test_16_bits_hold_8_exactly():
    """v / 255 and 257 v / 65535 are the same number, so the same float."""
    every = np.arange(256, dtype=np.uint8).reshape(1, 256, 1).repeat(3, -1)
    wide = patches.shrink(every, 1).astype(np.float32) / np.float32(65535)
    np.testing.assert_array_equal(wide, every.astype(np.float32) / np.float32(255))
    deep = np.full((4, 4, 3), 12345, np.uint16)
    np.testing.assert_array_equal(patches.shrink(deep, 1), deep)
    np.testing.assert_array_equal(patches.shrink(deep, 2), deep[:2, :2])


@pytest.mark.parametrize(("wanted", "got"), [(1, 1), (2, 2), (3, 2), (9, 2)])
def test_factor_gives_way_to_the_size_of_the_image(wanted, got):
    assert patches.fitting_factor(np.zeros((20, 11, 3)), wanted, 5) == got


def test_enlarge_keeps_what_is_flat_and_stays_in_range():
    flat = np.full((5, 5, 3), 54321, np.uint16)
    np.testing.assert_array_equal(
        patches.enlarge(flat, 9), flat[:1, :1].repeat(9, 0).repeat(9, 1)
    )
    ends = (np.indices((6, 6)).sum(0) % 2 * 65535).astype(np.uint16)[..., None]
    grown = patches.enlarge(ends, 11)  # cubic curves overshoot, and would wrap around
    assert grown.shape == (11, 11, 1)
    assert (grown[0, 0, 0], grown[0, -1, 0]) == (0, 65535)


@pytest.mark.parametrize(("u", "factor"), [(0, 1), (0.5, 1.5), (1, 2)])
def test_enlargement_spans_one_to_two(u, factor):
    assert patches.enlargement(u) == factor
