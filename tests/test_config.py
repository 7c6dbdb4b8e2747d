"""Config files: each one here builds its model, and mistakes are named."""

import pytest

from sevnet_jax import config
from sevnet_jax.config import build_model, load_config, load_parts, split_spec
from sevnet_jax.models import layers
from studies.ablation.rows import ABLATIONS


def test_every_config_builds_its_model(project):
    paths = sorted((project / "configs").glob("*.py"))
    assert len(paths) >= 3
    for path in paths:
        assert build_model(load_config(str(path))).channels == 3


def test_an_argument_that_no_config_takes_is_named(project):
    with pytest.raises(ValueError, match=r"sevnet\.py:foo: TypeError"):
        load_config(f"{project / 'configs' / 'sevnet.py'}:foo")


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("a.py", ("a.py", "")),
        ("configs/a.py:2f,sevnet_s", ("configs/a.py", "2f,sevnet_s")),
        ("C:\\a.py", ("C:\\a.py", "")),
        ("c:/a.py:x:y", ("c:/a.py", "x:y")),
        ("a:x", ("a", "x")),
    ],
)
def test_an_argument_follows_a_colon_that_is_not_of_a_drive(spec, parts):
    assert split_spec(spec) == parts


# The paper's table: middle normalisation, gate, normalisation before the block.
ROWS = {
    "1a": ("hnm", "igm", "none"),
    "1b": ("cs", "igm", "none"),
    "1c": ("cs_half", "igm", "none"),
    "1d": ("hnm", "elu", "none"),
    "1e": ("hnm", "gelu", "none"),
    "1f": ("none", "elu", "none"),
    "1g": ("none", "gelu", "none"),
    "1h": ("hnm_scale_free", "igm", "none"),
    "2a": ("hnm", "none", "none"),
    "2b": ("hnm", "relu", "none"),
    "2c": ("hnm", "igm_single", "none"),
    "2d": ("layer_norm", "igm", "none"),
    "2e": ("layer_norm", "relu", "none"),
    "2f": ("layer_norm", "gelu", "none"),
    "unscaled": ("hnm", "igm_unscaled", "none"),
    "pre_ln": ("none", "relu", "layer_norm"),
}


def test_the_rows_are_those_of_the_papers_table():
    assert set(ABLATIONS) == set(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_every_ablation_row_builds_at_both_sizes(project, row):
    path = project / "configs" / "ablations.py"
    full = build_model(load_config(f"{path}:{row}"))
    small = build_model(load_config(f"{path}:{row},sevnet_s"))
    assert (full.width, small.stem) == (56, 2)
    for model in (full, small):
        found = (model.normalization, model.gate, model.pre_normalization)
        assert found == ROWS[row]


@pytest.mark.parametrize("preset", ["sevnet", "sevnet_s", "sevnet_xs"])
def test_rows_can_be_wrapped_and_the_baseline_is_one(project, preset):
    path = project / "configs" / "ablations.py"
    wrapped = build_model(load_config(f"{path}:2f_wrapped,{preset}"))
    bare = build_model(load_config(f"{path}:2f,{preset}"))
    assert wrapped.inner == bare.clone(centre="none")
    baseline = build_model(load_config(f"{path}:unet_relu,{preset}"))
    assert (baseline.gate, baseline.normalization) == ("relu", "none")
    with pytest.raises(ValueError, match="unknown row '9z_wrapped' of"):
        load_config(f"{path}:9z_wrapped,{preset}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "no get_config"),
        ("def get_config(:", "SyntaxError"),
        ("import not_there", "ModuleNotFoundError.*not_there"),
        ("def get_config(): return 1 / 0", "ZeroDivisionError"),
        ("def get_config(): return None", "no model.name"),
        ("def get_config(): return 5", "config.py"),
        (
            "def get_config(): return {'model': {'name': 'sevnet', 'blocks': 3}}",
            "got 3",
        ),
        ("def get_config(): return {}", "no model.name"),
        ("def get_config(): return {'model': {'name': 'resnet'}}", "'resnet'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, words):
    path = tmp_path / "config.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        build_model(load_config(str(path)))


def test_a_file_that_is_no_python_is_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("model: sevnet")
    with pytest.raises(ValueError, match="a config is a Python file"):
        load_config(str(path))
    with pytest.raises(ValueError, match="no config file"):
        load_config(str(tmp_path / "missing.py"))


def test_a_config_may_define_dataclasses(tmp_path):
    path = tmp_path / "json.py"  # and may be called as a module is
    path.write_text(
        "from __future__ import annotations\nimport dataclasses, json\n"
        "@dataclasses.dataclass\nclass Law:\n    level: float = 1.0\n"
        "def get_config(): return json.loads('{}')\n"
    )
    assert not load_config(str(path))


@pytest.fixture
def write(monkeypatch, tmp_path):
    """A function that writes a config of its text; what it defines is forgotten."""
    monkeypatch.setattr(layers, "GATES", dict(layers.GATES))
    for name in ("_loaded", "_owners"):
        monkeypatch.setattr(config, name, {})

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from sevnet_jax.models import layers\n{text}\n")
        return path

    return write


def test_another_files_part_is_not_replaced(write):
    load_parts(write("a.py", "layers.GATES['max'] = 1"))
    text = "layers.GATES['min'] = 2; layers.GATES['max'] = 2"
    with pytest.raises(config.ClashError, match=r"a\.py and .*b\.py both define gate"):
        load_parts(write("b.py", text))
    assert layers.GATES["max"] == 1
    assert "min" not in layers.GATES


def test_what_a_failing_file_defined_is_gone(write):
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        load_parts(write("a.py", "layers.GATES['max'] = 1; 1 / 0"))
    assert "max" not in layers.GATES


def test_a_file_may_change_its_own_parts_and_those_of_the_package(write):
    load_parts(write("a.py", "layers.GATES['relu'] = 1"))
    load_parts(write("a.py", "layers.GATES['relu'] = 2"))
    assert layers.GATES["relu"] == 2


def test_a_file_is_run_once_and_its_copy_may_define_the_same(write):
    text = "layers.GATES['max'] = object()"
    module = load_parts(write("a/parts.py", text))
    assert load_parts(write("a/parts.py", text)) is module
    assert load_parts(write("b/parts.py", text)) is not module
    load_parts(write("plain.py", "steps = 3"))
    assert list(config.list_loaded()) == ["parts.py", "b/parts.py"]  # those with parts
