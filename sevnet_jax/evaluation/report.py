"""Tables as text and figures as files."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from sevnet_jax.files import check_writable, write_atomically

LATEX = {
    **{character: f"\\{character}" for character in "_%&#${}"},
    "^": "\\^{}",
    "~": "\\~{}",
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
}


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


def format_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A tabular with booktabs' rules; the cells are LaTeX already."""
    lines = [" & ".join(line) + " \\\\" for line in (header, *rows)]
    columns = "l" + "c" * (len(header) - 1)
    return "\n".join(
        [
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            lines[0],
            "\\midrule",
            *lines[1:],
            "\\bottomrule",
            "\\end{tabular}",
        ]
    )


def escape_latex(text: str) -> str:
    """`text` as LaTeX shows it."""
    return "".join(LATEX.get(character, character) for character in text)


def finite(value: Any) -> Any:
    """Returns the value in JSON's own types: what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def format_json(content: Any) -> str:
    """The text of a JSON file."""
    return json.dumps(finite(content), indent=1, allow_nan=False) + "\n"


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Writes the figure in the format that the ending of `path` names."""
    check_figure_path(path)
    # No dates and no random names: the same figure is the same bytes.
    dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    metadata = dates.get(Path(path).suffix.lower())
    with matplotlib.rc_context({"svg.hashsalt": "sevnet_jax"}):
        write_atomically(
            path, lambda part: figure.savefig(part, dpi=dpi, metadata=metadata)
        )


def check_figure_path(path: str | Path) -> None:
    """Raises ValueError, before any work is done, if `path` can hold no figure."""
    path = Path(path)
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in formats:
        raise ValueError(f"cannot draw {str(path)!r}; end it in .png, .pdf or .svg")
    check_writable(path, "figure")
