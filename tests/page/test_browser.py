"""The web page as people use it: in a browser, alone and together."""

import socket
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.page.conftest import MOST_PIXELS, STRENGTH

pytestmark = pytest.mark.slow


def upload(seen, path):
    seen.locator("input[type=file]").first.set_input_files(str(path))


def wait_for(seen, text):
    """The sentence on the page that contains a text."""
    found = seen.get_by_role("status").filter(has_text=text).first
    found.wait_for()
    return found.inner_text()


def set_strength(seen, strength):
    seen.get_by_label("number input for Strength").fill(str(strength))
    seen.keyboard.press("Enter")


def download(seen):
    button = seen.get_by_role("button", name="Download")
    with seen.expect_download() as taken:
        button.click()
    return taken.value.suggested_filename, Path(taken.value.path()).read_bytes()


@pytest.mark.parametrize("name", ["deep.png", "photo.jpg"])
def test_the_download_is_what_denoise_py_writes(
    server, visit, pictures, expected, name
):
    seen = visit(server.address)
    upload(seen, pictures / name)
    text = wait_for(seen, name)
    assert "48 x 64" in text
    assert "noise" in text
    shown = seen.get_by_test_id("imageslider-image").nth(1)
    first = shown.get_attribute("src")
    full = download(seen)[1]
    set_strength(seen, STRENGTH)
    seen.wait_for_function(
        "old => document.querySelectorAll('[data-testid=imageslider-image]')[1].src"
        " !== old",
        arg=first,
    )
    stem, ending = name.split(".")
    assert download(seen) == (f"{stem}_denoised.{ending}", expected(name))
    assert full != expected(name)  # at strength 1


def test_a_sample_is_a_click_away(server, visit):
    seen = visit(server.address)
    seen.get_by_role("button", name="portrait").click()
    text = wait_for(seen, "portrait_noisy_isp.png")
    assert "colour, camera noise" in text
    seen.get_by_label("white").check()
    seen.get_by_role("button", name="Denoise").click()
    assert "colour, white noise" in wait_for(seen, "white noise")


def make_bad_files(folder):
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (600, 600, 3), np.uint8))
    noise.save(folder / "heavy.png")
    Image.new("RGB", (300, 300)).save(folder / "wide.png")
    noise.crop((0, 0, 200, 200)).save(folder / "torn.png")
    (folder / "torn.png").write_bytes((folder / "torn.png").read_bytes()[:9999])
    (folder / "text.png").write_text("hello")
    (folder / "notes.txt").write_text("hello")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text.png", "text.png: not an image"),
        ("torn.png", "torn.png: a damaged image"),
        ("wide.png", f"300x300 is more than {MOST_PIXELS} pixels"),
        ("heavy.png", "exceed the maximum allowed size"),
        ("notes.txt", "Only .tif, .tiff, .png"),
    ],
)
def test_a_bad_file_is_a_sentence_and_a_good_one_follows(
    server, visit, pictures, tmp_path, name, message
):
    make_bad_files(tmp_path)
    seen = visit(server.address)
    upload(seen, tmp_path / name)
    wait_for(seen, message)
    assert seen.get_by_role("button", name="Download").is_disabled()
    seen.goto(server.address)
    seen.get_by_role("button", name="Denoise").wait_for()
    upload(seen, pictures / "deep.png")
    wait_for(seen, "deep.png")
    assert "Traceback" not in server.log.read_text()


def test_two_visitors_get_their_own(server, visit, pictures, expected):
    both = {name: visit(server.address) for name in ("deep.png", "photo.jpg")}
    for name, seen in both.items():
        upload(seen, pictures / name)
    for name, seen in both.items():
        wait_for(seen, name)
        set_strength(seen, STRENGTH)
    for name, seen in both.items():
        assert download(seen)[1] == expected(name)


def tab_to(seen, selector):
    for _ in range(40):
        seen.keyboard.press("Tab")
        if seen.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"the Tab key does not lead to {selector}")


def test_keys_are_enough(server, visit, pictures, expected):
    seen = visit(server.address)
    tab_to(seen, "button[aria-label*=upload]")
    with seen.expect_file_chooser() as chooser:
        seen.keyboard.press("Enter")
    chooser.value.set_files(str(pictures / "deep.png"))
    wait_for(seen, "deep.png")
    tab_to(seen, "input[type=range]")
    for _ in range(round(100 * (1 - STRENGTH))):
        seen.keyboard.press("ArrowLeft")
    tab_to(seen, "button:not([disabled]).lg:not(.primary)")
    with seen.expect_download() as taken:
        seen.keyboard.press("Enter")
    assert Path(taken.value.path()).read_bytes() == expected("deep.png")


def test_a_narrow_window_needs_no_scrolling_sideways(server, visit, pictures):
    seen = visit(server.address, width=360, height=740)
    upload(seen, pictures / "photo.jpg")
    wait_for(seen, "photo.jpg")
    assert seen.evaluate("document.documentElement.scrollWidth") <= 360
    for name in ("Denoise", "Download"):
        box = seen.get_by_role("button", name=name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    box = seen.get_by_test_id("imageslider-image").first.bounding_box()
    assert box["width"] > 200


def test_nothing_is_fetched_from_elsewhere(server, browser, pictures):
    seen = browser.new_page()
    asked = []
    seen.on("request", lambda request: asked.append(request.url))
    seen.goto(server.address)
    seen.get_by_role("button", name="Denoise").wait_for()
    upload(seen, pictures / "photo.jpg")
    wait_for(seen, "photo.jpg")
    seen.close()
    assert len(asked) > 10
    inside = (server.address, "data:", "blob:")
    assert [url for url in asked if not url.startswith(inside)] == []


def test_only_this_computer_can_reach_it(server):
    port = int(server.address.strip("/").rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)):
        pass
    # What listens everywhere also listens here.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port))


def test_other_files_are_not_served(server, project):
    def fetch(path):
        with urllib.request.urlopen(f"{server.address}gradio_api/file={path}") as found:
            return found.read()

    sample = project / "samples" / "window_noisy_speckle-90.png"
    assert fetch(sample) == sample.read_bytes()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        fetch(project / "README.md")


def test_ending_it_removes_all_images(server, visit, pictures):
    """The last one: it ends the page."""
    seen = visit(server.address)
    upload(seen, pictures / "deep.png")
    wait_for(seen, "deep.png")
    assert [*server.temporary.rglob("deep.png")]
    assert server.stop() == 0
    assert [*server.temporary.rglob("*.png")] == []
    assert [*server.temporary.glob("sevnet_page_*")] == []
