"""Images of a TFDS data set by index, read without TensorFlow."""

from pathlib import Path

import numpy as np

from sevnet_jax.data.sources import Cache, Source

# What data sets call the clean image, the likeliest first.
CLEAN_FEATURES = ("hr", "clean", "image")


class _TfRecords:
    """Records of TFRecord files by number: the format has no index, so make one.

    A record is its length (8 bytes), a checksum (4), the bytes, a checksum (4).
    """

    def __init__(self, paths: list[Path], features):
        self._features = features
        self._places: list[tuple[Path, int, int]] = []
        for path in paths:
            end = path.stat().st_size
            with path.open("rb") as file:
                while (start := file.tell()) < end:
                    head = file.read(8)
                    length = int.from_bytes(head, "little")
                    if len(head) < 8 or start + 16 + length > end:
                        raise ValueError(f"{path} is damaged at byte {start}")
                    self._places.append((path, start + 12, length))
                    file.seek(start + 16 + length)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> dict:
        path, start, length = self._places[index]
        with path.open("rb") as file:
            file.seek(start)
            return self._features.deserialize_example_np(file.read(length))


def _clean_feature(name: str, features) -> str:
    import tensorflow_datasets as tfds

    found = [k for k, v in features.items() if isinstance(v, tfds.features.Image)]
    for feature in [*CLEAN_FEATURES, *(found if len(found) == 1 else [])]:
        if feature in found:
            return feature
    raise ValueError(
        f"TFDS {name!r} has no clean image among {[*features]}; "
        f"known names are {', '.join(CLEAN_FEATURES)}"
    )


class Tfds(Source):
    """One split of a prepared data set; see `open_prepared`."""

    def __init__(self, builder, split: str, min_side: int, cache: Cache):
        name = builder.info.full_name
        if split not in builder.info.splits:
            known = ", ".join(builder.info.splits)
            raise ValueError(f"TFDS {name!r} has no split {split!r}; it has {known}")
        self._feature = _clean_feature(name, builder.info.features)
        try:
            self._records = builder.as_data_source(split)
        except NotImplementedError:  # prepared in TFRecord format, TFDS's default
            paths = [Path(p) for p in builder.info.splits[split].filepaths]
            self._records = _TfRecords(paths, builder.info.features)
        super().__init__(f"tfds:{name}:{split}", len(self._records), min_side, cache)

    def load(self, index: int) -> np.ndarray:
        pixels = np.asarray(self._records[index][self._feature])
        if pixels.dtype not in (np.uint8, np.uint16):
            raise ValueError(f"pixels are {pixels.dtype}, not uint8 or uint16")
        return pixels


def open_prepared(
    spec: str,
    min_side: int = 1,
    cache: Cache | None = None,
    data_dir: str | None = None,
) -> Tfds:
    """Returns the source `NAME` or `NAME:SPLIT`; prepares the data set if need be."""
    name, _, split = spec.partition(":")
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder(name, data_dir=data_dir)
        if not builder.is_prepared():
            builder.download_and_prepare()
    except ImportError as error:
        raise ValueError(f"TFDS {name!r} needs the extra `train`: {error}") from error
    except Exception as error:  # no network, no disk, no such name, a manual step...
        reason = f"{error}".strip().split("\n")[0]
        raise ValueError(
            f"TFDS {name!r} cannot be prepared ({type(error).__name__}: {reason}); run "
            f"`tfds build {name}` where it can, and set TFDS_DATA_DIR to its folder"
        ) from None
    try:
        return Tfds(builder, split or "train", min_side, cache or Cache())
    except ValueError:
        raise
    except Exception as error:  # a shard is missing, or its reader is
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ValueError(f"TFDS {name!r} cannot be read ({reason})") from error
