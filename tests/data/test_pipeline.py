"""Batches are a function of (seed, step, row), whoever makes them, and when."""

import itertools
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from PIL import Image

tf = pytest.importorskip("tensorflow")

from sevnet_jax.data import dead_leaves, patches, pipeline  # noqa: E402
from sevnet_jax.data.config import Data  # noqa: E402

SIDE = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos")
    for i in range(5):
        picture = dead_leaves.render(40, (9, i))[: 40 - i]
        Image.fromarray(picture).save(path / f"{i}.png")
    return str(path)


@pytest.fixture
def config(folder):
    def make(**options):
        options = {"noise": "gaussian:5-20", "batch_size": 8} | options
        return Data(source=folder, patch_size=SIDE, **options)

    return make


def take(config, count, **options):
    batches = pipeline.make_batches(config, **options)
    return list(itertools.islice(batches, count))


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys() == {"clean", "noisy"}
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])


NOISES = ["gaussian:5-20", "speckle*:60", "poisson:6", "mixture", "variant3", "isp"]


@pytest.mark.parametrize("name", NOISES)
def test_restart_and_parallelism_change_no_bit(name, config):
    made = config(noise=name, downscale_probability=0.3)
    steady = take(made, 6, parallelism=1)
    assert_equal(take(made, 6, parallelism=8), steady)
    assert_equal(take(made, 2, start_step=4, parallelism=2), steady[4:])


def test_slow_examples_keep_their_place(config, monkeypatch):
    steady = take(config(), 3, parallelism=1)
    true_shrink, waits = patches.shrink, itertools.cycle([0.03, 0, 0, 0.02, 0])

    def slow_shrink(*arguments):
        time.sleep(next(waits))
        return true_shrink(*arguments)

    monkeypatch.setattr(patches, "shrink", slow_shrink)
    assert_equal(take(config(), 3, parallelism=8), steady)


@pytest.mark.parametrize("name", ["gaussian:5-20", "isp"])
@pytest.mark.parametrize("hosts", [2, 8])
def test_hosts_make_their_rows_of_the_same_batch(hosts, name, config):
    whole = take(config(noise=name), 3)
    parts = [take(config(noise=name), 3, host=h, hosts=hosts) for h in range(hosts)]
    joined = [
        {key: np.concatenate([part[i][key] for part in parts]) for key in whole[i]}
        for i in range(3)
    ]
    assert_equal(joined, whole)


def test_order_of_decoding_changes_no_bit(config):
    """Streaming without a cache gives what the cache gives."""
    assert_equal(take(config(cache_bytes=0), 4), take(config(), 4))


def test_seeds_steps_and_rows_differ(config):
    first, second = take(config(), 2)
    (other,) = take(config(), 1, seed=1)
    n = [b["noisy"] - b["clean"] for b in (first, second, other)]
    rows = np.concatenate(n).reshape(24, -1)
    correlation = np.abs(np.corrcoef(rows) - np.eye(24))
    assert correlation.max() < 6 / rows.shape[1] ** 0.5


def test_batch_has_shape_type_and_range(config):
    (batch,) = take(config(), 1)
    for array in batch.values():
        assert array.shape == (8, SIDE, SIDE, 3)
        assert array.dtype == np.float32
    assert batch["clean"].min() >= 0
    assert batch["clean"].max() <= 1


def test_noise_is_clipped_only_when_asked(config):
    (free,) = take(config(noise="speckle:90"), 1)
    (clipped,) = take(config(noise="speckle:90", clip=True), 1)
    assert free["noisy"].max() > 1
    np.testing.assert_array_equal(clipped["noisy"], np.clip(free["noisy"], 0, 1))


def test_every_patch_lies_in_an_image_in_every_orientation(config, folder):
    """Each clean patch is found, pixel for pixel, in one of the images."""
    pictures = [np.asarray(Image.open(f"{folder}/{i}.png")) for i in range(5)]
    windows = {}
    for i, picture in enumerate(pictures):
        view = np.lib.stride_tricks.sliding_window_view(picture, (SIDE, SIDE, 3))
        for y, x in np.ndindex(*view.shape[:2]):
            windows[view[y, x, 0].tobytes()] = i
    seen_images, seen_turns = set(), set()
    for batch in take(config(), 12):
        for clean in np.round(batch["clean"] * 255).astype(np.uint8):
            for flip, turns in itertools.product((False, True), range(4)):
                upright = patches.orient(clean, flip, turns)
                key = np.ascontiguousarray(upright).tobytes()
                if key in windows:
                    seen_images.add(windows[key])
                    seen_turns.add((flip, turns))
                    break
            else:
                pytest.fail("a patch is from nowhere")
    assert seen_images == set(range(5))
    assert len(seen_turns) == 8


def test_downscaling_comes_as_often_as_asked():
    """White stripes one pixel wide turn grey when two pixels are averaged."""
    reader = pipeline._Reader(
        Data(source="dead_leaves", patch_size=8, downscale_probability=0.25)
    )
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    reader._sources = [[stripes]]
    u = np.random.RandomState(0).uniform(size=(400, reader.COUNT)).astype(np.float32)
    grey = [reader(row).max() < 0.6 * 65535 for row in u]
    assert np.mean(grey) == pytest.approx(0.25, abs=0.06)


def test_enlarging_comes_as_often_as_asked_and_makes_soft_patches():
    """An edge that is sharp to the pixel becomes a ramp, of the same two colours."""
    config = Data(
        source="dead_leaves",
        patch_size=16,
        downscale_probability=0.5,
        enlarge_probability=0.25,
    )
    reader = pipeline._Reader(config)
    squares = np.kron(np.indices((8, 8)).sum(0) % 2, np.ones((8, 8)))
    reader._sources = [[np.repeat(squares[..., None] * 255, 3, -1).astype(np.uint8)]]
    u = np.random.RandomState(0).uniform(size=(400, reader.COUNT)).astype(np.float32)
    made = [reader(row) for row in u]
    assert {(p.shape, p.dtype) for p in made} == {((16, 16, 3), np.dtype(np.uint16))}
    soft = [bool(((p > 3000) & (p < 62000)).any()) for p in made]
    between = (u[:, 2] > 0.5) & (u[:, 2] < 0.75)
    # Factors next to 1 change nothing; an average of two pixels may be between, too.
    assert np.mean(np.array(soft)[between]) > 0.9
    assert not np.array(soft)[u[:, 2] > 0.75].any()
    # Half the edges in a patch that is enlarged twice.
    row = np.array([0.3, 0.3, 0.6, 0.0, 0.3, 0.3, 0.3, 0.0], np.float32)
    twice = row.copy()
    twice[3] = 1.0
    edges = [
        np.count_nonzero(np.diff(reader(r)[0, :, 0] > 32767)) for r in (row, twice)
    ]
    assert edges == [2, 1]


def test_sources_mix_by_weight(folder):
    config = Data(source={folder: 3, "dead_leaves": 1}, patch_size=SIDE)
    reader = pipeline._Reader(config)
    reader._sources = [
        [np.full((SIDE, SIDE, 3), value, np.uint8)] for value in (0, 255)
    ]
    u = np.random.RandomState(0).uniform(size=(400, reader.COUNT)).astype(np.float32)
    white = [reader(row).max() == 65535 for row in u]
    assert np.mean(white) == pytest.approx(0.25, abs=0.06)
    reader(np.ones(reader.COUNT, np.float32))  # the end of the range is in range


def test_prefetch_keeps_order_and_ends(config):
    batches = take(config(), 5)
    for depth in (1, 2, 9):
        received = list(pipeline.prefetch_to_device(batches, depth=depth))
        assert all(isinstance(b["clean"], jax.Array) for b in received)
        assert_equal([jax.device_get(b) for b in received], batches)


def test_prefetch_shards_the_global_batch(config):
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    batches = take(config(), 2)
    received = list(pipeline.prefetch_to_device(batches, sharding))
    assert received[0]["noisy"].sharding == sharding
    assert_equal([jax.device_get(b) for b in received], batches)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"patch_size": 0}, "patch_size.*0"),
        ({"batch_size": -4}, "batch_size.*-4"),
        ({"downscale_probability": 1.5}, "1.5"),
        ({"downscale_probability": float("nan")}, "nan"),
        ({"enlarge_probability": -0.1}, "-0.1"),
        ({"downscale_probability": 0.6, "enlarge_probability": 0.5}, "0.6 and 0.5"),
        ({"downscale_factors": (0,)}, r"\(0,\)"),
        ({"downscale_factors": (1.5,)}, "1.5"),
        ({"noise": "gaussian:-3"}, "-3"),
        ({"noise": "rain"}, "rain"),
    ],
)
def test_bad_config_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        Data(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start_step": -1}, "-1"),
        ({"hosts": 3}, "batch_size 8.*of 3"),
        ({"host": 2, "hosts": 2}, "host 2 of 2"),
    ],
)
def test_bad_place_in_the_run_is_named(options, said, config):
    with pytest.raises(ValueError, match=said):
        pipeline.make_dataset(config(), **options)


def test_bad_sources_are_named_before_the_first_batch(folder, tmp_path):
    with pytest.raises(ValueError, match="absent"):
        pipeline.make_dataset(Data(source=str(tmp_path / "absent")))
    with pytest.raises(ValueError, match="128x128"):
        pipeline.make_dataset(Data(source=folder))
    whole = dead_leaves.render(64, 0)
    Image.fromarray(whole).save(tmp_path / "cut.png")
    data = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="none of the images"):
        pipeline.make_dataset(Data(source=str(tmp_path), patch_size=32))


PROGRAM = """
from sevnet_jax.data import pipeline
from sevnet_jax.data.config import Data
batches = pipeline.make_batches(Data(patch_size=96, noise="isp"))
next(batches)
print("made")
"""


def test_a_program_ends_while_batches_are_made():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=True
    )
    assert result.stdout.decode().strip() == "made"


def test_accelerators_are_hidden_from_tensorflow(config, monkeypatch):
    calls = []
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *a: calls.append(a))
    pipeline.make_dataset(config())
    assert calls == [([], "GPU")]


def test_crops_images_and_factors_are_chosen_independently(monkeypatch):
    """Each choice has its own number: none of the eight is used twice."""
    reader = pipeline._Reader(
        Data(
            source={"dead_leaves": 1.0},
            patch_size=8,
            downscale_probability=1.0,
            downscale_factors=(1, 2),
        )
    )
    image = np.arange(20 * 30 * 3, dtype=np.uint16).reshape(20, 30, 3)
    for source in reader._sources:
        monkeypatch.setattr(
            type(source), "__getitem__", lambda self, i: image + np.uint16(i)
        )
    base = np.full(reader.COUNT, 0.3)
    patch = reader(base)
    for changed in (1, 3, 4, 5, 6, 7):
        moved = base.copy()
        moved[changed] = 0.8
        assert not np.array_equal(reader(moved), patch), changed
    unmoved = base.copy()
    unmoved[0] = unmoved[2] = 0.8  # one source; a factor is always drawn
    np.testing.assert_array_equal(reader(unmoved), patch)
