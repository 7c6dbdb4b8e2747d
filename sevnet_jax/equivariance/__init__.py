"""A kit to measure, assert and locate scale equivariance, for any function of arrays.

from sevnet_jax import equivariance

equivariance.assert_homogeneous(fn, x)            # for tests
equivariance.measure(fn, x).degree                # for study
equivariance.locate(flax_model, variables, x)     # for repair
"""

from sevnet_jax.equivariance.law import (
    SCALES,
    SHIFTS,
    Measurement,
    Row,
    assert_homogeneous,
    format_scale,
    is_power_of_two,
    measure,
    perturb,
)
from sevnet_jax.equivariance.parts import Part, find_culprits, locate, measure_parts

__all__ = [
    "SCALES",
    "SHIFTS",
    "Measurement",
    "Part",
    "Row",
    "assert_homogeneous",
    "find_culprits",
    "format_scale",
    "is_power_of_two",
    "locate",
    "measure",
    "measure_parts",
    "perturb",
]
