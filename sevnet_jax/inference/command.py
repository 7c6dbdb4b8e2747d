"""`denoise.py`: files, globs and folders in, restored files out."""

import argparse
import dataclasses
import glob
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
from PIL import Image

from sevnet_jax.inference import images
from sevnet_jax.inference.denoiser import Denoiser, load
from sevnet_jax.runtime import use_compilation_cache

SUFFIX = "_denoised"
SOME_FAILED, BAD_USE = 1, 2


@dataclasses.dataclass(frozen=True)
class Job:
    source: Path
    target: Path


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns 0, 1 if some files failed, 2 if none could start."""
    args = parse(argv)
    try:
        if args.device:
            jax.config.update("jax_platforms", args.device)
        jobs = list(find_jobs(args))
        use_compilation_cache()
        denoiser = load(args.weights)
        device = jax.devices()[0]
    except (ValueError, OSError, RuntimeError) as error:
        print("denoise.py:", " ".join(str(error).split()), file=sys.stderr)
        return BAD_USE
    say(args, f"{denoiser.weights.config['name']} on {device.device_kind}")
    failed = 0
    for number, job in enumerate(jobs, 1):
        try:
            restore_file(args, denoiser, job, f"[{number}/{len(jobs)}] ")
        except (ValueError, OSError) as error:
            failed += 1
            reason = " ".join(str(error).split())
            print(f"denoise.py: {job.source}: {reason}", file=sys.stderr)
        except KeyboardInterrupt:
            print("denoise.py: stopped; finished files are whole", file=sys.stderr)
            return 130
    if failed and len(jobs) > 1:
        print(f"denoise.py: {failed} of {len(jobs)} files failed", file=sys.stderr)
    return SOME_FAILED if failed else 0


def restore_file(
    args: argparse.Namespace, denoiser: Denoiser, job: Job, prefix: str
) -> None:
    if args.skip_existing and job.target.exists():
        say(args, f"{prefix}{job.source}: {job.target} exists")
        return
    began = time.perf_counter()
    picture = images.read(job.source, args.max_pixels)
    pages = picture.pixels.ndim == 4
    images.check_target(job.target, picture.pixels.dtype, pages)
    if job.target.parent.exists() and not os.access(job.target.parent, os.W_OK):
        raise ValueError(f"cannot write to {job.target.parent}")
    progress = Bar(args, prefix + job.source.name)
    restored = denoiser(
        picture.pixels,
        strength=args.strength,
        ensemble=args.ensemble,
        fast=args.fast,
        progress=progress,
    )
    images.write(job.target, restored, picture)
    seconds = time.perf_counter() - began
    note = f" ({picture.note})" if picture.note else ""
    say(args, f"{prefix}{job.source} -> {job.target}, {seconds:.1f} s{note}")


class Bar:
    """Says the expected time after the first tile; on a terminal, the tiles done."""

    def __init__(self, args: argparse.Namespace, name: str):
        self._args, self._name = args, name

    def __call__(self, items):
        items = list(items)
        live = sys.stderr.isatty() and not self._args.quiet and len(items) > 1
        began = time.perf_counter()
        for done, item in enumerate(items):
            if done:
                left = (time.perf_counter() - began) / done * (len(items) - done)
                text = f"{self._name}: {done} of {len(items)} tiles, {left:.0f} s left"
                if live:
                    print(f"\r{text:<78}", end="", file=sys.stderr)
                elif done == 1:
                    say(self._args, text)
            yield item
        if live:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr)


def find_jobs(args: argparse.Namespace) -> Iterator[Job]:
    """Returns what is to be read and written; raises if two would be one."""
    sources = list(find_sources(args))
    out = Path(args.out) if args.out else None
    many = len(sources) > 1 or any(base for _, base in sources)
    into_folder = out is not None and (many or out.is_dir() or not out.suffix)
    if into_folder and out.is_file():
        raise ValueError(f"{out} is a file; several images need a folder")
    taken: dict[Path, Path] = {}
    for source, base in sources:
        inner = source.relative_to(base) if base else Path(source.name)
        if out is None:
            target = source.with_name(f"{source.stem}{SUFFIX}{source.suffix}")
        else:
            target = out / inner if into_folder else out
        if target.resolve() == source.resolve():
            raise ValueError(f"{source} would be overwritten; choose another -o")
        if target in taken:
            raise ValueError(f"{taken[target]} and {source} would both become {target}")
        taken[target] = source
        yield Job(source, target)


def find_sources(args: argparse.Namespace) -> Iterator[tuple[Path, Path | None]]:
    """Returns files, with the folder that they were found in, if they were."""
    for text in args.inputs:
        path = Path(text)
        if path.is_dir():
            found = sorted(path.rglob("*") if args.recursive else path.iterdir())
            kept = [p for p in found if p.is_file() and is_image(p)]
            if not kept:
                hint = "" if args.recursive else "; --recursive looks deeper"
                raise ValueError(f"no images in the folder {text!r}{hint}")
            yield from ((p, path) for p in kept)
        elif path.exists():
            yield path, None
        else:
            matches = sorted(glob.glob(text, recursive=True))
            if not matches:
                raise ValueError(f"there is no file {text!r}")
            yield from ((Path(m), None) for m in matches if Path(m).is_file())


def is_image(path: Path) -> bool:
    """Whether to take a file of a folder: an image, and not one of our results."""
    known = Image.registered_extensions()
    return path.suffix.lower() in known and not path.stem.endswith(SUFFIX)


def say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="denoise.py",
        description="Restores noisy images; nobody has to know the noise. Bit depth "
        "and metadata stay as they are.",
    )
    add = parser.add_argument
    add("inputs", nargs="+", metavar="IN", help="files, globs or folders")
    add("-o", "--out", help="a file, or a folder for several; without: beside each "
        f"input, NAME{SUFFIX}.EXT")  # fmt: skip
    add("--recursive", action="store_true", help="folders with all below them")
    add("--skip-existing", action="store_true", help="leave results that are there")
    add("--strength", type=float, default=1.0, help="0 (input) to 1 (restored)")
    add("--ensemble", action="store_true",
        help="average over 8 flips and rotations: better, 8 times slower")  # fmt: skip
    add("--fast", action="store_true",
        help="let the tiles of large images overlap less, and blend them")  # fmt: skip
    add("--weights", help="a file, or the name of weights that came with the package")
    add("--device", choices=("cpu", "gpu", "tpu"), help="where to compute")
    add("--max-pixels", type=int, default=500_000_000,
        help="refuse larger images, as decompression bombs (500 million)")  # fmt: skip
    add("--quiet", action="store_true", help="say nothing but errors")
    args = parser.parse_args(argv)
    if not 0 <= args.strength <= 1:
        parser.error(f"--strength must be 0 to 1, got {args.strength}")
    return args
