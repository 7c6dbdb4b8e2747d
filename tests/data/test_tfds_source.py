"""A TFDS set is read by number in either format, and its faults take one line."""

import numpy as np
import pytest

from sevnet_jax.data import sources, tfds_source

tfds = pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.filterwarnings("default")  # TFDS's own imports warn

COUNT = 5


def picture(i: int) -> np.ndarray:
    return np.random.RandomState(i).randint(0, 256, (12 + i, 20, 3)).astype(np.uint8)


def make_builder(label: str, features: dict, example):
    class Made(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        name = label
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for i in range(COUNT):
                yield i, example(i)

    return Made


@pytest.fixture(scope="module")
def image_feature():
    return tfds.features.Image(shape=(None, None, 3))


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_prepared_sets_are_read_by_number(file_format, image_feature, tmp_path):
    features = {"lr": image_feature, "hr": image_feature}
    make = make_builder(
        f"pairs_{file_format}",
        features,
        lambda i: {"lr": picture(i)[::2, ::2], "hr": picture(i)},
    )
    builder = make(data_dir=str(tmp_path), file_format=file_format)
    builder.download_and_prepare()
    source = tfds_source.Tfds(builder, "train", 1, sources.Cache())
    assert len(source) == COUNT
    found = {source[i].tobytes() for i in range(COUNT)}
    assert found == {picture(i).tobytes() for i in range(COUNT)}


def test_a_name_is_prepared_when_asked_for(image_feature, tmp_path, monkeypatch):
    make = make_builder(
        "one_image", {"photo": image_feature}, lambda i: {"photo": picture(i)}
    )
    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: make(data_dir=data_dir))
    source = tfds_source.open_prepared("one_image:train", 1, data_dir=str(tmp_path))
    assert len(source) == COUNT
    with pytest.raises(ValueError, match=r"'test'.*train"):
        tfds_source.open_prepared("one_image:test", 1, data_dir=str(tmp_path))


def test_a_set_without_a_clean_image_is_named(image_feature, tmp_path):
    make = make_builder(
        "no_clean",
        {"left": image_feature, "right": image_feature},
        lambda i: {"left": picture(i), "right": picture(i)},
    )
    builder = make(data_dir=str(tmp_path))
    builder.download_and_prepare()
    with pytest.raises(ValueError, match=r"no_clean.*left"):
        tfds_source.Tfds(builder, "train", 1, sources.Cache())


def test_what_cannot_be_prepared_says_what_to_do(monkeypatch):
    def refuse(name, data_dir):
        raise OSError("no network\nand a long story")

    monkeypatch.setattr(tfds, "builder", refuse)
    with pytest.raises(ValueError, match="tfds build div2k") as caught:
        sources.open_sources("tfds:div2k")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_takes_one_line(tmp_path):
    with pytest.raises(ValueError, match="no_such_set") as caught:
        tfds_source.open_prepared("no_such_set", data_dir=str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [3, 40])
def test_a_damaged_shard_is_named(cut, image_feature, tmp_path):
    make = make_builder(
        f"damaged{cut}", {"image": image_feature}, lambda i: {"image": picture(i)}
    )
    builder = make(data_dir=str(tmp_path))
    builder.download_and_prepare()
    (shard,) = tmp_path.rglob("*.tfrecord*")
    whole = shard.read_bytes()
    shard.write_bytes(whole + whole[:cut])
    with pytest.raises(
        ValueError, match=rf"damaged{cut}.*damaged at byte {len(whole)}"
    ):
        tfds_source.Tfds(builder, "train", 1, sources.Cache())
