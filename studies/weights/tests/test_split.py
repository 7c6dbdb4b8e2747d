"""Crops of one photo are never on both sides, and the choice is the same everywhere."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studies.weights import split

CROPS = [Path(f"p{photo}_a_{crop}.png") for photo in range(30) for crop in range(2)]


def test_photos_are_whole_and_others_stay_where_they_are():
    chosen = split.choose_held_out(CROPS, 10)
    assert len(chosen) == 10
    photos = {split.find_photo(crop) for crop in chosen}
    assert not photos & {split.find_photo(c) for c in CROPS if c not in chosen}
    assert chosen == split.choose_held_out(reversed(CROPS), 10)
    fewer = [crop for crop in CROPS if crop not in chosen][8:] + list(chosen)
    assert split.choose_held_out(fewer, 10) == chosen


def test_it_is_the_split_of_the_bundled_weights():
    """These photos were held out of the 557 with these names; the hash says so."""
    photos = ["budgie-1312", "cid22-0000", "cid22-0010", "mint-0001", "kde-0002"]
    crops = [Path(f"{photo}_x_0.webp") for photo in photos]
    chosen = split.choose_held_out(crops, 3)
    assert {split.find_photo(crop) for crop in chosen} == {*photos[:3]}


def test_the_command_copies(tmp_path, capsys):
    for name in ("a_1.png", "a_2.png", "b_1.png"):
        Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / name)
    assert split.main([str(tmp_path), str(tmp_path / "o"), "--held-out", "1"]) == 0
    assert [p.name for p in (tmp_path / "o" / "held_out").iterdir()] == ["b_1.png"]
    assert len(list((tmp_path / "o" / "train").iterdir())) == 2
    assert "2 crops to train on, 1 held out" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["none", "out"], ["{}", "out", "--held-out", "9"]])
def test_mistakes_are_one_line(argv, tmp_path, capsys):
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "a_1.png")
    assert split.main([text.format(tmp_path) for text in argv]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_would_mix_the_two_sides_is_refused(tmp_path, capsys):
    crops, out = tmp_path / "crops", tmp_path / "out"
    for name in ("a_0", "b_0", "c_0"):
        crops.mkdir(exist_ok=True)
        Image.new("L", (8, 8)).save(crops / f"{name}.png")
    argv = [str(crops), str(out), "--held-out", "1"]
    assert split.main(argv) == 0
    assert split.main(argv) == 2
    assert "is not empty" in capsys.readouterr().err
    (crops / "more").mkdir()
    Image.new("L", (8, 8)).save(crops / "more" / "a_0.png")
    assert split.main([str(crops), str(tmp_path / "new"), "--held-out", "1"]) == 2
    assert "have the same name" in capsys.readouterr().err
