"""The denoiser as a local web page, built with Gradio, which is an optional extra.

Nothing leaves the computer: no telemetry, no fonts or scripts from elsewhere. Files are
in one temporary folder, which is removed at the end.
"""

import argparse
import contextlib
import html
import os
import signal
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sevnet_jax import images
from sevnet_jax.inference.automatic import AutoDenoiser
from sevnet_jax.inference.choose import CHANNELS, NOISES
from sevnet_jax.inference.clipping import CLIPPED
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.inference.preview import Result, restore
from sevnet_jax.inference.restore import describe, estimate_wait

SAMPLES = Path(__file__).resolve().parents[2] / "samples"  # a wheel has none
FILE_BYTES = 8  # a pixel, of the largest file: 16 bit, colour and alpha
KEPT = 3600  # seconds that uploads and results stay
USERS = 8  # whose results are kept at once
INTRODUCTION = """# SEVNet
Drop a noisy image. You do not need to know its noise. Bit depth, EXIF data and colour
profile are kept.
"""
LOCAL = "The image does not leave this computer."
GONE = "The image is not kept any longer; drop it again."
DOWNLOAD = """(file) => {
    const link = document.createElement("a");
    link.href = file.url;
    link.download = file.orig_name;
    link.click();
}"""


def serve(denoiser: Denoiser | AutoDenoiser, args: argparse.Namespace) -> None:
    """Shows the page until the process is told to end."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with start(denoiser, args) as address:
        print(f"the page is at {address} (Ctrl+C ends it)", file=sys.stderr)
        while not stop.wait(1):  # without a time, Windows would not hear of Ctrl+C
            pass


@contextlib.contextmanager
def start(denoiser: Denoiser | AutoDenoiser, args: argparse.Namespace) -> Iterator[str]:
    """Serves the page and yields its address; in the end no file is left."""
    with tempfile.TemporaryDirectory(
        prefix="sevnet_page_", ignore_cleanup_errors=True
    ) as folder:
        gradio = _import_gradio(folder)
        page = build(gradio, denoiser, args, Path(folder))
        host = args.host or "127.0.0.1"
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=args.port,
                prevent_thread_lock=True,
                inbrowser=sys.stderr.isatty(),
                share=False,
                quiet=True,
                max_file_size=FILE_BYTES * args.max_pixels,
                allowed_paths=[str(SAMPLES)],
                state_session_capacity=USERS,
                ssr_mode=False,
                mcp_server=False,
                enable_monitoring=False,
                run_history=False,
                footer_links=[],
            )
        except OSError:
            port = f"port {args.port}" if args.port else "ports 7860 to 7959"
            raise ValueError(
                f"cannot listen at {host}, {port}; choose another --host or --port"
            ) from None
        try:
            yield address
        finally:
            page.close(verbose=False)


def _import_gradio(folder: str) -> Any:
    os.environ["GRADIO_TEMP_DIR"] = folder
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    # It asks its own server whether it runs, and a proxy cannot know.
    others = os.environ.get("NO_PROXY", "")
    os.environ["NO_PROXY"] = f"127.0.0.1,localhost,{others}".rstrip(",")
    try:
        import gradio
    except ImportError:
        raise ValueError(
            "the page needs Gradio; install it with `make page` or "
            '`pip install "sevnet_jax[page]"`'
        ) from None
    return gradio


def build(
    gr: Any, denoiser: Denoiser | AutoDenoiser, args: argparse.Namespace, folder: Path
) -> Any:
    """Returns the page; the arguments of the command are what it starts with."""
    chooses = isinstance(denoiser, AutoDenoiser)
    samples = sorted(SAMPLES.glob("*_noisy_*.png"))
    with gr.Blocks(
        title="SEVNet",
        analytics_enabled=False,
        delete_cache=(max(1, KEPT // 60), KEPT),  # how often, and what is older
    ) as page:
        gr.Markdown(INTRODUCTION if args.host else INTRODUCTION + LOCAL)
        result = gr.State(time_to_live=KEPT)
        with gr.Row():
            with gr.Column(scale=1, min_width=370):
                file = gr.File(label="Image", file_types=[*images.ENDINGS], height=140)
                shelf = gr.Dataset(
                    label="Samples",
                    components=[gr.HTML(render=False)],
                    samples=[[show_sample(path)] for path in samples],
                    type="index",
                    visible=bool(samples),
                )
                noise = gr.Radio(
                    [*NOISES], value=args.noise, label="Noise", visible=chooses
                )
                channels = gr.Radio(
                    [*CHANNELS], value=args.channels, label="Channels", visible=chooses
                )
                clipped = gr.Radio(
                    [*CLIPPED], value=args.clipped, label="Undo clipping"
                )
                ensemble = gr.Checkbox(
                    args.ensemble, label="Ensemble: better, 8 times slower"
                )
                again = gr.Button("Denoise", variant="primary")
            with gr.Column(scale=3, min_width=300):
                compare = gr.ImageSlider(
                    label="Before | after", interactive=False, buttons=["fullscreen"]
                )
                said = gr.HTML()
                strength = gr.Slider(0, 1, args.strength, step=0.01, label="Strength")
                take = gr.Button("Download", interactive=False)
                taken = gr.File(visible=False)

        def run(path, noise, channels, clipped, ensemble, bar=gr.Progress()):  # noqa: B008
            wait = "Restoring"

            def announce(used: Denoiser, count: int) -> None:
                nonlocal wait
                wait = estimate_wait(used, count, ensemble) or wait
                bar(0, desc=wait)

            def track(items: Iterable) -> Iterable:
                items = list(items)
                for number, item in enumerate(items):
                    if len(items) > 1:
                        bar((number, len(items)), desc=wait, unit="parts")
                    yield item

            found, text = try_restore(
                denoiser,
                path,
                folder,
                max_pixels=args.max_pixels,
                noise=noise,
                channels=channels,
                clipped=CLIPPED[clipped],
                ensemble=ensemble,
                fast=args.fast,
                announce=announce,
                progress=track,
            )
            return found, say(text), gr.Button(interactive=bool(found))

        def show(found: Result | None, strength: float):
            return found.show(strength) if found else None

        def save(found: Result | None, strength: float):
            try:
                return str(found.save(strength)) if found else fail(GONE)
            except (ValueError, OSError) as error:
                fail(describe(error))

        def fail(text: str):
            raise gr.Error(text, print_exception=False)

        restoring = {
            "fn": run,
            "inputs": [file, noise, channels, clipped, ensemble],
            "outputs": [result, said, take],
            "concurrency_id": "denoiser",
            "concurrency_limit": 1,
            "show_progress_on": compare,
            "api_visibility": "private",
        }
        showing = {
            "fn": show,
            "inputs": [result, strength],
            "outputs": compare,
            "show_progress": "hidden",
            "api_visibility": "private",
        }
        picked = shelf.click(
            lambda index: str(samples[index]), shelf, file, api_visibility="private"
        )
        for begin in (file.upload, again.click, picked.then):
            begin(**restoring).then(**showing)
        strength.input(**showing, trigger_mode="always_last")
        take.click(save, [result, strength], taken, api_visibility="private").success(
            None, taken, js=DOWNLOAD
        )
    return page


def try_restore(
    denoiser: Denoiser | AutoDenoiser, path: str | None, folder: Path, **options: Any
) -> tuple[Result | None, str]:
    """Returns the result, if there is one, and a sentence on it."""
    if not path:
        return None, "Drop an image first."
    source = Path(path)
    if not source.exists():
        return None, GONE
    try:
        result = restore(denoiser, source, folder, **options)
    except Exception as error:  # coders and devices raise errors of many kinds
        return None, f"{source.name}: {describe(error)}"
    return result, str(result)


def show_sample(path: Path) -> str:
    name = path.name.split("_")[0]
    place = f"gradio_api/file={urllib.parse.quote(str(path))}"
    return f'<img src="{place}" alt="{name}" title="{name}" width="56" height="56">'


def say(text: str) -> str:
    """Returns text that screen readers say aloud; file names may be anything."""
    return f'<p role="status">{html.escape(text)}</p>'
