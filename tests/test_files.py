"""A file is whole or not there, and the old one survives a failure."""

import pytest

from sevnet_jax.files import write_atomically


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, lambda part: part.write_text("old"))

    def fail(part):
        part.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_the_temporary_file_has_the_same_ending_and_ordinary_rights(tmp_path):
    seen = []

    def write(part):
        seen.append(part.suffix)
        part.write_text("new")

    write_atomically(tmp_path / "a.png", write)
    (tmp_path / "plain").touch()
    assert seen == [".png"]
    modes = {p.stat().st_mode for p in tmp_path.iterdir()}
    assert len(modes) == 1
