"""`denoise.py --page` in a process of its own, and Chromium to look at it."""

import dataclasses
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from sevnet_jax import images

CHROMIUM = Path("/usr/bin/chromium")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-sync"),
    "--disable-component-update",
)
MOST_PIXELS = 70_000  # the samples have 65536
SECONDS = 120  # for anything; machines may be busy
STRENGTH = 0.35


@pytest.fixture(scope="session", autouse=True)
def _needs():
    for name in ("gradio", "playwright"):
        pytest.importorskip(name, reason=f"needs {name}; run make test-page")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}; run make test-page")


@dataclasses.dataclass
class Server:
    process: subprocess.Popen
    address: str
    temporary: Path
    log: Path

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(SECONDS)


@pytest.fixture(scope="session")
def environment(tmp_path_factory, project):
    """No way out but through a proxy that does not answer, and a known place for files.

    Other compilations of the tests are found again.
    """
    folder = tmp_path_factory.mktemp("temporary")
    compiled = str(project / ".pytest_cache" / "xla")
    changes = {"TMPDIR": str(folder), "JAX_COMPILATION_CACHE_DIR": compiled}
    proxies = {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS")}
    return {**os.environ, **changes, **proxies}


@pytest.fixture(scope="session")
def server(environment, project, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "server.txt"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "denoise.py", "--page", "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--max-pixels", str(MOST_PIXELS)],
            cwd=project,
            env=environment,
            stdout=out,
            stderr=out,
        )
    end = time.monotonic() + SECONDS
    while not (found := re.search(r"the page is at (\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
    yield Server(process, found[1], Path(environment["TMPDIR"]), log)
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def browser(_needs):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=list(QUIET)
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """A function that returns the page as a new visitor sees it."""
    contexts = []

    def visit(address, width=1280, height=900):
        context = browser.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        context.set_default_timeout(1000 * SECONDS)
        seen = context.new_page()
        seen.goto(address)
        seen.get_by_role("button", name="Denoise").wait_for()
        return seen

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder with deep.png, 16 bit and with text, and photo.jpg with EXIF."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    smooth = np.linspace(0.2, 0.8, 64)[:, None, None] + np.zeros((64, 48, 3))
    noisy = np.clip(smooth + rng.normal(scale=0.1, size=smooth.shape), 0, 1)
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", "somebody")
    deep = np.rint(65535 * noisy).astype(np.uint16)
    Image.fromarray(np.rint(255 * noisy).astype(np.uint8)).save(
        folder / "plain.png", pnginfo=text, dpi=(300, 300)
    )
    source = images.read_picture(folder / "plain.png", MOST_PIXELS)
    (folder / "plain.png").unlink()
    images.write_picture(folder / "deep.png", deep, source)
    exif = Image.Exif()
    exif[271] = "Maker"
    Image.fromarray(np.rint(255 * noisy[::-1]).astype(np.uint8)).save(
        folder / "photo.jpg", exif=exif, quality=95
    )
    return folder


@pytest.fixture(scope="session")
def expected(pictures, environment, project):
    """A function of a file's name: what denoise.py writes at STRENGTH."""
    out = pictures.parent / "expected"
    command = [sys.executable, "denoise.py", str(pictures), "-o", str(out)]
    subprocess.run(
        [*command, "--strength", str(STRENGTH)],
        cwd=project,
        env=environment,
        check=True,
    )
    return lambda name: (out / name).read_bytes()
