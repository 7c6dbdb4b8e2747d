"""Config files: Python files with `get_config()`, named PATH or PATH:ARGUMENT."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flax import linen as nn
from ml_collections import ConfigDict

from sevnet_jax.models import create_model


def load_config(spec: str) -> ConfigDict:
    """What the file's `get_config` returns, given the argument behind the colon."""
    path, _, argument = spec.partition(":")
    if not Path(path).is_file():
        raise ValueError(f"there is no config file {path!r}; see the folder configs/")
    module_spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"a config is a Python file, got {path!r}")
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
        if not hasattr(module, "get_config"):
            raise ValueError("it defines no get_config()")
        return ConfigDict(module.get_config(*([argument] if argument else [])))
    except Exception as error:  # a config is anybody's code
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"config {spec}: {kind}{error}") from error


def build_model(config: Mapping[str, Any] | ConfigDict) -> nn.Module:
    """The model that `config["model"]` names, with its other keys as changes."""
    if "name" not in config.get("model", {}):
        raise ValueError("the config has no model.name, for example 'sevnet_s'")
    return create_model(**config["model"])
