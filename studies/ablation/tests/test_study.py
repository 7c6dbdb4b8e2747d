"""From the files of runs to tables: which run counts, and what may be claimed."""

import json

import numpy as np
import pytest
import scipy.stats

from sevnet_jax.data.noise import PAPER_COLUMNS
from studies import chance, results, selection
from studies.ablation import claims, report
from studies.ablation.rows import OURS
from studies.means import BEYOND, OOD, PAPER_MEAN, VARYING


@pytest.fixture
def write_run(tmp_path):
    """A function that writes a run whose PSNR is the same under all noises but one."""

    def write(name, row, seed=0, inside=30.0, outside=25.0, held_out=31.0, **changes):
        means = {
            noise: {"images": 24, "exact": 0, "psnr": outside, "ssim": 0.8}
            for noise in PAPER_COLUMNS
        }
        means["gaussian:20"]["psnr"] = inside
        run = {"row": row, "seed": seed, "stage": 0, "diverged_after": 312}
        run |= {"learning_rate": 1.5e-3, "steps": 6000}
        run |= {"held_out": held_out, "means": {"Kodak24": means}, **changes}
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
        return tmp_path

    return write


def test_of_several_stages_the_best_on_held_out_photos_counts(write_run):
    write_run("a", "2f", held_out=30.0)
    write_run("b", "2f", held_out=31.0, stage=1)
    write_run("c", "2f", held_out=31.5, stage=2, means={})
    folder = write_run("d", "2f", held_out=None, stage=2, means={})
    assert list(report.choose(results.load(folder))) == ["b"]


def test_a_row_that_was_not_scored_yet_did_not_diverge(write_run):
    write_run("1a", "1a")
    text = report.format_study(results.load(write_run("2c", "2c", means={})))
    assert "| 2c | 0 | 0.0015 | 6000 | 31.00 | - | no |" in text
    assert "diverged" not in text


def test_longer_trainings_of_1a_are_controls_only(write_run):
    write_run("a", "1a", held_out=31.0)
    folder = write_run("b", "1a", held_out=31.5, stage=1, steps=18000)
    runs = results.load(folder)
    rows = {name: run["row"] for name, run in report.choose(runs).items()}
    assert rows == {"a": "1a", "b": "1a_stage1"}
    line = "| 1a | 0 | 0.0015 | 18000 | 31.50 | 25.00 | as 1a_stage1 |"
    assert line in report.format_study(runs)


def test_a_late_seed_is_left_out_if_another_is_not(write_run):
    write_run("1a", "1a")
    write_run("2b_0", "2b", 0, held_out=30.9)
    write_run("2b_1", "2b", 1, held_out=30.0)
    folder = write_run("2e", "2e", held_out=29.0)  # late, but there is no other
    assert list(report.choose(results.load(folder))) == ["1a", "2b_0", "2e"]


def test_each_seed_is_held_against_its_own_1a(write_run):
    write_run("1a_0", "1a", 0, held_out=31.0)
    write_run("1a_1", "1a", 1, held_out=30.0)
    write_run("2b_0", "2b", 0, held_out=30.0)
    folder = write_run("2b_1", "2b", 1, held_out=29.9)
    assert "2b_1" in report.choose(results.load(folder))
    assert "2b_0" not in report.choose(results.load(folder))


def test_runs_on_other_images_are_refused(write_run):
    write_run("a", "1a")
    folder = write_run("b", "2b", means={"Kodak24": {"mixture": {"images": 3}}})
    with pytest.raises(ValueError, match=r"b\.json was scored on other images"):
        results.load(folder)


def test_means_are_over_their_noises(write_run):
    folder = write_run("a", "1a", inside=33.0, outside=26.5)
    run = json.loads((folder / "a.json").read_text())
    run["means"]["Kodak24"]["variant1"]["psnr"] = 32.5
    (folder / "a.json").write_text(json.dumps(run))
    (row,) = report.collect(results.load(folder), "Kodak24")
    assert row.psnr["gaussian:20"] == 33.0
    assert row.psnr[OOD] == pytest.approx(26.5 + 6 / 16)
    assert row.psnr[VARYING] == pytest.approx(26.5 + 6 / 6)
    assert row.psnr[PAPER_MEAN] == pytest.approx(26.5 + 6 / 6)
    assert row.psnr[OOD + BEYOND] == pytest.approx(26.5 + 6 / 16 - 33)


@pytest.fixture
def runs(write_run):
    """Homogeneous rows that are much alike, others far off, level, or late."""
    for seed, spread in ((0, 0.01), (1, -0.01)):
        write_run(f"1a_{seed}", "1a", seed, outside=25.0 + spread)
        write_run(f"2b_{seed}", "2b", seed, outside=25.05 + 2 * spread)
        write_run(f"2e_{seed}", "2e", seed, outside=23.0 + 3 * spread)
    write_run("2c", "2c", outside=24.98)
    write_run("2d", "2d", outside=26.0)
    write_run("1f", "1f", inside=29.5, outside=24.5)
    write_run("1d", "1d", outside=22.9)
    write_run("1h", "1h", held_out=30.0, inside=29.0, outside=20.0)
    return results.load(write_run("unscaled", "unscaled", held_out=None, means={}))


def read_verdicts(runs, data="Kodak24"):
    chosen = report.choose(runs)
    late = selection.list_late(chosen, OURS, report.SMALLER)
    rows = report.collect(chosen, data)
    controls = selection.find_controls(chosen, OURS)
    _, cells = claims.judge(rows, late, ["unscaled", "1e"], controls, data)
    return {line[1]: line[2:] for line in cells}


def test_the_margin_is_students(runs):
    rows = {row.name: row for row in report.collect(report.choose(runs), "Kodak24")}
    reference = ["1a", "2b", "2c"]

    def find(*pair):
        return chance.find_margin(rows, reference, pair, OOD, OURS)

    # All trainings of the reference tell its spread.
    known = np.std([25.01, 24.99, 25.07, 25.03, 24.98], ddof=1)
    known *= scipy.stats.t.ppf(0.975, 4)
    assert find("2c", "1a") == pytest.approx(known * np.sqrt(1 / 1 + 1 / 2))
    assert find("2e", "1a") == pytest.approx(known * np.sqrt(1 / 2 + 1 / 2))
    # Two rows outside of it: their own seeds only.
    own = scipy.stats.t.ppf(0.975, 1) * np.std([23.03, 22.97], ddof=1)
    assert find("2e", "2d") == pytest.approx(own * np.sqrt(1 / 2 + 1 / 1))
    assert np.isnan(find("1d", "2d"))


def test_the_kinds_are_compared_by_ranks(write_run, runs):
    rows = report.collect(report.choose(runs), "Kodak24")
    # The lowest three of six, in one of twenty ways.
    text = report.compare_kinds(rows, ["1h", "2d"])
    assert text.startswith("Rows that break the law (1d, 1f, 2e) minus those that keep")
    assert max(len(line) for line in text.splitlines()) <= 120
    gap, line = 23 - 25, " ".join(text.split())  # of the medians
    assert f"{gap:+.2f} dB in the mean of 16 (p = {2 / 20:.2g})" in line
    assert "+0.0000 of SSIM in the mean of 16 (p = 1)" in line
    assert report.compare_kinds(rows, ["1h"]) in report.format_study(runs)
    assert report.compare_kinds(rows[:2], []) == ""


def test_longer_rows_are_held_against_1a_trained_as_long(write_run, runs):
    write_run("1a_long", "1a", stage=1, steps=18000, outside=23.5)
    folder = write_run("2d", "2d", stage=1, steps=18000, outside=24.0)
    chosen = report.choose(results.load(folder))
    assert selection.find_controls(chosen, OURS)["2d"] == "1a_stage1"
    found = read_verdicts(results.load(folder))
    assert found["2d - 1a"][1].startswith("-1.00 +-")
    assert found["2d - 1a_stage1"][1].startswith("+0.50 +-")
    assert "2e - 1a_stage1" not in found
    # As many steps, not as many stages: those that diverged gave none.
    late = write_run("unscaled_3", "unscaled", stage=3, steps=12000, held_out=31.0)
    chosen = report.choose(results.load(late))
    assert selection.find_controls(chosen, OURS)["unscaled"] == "1a_stage1"


def test_a_control_is_judged_over_the_claims_own_noises():
    found = claims.add_controls({"2f_wrapped": "1a_stage1"})
    added = [claim for claim in found if claim not in claims.CLAIMS]
    assert [claim.over for claim in added] == [OOD, VARYING]
    assert {claim.better for claim in added} == {"1a_stage1"}


def test_what_is_lost_beyond_the_score_in_distribution_has_its_own_margin(write_run):
    """Seeds that are better everywhere spread, but not in what they lose."""
    for seed, better in ((0, 0.5), (1, -0.5)):
        scores = {"inside": 30 + better, "held_out": 31.0}
        write_run(f"1a_{seed}", "1a", seed, **scores, outside=25 + better)
        write_run(f"2e_{seed}", "2e", seed, **scores, outside=24.9 + better)
    folder = write_run("2d", "2d", outside=24.9)
    found = read_verdicts(results.load(folder))
    only = "only relative to its score in distribution"
    assert found["2e - 1a"][1:3] == ["-0.10 +- 8.98", "-0.10 +- 0.00"]
    assert found["2e - 1a"][-1] == only
    assert found["2d - 1a"][-1] == f"{only}, in one training"


def test_claims_are_judged_by_what_chance_does(runs):
    found = read_verdicts(runs)
    assert found["2e - 1a"][-1] == found["2e - 2d"][-1] == "yes"
    assert found["2c - 1a"][-1] == "yes"  # the claim that it loses only a little
    assert found["2b - 1a"][-1] == "cannot be told"
    assert found["2d - 1a"][-1] == "no, the opposite, in one training"
    assert found["1h - 1a"][-1] == "1h not converged: says nothing"
    perhaps = "yes, but perhaps no more than in distribution, in one training"
    assert found["1f - 1a"][-1] == perhaps
    assert found["1d - 1a"][-1] == "no, more than 0.2 dB worse, in one training"
    assert found["unscaled - 1a"][-1] == "yes, its training diverged"
    assert found["1e - 1a"][-1] == "no, its training diverged"
    # The paper's own mean over its six columns, 2e minus 2d, by hand.
    assert found["2e - 2d"][3] == "-3.00 (-1.09)"


def test_a_row_diverged_if_it_did_in_every_stage(write_run):
    for number in range(len(results.STAGES)):
        assert report.find_diverged(results.load(write_run("1a", "1a"))) == []
        name = f"unscaled_{number}"
        folder = write_run(name, "unscaled", stage=number, held_out=None, means={})
    assert report.find_diverged(results.load(folder)) == ["unscaled"]
    folder = write_run("other", "unscaled", seed=1, held_out=None, means={})
    assert report.find_diverged(results.load(folder)) == []  # that seed is not through


def test_a_training_that_ended_without_a_finite_score_is_said(write_run):
    write_run("1a", "1a")
    lost = {"held_out": None, "diverged_after": None, "means": {}}
    text = report.format_study(results.load(write_run("2c", "2c", **lost)))
    assert "| 2c | 0 | 0.0015 | 6000 | not finite | - | no |" in text


def test_a_late_row_on_either_side_says_nothing(write_run, runs):
    folder = write_run("2d", "2d", held_out=30.0, outside=24.0)
    found = read_verdicts(results.load(folder))
    assert found["2e - 2d"][-1] == "2d not converged: says nothing"


def test_a_smaller_network_may_be_behind_in_distribution(write_run, runs):
    write_run("2f", "2f", outside=24.0)
    scores = {"held_out": 30.0, "inside": 29.0, "outside": 24.0}
    folder = write_run("narrow", "1a_narrow", **scores)
    loaded = results.load(folder)
    found = read_verdicts(loaded)
    assert found["1a_narrow - 1a"][-1] == "yes"  # as much is lost everywhere
    worse = found["2f - 1a_narrow"][-1]  # from a better score to the same
    assert worse == "yes, in one training"
    assert "of little weight: 1h\n" in report.format_study(loaded)


@pytest.mark.parametrize(
    ("gap", "margin", "verdict"),
    [
        (-0.1, 0.05, "yes"),
        (0.9, 0.6, "yes"),
        (-0.1, 0.6, "cannot be told"),
        (-0.9, 0.6, "no, more than 0.2 dB worse"),
        (-0.1, np.nan, "one seed only: cannot be told"),
    ],
)
def test_what_is_close_is_judged_by_the_spread_too(gap, margin, verdict):
    found = chance.Difference(gap, margin)
    assert claims.decide(True, found, beyond=found) == verdict


def test_the_papers_numbers_stand_beside_its_own_set_only(runs):
    for run in runs.values():
        if run["means"]:
            run["means"]["CBSD68"] = run["means"].pop("Kodak24")
    assert read_verdicts(runs, "CBSD68")["2e - 2d"][3] == "-3.00"


def test_without_a_second_seed_nothing_is_claimed(write_run):
    write_run("1a", "1a")
    found = read_verdicts(results.load(write_run("2d", "2d", outside=20.0)))
    assert found["2d - 1a"][-1] == "one seed only: cannot be told"


@pytest.mark.parametrize(
    ("row", "verdict"),
    [("2e", "yes, it collapsed"), ("2d", "2d collapsed: says nothing")],
)
def test_a_collapse_counts_for_one_side_only(runs, row, verdict):
    for run in runs.values():
        if run["row"] == row:
            run["means"]["Kodak24"]["mixture"].update(psnr=None, ssim=None)
    found = read_verdicts(runs)
    assert found["2e - 2d"][-1] == verdict
    assert found["1f - 1a"][-1].startswith("yes, but")  # the others go on


def test_everything_is_in_the_tables(runs):
    text = report.format_study(runs)
    line = "| unscaled | 0 | 0.0015 | 6000 | diverged after 312 | - | no |"
    assert line in text
    assert "| 1a | 1 | 0.0015 | 6000 | 31.00 | 24.99 | as 1a |" in text
    assert "Not within 0.3 dB of 1a at gaussian:20, so of little weight: 1h" in text


def test_a_document_gets_the_tables(runs, tmp_path, capsys):
    document = tmp_path / "results.md"
    document.write_text(f"before\n{results.BEGIN}\noutdated\n{results.END}\nafter\n")
    assert report.main(["--runs", str(tmp_path), "--write", str(document)]) == 0
    tables = capsys.readouterr().out
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert tables in text
    assert "outdated" not in text
    again = results.replace_block(text, tables)
    assert again == text


def test_what_is_no_study_is_said(tmp_path, capsys):
    assert report.main(["--runs", str(tmp_path)]) == 2
    assert "no results of runs" in capsys.readouterr().err
    (tmp_path / "a.json").write_text("[]")
    assert report.main(["--runs", str(tmp_path)]) == 2
    assert "a.json holds no run" in capsys.readouterr().err
    with pytest.raises(ValueError, match="lacks the lines"):
        results.replace_block("nothing", "tables")
