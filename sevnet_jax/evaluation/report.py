"""Tables as text and figures as files."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from sevnet_jax.evaluation.complexity import Complexity
from sevnet_jax.files import check_writable, write_atomically


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
            "-" if model.seconds is None else f"{1e3 * model.seconds:.0f}",
        ]
        for model in models
    ]
    header = ["model", "params (M)", "paper", "diff"]
    header += ["GMACs", "paper", "diff", "kMACs/pixel", "ms here"]
    return format_table(header, rows)


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Writes the figure in the format that the ending of `path` names."""
    check_figure_path(path)
    write_atomically(path, lambda part: figure.savefig(part, dpi=dpi))


def check_figure_path(path: str | Path) -> None:
    """Raises ValueError, before any work is done, if `path` can hold no figure."""
    path = Path(path)
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in formats:
        raise ValueError(f"cannot draw {str(path)!r}; end it in .png, .pdf or .svg")
    check_writable(path, "figure")
