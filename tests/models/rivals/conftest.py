"""Ranks never promote by themselves in the rivals, besides what all tests ask for."""

import jax
import pytest


@pytest.fixture(autouse=True)
def no_silent_ranks():
    with jax.numpy_rank_promotion("raise"):
        yield
