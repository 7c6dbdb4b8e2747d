"""Homogeneous Flax modules: primitives, blocks, networks. Imports nothing of ours."""

from sevnet_jax.models.layers import (
    SEVB,
    ConstantScaling,
    Conv,
    HeterogeneousNormalization,
    InteractiveGating,
    NormalizedSelfModulator,
)
from sevnet_jax.models.sevnet import ABLATIONS, SEVNet, create_model, list_models
from sevnet_jax.models.translator import Translated
from sevnet_jax.models.wrapper import NormalizationWrapper

__all__ = [
    "ABLATIONS",
    "SEVB",
    "ConstantScaling",
    "Conv",
    "HeterogeneousNormalization",
    "InteractiveGating",
    "NormalizationWrapper",
    "NormalizedSelfModulator",
    "SEVNet",
    "Translated",
    "create_model",
    "list_models",
]
