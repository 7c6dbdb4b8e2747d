"""Scores in the layout of the paper's tables, with its rows: text, Markdown, LaTeX."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sevnet_jax import metrics
from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import paper, protocol, report

Means = Mapping[tuple[str, str, str], Mapping[str, Any]]  # (set, method, noise) -> mean
PAPER_ROWS = ("all", "ours", "none")
TRAINING_LAW = "gaussian"
# Columns of the paper's main table that are means over levels.
AVERAGES = {
    name: tuple(noise for noise in PAPER_COLUMNS if noise.startswith(f"{name}:"))
    for name in ("speckle", "poisson")
}
PAPER_METRICS = ("psnr", "ssim")
DOUBT = "?"  # behind a number of the paper that is not to be chased
PAPER_NAMES = {"Ours": "SEVNet", "Ours+NT": "SEVNet+NT"}


@dataclasses.dataclass(frozen=True)
class Cell:
    values: Mapping[str, float]  # by metric; those that are not known are missing
    doubtful: bool = False
    exact: int = 0  # images without any error, which the PSNR leaves out


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    cells: tuple[Cell | None, ...]
    from_paper: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """One set under a few noises."""

    title: str
    noises: tuple[str, ...]
    rows: tuple[Row, ...]


def build(
    means: Means, set_sizes: Mapping[str, int], paper_rows: str = "all"
) -> list[Table]:
    """Returns the tables of each set: levels, base noises, and the rest, apart."""
    tables = []
    for data in _unique(key[0] for key in means):
        own = {key[1:]: mean for key, mean in means.items() if key[0] == data}
        _add_averages(own)
        count = max(mean["images"] for mean in own.values())
        images = protocol.count_images(count, set_sizes[data])
        shown = " / ".join(metrics.METRICS).upper()
        title = f"{data}, {images}, {shown}, {protocol.DESCRIPTION}"
        groups: dict[str, list[str]] = {}
        for noise in sorted(_unique(noise for _, noise in own), key=_rank):
            groups.setdefault(_group(noise), []).append(noise)
        for group in groups.values():
            rows = [
                Row(method, tuple(_own_cell(own.get((method, n))) for n in group))
                for method in _unique(method for method, _ in own)
            ]
            rows += _paper_rows(data, group, paper_rows)
            tables.append(Table(title, tuple(group), tuple(rows)))
    return tables


def _add_averages(own: dict[tuple[str, str], Mapping[str, Any]]) -> None:
    """Adds the means over three levels that the paper's main table has."""
    for method in _unique(method for method, _ in own):
        for name, levels in AVERAGES.items():
            keys = [(method, level) for level in levels]
            found = [own[key] for key in keys if key in own]
            if len(found) == len(levels):
                own[method, name] = {
                    "images": found[0]["images"],
                    "exact": sum(mean["exact"] for mean in found),
                    **{
                        metric: math.fsum(mean[metric] for mean in found) / len(found)
                        for metric in metrics.METRICS
                    },
                }


def _rank(noise: str) -> int:
    """The place of a noise: the paper's order, and what it has not behind that."""
    order = ["gaussian:20", *AVERAGES, *PAPER_COLUMNS]
    return order.index(noise) if noise in order else len(order)


def _group(noise: str) -> str:
    """The paper gives the levels of speckle and poisson a table, and Laplace one."""
    if "*" in noise:
        return "laplace"
    return "levels" if noise.split(":")[0] in AVERAGES and ":" in noise else "main"


def _own_cell(mean: Mapping[str, Any] | None) -> Cell | None:
    if not mean:
        return None
    values = {metric: mean[metric] for metric in metrics.METRICS}
    return Cell(values, exact=mean["exact"])


def _paper_rows(data: str, noises: Sequence[str], which: str) -> list[Row]:
    rows = []
    for method, cells in paper.find(data, noises).items():
        if which == "none" or (which == "ours" and method not in PAPER_NAMES):
            continue
        found = tuple(
            Cell({m: getattr(cells[n], m) for m in PAPER_METRICS}, bool(cells[n].doubt))
            if n in cells
            else None
            for n in noises
        )
        rows.append(Row(PAPER_NAMES.get(method, method), found, from_paper=True))
    return rows


def format_text(tables: Sequence[Table]) -> str:
    """Returns aligned columns of PSNR / SSIM."""
    return _join(tables, report.format_table)


def format_markdown(tables: Sequence[Table]) -> str:
    return _join(tables, lambda *table: "\n" + report.format_markdown(*table))


def _join(tables: Sequence[Table], format_one: Callable[..., str]) -> str:
    parts = []
    for table in tables:
        rows = [[_label(row), *map(_format, row.cells)] for row in table.rows]
        parts += [table.title, format_one(["", *table.noises], rows), ""]
    return "\n".join([*parts, *_notes(tables)]).rstrip() + "\n"


def format_latex(tables: Sequence[Table]) -> str:
    """Returns booktabs tables; the best PSNR of each column is bold."""
    parts = ["% needs \\usepackage{booktabs}"]
    for table in tables:
        best = [_best(table, column) for column in range(len(table.noises))]
        rows = [
            [
                report.escape_latex(_label(row)),
                *(
                    f"\\textbf{{{_format(cell)}}}"
                    if cell and cell.values["psnr"] == top and not cell.doubtful
                    else _format(cell)
                    for cell, top in zip(row.cells, best, strict=True)
                ),
            ]
            for row in table.rows
        ]
        header = ["Method", *map(report.escape_latex, table.noises)]
        parts += [f"% {table.title}", report.format_latex(header, rows)]
    return "\n".join([*parts, *(f"% {note}" for note in _notes(tables))]) + "\n"


def standings(means: Means, set_sizes: Mapping[str, int]) -> list[str]:
    """Returns a line a method and set: its mean without gaussian among the paper's.

    Of the noises that the paper has, without doubtful numbers, and its networks that
    have all of them; a set that was not scored as a whole has no standing.
    """
    lines = []
    for data in _unique(key[0] for key in means):
        own = {key[1:]: mean for key, mean in means.items() if key[0] == data}
        if any(mean["images"] != set_sizes[data] for mean in own.values()):
            continue
        noises = [
            noise
            for noise in _unique(noise for _, noise in own)
            if not noise.startswith(TRAINING_LAW)
        ]
        known = paper.find(data, noises)
        name = next((name for name in PAPER_NAMES if name in known), "")
        ours = known.get(name, {})
        shared = [noise for noise in ours if not ours[noise].doubt]
        if not shared:
            continue
        theirs = {
            method: _mean_psnr(cells[noise].psnr for noise in shared)
            for method, cells in known.items()
            if all(noise in cells and not cells[noise].doubt for noise in shared)
        }
        sevnet = _mean_psnr(ours[noise].psnr for noise in shared)
        # Out of distribution for the paper's networks, but not for any weights.
        what = f"mean of {len(shared)} noises other than {TRAINING_LAW}"
        what = what if len(shared) > 1 else f"{shared[0]} noise"
        rivals = [v for name, v in theirs.items() if name not in PAPER_NAMES]
        for method in _unique(method for method, _ in own):
            if any((method, noise) not in own for noise in shared):
                continue
            mean = _mean_psnr(own[method, noise]["psnr"] for noise in shared)
            line = (
                f"{method} on {data}, PSNR {metrics.PROTOCOL}, {what}: {mean:.2f} dB; "
                f"the paper's {PAPER_NAMES[name]} {sevnet:.2f} dB"
            )
            if rivals:
                ahead = sum(mean > value for value in rivals)
                line += f"; ahead of {ahead} of its {len(rivals)} rivals there"
            lines.append(line)
    return lines


def _mean_psnr(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values)


def _best(table: Table, column: int) -> float:
    cells = [row.cells[column] for row in table.rows]
    known = [cell.values["psnr"] for cell in cells if cell and not cell.doubtful]
    return max(filter(math.isfinite, known), default=math.nan)


def _notes(tables: Sequence[Table]) -> list[str]:
    rows = [row for table in tables for row in table.rows]
    notes = []
    if any(row.from_paper for row in rows):
        notes.append(
            "Rows with (paper) are copied from Zhang & Guo, AAAI 2026; it does not say "
            "whether its Kodak24 images are whole."
        )
    if any(cell and cell.exact for row in rows for cell in row.cells):
        notes.append("Images without any error are left out of the mean PSNR.")
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
    if any(math.isnan(value) for value in cell.values.values()):
        return "not finite"
    shown = (
        f"{cell.values[name]:.{metric.digits}f}" if name in cell.values else "-"
        for name, metric in metrics.METRICS.items()
    )
    return " / ".join(shown) + DOUBT * cell.doubtful


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
