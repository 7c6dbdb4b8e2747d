"""How tests compile: quickly, or as users do where the mark `optimized` asks for it."""

import jax
import jax.numpy as jnp
import pytest
from jax._src import compiler

traces = []


@jax.jit
def double(x):
    traces.append(x)
    return 2 * x


def find_level():
    """The level of optimization that a test sets for its programs, if it does."""
    options = compiler.get_compile_options(1, 1).env_option_overrides
    return dict(options).get("xla_backend_optimization_level")


def test_tests_compile_quickly():
    assert find_level() == "0"


@pytest.mark.optimized
def test_marked_ones_as_users_do():
    assert find_level() is None


@pytest.mark.parametrize(
    "kind", ["quick", pytest.param("optimized", marks=pytest.mark.optimized)]
)
def test_programs_of_one_kind_are_not_taken_for_the_other(kind):
    before = len(traces)
    for _ in range(2):
        double(jnp.zeros(3))
    assert len(traces) == before + 1
