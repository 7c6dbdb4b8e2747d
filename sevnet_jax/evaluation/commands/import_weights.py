"""eval.py import: converts official weights of a rival into a weights file.

Nothing in such a file is run: .safetensors files hold only arrays, and PyTorch's files
are read by its restricted loader, which refuses everything except tensors.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
from safetensors.numpy import load_file

from sevnet_jax.files import check_writable
from sevnet_jax.models import create_model, list_models
from sevnet_jax.models.base import list_fields
from sevnet_jax.models.rivals import official
from sevnet_jax.weights import save_weights

HELP = "converts official weights of a rival (.pth or .safetensors) into a weights file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="FILE.pth or FILE.safetensors, as published")
    parser.add_argument(
        "--model",
        required=True,
        metavar="NAME",
        help=f"which network it is: {', '.join(list_models('rival'))}",
    )
    parser.add_argument(
        "--hyper",
        metavar="FILE",
        help="JSON with those of the original's hyper-parameters that differ from "
        "NAME's",
    )
    parser.add_argument(
        "-o", "--out", required=True, help="the .safetensors file to write"
    )


def run(args: argparse.Namespace) -> int:
    check_writable(args.out, "weights file")
    if Path(args.out).suffix != ".safetensors":
        raise ValueError(f"the file to write is a .safetensors file, got {args.out!r}")
    if Path(args.out).resolve() == Path(args.file).resolve():
        raise ValueError(f"{args.out} is the file to read; name another one to write")
    if args.hyper:
        network = official.build(args.model, read_json(args.hyper))
    else:
        network = create_model(args.model)
    state = read_state(args.file)
    try:
        variables = official.convert(network, state)
    except ValueError as error:
        fitting = official.find_presets(network, state)
        hint = f"; they fit --model {' or '.join(fitting)}" if fitting else ""
        raise ValueError(f"{error}{hint}") from None
    fields = {name: getattr(network, name) for name in list_fields(type(network))}
    digest = hashlib.sha256(Path(args.file).read_bytes()).hexdigest()
    origin = {"imported": {"file": Path(args.file).name, "sha256": digest}}
    save_weights(args.out, variables, {"name": args.model, **fields}, origin)
    print(f"{args.out}: {args.model}; denoise.py and eval.py take it as --weights")
    return 0


def read_json(path: str) -> dict[str, Any]:
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path!r}")
    try:
        found = json.loads(Path(path).read_text())
    except ValueError as error:
        raise ValueError(f"{path} holds no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no hyper-parameters by name")
    return found


def read_state(path: str) -> dict[str, Any]:
    """Returns the arrays of a file by their names, and what they are wrapped in."""
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path!r}")
    if Path(path).suffix == ".safetensors":
        try:
            return load_file(path)
        except safetensors.SafetensorError as error:
            raise ValueError(
                f"{path} is not a complete safetensors file: {error}"
            ) from None
        except (AttributeError, KeyError, TypeError) as error:  # such as of 8 bit
            raise ValueError(f"{path} has arrays of an unknown type: {error}") from None
    try:
        import torch
    except ModuleNotFoundError:
        raise ValueError(
            f"{path} can be read by PyTorch only: pip install torch, or give the file "
            "as .safetensors"
        ) from None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file is anybody's
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"{path} holds no plain tensors: {reason}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__}, not tensors by name")
    return to_arrays(found)


def to_arrays(state: dict[str, Any]) -> dict[str, Any]:
    """Returns tensors as arrays, also in dictionaries inside; the rest is left out."""
    arrays = {}
    for name, value in state.items():
        if not isinstance(name, str):
            continue
        if isinstance(value, dict):
            arrays[name] = to_arrays(value)
        elif hasattr(value, "detach"):
            arrays[name] = value.detach().float().numpy()
    return arrays
