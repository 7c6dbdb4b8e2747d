"""Writes the compact goldens and key lists that the tests read, from the full ones.

    python tests/models/rivals/make_golden.py FOLDER

FOLDER holds `golden/*.npz`, numbers of the originals at tiny sizes with random
parameters, and `keys/*.csv`, their parameters' names and shapes at full size. Nothing
is rounded: parameters are kept as float16 where that is exact, or as a seed and an
affine map where NumPy draws them again to the last bit. Inner activations, which only
say where a network went wrong, are thinned out.
"""

import gzip
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# Inner activations that are officially called otherwise than their parameters.
RENAMED = {
    f"encoders.0.0.GCE.{i}": f"encoders.0.0.GCE.depthwise_separable_convs.{i}"
    for i in range(3)
}
KEPT = 512  # values of an inner activation


def main(folder: str) -> None:
    for path in sorted(Path(folder, "golden").glob("*.npz")):
        with np.load(path) as full:
            compact = shrink({name: full[name] for name in full})
        target = HERE / "golden" / path.name
        target.parent.mkdir(exist_ok=True)
        np.savez_compressed(target, **compact)
        print(f"{target.name}: {target.stat().st_size / 1e6:.2f} MB")
    for path in sorted(Path(folder, "keys").glob("*.csv")):
        target = HERE / "keys" / f"{path.name}.gz"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def shrink(full: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns a golden's compact form, which `read` undoes."""
    config = json.loads(str(full["config"]))
    rng = np.random.default_rng(config["seed"]) if "seed" in config else None
    table, stored = [], []
    for name, array in full.items():
        if name.startswith("param/"):
            drawn = rng and find_draw(rng.standard_normal(array.shape), array)
            table.append((name.removeprefix("param/"), array.shape, drawn))
            if not drawn:
                stored.append(array.ravel())
    values = np.concatenate(stored or [np.zeros(0, "f4")])
    return {
        "config": full["config"],
        "table": np.array(json.dumps(table)),
        "values": halve(values),
        **{
            name: halve(array)
            for name, array in full.items()
            if name.startswith(("input", "output"))
        },
        **{
            f"mid/{RENAMED.get(name.split('/')[1], name.split('/')[1])}": thin(array)
            for name, array in full.items()
            if name.startswith(("mid/", "probe/"))
        },
    }


def read(path: Path) -> tuple[dict, dict, dict]:
    """Returns config, parameters by official key, all else; full or compact alike."""
    with np.load(path) as file:
        rest = {name: file[name] for name in file}
    if "table" not in rest:
        rest = shrink(rest)
    config = json.loads(str(rest.pop("config")))
    rng = np.random.default_rng(config["seed"]) if "seed" in config else None
    values, params, start = rest.pop("values").astype("f4"), {}, 0
    for key, shape, drawn in json.loads(str(rest.pop("table"))):
        normal = rng.standard_normal(shape) if rng else None
        if drawn:
            params[key] = (drawn[0] + drawn[1] * normal).astype("f4")
        else:
            size = math.prod(shape)
            params[key] = values[start : start + size].reshape(shape)
            start += size
    return config, params, {name: array.astype("f4") for name, array in rest.items()}


def halve(array: np.ndarray) -> np.ndarray:
    """Returns the array as float16 if that is exact."""
    half = array.astype(np.float16)
    return half if np.array_equal(half.astype(array.dtype), array) else array


def thin(array: np.ndarray) -> np.ndarray:
    """Returns evenly spaced values of an activation, channels last."""
    if array.ndim == 4:
        array = array.transpose(0, 2, 3, 1)
    return array.ravel()[:: math.ceil(array.size / KEPT)]


def find_draw(normal: np.ndarray, array: np.ndarray) -> tuple[float, float] | None:
    """Returns the shift and scale that make `array` of `normal`, if they are simple."""
    scale = array.std() / normal.std() if array.size > 2 else 0.0
    fan_in = math.prod(array.shape[1:])
    for shift in (0.0, 1.0):
        for unit in (1.0, math.sqrt(fan_in)):
            simple = round(scale * unit, 3) / unit
            for guess in (simple, round(scale * unit, 1) / unit):
                if np.array_equal((shift + guess * normal).astype("f4"), array):
                    return shift, guess
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
