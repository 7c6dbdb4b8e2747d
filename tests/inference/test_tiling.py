"""The windows cover the image, with margins, on multiples."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevnet_jax.inference import tiling
from sevnet_jax.inference.denoiser import TILE_PIXELS


@given(
    length=st.integers(1, 300),
    count=st.integers(1, 12),
    margin=st.integers(0, 20),
    multiple=st.sampled_from([1, 2, 8]),
)
def test_windows_cover_an_axis_with_margins(length, count, margin, multiple):
    length, margin = length * multiple, margin * multiple
    spans = tiling.cut(length, count, margin, multiple)
    assert len(spans) <= max(count, 1)
    assert {span.stop - span.start for span in spans} == {spans[0].stop}
    kept = [p for s in spans for p in range(s.keep_start, s.keep_stop)]
    assert kept == list(range(length))
    for span in spans:
        assert (
            0 <= span.start <= span.keep_start < span.keep_stop <= span.stop <= length
        )
        assert span.start == 0 or span.keep_start - span.start >= margin
        assert span.stop == length or span.stop - span.keep_stop >= margin
        for value in (span.start, span.stop, span.keep_start, span.keep_stop):
            assert value % multiple == 0


@given(length=st.integers(1, 300), count=st.integers(1, 12), margin=st.integers(0, 20))
def test_blended_windows_sum_to_one(length, count, margin):
    spans = tiling.cut(length, count, margin, 1)
    total = np.zeros(length)
    for span, weights in zip(spans, tiling.blend(spans), strict=True):
        assert (weights >= 0).all()
        total[span.start : span.stop] += weights
    np.testing.assert_allclose(total, 1, rtol=1e-6)


@pytest.mark.parametrize("size", [(4000, 6000), (1000, 1000), (8, 80000), (3000, 64)])
def test_plans_keep_the_budget(size):
    rows, columns = tiling.plan(*size, margin=104, multiple=8, most_pixels=TILE_PIXELS)
    assert rows[0].stop * columns[0].stop <= TILE_PIXELS


def test_small_images_are_not_cut():
    rows, columns = tiling.plan(1080, 1920, 104, 8, TILE_PIXELS)
    assert len(rows) == len(columns) == 1


def test_24_megapixels_cost_a_quarter_more():
    rows, columns = tiling.plan(4000, 6000, 104, 8, TILE_PIXELS)
    pixels = len(rows) * rows[0].stop * len(columns) * columns[0].stop
    assert 1 < pixels / 24e6 < 1.27


def test_a_network_that_sees_little_is_planned_at_once():
    began = time.process_time()
    rows, columns = tiling.plan(4000, 6000, 1, 1, 2_100_000)
    assert time.process_time() - began < 2  # trying all pairs of counts takes minutes
    assert len(rows) * len(columns) == 12
