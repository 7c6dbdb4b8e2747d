"""README.md says what the files of the trained rivals say."""

import dataclasses
import json
from pathlib import Path

import pytest

from sevnet_jax.evaluation.report import finite
from sevnet_jax.models import create_model
from studies import results
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
