"""docs/results.md says what the files of the trained ablation say."""

import json

import pytest

from sevnet_jax.evaluation import ablation, study, study_figures


@pytest.fixture
def runs(project):
    return study.load(project / "docs" / "ablations")


def test_the_tables_are_made_of_the_files(project, runs):
    document = (project / "docs" / "results.md").read_text(encoding="utf-8")
    figures = study_figures.format_figures(project / "docs" / "ablations")
    made = study.format_study(runs) + figures
    assert study.replace_block(document, made) == document
    run = next(run for run in runs.values() if run["means"])
    run["means"]["Kodak24"]["mixture"]["psnr"] += 1
    changed = study.format_study(runs) + figures
    assert study.replace_block(document, changed) != document


def test_figures_are_of_runs_that_count(project, runs):
    folder = project / "docs" / "ablations" / "figures"
    sha256 = {
        ablation.label(run["row"]): run["provenance"]["network"]["weights_sha256"]
        for run in study.choose(runs).values()
        if run["seed"] == 0
    }
    for name, key in (("curve", "methods"), ("features", "networks")):
        drawn = json.loads((folder / f"{name}.json").read_text())[key]
        networks = [name for name in drawn if name != "noisy"]
        assert len(networks) == 3
        for name in networks:
            assert drawn[name]["weights_sha256"] == sha256[name]


def test_without_figures_there_are_no_tables_of_them(tmp_path):
    assert study_figures.format_figures(tmp_path) == ""


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
