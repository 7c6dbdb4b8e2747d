"""Folders, TFDS and mixtures: every format at full depth, every fault named."""

import logging

import numpy as np
import pytest
import tifffile
from PIL import Image

from sevnet_jax import images
from sevnet_jax.data import sources


@pytest.fixture
def rgb():
    return np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)


@pytest.fixture
def folder(rgb, tmp_path):
    """Two good images, one of them deeper; one tiny, two broken, one not an image."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    Image.fromarray(255 - rgb).save(tmp_path / "deep" / "er" / "b.png")
    Image.fromarray(rgb[:4, :4]).save(tmp_path / "tiny.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "not.jpg").write_bytes(b"no image at all")
    (tmp_path / "notes.txt").write_text("not even by name")
    return tmp_path


def test_folder_skips_names_and_counts_what_it_cannot_use(folder, rgb, caplog):
    caplog.set_level(logging.WARNING)
    source = sources.Folder(folder, min_side=16)
    seen = [source[i] for i in range(len(source))] + [source[i] for i in range(3)]
    assert source.skipped == 3
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3  # once each, though asked twice
    for name in ("tiny.png", "cut.png", "not.jpg"):
        assert sum(name in line and "\n" not in line for line in lines) == 1
    found = {image.tobytes() for image in seen}
    assert found == {rgb.tobytes(), (255 - rgb).tobytes()}


def test_images_of_other_channels_are_skipped_if_they_are_no_use(folder, caplog):
    bands = np.zeros((20, 30, 5), np.uint8)
    kinds = {"photometric": "minisblack", "planarconfig": "contig"}
    tifffile.imwrite(folder / "bands.tif", bands, **kinds)
    assert sources.open_one(str(folder), 16)[1].shape[-1] == 5
    ((source, _),) = sources.open_sources(str(folder), 16, channels=3)
    assert {source[i].shape[-1] for i in range(len(source))} == {3}
    (line,) = [r.getMessage() for r in caplog.records if "bands" in r.getMessage()]
    assert "has 5 channels, the network takes 3" in line


def test_a_broken_image_is_replaced_whatever_was_asked_before(folder):
    forward = sources.Folder(folder, min_side=16)
    backward = sources.Folder(folder, min_side=16)
    one = [forward[i] for i in range(len(forward))]
    other = [backward[i] for i in reversed(range(len(backward)))][::-1]
    np.testing.assert_array_equal(one, other)


def test_cache_keeps_to_its_budget_and_spares_decoding(folder, rgb, monkeypatch):
    reads = []
    true_read = images.read_pixels
    monkeypatch.setattr(
        images, "read_pixels", lambda p: reads.append(p) or true_read(p)
    )
    for budget, expected in [(10**6, 2), (rgb.nbytes, 4), (0, 6)]:
        reads.clear()
        cache = sources.Cache(budget)
        source = sources.Folder(folder, 16, cache)
        for _ in range(3):
            for i in (0, 2):  # 1 is the broken one
                source[i]
        good = [p for p in reads if p.name != "cut.png"]
        assert len(good) == expected
        assert cache.used <= budget


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda p: p / "absent", "absent"),
        (lambda p: p, "no images"),
    ],
)
def test_missing_and_empty_folders_are_named(prepare, said, tmp_path):
    path = prepare(tmp_path)
    with pytest.raises(ValueError, match=said) as caught:
        sources.open_sources(str(path))
    assert path.name in str(caught.value)


def test_patch_larger_than_every_image_is_named(folder):
    with pytest.raises(ValueError, match="512x512"):
        sources.open_sources(str(folder), min_side=512)


def test_a_folder_of_broken_images_is_an_error(rgb, tmp_path):
    Image.fromarray(rgb).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[:300])
    source = sources.Folder(tmp_path)
    with pytest.raises(ValueError, match=r"of .* can be read: .*truncated"):
        source[0]


def test_dead_leaves_differ_by_number_and_grow_with_the_patch():
    source = sources.DeadLeaves(count=3, size=16, min_side=24)
    assert source[0].shape == (24, 24, 3)
    assert not np.array_equal(source[0], source[1])
    assert len(source) == 3


def test_shares_of_a_mixture_sum_to_one(folder):
    mixed = sources.open_sources({str(folder): 3, "dead_leaves": 1}, min_side=16)
    assert [share for _, share in mixed] == [0.75, 0.25]
    assert [source.name for source, _ in mixed] == [str(folder), "dead_leaves"]


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_bad_weights_are_named(weight):
    with pytest.raises(ValueError, match=str(weight)):
        sources.open_sources({"dead_leaves": weight})


def test_no_source_is_an_error():
    with pytest.raises(ValueError, match="no source"):
        sources.open_sources({})


def test_a_system_that_fails_for_a_moment_changes_no_image(rgb, tmp_path, monkeypatch):
    for i in range(2):
        Image.fromarray(rgb).save(tmp_path / f"{i}.png")
    source = sources.Folder(tmp_path)
    with monkeypatch.context() as patch:
        failing = OSError(24, "too many open files")
        patch.setattr(
            images, "read_pixels", lambda path: (_ for _ in ()).throw(failing)
        )
        with pytest.raises(OSError, match="too many"):
            source[0]
    assert source.skipped == 0
    np.testing.assert_array_equal(source[0], rgb)
    with monkeypatch.context() as patch:
        patch.setattr(images, "read_size", lambda path: (_ for _ in ()).throw(failing))
        with pytest.raises(OSError, match="too many"):
            sources.Folder(tmp_path)


def test_specs_without_paths(tmp_path):
    for name in ("photos", "more"):
        (tmp_path / name).mkdir()
    spec = f"{tmp_path}/photos=3,{tmp_path}/more=1,dead_leaves=0.5"
    assert sources.without_paths(spec) == "photos=3,more=1,dead_leaves=0.5"
    assert sources.without_paths(str(tmp_path / "more")) == "more"
    assert sources.without_paths("tfds:div2k") == "tfds:div2k"
    (tmp_path / "more" / "photos").mkdir()
    spec = f"{tmp_path}/photos=3,{tmp_path}/more/photos=1"
    assert sources.without_paths(spec) == "photos=3,photos=1"
    assert sources.without_paths("/home/alice/gone") == "gone"
    assert sources.without_paths("/home/alice/a,/home/alice/a") == "a,a"
    assert sources.without_paths("/home/alice/gone=2,tfds:a/b") == "gone=2,tfds:a/b=1"


@pytest.mark.parametrize(
    ("spec", "weights"),
    [
        ("photos", {"photos": 1.0}),
        ("photos=3,dead_leaves=1", {"photos": 3.0, "dead_leaves": 1.0}),
        ("a, b=2", {"a": 1.0, "b": 2.0}),
    ],
)
def test_weights_from_text(spec, weights):
    assert sources.parse_weights(spec) == weights


def test_a_weight_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="no weight in 'a=x'"):
        sources.parse_weights("a=x,b=1")


@pytest.mark.parametrize("spec", ["a,a,b", "a=2, a"])
def test_a_source_that_is_named_twice_is_refused(spec):
    with pytest.raises(ValueError, match=r"a is named twice in .*; give a=2"):
        sources.parse_weights(spec)


def test_a_folder_with_a_comma_is_a_folder(tmp_path):
    folder = tmp_path / "a,b=2"
    folder.mkdir()
    assert sources.parse_weights(str(folder)) == {str(folder): 1.0}


def test_dead_leaves_take_a_seed():
    first, again, other = (
        sources.open_one(spec)[0]
        for spec in ("dead_leaves", "dead_leaves:0", "dead_leaves:1")
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    with pytest.raises(ValueError, match="takes a whole number"):
        sources.open_one("dead_leaves:x")


def test_a_seed_that_nobody_can_draw_from_is_named():
    with pytest.raises(ValueError, match="below 2"):
        sources.open_one("dead_leaves:99999999999")
