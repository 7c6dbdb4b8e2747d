"""The paper's results, cell by cell, to show next to our own.

`paper_results.csv` holds each table in the paper's order, with this project's names of
the noises: `speckle` and `poisson` alone are means over the three levels, `real` is
camera noise, and `ood mean` is the score in the complexity table. The header of the
paper's ablation says alpha = 60; its row 1a shows that 6 is meant.
"""

import csv
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

# Of several tables with the same cell the first counts.
TABLES = ("average", "levels", "laplace", "preliminary", "real")

# No table has them all: this is their common order.
METHODS = (
    "SADNet",
    "SwinIR",
    "Uformer",
    "Restormer",
    "NAFNet",
    "GRL",
    "CGNet",
    "Xformer",
    "MHNet",
    "AKDT",
    "ESC",
    "CRWKV",
    "Baseline",
    "Ours+NT",
    "Ours",
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One number pair of one table."""

    table: str
    set: str
    method: str  # in the ablation the row's code
    noise: str
    psnr: float
    ssim: float
    doubt: str  # why the numbers are not to be trusted; empty if nothing is known


@functools.cache
def load() -> tuple[Cell, ...]:
    """Returns all cells, table after table, in the order of the paper's rows."""
    path = resources.files("sevnet_jax.evaluation") / "paper_results.csv"
    rows: Iterable[dict[str, Any]] = csv.DictReader(
        path.read_text(encoding="utf-8").splitlines()
    )
    return tuple(
        Cell(**{**row, "psnr": float(row["psnr"]), "ssim": float(row["ssim"])})
        for row in rows
    )


def find(set_name: str, noises: Sequence[str]) -> dict[str, dict[str, Cell]]:
    """Returns {method: {noise: cell}} of a set, without methods that have no cell.

    The set's name may be in any case; the noises keep the order given.
    """
    if isinstance(noises, str):
        raise ValueError(f"need a sequence of noises, got the string {noises!r}")
    cells: dict[tuple[str, str], Cell] = {}
    for table in TABLES:
        for cell in load():
            if cell.table == table and cell.set.casefold() == set_name.casefold():
                cells.setdefault((cell.method, cell.noise), cell)
    found = {
        method: {n: cells[method, n] for n in noises if (method, n) in cells}
        for method in METHODS
    }
    return {method: by_noise for method, by_noise in found.items() if by_noise}


def ablation() -> dict[str, dict[str, Cell]]:
    """Returns {row: {noise: cell}} of the ablation on Kodak24, rows 1a to 2f."""
    rows: dict[str, dict[str, Cell]] = {}
    for cell in load():
        if cell.table == "ablation":
            rows.setdefault(cell.method, {})[cell.noise] = cell
    return rows
