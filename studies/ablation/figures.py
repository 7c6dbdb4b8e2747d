"""The tables behind the figures of the trained ablation, from the result files."""

import json
from pathlib import Path
from typing import Any

from sevnet_jax.evaluation.report import format_markdown


def format_figures(runs: str | Path) -> str:
    """Returns the numbers of the figures that were drawn beside the runs' files."""
    figures = Path(runs) / "figures"
    parts = [
        format_one(json.loads(path.read_text()))
        for name, format_one in (("curve", format_curve), ("features", format_features))
        if (path := figures / f"{name}.json").exists()
    ]
    return "".join(f"\n{part}\n" for part in parts)


def find_weights(path: str | Path) -> dict[str, str]:
    """Returns the hash of the weights of each network that a figure shows."""
    if not Path(path).exists():
        return {}
    found = json.loads(Path(path).read_text())
    networks = found["networks"] if "networks" in found else found["methods"]
    return {
        name: network["weights_sha256"]
        for name, network in networks.items()
        if "weights_sha256" in network
    }


def format_curve(found: dict[str, Any]) -> str:
    """Returns PSNR against the noise level."""
    curve = found["curve"]
    cells = [
        [name, *(f"{psnr:.2f}" for psnr in scores)]
        for name, scores in curve["psnr"].items()
    ]
    title = f"{curve['data']}, {curve['images']}, PSNR, {found['protocol']}:"
    header = [curve["law"], *(f"{level:g}" for level in curve["levels"])]
    return f"{title}\n\n{format_markdown(header, cells)}"


def format_features(found: dict[str, Any]) -> str:
    """Returns how alike each network's last features are under other level maps."""
    cells = [
        [name, noise, f"{cosine:.3f}", f"{network['map_cosine'][noise]:.3f}"]
        for name, network in found["networks"].items()
        for noise, cosine in network["cosine"].items()
        if noise != found["reference"]
    ]
    width, height = found["size"][::-1]
    title = (
        f"{found['image']}, its central {width}x{height} pixels, one draw of noise: "
        f"cosine of the last features to those under {found['reference']}:"
    )
    header = ["network", "noise", "of all features", "of their mean maps"]
    return f"{title}\n\n{format_markdown(header, cells)}"
