"""Scores laid out as the paper's tables: text, Markdown, LaTeX, with its own rows."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sevnet_jax.evaluation import paper
from sevnet_jax.evaluation.protocol import DESCRIPTION
from sevnet_jax.evaluation.report import format_table

Means = Mapping[tuple[str, str, str], Mapping[str, Any]]  # (set, method, noise) -> mean
PAPER_ROWS = ("all", "ours", "none")
IN_DISTRIBUTION = "gaussian"
DOUBT = "?"  # behind a number of the paper that is not to be chased
PAPER_NAMES = {"Ours": "SEVNet", "Ours+NT": "SEVNet+NT"}


@dataclasses.dataclass(frozen=True)
class Cell:
    psnr: float
    ssim: float
    doubtful: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    cells: tuple[Cell | None, ...]
    from_paper: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """One set under a few noises."""

    data: str
    images: str  # how many
    noises: tuple[str, ...]
    rows: tuple[Row, ...]


def build(means: Means, paper_rows: str = "all", limited: bool = False) -> list[Table]:
    """Returns the tables of each set: levels, base noises, and the rest, apart.

    `limited` says that the set has more images than were scored.
    """
    tables = []
    for data in _unique(key[0] for key in means):
        own = {key[1:]: mean for key, mean in means.items() if key[0] == data}
        count = max(mean["images"] for mean in own.values())
        images = f"only the first {count} images" if limited else f"{count} images"
        noises = _unique(noise for _, noise in own)
        groups: dict[str, list[str]] = {}
        for noise in noises:
            groups.setdefault(_group(noise), []).append(noise)
        for group in groups.values():
            rows = [
                Row(method, tuple(_own_cell(own.get((method, n))) for n in group))
                for method in _unique(method for method, _ in own)
            ]
            rows += _paper_rows(data, group, paper_rows)
            tables.append(Table(data, images, tuple(group), tuple(rows)))
    return tables


def _group(noise: str) -> str:
    """The paper gives the levels of speckle and poisson a table, and Laplace one."""
    if "*" in noise:
        return "laplace"
    return "levels" if noise.split(":")[0] in ("speckle", "poisson") else "main"


def _own_cell(mean: Mapping[str, Any] | None) -> Cell | None:
    return Cell(mean["psnr"], mean["ssim"]) if mean else None


def _paper_rows(data: str, noises: Sequence[str], which: str) -> list[Row]:
    rows = []
    for method, cells in paper.find(data, noises).items():
        if which == "none" or (which == "ours" and method not in PAPER_NAMES):
            continue
        found = tuple(
            Cell(cells[n].psnr, cells[n].ssim, bool(cells[n].doubt))
            if n in cells
            else None
            for n in noises
        )
        rows.append(Row(PAPER_NAMES.get(method, method), found, from_paper=True))
    return rows


def format_text(tables: Sequence[Table]) -> str:
    """Returns aligned columns of PSNR / SSIM."""
    parts = []
    for table in tables:
        rows = [
            [_label(row), *(_format(cell) for cell in row.cells)] for row in table.rows
        ]
        parts += [_title(table), format_table(["", *table.noises], rows), ""]
    return "\n".join([*parts, *_notes(tables)]).rstrip() + "\n"


def format_markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        parts += [_title(table), "", f"| | {' | '.join(table.noises)} |"]
        parts.append("|---" * (len(table.noises) + 1) + "|")
        parts += [
            f"| {_label(row)} | {' | '.join(map(_format, row.cells))} |"
            for row in table.rows
        ]
        parts.append("")
    return "\n".join([*parts, *_notes(tables)]).rstrip() + "\n"


def format_latex(tables: Sequence[Table]) -> str:
    """Returns booktabs tables; the best PSNR of each column is bold."""
    parts = ["% needs \\usepackage{booktabs}"]
    for table in tables:
        best = [_best(table, column) for column in range(len(table.noises))]
        parts += [
            f"% {_title(table)}",
            "\\begin{tabular}{l" + "c" * len(table.noises) + "}",
            "\\toprule",
            " & ".join(["Method", *map(_escape, table.noises)]) + " \\\\",
            "\\midrule",
        ]
        for row in table.rows:
            cells = [
                f"\\textbf{{{_format(cell)}}}"
                if cell and cell.psnr == top and not cell.doubtful
                else _format(cell)
                for cell, top in zip(row.cells, best, strict=True)
            ]
            parts.append(" & ".join([_escape(_label(row)), *cells]) + " \\\\")
        parts += ["\\bottomrule", "\\end{tabular}"]
    return "\n".join([*parts, *(f"% {note}" for note in _notes(tables))]) + "\n"


def standings(means: Means) -> list[str]:
    """Returns a line a method and set: its mean out of distribution among the paper's.

    Only noises that the paper has count, and methods that have all of them.
    """
    lines = []
    for data in _unique(key[0] for key in means):
        noises = _unique(key[2] for key in means if key[0] == data)
        known = paper.find(data, noises).get("Ours", {})
        shared = [n for n in noises if n in known and not n.startswith(IN_DISTRIBUTION)]
        if not shared:
            continue
        theirs = {
            method: math.fsum(cells[n].psnr for n in shared) / len(shared)
            for method, cells in paper.find(data, shared).items()
            if all(n in cells for n in shared)
        }
        for method in _unique(key[1] for key in means if key[0] == data):
            if any((data, method, n) not in means for n in shared):
                continue
            values = [means[data, method, n]["psnr"] for n in shared]
            mean = math.fsum(values) / len(values)
            ahead = sum(mean > value for value in theirs.values())
            lines.append(
                f"{method} on {data}, mean of {len(shared)} noises out of "
                f"distribution: {mean:.2f} dB; the paper's SEVNet {theirs['Ours']:.2f} "
                f"dB; ahead of {ahead} of the paper's {len(theirs)} networks"
            )
    return lines


def _best(table: Table, column: int) -> float:
    cells = [row.cells[column] for row in table.rows]
    known = [c.psnr for c in cells if c and not c.doubtful and math.isfinite(c.psnr)]
    return max(known, default=math.nan)


def _title(table: Table) -> str:
    return f"{table.data}, {table.images}, PSNR / SSIM, {DESCRIPTION}"


def _notes(tables: Sequence[Table]) -> list[str]:
    rows = [row for table in tables for row in table.rows]
    notes = []
    if any(row.from_paper for row in rows):
        notes.append(
            "Rows with (paper) are copied from Zhang & Guo, AAAI 2026; it does not say "
            "whether its Kodak24 images are whole."
        )
    if any(cell and cell.doubtful for row in rows for cell in row.cells):
        notes.append(
            f"{DOUBT} marks numbers of the paper that others of it contradict, or that "
            "are next to the noisy input's."
        )
    return notes


def _label(row: Row) -> str:
    return f"{row.name} (paper)" if row.from_paper else row.name


def _format(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if not math.isfinite(cell.ssim):
        return "not finite"
    return f"{cell.psnr:.2f} / {cell.ssim:.4f}{DOUBT * cell.doubtful}"


def _escape(text: str) -> str:
    return text.replace("_", "\\_").replace("%", "\\%").replace("&", "\\&")


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
