"""Tables as text and figures as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from sevnet_jax.evaluation.complexity import Complexity
from sevnet_jax.evaluation.equivariance import Measurement, Part, Row, describe
from sevnet_jax.files import write_atomically


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]

    def line(row):
        cells = [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        return "  ".join([row[0].ljust(widths[0]), *cells]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *map(line, rows)])


def complexity_table(models: Sequence[Complexity]) -> str:
    """Counts beside the paper's; a dash where the paper has none."""

    def cells(count, paper, unit):
        if paper is None:
            return [f"{count / unit:.2f}", "-", "-"]
        return [
            f"{count / unit:.2f}",
            f"{paper / unit:.2f}",
            f"{100 * (count / paper - 1):+.1f} %",
        ]

    rows = [
        [
            model.name,
            *cells(model.params, model.paper_params, 1e6),
            *cells(model.macs, model.paper_macs, 1e9),
            f"{model.macs_per_pixel / 1e3:.0f}",
        ]
        for model in models
    ]
    header = ["model", "params (M)", "paper", "diff"]
    header += ["GMACs", "paper", "diff", "kMACs/pixel"]
    return format_table(header, rows)


def equivariance_table(parts: Sequence[Part], scales: Sequence[float]) -> str:
    """A row a part, a column a scale: `=` is exact to the last bit, else the error."""

    def cell(row: Row) -> str:
        if row.bit_exact:
            return "="
        return f"{row.relative_error:.0e}" if row.in_range else "overflow"

    rows = [
        [
            part.path or "the whole network",
            part.kind,
            f"{part.measurement.degree:.3f}",
            f"{part.measurement.degree_spread:.0e}",
            *map(cell, part.measurement.scales[: len(scales)]),
            "yes" if part.holds else "NO",
        ]
        for part in parts
    ]
    header = ["part", "kind", "degree", "+-", *map(describe, scales), "law holds"]
    return format_table(header, rows)


def plot_equivariance(models: Mapping[str, Measurement], path: str | Path) -> None:
    """Draws the relative error of f(kx) = k f(x) against k.

    Marks are powers of two, the thin line joins the scales between them.
    """
    floor = 1e-9  # where exact results, which have no logarithm, are drawn
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    markers = ("o", "s", "^", "D", "v", "P", "X", "*")
    for number, (name, law) in enumerate(models.items()):
        rows = sorted((r for r in law.scales if r.in_range), key=lambda r: r.value)
        powers = [row for row in rows if row.must_be_exact]
        others = [row for row in rows if not row.must_be_exact]
        marker, color = markers[number % len(markers)], f"C{number}"
        for chosen, style in (
            (powers, {"linestyle": "", "marker": marker, "label": name}),
            (others, {"linewidth": 1}),
        ):
            values = [row.value for row in chosen]
            errors = [max(row.relative_error, floor) for row in chosen]
            axes.plot(values, errors, color=color, markersize=5, **style)
    axes.axhspan(floor / 3, floor * 3, color="tab:green", alpha=0.15, linewidth=0)
    axes.annotate(
        "exact to the last bit",
        (0.01, floor * 5),
        xycoords=("axes fraction", "data"),
        va="bottom",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor / 3)
    axes.set_xlabel("scale k")
    axes.set_ylabel("largest |f(kx) - k f(x)| / largest |k f(x)|")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", frameon=False)
    save_figure(figure, path)


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Writes the figure in the format that the ending of `path` names."""
    check_figure_path(path)
    write_atomically(path, lambda part: figure.savefig(part, dpi=dpi))


def check_figure_path(path: str | Path) -> None:
    """Raises ValueError if no figure can be drawn in the format of this ending."""
    formats = Figure().canvas.get_supported_filetypes()
    if Path(path).suffix.lstrip(".").lower() not in formats:
        raise ValueError(f"cannot draw {str(path)!r}; end it in .png, .pdf or .svg")


def sweep(low: int = -40, high: int = 40, step: int = 5) -> tuple[float, ...]:
    """Scales for a curve: powers of two, and three times each in between."""
    exponents = [n for n in range(low, high + 1, step) if n]
    return (*(2.0**n for n in exponents), *(3 * 2.0**n for n in exponents))
