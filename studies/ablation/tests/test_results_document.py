"""README.md says what the files of the trained ablation say."""

import pytest

from sevnet_jax.models import create_model
from studies import results
from studies.ablation import figures, report, scores
from studies.ablation.rows import make_ablation


@pytest.fixture
def runs(project):
    return results.load(report.RESULTS)


def test_the_tables_are_made_of_the_files(project, runs):
    document = (project / "studies" / "ablation" / "README.md").read_text(
        encoding="utf-8"
    )
    drawn = figures.format_figures(report.RESULTS)
    made = report.format_study(runs) + drawn
    assert results.replace_block(document, made) == document
    run = next(run for run in runs.values() if run["means"])
    run["means"]["Kodak24"]["mixture"]["psnr"] += 1
    changed = report.format_study(runs) + drawn
    assert results.replace_block(document, changed) != document


def test_figures_are_of_runs_that_count(project, runs):
    weights = {
        scores.label(run["row"]): results.find_weights(run)
        for run in report.choose(runs).values()
        if run["seed"] == 0
    }
    for name in ("curve", "features"):
        path = report.RESULTS / "figures" / f"{name}.json"
        drawn = figures.find_weights(path)
        assert len(drawn) == 4
        assert drawn.items() <= weights.items()


def test_without_figures_there_are_no_tables_of_them(tmp_path):
    assert figures.format_figures(tmp_path) == ""


def build(config):
    return create_model(**{**config, "blocks": tuple(config["blocks"])})


def test_every_run_is_of_the_row_size_and_stage_that_it_names(runs):
    rate = "optimizer.learning_rate"
    chosen = ("seed", "steps", rate, "model", "init_weights", "init_sha256")
    others = []
    for name, run in runs.items():
        assert name == f"{run['row']}_seed{run['seed']}_stage{run['stage']}"
        stage = results.STAGES[run["stage"]]
        assert run["learning_rate"] == stage.learning_rate
        if run["means"]:
            recipe = results.find_recipe(run)
            assert recipe["steps"] == stage.steps
            assert recipe[rate] == stage.learning_rate
            assert recipe["seed"] == run["seed"] + 10 * run["stage"]
            row = run["row"].removesuffix("_narrow")
            model = make_ablation(row, run["preset"]).model.to_dict()
            model["width"] //= 2 if row != run["row"] else 1
            assert build(recipe["model"]) == build(model)
            others.append({k: v for k, v in recipe.items() if k not in chosen})
    assert others[0]["watch.source"] == "val20"
    assert all(other == others[0] for other in others)


def test_no_file_names_a_place_of_the_machine_that_made_it(project):
    for path in (report.RESULTS).rglob("*.json"):
        assert '"/' not in path.read_text()
