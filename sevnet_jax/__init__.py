"""SEVNet in JAX: a blind image denoiser that keeps f(kx) = k f(x)."""

from sevnet_jax import equivariance
from sevnet_jax.inference.automatic import AutoDenoiser, load
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.models import create_model, list_models

__all__ = [
    "AutoDenoiser",
    "Denoiser",
    "create_model",
    "equivariance",
    "list_models",
    "load",
]
