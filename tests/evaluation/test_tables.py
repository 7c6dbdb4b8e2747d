"""Tables put our means and the paper's beside each other, and mark what is doubtful."""

import math

import pytest

from sevnet_jax.evaluation import tables

MEANS = {
    ("Kodak24", "mine", "gaussian:20"): {
        "images": 24,
        "exact": 0,
        "psnr": 33.0,
        "ssim": 0.9,
    },
    ("Kodak24", "mine", "speckle:90"): {
        "images": 24,
        "exact": 0,
        "psnr": 26.6,
        "ssim": 0.8,
    },
    ("Kodak24", "mine", "mixture"): {
        "images": 24,
        "exact": 0,
        "psnr": 24.1,
        "ssim": 0.7,
    },
}


SIZES = {"Kodak24": 24, "Urban100": 24, "mine": 24, "x": 24}


def test_the_papers_rows_stand_beside_ours():
    text = tables.format_text(tables.build(MEANS, SIZES))
    assert "Kodak24, 24 images, PSNR / SSIM, rgb8, whole images" in text
    assert "33.00 / 0.9000  24.10 / 0.7000" in text
    assert "SEVNet (paper)     33.68 / 0.9069  24.23 / 0.7368" in text
    assert text.count("(paper)") == 12 + 13 + 1  # SADNet has speckle only; one note


def test_levels_and_base_noises_have_tables_of_their_own():
    mean = MEANS["Kodak24", "mine", "mixture"]
    noises = ("gaussian:20", "speckle*:90", "variant1", "poisson:4", "variant1*")
    means = {("x", "m", noise): mean for noise in noises}
    found = [table.noises for table in tables.build(means, SIZES)]
    assert found == [
        ("gaussian:20", "variant1"),
        ("poisson:4",),
        ("speckle*:90", "variant1*"),
    ]


@pytest.mark.parametrize(("which", "rows"), [("all", 26), ("ours", 3), ("none", 0)])
def test_which_of_the_papers_rows(which, rows):
    text = tables.format_text(tables.build(MEANS, SIZES, which))
    assert text.count("(paper)") == rows


def test_a_set_that_the_paper_has_not_stands_alone():
    means = {("mine", *key[1:]): mean for key, mean in MEANS.items()}
    assert "(paper)" not in tables.format_text(tables.build(means, SIZES))
    assert tables.standings(means, SIZES) == []


def test_doubtful_numbers_are_marked_and_explained():
    means = {("Urban100", "m", "variant2"): MEANS["Kodak24", "mine", "mixture"]}
    text = tables.format_text(tables.build(means, SIZES))
    assert "26.66 / 0.8771?" in text
    assert "? marks numbers of the paper" in text
    assert "22.44 / 0.7000\n" in text  # NAFNet's is not doubtful


def test_a_part_of_a_set_is_called_that():
    text = tables.format_text(tables.build(MEANS, {"Kodak24": 30}))
    assert "Kodak24, 24 of 30 images, PSNR" in text


def test_markdown_has_one_cell_a_column():
    lines = tables.format_markdown(tables.build(MEANS, SIZES, "ours")).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert "| mine | 33.00 / 0.9000 | 24.10 / 0.7000 |" in rows
    assert {row.count("|") for row in rows} == {4, 3}


def test_latex_escapes_and_sets_the_best_in_bold():
    means = {(d, "my_run", n): mean for (d, _, n), mean in MEANS.items()}
    text = tables.format_latex(tables.build(means, SIZES, "ours"))
    assert "my\\_run & 33.00 / 0.9000 & 24.10 / 0.7000 \\\\" in text
    assert "\\textbf{33.68 / 0.9069}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 2
    best = {
        ("x", who, "mixture"): {"images": 1, "exact": 0, "psnr": psnr, "ssim": 0.5}
        for who, psnr in [("a", 20.0), ("b", 21.0), ("c", math.nan)]
    }
    text = tables.format_latex(tables.build(best, SIZES))
    assert "b & \\textbf{21.00" in text
    assert "a & 20.00" in text


def test_what_is_not_finite_is_said():
    mean = {"images": 1, "exact": 0, "psnr": math.nan, "ssim": math.nan}
    text = tables.format_text(tables.build({("x", "m", "mixture"): mean}, SIZES))
    assert "not finite" in text


def test_the_standing_is_the_mean_without_gaussian():
    (line,) = tables.standings(MEANS, SIZES)
    # (26.6 + 24.1) / 2; the paper's SEVNet (26.86 + 24.23) / 2, GRL (26.42 + 23.66) / 2
    assert "PSNR rgb8, mean of 2 noises other than gaussian: 25.35 dB" in line
    assert "SEVNet 25.55 dB" in line or "SEVNet 25.54 dB" in line
    assert "ahead of 11 of its 11 rivals" in line


def test_a_part_of_a_set_has_no_standing():
    assert tables.standings(MEANS, {"Kodak24": 25}) == []


def test_doubtful_numbers_have_no_part_in_the_standing():
    mean = MEANS["Kodak24", "mine", "mixture"]
    means = {("Urban100", "m", noise): mean for noise in ("variant2", "mixture")}
    (line,) = tables.standings(means, SIZES)
    assert "rgb8, mixture noise: " in line
    assert "SEVNet 21.94 dB" in line  # at mixture


def test_real_pairs_stand_beside_the_papers_translator():
    means = {("PolyU", "m", "real"): MEANS["Kodak24", "mine", "mixture"]}
    (line,) = tables.standings(means, {"PolyU": 24})
    assert "real noise: " in line
    assert "the paper's SEVNet+NT 37.60 dB" in line
    assert "rivals" not in line  # all of their numbers are doubtful


def test_the_papers_means_over_levels_are_columns():
    levels = [("speckle:60", 30.0), ("speckle:80", 27.0), ("speckle:90", 24.0)]
    means = {
        ("Kodak24", "m", noise): {"images": 1, "exact": 0, "psnr": psnr, "ssim": 0.5}
        for noise, psnr in [("mixture", 20.0), *levels, ("gaussian:20", 33.0)]
    }
    first, second = tables.build(means, SIZES)
    assert first.noises == ("gaussian:20", "speckle", "mixture")
    assert first.rows[0].cells[1].values["psnr"] == 27
    assert first.rows[-1].cells[1].values["psnr"] == 27.94  # the paper's SEVNet
    assert second.noises == tuple(noise for noise, _ in levels)


def test_exact_images_are_noted():
    means = {("x", "m", "mixture"): {**MEANS["Kodak24", "mine", "mixture"], "exact": 2}}
    text = tables.format_text(tables.build(means, SIZES))
    assert "Images without any error are left out" in text


def test_names_are_escaped_in_latex():
    means = {("x", "a#b$c^{", n): m for (_, _, n), m in MEANS.items()}
    assert "a\\#b\\$c\\^{}\\{ &" in tables.format_latex(tables.build(means, SIZES))
