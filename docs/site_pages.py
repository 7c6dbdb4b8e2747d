"""The pages of the site: the project's own files, its notebook, and its docstrings.

MkDocs calls `on_files`. Files keep the places that they have in the project, so that
one link serves the site and the source.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = (
    *("*.md", "LICENSE", "docs/*.md", "docs/*.png", "docs/*.csv", "docs/*.css"),
    *("docs/*.ipynb", "samples/*", "studies/*/README.md"),
    "studies/*/results/figures/*.png",
)
PACKAGE = "sevnet_jax"
TYPES = {"image/png": "png", "image/jpeg": "jpg"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Returns the files of the theme, and ours."""
    pages = [file for file in files if file.src_dir != config.docs_dir]
    for path in sorted({path for p in PATTERNS for path in ROOT.glob(p)}):
        name = path.relative_to(ROOT).as_posix()
        pages.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
        if path.suffix == ".ipynb":
            made = convert(path)
            folder = Path(name).parent
            pages += [
                File.generated(config, (folder / part).as_posix(), content=content)
                for part, content in made.items()
            ]
    for name, text in list_references():
        pages.append(File.generated(config, f"api/{name}.md", content=text))
    return Files(pages)


def list_references() -> Iterator[tuple[str, str]]:
    """Yields the name and the Markdown of a page for each part of the package."""
    root = ROOT / PACKAGE
    singles = [path for path in sorted(root.glob("*.py")) if path.stem != "__init__"]
    yield PACKAGE, write_reference(PACKAGE, [root / "__init__.py", *singles])
    for folder in sorted(path.parent for path in root.glob("*/__init__.py")):
        modules = sorted(folder.rglob("*.py"), key=lambda path: path.as_posix())
        yield folder.name, write_reference(f"{PACKAGE}.{folder.name}", modules)


def write_reference(title: str, paths: list[Path]) -> str:
    """Returns what mkdocstrings turns into the reference of some modules."""
    lines = [f"# {title}"]
    for path in paths:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name != title:
            lines.append(f"## {name}")
        # What a folder takes from its modules is shown there; the package shows it too.
        again = path.stem == "__init__" and name != PACKAGE
        lines.append(f"::: {name}" + "\n    options:\n      members: false" * again)
    return "\n\n".join(lines) + "\n"


def convert(notebook: Path) -> dict[str, str | bytes]:
    """Returns a notebook as it is stored: a page, and the pictures that it shows."""
    made: dict[str, str | bytes] = {}
    lines = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] != "code":
            lines.append(text)
            continue
        lines.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            kind = next((kind for kind in TYPES if kind in data), None)
            if kind:
                name = f"{notebook.stem}-{len(made)}.{TYPES[kind]}"
                made[name] = base64.b64decode(data[kind])
                lines.append(f"![{''.join(data['text/plain'])}]({name})")
            elif printed := "".join(output.get("text", data.get("text/plain", ""))):
                lines.append(f"```text\n{printed.rstrip()}\n```")
    lines.append(f"*This page is a notebook: [{notebook.name}]({notebook.name}).*")
    return {**made, f"{notebook.stem}.md": "\n\n".join(lines) + "\n"}
