"""How the commands set up JAX, where they keep their cache, and what they run on."""

import argparse
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import jax


def name_command(script: str) -> str:
    """Returns how this program was called: `script`, or the installed command."""
    name = Path(sys.argv[0]).stem
    return name if name.startswith("sevnet-") else script


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as everything else does."""

    def error(self, message: str):
        raise ValueError(f"{message}; see --help")


def find_user_cache() -> Path:
    """Returns the folder for what this user's runs of the project keep."""
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home, as in some containers
        raise OSError(str(error)) from None
    return Path(caches) / "sevnet_jax"


def use_compilation_cache() -> Path | None:
    """Keeps compiled programs between runs, and returns the folder that holds them.

    JAX_COMPILATION_CACHE_DIR names another folder, as everywhere in JAX. Where none
    can be made, programs are compiled each time.
    """
    # JAX makes the attributes of its config at run time.
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined,unused-ignore]
    if not folder:
        try:
            folder = str(find_user_cache() / "xla")
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        if not os.access(folder, os.W_OK):
            return None
        jax.config.update("jax_compilation_cache_dir", folder)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    return Path(folder)


def compiler_options(
    platform: str | None = None, *, forward: bool = False
) -> dict[str, str]:
    """Returns what to pass to `jax.jit` as `compiler_options`, by default on JAX's own.

    On CPUs, XLA hands convolutions to YNNPACK, which takes two to five times as long
    for the gradient of a kernel as XLA's own code; this takes them back. The compiler's
    later passes take a fifth of its time and make nothing here faster. `forward` passes
    run in the order that needs least memory; with gradients, that order would need
    more, and more time.
    """
    if (platform or jax.default_backend()) != "cpu":
        return {}
    options = {
        "xla_cpu_experimental_ynn_fusion_type": "",
        "xla_backend_optimization_level": "1",
    }
    if forward:
        options["xla_cpu_scheduler_type"] = "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
    return options


def list_versions(*packages: str) -> dict[str, str]:
    """Returns the versions of Python and of installed packages."""
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **found}
