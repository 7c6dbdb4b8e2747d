"""Which images a command reads and where it writes them: files, globs, folders."""

import dataclasses
import glob
import os
from collections.abc import Sequence
from pathlib import Path

from sevnet_jax import images

SUFFIX = "_denoised"


@dataclasses.dataclass(frozen=True)
class Job:
    source: Path
    target: Path


def find_jobs(
    inputs: Sequence[str], out: str | None = None, recursive: bool = False
) -> tuple[list[Job], list[str]]:
    """Returns what is to be read and written, and which inputs are missing.

    Raises if something would be written over an input or twice.
    """
    found, missing = [], []
    into = Path(out) if out else None
    for text in inputs:
        try:
            found += find_sources(text, recursive, into)
        except ValueError as error:
            missing.append(str(error))
    # Two globs may name the same file.
    found = [*{p.absolute(): (p, base) for p, base in found}.values()]
    if not found:
        raise ValueError(missing[0] if missing else "there are no images")
    if into is None:
        # A shell's *.png also names what this command made the last time.
        made = {name_result(source).resolve() for source, _ in found}
        found = [(p, base) for p, base in found if p.resolve() not in made]
    many = len(found) > 1 or any(base for _, base in found)
    is_folder = into is not None and (
        many or into.is_dir() or not into.suffix or str(out).endswith(("/", os.sep))
    )
    if many and into and (into.is_file() or into.suffix.lower() in images.ENDINGS):
        raise ValueError(f"{into} is a file; several images need a folder")
    sources = {source.resolve() for source, _ in found}
    jobs: list[Job] = []
    taken: dict[Path, Path] = {}
    for source, base in found:
        inner = source.relative_to(base) if base else Path(source.name)
        if into is None:
            target = name_result(source)
        else:
            target = into / inner if is_folder else into
        place = target.resolve()
        if place in sources:
            raise ValueError(f"{target} is an input and would be overwritten")
        if place in taken:
            raise ValueError(f"{taken[place]} and {source} would both become {target}")
        taken[place] = source
        jobs.append(Job(source, target))
    return jobs, missing


def name_result(source: Path) -> Path:
    return source.with_name(f"{source.stem}{SUFFIX}{source.suffix}")


def find_sources(
    text: str, recursive: bool, out: Path | None
) -> list[tuple[Path, Path | None]]:
    """Returns files, with the folder that they were found in, if they were.

    Of folders and globs, what this command has made itself is left out.
    """
    path = Path(text)
    if path.is_dir():
        found = [
            p
            for p in sorted(path.rglob("*") if recursive else path.iterdir())
            if p.suffix.lower() in images.ENDINGS
            and p.is_file()
            and not is_ours(p)
            and not p.name.startswith(".")
        ]
        inside = out is not None and path.resolve() in out.resolve().parents
        if recursive and inside:
            # What is in there may be results of ours or somebody's originals.
            raise ValueError(f"{out} is inside {text!r}; choose a folder outside")
        if not found:
            hint = "" if recursive else "; --recursive looks deeper"
            raise ValueError(f"no images in the folder {text!r}{hint}")
        return [(p, path) for p in found]
    if path.exists():
        return [(path, None)]
    matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]
    matches = [p for p in matches if p.is_file() and not is_ours(p)]
    if not matches:
        raise ValueError(f"there is no file {text!r}")
    return [(p, None) for p in matches]


def is_ours(path: Path) -> bool:
    return path.stem.endswith(SUFFIX)
