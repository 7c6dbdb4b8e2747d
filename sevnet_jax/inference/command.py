"""`denoise.py`: reads images, restores them, and says what it does."""

import argparse
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from sevnet_jax import images
from sevnet_jax.config import load_parts
from sevnet_jax.files import check_writable
from sevnet_jax.inference.automatic import TRANSLATORS, AutoDenoiser, load
from sevnet_jax.inference.choose import CHANNELS, NOISES
from sevnet_jax.inference.denoiser import Denoiser, Progress
from sevnet_jax.inference.jobs import SUFFIX, Job, find_jobs
from sevnet_jax.inference.program import SYMMETRIES, list_devices
from sevnet_jax.runtime import use_compilation_cache

LARGE = 2_000_000  # pixels from which on one waits for a while
CLIPPED = {"auto": "auto", "yes": True, "no": False}
SOME_FAILED, BAD_USE, INTERRUPTED = 1, 2, 130


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns 0, 1 if some files failed, 2 if none could start."""
    args = parse(argv)
    try:
        jobs, missing = find_jobs(args.inputs, args.out, args.recursive)
        if args.parts:
            load_parts(args.parts)
        use_compilation_cache()
        device = choose_device(args.device)
        denoiser = open_denoiser(args)
    except (ValueError, OSError) as error:
        complain(str(error))
        return BAD_USE
    for text in missing:
        complain(text)
    if isinstance(denoiser, Denoiser):
        say(args, f"{denoiser.weights.config['name']} on {device.device_kind}")
    try:
        failed = len(missing) + restore_files(args, denoiser, jobs)
    except KeyboardInterrupt:
        complain("interrupted; all files written so far are complete")
        return INTERRUPTED
    if failed and len(jobs) > 1:
        complain(f"{failed} of {len(jobs) + len(missing)} inputs failed")
    if failed == len(jobs) + len(missing):
        return BAD_USE
    return SOME_FAILED if failed else 0


def restore_files(
    args: argparse.Namespace, denoiser: Denoiser | AutoDenoiser, jobs: list[Job]
) -> int:
    """Returns how many failed.

    A file more than there are devices is worked on: while they compute, the next one is
    read and the last one written.
    """
    failed, stopped = 0, threading.Event()
    with ThreadPoolExecutor(len(list_devices()) + 1) as pool:
        tasks = [
            pool.submit(
                restore_file, args, denoiser, job, f"[{number}/{len(jobs)}] ", stopped
            )
            for number, job in enumerate(jobs, 1)
        ]
        for job, task in zip(jobs, tasks, strict=True):
            try:
                task.result()
            except KeyboardInterrupt:
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
            except Exception as error:  # coders and devices raise errors of many kinds
                failed += 1
                complain(f"{job.source}: {describe(error)}")
    return failed


def describe(error: Exception) -> str:
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "it does not fit into memory"
    plain = isinstance(error, ValueError | OSError)
    return str(error) if plain else f"{type(error).__name__}: {error}"


def open_denoiser(args: argparse.Namespace) -> Denoiser | AutoDenoiser:
    """Returns what chooses for each image, or the one with the weights that were named.

    Weights of one's own with the noise of cameras need the bundled translator.
    """
    if args.weights and not args.translator and args.noise == "camera":
        return load(args.weights, translator=TRANSLATORS["colour"])
    return load(args.weights, translator=args.translator)


def choose_device(platform: str | None) -> jax.Device:
    """Makes the first device of the platform the one that computes."""
    try:
        device = jax.devices(platform)[0]
    except RuntimeError:
        found = ", ".join(sorted({d.platform for d in jax.devices()}))
        raise ValueError(f"there is no {platform} here; found: {found}") from None
    jax.config.update("jax_default_device", device)
    return device


def restore_file(
    args: argparse.Namespace,
    denoiser: Denoiser | AutoDenoiser,
    job: Job,
    prefix: str,
    stopped: threading.Event,
) -> None:
    if args.skip_existing and job.target.exists():
        say(args, f"{prefix}{job.source}: skipped, {job.target} exists already")
        return
    began = time.perf_counter()
    picture = images.read_picture(job.source, args.max_pixels)
    pixels = picture.pixels
    images.check_target(job.target, pixels)
    check_writable(job.target, "image")
    options: dict[str, Any] = {"clipped": CLIPPED[args.clipped]}
    notes = [picture.note] if picture.note else []
    if isinstance(denoiser, AutoDenoiser):
        options |= {"noise": args.noise, "channels": args.channels}
        pages = pixels.ndim == 4
        choice = denoiser.choose(pixels[0] if pages else pixels, **options)
        notes.append(f"first page: {choice}" if pages else str(choice))
        used = denoiser.find_denoiser(choice)
    else:
        used = denoiser
    announce(args, used, pixels, prefix + str(job.source))
    restored = denoiser(
        pixels,
        strength=args.strength,
        ensemble=args.ensemble,
        fast=args.fast,
        progress=make_bar(args, prefix + job.source.name, stopped),
        **options,
    )
    images.write_picture(job.target, restored, picture)
    seconds = time.perf_counter() - began
    said = "".join(f"; {note}" for note in notes)
    say(args, f"{prefix}{job.source} -> {job.target}, {seconds:.1f} s{said}")


def announce(
    args: argparse.Namespace, denoiser: Denoiser, pixels: np.ndarray, name: str
) -> None:
    """Says at the start how long a large image will take."""
    colours = pixels.ndim > 2 and pixels.shape[-1] <= 4
    count = pixels.size // (pixels.shape[-1] if colours else 1)
    if count >= LARGE and not args.quiet:
        runs = SYMMETRIES if args.ensemble else 1
        seconds = denoiser.seconds_per_pixel * count * runs
        say(args, f"{name}: {count / 1e6:.0f} megapixels, about {seconds:.0f} s")


def make_bar(args: argparse.Namespace, name: str, stopped: threading.Event) -> Progress:
    """Returns what shows the progress of an image of several parts, on a terminal.

    It ends the work on the image once all is to stop.
    """

    def show(items: Iterable) -> Iterable:
        items = list(items)
        hidden = True if args.quiet or len(items) == 1 else None
        for item in tqdm(items, desc=name, unit="part", leave=False, disable=hidden):
            if stopped.is_set():
                raise KeyboardInterrupt
            yield item

    return show


def complain(text: str) -> None:
    print("denoise.py:", " ".join(text.split()), file=sys.stderr)


def say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong without all that would be right."""

    def error(self, message: str):
        complain(f"{message}; see --help")
        sys.exit(BAD_USE)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = OneLineParser(
        prog="denoise.py",
        description="Removes noise from images. You do not need to know the noise "
        "level. Bit depth and metadata are kept.",
    )
    add = parser.add_argument
    add("inputs", nargs="+", metavar="IN", help="files, globs or folders")
    add("-o", "--out", help="output file, or a folder for several inputs (default: "
        f"NAME{SUFFIX}.EXT beside each input)")  # fmt: skip
    add("--recursive", action="store_true", help="include subfolders")
    add(
        "--skip-existing",
        action="store_true",
        help="skip images whose result exists already",
    )
    add(
        "--strength",
        type=float,
        default=1.0,
        help="blend from 0 (input) to 1 (restored)",
    )
    add("--ensemble", action="store_true",
        help="average over 8 flips and rotations: better, 8 times slower")  # fmt: skip
    add("--fast", action="store_true",
        help="overlap the tiles of large images less and blend them; error up to 0.007 "
        "of the range (gaussian 20) or 0.018 (speckle 90)")  # fmt: skip
    add(
        "--weights",
        help="a weights file, a run's folder, or the name of bundled weights",
    )
    add("--noise", choices=NOISES, default="auto", help="white: independent from pixel "
        "to pixel; camera: correlated, as photos from cameras, JPEG and rescaled "
        "images have it; auto (default): measured in each image")  # fmt: skip
    add("--real", dest="noise", action="store_const", const="camera",
        help="the same as --noise camera")  # fmt: skip
    add("--channels", choices=CHANNELS, default="auto", help="independent: restore "
        "each channel by itself, as a grey image (default for 5 and more)")  # fmt: skip
    add("--clipped", choices=[*CLIPPED], default="auto", help="undo the clipping of "
        "noise at black and white (auto: in 8 and 16 bit if it is strong)")  # fmt: skip
    add(
        "--translator",
        metavar="FILE",
        help="your own translator of camera noise",
    )
    add("--parts", metavar="FILE", help="config file that defines parts of the "
        "network, if the weights were not trained on this machine")  # fmt: skip
    add("--device", choices=("cpu", "gpu", "tpu"), help="where to compute")
    add("--max-pixels", type=int, default=500_000_000,
        help="refuse images with more pixels (default: 500 million)")  # fmt: skip
    add("--quiet", action="store_true", help="print errors only")
    args = parser.parse_args(argv)
    given = args.weights or args.translator
    if given and args.channels != "auto":
        parser.error(
            "--channels chooses among the bundled weights; leave out --weights"
        )
    if not 0 <= args.strength <= 1:
        parser.error(f"--strength must be 0 to 1, got {args.strength}")
    return args
