"""README.md says what the files of the trained rivals say."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from sevnet_jax.evaluation.report import finite
from sevnet_jax.models import create_model
from studies import results
from studies.ablation import report as ablation
from studies.rivals import curve, networks, report

STUDY = Path(report.__file__).parent


@pytest.fixture(scope="module")
def runs():
    any_run = any(report.RESULTS.glob("*.json"))
    return results.load(report.RESULTS) if any_run else {}


def test_the_tables_are_made_of_the_files(runs):
    document = (STUDY / "README.md").read_text(encoding="utf-8")
    made = report.format_study(runs)
    assert results.replace_block(document, made) == document
    assert results.replace_block(document, made + "| more |\n") != document


def test_chance_is_told_by_all_trainings_of_networks_that_keep_the_law(runs):
    keepers = ("sevnet_xs", "unet_relu_xs", "1a", "1b", "1c", "2a", "2b", "2c")
    keepers += ("unet_relu", "1a_wrapped")
    scored = [
        run
        for run in [*runs.values(), *results.load(ablation.RESULTS).values()]
        if run["row"] in keepers and run["stage"] == 0 and run["means"]
    ]
    ours = [run for run in scored if run["row"] == "sevnet_xs"]
    document = (STUDY / "README.md").read_text(encoding="utf-8")
    assert f"the spread of {len(scored)} trainings" in document
    text = report.format_study(runs)
    for data in ("Kodak24", "CBSD68"):
        psnr = [run["means"][data]["gaussian:20"]["psnr"] for run in scored]
        middle = np.mean([run["means"][data]["gaussian:20"]["psnr"] for run in ours])
        spread = np.std(psnr, ddof=1) * 2**0.5
        margin = scipy.stats.t.ppf(0.975, len(psnr) - 1) * spread
        nafnet = runs["nafnet_xs_seed0_stage0"]["means"][data]["gaussian:20"]["psnr"]
        assert f"| NAFNet | {nafnet - middle:+.2f} +- {margin:.2f} |" in text


def test_trainings_of_another_kind_do_not_tell_what_chance_does(runs):
    ours = runs["sevnet_xs_seed0_stage0"]
    for key, value in (("photos", "own"), ("chosen_by", "own"), ("steps", 9)):
        assert report.find_keepers({"": {**ours, key: value}}, "Kodak24") == []
    assert report.find_keepers({"": ours}, "other") == []
    noises = ours["means"]["Kodak24"]
    fewer = {"Kodak24": {n: {**mean, "images": 23} for n, mean in noises.items()}}
    assert report.find_keepers({"": {**ours, "means": fewer}}, "Kodak24") == []
    assert len(report.find_keepers({"": ours}, "Kodak24")) == 8


def test_the_figure_is_made_of_the_files(runs):
    numbers = report.RESULTS / "figures" / "curve.json"
    chosen = report.choose(runs)
    assert numbers.exists() == bool(chosen)
    if chosen:
        drawn = dataclasses.asdict(curve.select(curve.make(runs, chosen)))
        assert json.loads(numbers.read_text()) == json.loads(json.dumps(finite(drawn)))
        assert numbers.with_suffix(".png").exists()


def test_every_run_is_of_the_network_and_stage_that_it_names(runs):
    others = []
    for name, run in runs.items():
        assert name == results.name_run(run)
        if not run["means"] or run["row"] == networks.NOISY:
            continue
        recipe = results.find_recipe(run)
        stage = results.STAGES[run["stage"]]
        assert run["learning_rate"] == stage.learning_rate
        assert recipe["optimizer.learning_rate"] == stage.learning_rate
        assert recipe["steps"] == stage.steps
        assert recipe["seed"] == run["seed"] + 10 * run["stage"]
        trained = run["row"].removesuffix(networks.ONLY)
        assert create_model(**recipe["model"]) == create_model(
            **networks.make_row(trained).model
        )
        chosen = ("seed", "steps", "optimizer.learning_rate", "model", "init_weights")
        others.append({k: v for k, v in recipe.items() if k not in chosen})
    assert all(other == others[0] for other in others)


def test_no_file_names_a_place_of_the_machine_that_made_it():
    for path in report.RESULTS.rglob("*.json"):
        assert '"/' not in path.read_text()
