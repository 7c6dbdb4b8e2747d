"""From the files of runs to tables: which run counts, and what may be claimed."""

import json
import math

import numpy as np
import pytest

from eval import main
from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import study


@pytest.fixture
def write_run(tmp_path):
    """A function that writes a run whose PSNR is the same under all noises but one."""

    def write(name, row, seed=0, inside=30.0, outside=25.0, held_out=31.0, **changes):
        means = {
            noise: {"images": 24, "exact": 0, "psnr": outside, "ssim": 0.8}
            for noise in PAPER_COLUMNS
        }
        means["gaussian:20"]["psnr"] = inside
        run = {"row": row, "seed": seed, "learning_rate": 1.5e-3, "steps": 6000}
        run |= {"held_out": held_out, "means": {"Kodak24": means}, **changes}
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
        return tmp_path

    return write


def test_of_several_trials_the_best_on_held_out_photos_counts(write_run):
    write_run("a", "2f", held_out=30.0)
    write_run("b", "2f", held_out=31.0, steps=12000)
    folder = write_run("c", "2f", held_out=None, means={})
    assert list(study.load(folder)) == ["b"]


def test_out_of_distribution_is_all_but_the_training_noise(write_run):
    folder = write_run("a", "1a", inside=33.0, outside=26.5)
    (row,) = study.collect(study.load(folder), "Kodak24")
    assert row.psnr[study.OOD] == 26.5
    assert row.psnr["gaussian:20"] == 33.0


@pytest.fixture
def runs(write_run):
    """1a twice, 0.2 dB apart; rows that are firmly and hardly worse, and one late."""
    write_run("1a_0", "1a", 0, outside=25.1)
    write_run("1a_1", "1a", 1, outside=24.9)
    write_run("2e", "2e", outside=23.0)
    write_run("2c", "2c", outside=24.9)
    write_run("2b", "2b", outside=26.0)
    write_run("1h", "1h", inside=29.0, outside=20.0)
    return study.load(write_run("unscaled", "unscaled", held_out=None, means={}))


def test_claims_are_judged_by_the_spread_of_seeds(runs):
    rows = study.collect(runs, "Kodak24")
    spread = np.std([25.1, 24.9], ddof=1)
    assert study.find_spread(rows) == pytest.approx(spread)
    _, cells = study.judge(rows)
    held = {line[1].split(" - ")[0]: line[-1] for line in cells}
    assert held["2e"] == "yes"
    assert held["2c"] == "cannot be told"
    assert held["2b"] == "no, the opposite"
    assert held["1h"] == "not converged: says nothing"
    gaps = {line[1]: line[2:4] for line in cells}
    # The paper's mean over its six columns, by hand.
    assert gaps["2e - 1a"] == ["-2.00", "-1.63"]


def test_without_a_second_seed_nothing_is_claimed(write_run):
    write_run("1a", "1a")
    rows = study.collect(study.load(write_run("2e", "2e", outside=20.0)), "Kodak24")
    assert math.isnan(study.find_spread(rows))
    assert study.judge(rows)[1][0][-1] == "one seed only"


def test_a_run_that_diverged_is_in_the_table_of_training(runs):
    text = study.format_study(runs)
    assert "| unscaled | 0 | 0.0015 | 6000 | diverged |" in text
    assert "Not within 0.3 dB of 1a at gaussian:20, so of little weight: 1h" in text
    assert "standard deviation of 0.14 dB" in text


def test_a_collapse_under_noise_is_no_number(write_run):
    write_run("1a", "1a")
    folder = write_run("2a", "2a")
    run = json.loads((folder / "2a.json").read_text())
    run["means"]["Kodak24"]["mixture"].update(psnr=None, ssim=None)
    (folder / "2a.json").write_text(json.dumps(run))
    text = study.format_study(study.load(folder))
    assert "not finite" in text
    assert "yes, it collapsed" in text


def test_a_document_gets_the_tables(runs, tmp_path, capsys):
    document = tmp_path / "results.md"
    document.write_text(f"before\n{study.BEGIN}\noutdated\n{study.END}\nafter\n")
    assert main(["study", "--runs", str(tmp_path), "--write", str(document)]) == 0
    tables = capsys.readouterr().out
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert tables in text
    assert "outdated" not in text
    again = study.replace_block(text, tables)
    assert again == text


def test_what_is_no_study_is_said(tmp_path, capsys):
    assert main(["study", "--runs", str(tmp_path)]) == 2
    assert "no results of runs" in capsys.readouterr().err
    (tmp_path / "a.json").write_text("[]")
    assert main(["study", "--runs", str(tmp_path)]) == 2
    assert "a.json holds no run" in capsys.readouterr().err
    with pytest.raises(ValueError, match="lacks the lines"):
        study.replace_block("nothing", "tables")
