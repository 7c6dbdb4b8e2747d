"""The networks of the study, in training order, with their names in tables."""

from collections.abc import Mapping

from ml_collections import ConfigDict

from sevnet_jax.models import create_model
from sevnet_jax.training.recipe import make_config
from studies.ablation.rows import SMALLEST, WRAPPED
from studies.selection import name_control

OURS, BASELINE, NOISY = "sevnet_xs", "unet_relu_xs", "noisy"
ONLY = "_only_wrapped"  # behind a name: trained bare, then put into a wrapper
# Of each half the cheapest first, by the time of a step.
FIRST = (
    *("nafnet_xs", "uformer_xs", "esc_xs", "akdt_xs"),
    *("swinir_xs", "sadnet_xs", "restormer_xs", "crwkv_xs"),
)
OTHERS = ("cgnet_xs", "mhnet_xs", "grl_xs", "xformer_xs")
# As the paper spells and orders them.
PAPER = {
    f"{name.lower()}_xs": name
    for name in (
        *("SADNet", "SwinIR", "Uformer", "Restormer", "NAFNet", "GRL"),
        *("CGNet", "Xformer", "MHNet", "AKDT", "ESC", "CRWKV"),
    )
}


def describe() -> Mapping[str, str]:
    """Returns what each row is called in tables, in their order."""
    names = {NOISY: "noisy images", OURS: "SEVNet (ours)"}
    for stage in (1, 2):
        names[name_control(OURS, stage)] = f"SEVNet, {stage + 1} stages"
    names[BASELINE] = "U-Net with ReLU"
    for row, name in PAPER.items():
        names[row] = name
        names[row + ONLY] = f"{name}, wrapped after training"
        names[row + WRAPPED] = f"{name}, trained wrapped"
    return names


def name_preset(row: str) -> str:
    """Returns the network of a row, whatever is around it."""
    return row.removesuffix(ONLY).removesuffix(WRAPPED)


def make_row(row: str) -> ConfigDict:
    """Returns the recipe of a row: the ablation's, for another network."""
    preset = name_preset(row)
    return make_config(preset, {"wrapped": row != preset}, **SMALLEST)


def describe_law(row: str) -> str:
    """Returns whether a row keeps the scale law."""
    if row == NOISY:
        return "-"
    preset = name_preset(row.partition("_stage")[0])
    if row.endswith((ONLY, WRAPPED)):
        return "for the image as a whole"
    return "yes" if create_model(preset).keeps_the_law else "no"
