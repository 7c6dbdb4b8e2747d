"""Networks: the contract, SEVNet and its blocks, rivals. Imports no other part."""

from sevnet_jax.models import rivals
from sevnet_jax.models.base import Network, create_model, list_models, register
from sevnet_jax.models.layers import (
    SEVB,
    ConstantScaling,
    Conv,
    HeterogeneousNormalization,
    InteractiveGating,
    NormalizedSelfModulator,
)
from sevnet_jax.models.sevnet import SEVNet
from sevnet_jax.models.translator import Translated
from sevnet_jax.models.wrapper import NormalizationWrapper

__all__ = [
    "SEVB",
    "ConstantScaling",
    "Conv",
    "HeterogeneousNormalization",
    "InteractiveGating",
    "Network",
    "NormalizationWrapper",
    "NormalizedSelfModulator",
    "SEVNet",
    "Translated",
    "create_model",
    "list_models",
    "register",
    "rivals",
]
