"""The web page from inside: what it computes at once, and whom it talks to."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from sevnet_jax.inference import command, page
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights
from tests.page.conftest import SECONDS

pytestmark = [
    pytest.mark.slow,
    # Gradio's queue asks pandas for it.
    pytest.mark.filterwarnings("ignore:'future.no_silent_downcasting'"),
]


class Watched(Denoiser):
    """Takes its time, and counts who waits for it at once."""

    inside = most = calls = 0
    lock = threading.Lock()

    def __call__(self, image, **options):
        with self.lock:
            self.inside, self.calls = self.inside + 1, self.calls + 1
            self.most = max(self.most, self.inside)
        time.sleep(1)
        with self.lock:
            self.inside -= 1
        return super().__call__(image, **options)


@pytest.fixture
def denoiser(weights_file):
    return Watched(load_weights(weights_file))


def test_images_are_restored_one_at_a_time(denoiser, visit, pictures):
    with page.start(denoiser, command.parse(["--page"])) as address:
        visitors = [visit(address) for _ in range(3)]
        for seen in visitors:
            seen.locator("input[type=file]").set_input_files(str(pictures / "deep.png"))
        for seen in visitors:
            seen.get_by_role("status").filter(has_text="deep.png").wait_for()
    assert (denoiser.calls, denoiser.most) == (3, 1)


def test_strength_restores_nothing(denoiser, visit, pictures):
    with page.start(denoiser, command.parse(["--page"])) as address:
        seen = visit(address)
        seen.locator("input[type=file]").set_input_files(str(pictures / "deep.png"))
        shown = seen.get_by_test_id("imageslider-image").nth(1)
        first = shown.get_attribute("src")
        seen.get_by_label("number input for Strength").fill("0.5")
        seen.keyboard.press("Enter")
        end = time.monotonic() + SECONDS
        while shown.get_attribute("src") == first:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert denoiser.calls == 1


def test_images_are_removed_after_their_time(denoiser, visit, pictures, monkeypatch):
    monkeypatch.setattr(page, "KEPT", 20)
    with page.start(denoiser, command.parse(["--page"])) as address:
        seen = visit(address)
        seen.locator("input[type=file]").set_input_files(str(pictures / "deep.png"))
        seen.get_by_role("status").filter(has_text="deep.png").wait_for()
        folder = Path(os.environ["GRADIO_TEMP_DIR"])
        assert list_images(folder)
        end = time.monotonic() + SECONDS
        while list_images(folder):
            assert time.monotonic() < end
            time.sleep(1)
        seen.get_by_role("button", name="Denoise").click()
        seen.get_by_role("status").filter(has_text=page.GONE).wait_for()
        assert seen.get_by_role("button", name="Download").is_disabled()


def list_images(folder):
    return [p for p in folder.rglob("*.*") if p.suffix in (".png", ".jpg")]


def test_an_installed_package_has_no_samples(denoiser, visit, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SAMPLES", tmp_path / "none")
    with page.start(denoiser, command.parse(["--page"])) as address:
        seen = visit(address)
        assert seen.get_by_text("Samples").count() == 0


def test_it_calls_nobody(denoiser, visit, pictures, monkeypatch):
    called, connect = [], socket.socket.connect

    def watch(self, address):
        called.append(address)
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", watch)
    with page.start(denoiser, command.parse(["--page"])) as address:
        seen = visit(address)
        seen.locator("input[type=file]").set_input_files(str(pictures / "deep.png"))
        seen.get_by_role("status").filter(has_text="deep.png").wait_for()
    assert called  # it asks itself whether it runs
    assert {address[0] for address in called} == {"127.0.0.1"}


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")  # Gradio's own
def test_a_port_that_is_taken_is_said(denoiser):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        args = command.parse(["--page", "--port", str(taken.getsockname()[1])])
        with (
            pytest.raises(ValueError, match=r"cannot listen at 127\.0\.0\.1, port"),
            page.start(denoiser, args),
        ):
            pass
