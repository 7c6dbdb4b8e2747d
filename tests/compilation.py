"""Programs that are quick to compile, for tests that do not ask for optimized ones.

Tests run small programs a few times: to compile them takes nearly all of the time. Like
this it takes a tenth. Importing this module is enough, in a test's own process too.
"""

import jax
from jax._src import compiler

OPTIONS = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
if jax.__version_info__ < (0, 11):  # newer ones do not know it
    OPTIONS["xla_cpu_use_fusion_emitters"] = False
# Part of JAX's cache keys: a program of the one kind is never taken for the other.
optimized = jax.make_user_context(default_value=False)
_get_compile_options = compiler.get_compile_options


def get_compile_options(*args, env_options_overrides=None, **kwargs):
    """JAX's own, but for what makes programs quick to compile."""
    options = dict(env_options_overrides or {})
    if not optimized.value:
        options |= OPTIONS
    return _get_compile_options(*args, env_options_overrides=options, **kwargs)


# JAX takes options for one program, by `jax.jit`, but none for all of them.
compiler.get_compile_options = get_compile_options
