"""Tables put our means and the paper's beside each other, and mark what is doubtful."""

import math

import pytest

from sevnet_jax.evaluation import tables

MEANS = {
    ("Kodak24", "mine", "gaussian:20"): {"images": 24, "psnr": 33.0, "ssim": 0.9},
    ("Kodak24", "mine", "speckle:90"): {"images": 24, "psnr": 26.6, "ssim": 0.8},
    ("Kodak24", "mine", "mixture"): {"images": 24, "psnr": 24.1, "ssim": 0.7},
}


def test_the_papers_rows_stand_beside_ours():
    text = tables.format_text(tables.build(MEANS))
    assert "Kodak24, 24 images, PSNR / SSIM, rgb8, whole images" in text
    assert "33.00 / 0.9000  24.10 / 0.7000" in text
    assert "SEVNet (paper)     33.68 / 0.9069  24.23 / 0.7368" in text
    assert text.count("(paper)") == 12 + 13 + 1  # SADNet has speckle only; one note


def test_levels_and_base_noises_have_tables_of_their_own():
    mean = MEANS["Kodak24", "mine", "mixture"]
    noises = ("gaussian:20", "speckle*:90", "variant1", "poisson:4", "variant1*")
    means = {("x", "m", noise): mean for noise in noises}
    found = [table.noises for table in tables.build(means)]
    assert found == [
        ("gaussian:20", "variant1"),
        ("speckle*:90", "variant1*"),
        ("poisson:4",),
    ]


@pytest.mark.parametrize(("which", "rows"), [("all", 26), ("ours", 3), ("none", 0)])
def test_which_of_the_papers_rows(which, rows):
    text = tables.format_text(tables.build(MEANS, which))
    assert text.count("(paper)") == rows


def test_a_set_that_the_paper_has_not_stands_alone():
    means = {("mine", *key[1:]): mean for key, mean in MEANS.items()}
    assert "(paper)" not in tables.format_text(tables.build(means))
    assert tables.standings(means) == []


def test_doubtful_numbers_are_marked_and_explained():
    means = {("Urban100", "m", "variant2"): MEANS["Kodak24", "mine", "mixture"]}
    text = tables.format_text(tables.build(means))
    assert "26.66 / 0.8771?" in text
    assert "? marks numbers of the paper" in text
    assert "22.44 / 0.7000\n" in text  # NAFNet's is not doubtful


def test_a_part_of_a_set_is_called_that():
    text = tables.format_text(tables.build(MEANS, limited=True))
    assert "Kodak24, only the first 24 images" in text


def test_markdown_has_one_cell_a_column():
    lines = tables.format_markdown(tables.build(MEANS, "ours")).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert "| mine | 33.00 / 0.9000 | 24.10 / 0.7000 |" in rows
    assert {row.count("|") for row in rows} == {4, 3}


def test_latex_escapes_and_sets_the_best_in_bold():
    means = {(d, "my_run", n): mean for (d, _, n), mean in MEANS.items()}
    text = tables.format_latex(tables.build(means, "ours"))
    assert "my\\_run & 33.00 / 0.9000 & 24.10 / 0.7000 \\\\" in text
    assert "\\textbf{33.68 / 0.9069}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 2
    best = {
        ("x", who, "mixture"): {"images": 1, "psnr": psnr, "ssim": 0.5}
        for who, psnr in [("a", 20.0), ("b", 21.0), ("c", math.nan)]
    }
    text = tables.format_latex(tables.build(best))
    assert "b & \\textbf{21.00" in text
    assert "a & 20.00" in text


def test_what_is_not_finite_is_said():
    mean = {"images": 1, "psnr": math.nan, "ssim": math.nan}
    text = tables.format_text(tables.build({("x", "m", "mixture"): mean}))
    assert "not finite" in text


def test_the_standing_is_the_mean_out_of_distribution():
    (line,) = tables.standings(MEANS)
    # (26.6 + 24.1) / 2; the paper's SEVNet (26.86 + 24.23) / 2, GRL (26.42 + 23.66) / 2
    assert "mean of 2 noises out of distribution: 25.35 dB" in line
    assert "SEVNet 25.55 dB" in line or "SEVNet 25.54 dB" in line
    assert "ahead of 11 of the paper's 12 networks" in line
