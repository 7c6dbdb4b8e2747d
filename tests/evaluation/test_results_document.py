"""docs/results.md says what the files of the trained ablation say."""

import json

import pytest

from sevnet_jax.evaluation import study


@pytest.fixture
def runs(project):
    return study.load(project / "docs" / "ablations")


def test_the_tables_are_made_of_the_runs_files(project, runs):
    document = (project / "docs" / "results.md").read_text(encoding="utf-8")
    assert study.replace_block(document, study.format_study(runs)) == document
    run = next(run for run in runs.values() if run["means"])
    run["means"]["Kodak24"]["mixture"]["psnr"] += 1
    assert study.replace_block(document, study.format_study(runs)) != document


def test_every_run_is_of_the_size_and_stage_that_it_names(runs):
    for name, run in runs.items():
        assert name == f"{run['row']}_seed{run['seed']}_stage{run['stage']}"
        assert run["learning_rate"] == study.STAGES[run["stage"]].learning_rate
        if run["means"]:
            recipe = run["provenance"]["network"]["training"]["recipe"]
            assert recipe["steps"] == study.STAGES[run["stage"]].steps
            assert recipe["seed"] == run["seed"] + 10 * run["stage"]


def test_no_file_names_a_place_of_the_machine_that_made_it(project):
    for path in (project / "docs" / "ablations").rglob("*.json"):
        assert "/tmp" not in path.read_text()
        json.loads(path.read_text())
