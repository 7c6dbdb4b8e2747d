"""`denoise.py`: reads images, restores them, and writes the results."""

import argparse
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
from tqdm import tqdm

from sevnet_jax.config import load_parts
from sevnet_jax.files import check_writable
from sevnet_jax.inference.automatic import AutoDenoiser, load
from sevnet_jax.inference.choose import CHANNELS, NOISES
from sevnet_jax.inference.clipping import CLIPPED
from sevnet_jax.inference.denoiser import Denoiser, Progress
from sevnet_jax.inference.jobs import SUFFIX, Job, find_jobs
from sevnet_jax.inference.program import list_devices
from sevnet_jax.inference.restore import describe, estimate_wait, restore_file
from sevnet_jax.runtime import Parser, name_command, use_compilation_cache

MOST_PIXELS, PAGE_PIXELS = 500_000_000, 100_000_000
MOST_PORT = 65535
SOME_FAILED, BAD_USE, INTERRUPTED = 1, 2, 130


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns 0, 1 if some files failed, 2 if none could start."""
    try:
        args = parse(argv)
        if args.page:
            return open_page(args)
        jobs, missing = find_jobs(args.inputs, args.out, args.recursive)
        device, denoiser = open_denoiser(args)
    except (ValueError, OSError) as error:
        complain(str(error))
        return BAD_USE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
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
    """Returns how many files failed.

    One more file than there are devices is open at a time: while they compute, the next
    one is read and the last one written.
    """
    failed, stopped = 0, threading.Event()
    with ThreadPoolExecutor(len(list_devices()) + 1) as pool:
        tasks = [
            pool.submit(
                try_job, args, denoiser, job, f"[{number}/{len(jobs)}] ", stopped
            )
            for number, job in enumerate(jobs, 1)
        ]
        for job, task in zip(jobs, tasks, strict=True):
            try:
                fault = task.result()
            except KeyboardInterrupt:
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
            if fault:
                failed += 1
                complain(f"{job.source}: {fault}")
    return failed


def try_job(*args: Any) -> str:
    """Does what `restore_job` does; returns what went wrong, or nothing.

    A text, because an exception would keep all pixels of the work that it ended.
    """
    try:
        restore_job(*args)
    except Exception as error:  # coders and devices raise errors of many kinds
        return describe(error)
    return ""


def open_page(args: argparse.Namespace) -> int:
    from sevnet_jax.inference import page

    _, denoiser = open_denoiser(args)
    page.serve(denoiser, args)
    return 0


def open_denoiser(
    args: argparse.Namespace,
) -> tuple[jax.Device, Denoiser | AutoDenoiser]:
    """Returns the device, and a denoiser that chooses weights or has those given."""
    if args.parts:
        load_parts(args.parts)
    use_compilation_cache()
    device = choose_device(args.device)
    return device, load(args.weights, translator=args.translator)


def choose_device(platform: str | None) -> jax.Device:
    """Makes the first device of the platform the one that computes."""
    try:
        device = jax.devices(platform)[0]
    except RuntimeError:
        found = ", ".join(sorted({d.platform for d in jax.devices()}))
        raise ValueError(f"this machine has no {platform}; found: {found}") from None
    jax.config.update("jax_default_device", device)
    return device


def restore_job(
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
    check_writable(job.target, "image")
    restored = restore_file(
        denoiser,
        job.source,
        job.target,
        max_pixels=args.max_pixels,
        noise=args.noise,
        channels=args.channels,
        clipped=CLIPPED[args.clipped],
        ensemble=args.ensemble,
        fast=args.fast,
        announce=lambda used, count: announce(
            args, used, count, prefix + str(job.source)
        ),
        progress=make_bar(args, prefix + job.source.name, stopped),
    )
    restored.write(job.target, args.strength)
    seconds = time.perf_counter() - began
    said = "".join(f"; {note}" for note in restored.notes)
    say(args, f"{prefix}{job.source} -> {job.target}, {seconds:.1f} s{said}")


def announce(
    args: argparse.Namespace, denoiser: Denoiser, count: int, name: str
) -> None:
    """Says at the start how long a large image will take."""
    if not args.quiet and (wait := estimate_wait(denoiser, count, args.ensemble)):
        say(args, f"{name}: {wait}")


def make_bar(args: argparse.Namespace, name: str, stopped: threading.Event) -> Progress:
    """Returns a progress bar for images of several parts, shown on a terminal only.

    It raises KeyboardInterrupt once `stopped` is set.
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
    name = name_command("denoise.py")
    print(f"{name}:", " ".join(text.split()), file=sys.stderr)


def say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog=name_command("denoise.py"),
        description="Removes noise from images. You do not need to know the noise "
        "level. Bit depth, EXIF data, colour profile and resolution are kept.",
    )
    add = parser.add_argument
    add("inputs", nargs="*", metavar="IN", help="files, globs or folders")
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
        help="blend from 0 (input) to 1 (restored, the default)",
    )
    add("--ensemble", action="store_true",
        help="average over 8 flips and rotations: better, 8 times slower")  # fmt: skip
    add("--fast", action="store_true",
        help="overlap the tiles of large images less and blend them; error up to 0.007 "
        "of the range (gaussian 20) or 0.018 (speckle 90)")  # fmt: skip
    add(
        "--weights",
        help="a weights file, the folder of a training run, or the name of bundled "
        "weights (default: bundled weights chosen for each image)",
    )
    add("--noise", choices=NOISES, default="auto", help="white: independent from pixel "
        "to pixel and between channels; camera: not so, as in photos from cameras, "
        "JPEG files, enlarged images; auto (default): measured")  # fmt: skip
    add("--real", dest="noise", action="store_const", const="camera",
        help="the same as --noise camera")  # fmt: skip
    add("--channels", choices=CHANNELS, default="auto", help="independent: restore "
        "each channel as a grey image (default for 5 or more channels, and for bands "
        "of a TIFF)")  # fmt: skip
    add("--clipped", choices=[*CLIPPED], default="auto", help="undo the clipping of "
        "noise at black and white (auto, the default: in 8 and 16-bit images with "
        "white noise above 4 of 255)")  # fmt: skip
    add(
        "--translator",
        metavar="FILE",
        help="a network that turns camera noise into noise that --weights can remove: "
        "translator_s (the paper's way, with sevnet_s), or a file of your own",
    )
    add("--parts", metavar="FILE", help="config file that defines parts of the "
        "network, if the weights were not trained on this machine")  # fmt: skip
    add("--device", choices=("cpu", "gpu", "tpu"), help="where to compute")
    add("--max-pixels", type=int,
        help="refuse images with more pixels (default: 500 million; on the page 100 "
        "million)")  # fmt: skip
    add("--quiet", action="store_true", help="print errors only")
    add("--page", action="store_true", help="open a web page to drop images on; the "
        "other options set its initial values")  # fmt: skip
    add("--host", help="address of the page (default: 127.0.0.1, "
        "for this computer only; 0.0.0.0: for your whole network)")  # fmt: skip
    add("--port", type=int, help="port of the page (default: the first free one from "
        "7860)")  # fmt: skip
    args = parser.parse_args(argv)
    if args.page and args.inputs:
        parser.error("--page takes images from the browser; leave out the input files")
    if args.page and (args.out or args.recursive or args.skip_existing):
        parser.error("--out, --recursive and --skip-existing are not for --page")
    if not args.page and not args.inputs:
        parser.error("name the images to restore")
    if not args.page and (args.host or args.port is not None):
        parser.error("--host and --port need --page")
    if args.port is not None and not 1 <= args.port <= MOST_PORT:
        parser.error(f"--port must be 1 to {MOST_PORT}, got {args.port}")
    if args.max_pixels is None:
        args.max_pixels = PAGE_PIXELS if args.page else MOST_PIXELS
    for name in ("noise", "channels"):
        if getattr(args, name) != "auto" and (args.weights or args.translator):
            parser.error(
                f"--{name} {getattr(args, name)} chooses among the bundled weights; "
                "leave out --weights and --translator"
            )
    if not 0 <= args.strength <= 1:
        parser.error(f"--strength must be 0 to 1, got {args.strength}")
    return args
