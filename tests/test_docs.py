"""The notebook runs as it is stored, and the site builds without a warning."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

NOTEBOOK = "docs/tour.ipynb"
MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def cells(project):
    return json.loads((project / NOTEBOOK).read_text(encoding="utf-8"))["cells"]


def test_the_notebook_is_small_and_stored_with_its_pictures(project, cells):
    assert (project / NOTEBOOK).stat().st_size < MOST_BYTES
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    pictures = [o for o in outputs if "image/jpeg" in o.get("data", {})]
    assert len(pictures) == 3
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.slow
def test_the_notebook_runs(project):
    nbclient, nbformat = (pytest.importorskip(n) for n in ("nbclient", "nbformat"))
    notebook = nbformat.read(project / NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(project / "docs")}}
    client = nbclient.NotebookClient(notebook, timeout=1800, resources=place)
    client.execute()  # raises what a cell raises
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "8 f(x) == f(8x): True" in printed
    assert "breaks the law: encoder_0_block_0" in printed
    scores = re.findall(r"([\d.]+) dB", printed.partition("step 300")[2])
    noisy, learned, bundled = map(float, scores[-3:])
    assert noisy + 2 < learned < bundled


@pytest.mark.skipif(
    not importlib.util.find_spec("mkdocs"), reason="needs mkdocs; run make docs"
)
def test_the_site_builds_without_a_warning_and_loads_nothing(project, tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=project,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in ('src="http', "src=http", '<link rel="stylesheet" href="http'):
            assert tag not in text, page
    tour = (tmp_path / "docs" / "tour.html").read_text(encoding="utf-8")
    assert tour.count("<img") == 3
    law = (tmp_path / "api" / "equivariance.html").read_text(encoding="utf-8")
    assert "assert_homogeneous" in law
