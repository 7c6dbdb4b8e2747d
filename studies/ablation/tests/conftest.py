"""Trainings mix types, as Optax does."""

import pytest


@pytest.fixture(autouse=True)
def _training_promotion(_standard_promotion):
    """For every test of the study."""
