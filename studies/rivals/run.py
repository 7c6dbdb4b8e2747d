"""Trains and scores small versions of the paper's rivals in the ablation's stages.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 nohup nice python -m studies.rivals.run \
    --photos FOLDER --held_out FOLDER --test Kodak24 CBSD68 --workdir runs/rivals \
    --write studies/rivals/README.md > runs/rivals.log 2>&1 &

A network that is more than 0.3 dB behind sevnet_xs on held-out photos, at gaussian 20,
continues from its weights, for at most three stages; the best one is scored. Then the
three rivals that lose most are put into a NormalizationWrapper: once as trained, and
once trained inside it. The rows of --repeated get a second seed. As a control,
sevnet_xs continues for as long as the slowest network. Eight rivals come first, then
the other four.

Each run writes a JSON file into --out, and its weights into a folder there: another
computer can continue without the --workdir. SIGTERM or Ctrl-C saves the run. Rerun the
same command to resume: finished runs are not repeated.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sevnet_jax import images, weights
from sevnet_jax.data import sources
from sevnet_jax.evaluation import methods
from sevnet_jax.evaluation.commands.curve import LEVELS
from studies import command, results, trainings
from studies.ablation.rows import WRAPPED
from studies.means import IN_DISTRIBUTION
from studies.results import name_run
from studies.rivals import report
from studies.rivals.networks import (
    BASELINE,
    FIRST,
    NOISY,
    ONLY,
    OTHERS,
    OURS,
    make_row,
    name_preset,
)
from studies.trainings import Run, Study

STAGES = 3  # at most
LOSERS = 3  # that are wrapped


def main(argv: list[str] | None = None) -> int:
    parser = command.make_parser(__doc__, report.RESULTS)
    parser.add_argument(
        "--networks",
        nargs="+",
        default=(*FIRST, *OTHERS),
        choices=(*FIRST, *OTHERS),
        metavar="NAME",
        help="rivals to train, in the study's order (default: all)",
    )
    parser.add_argument(
        "--repeated",
        nargs="*",
        metavar="ROW",
        help="rows with a second seed, NAME or NAME_wrapped (default: the rival that "
        "loses most, bare and trained wrapped); sevnet_xs always has one",
    )
    args = parser.parse_args(argv)
    study = command.read_study(
        args,
        make_config=make_row,
        name_preset=name_preset,
        stages=STAGES,
        levels=LEVELS,
        kept=args.out / "weights",
    )

    def work() -> None:
        check_rows(args.repeated or ())
        run_all(study, args.networks, args.repeated)
        report.write(args.out, args.write)

    return command.run_study("rivals", study, args.write, work)


def check_rows(rows: Sequence[str]) -> None:
    for row in rows:
        if row != BASELINE and row.removesuffix(WRAPPED) not in (*FIRST, *OTHERS):
            raise ValueError(
                f"unknown row {row!r}; give {BASELINE}, or names of "
                f"{', '.join((*FIRST, *OTHERS))}, each also as NAME{WRAPPED}"
            )


def run_all(
    study: Study, networks: Sequence[str], repeated: Sequence[str] | None
) -> None:
    """Trains, wraps and repeats: first the eight, then with the other four."""
    score_noisy(study)
    ours, again = (train_ours(study, seed) for seed in (0, 1))
    longest, trained = 0, []
    for group in ((BASELINE, *FIRST), OTHERS):
        chosen = [name for name in group if name in (BASELINE, *networks)]
        for name in chosen:
            longest = max(longest, train(study, name, 0, ours))
        trained += chosen
        losers = report.find_losers(results.load(study.out), trained)[:LOSERS]
        for name in losers:
            wrap(study, trainings.train_and_score(study, name, 0, ours))
            longest = max(longest, train(study, name + WRAPPED, 0, ours))
        telling = [name + end for name in losers[:1] for end in ("", WRAPPED)]
        for row in telling if repeated is None else repeated:
            longest = max(longest, train(study, row, 1, again))
        trainings.train_controls(study, OURS, longest)


def train_ours(study: Study, seed: int) -> float:
    """Returns what the reference scores on held-out photos after the first stage."""
    (run,) = stages = trainings.train_stages(study, OURS, seed, stages=1)
    trainings.score(study, stages)
    if run["held_out"] is None:
        raise ValueError(f"{OURS} diverged; there is nothing to compare with")
    return run["held_out"]


def train(study: Study, row: str, seed: int, wanted: float) -> int:
    """Returns the steps that a row needed to its best; it is then scored."""
    stages = trainings.train_and_score(study, row, seed, wanted)
    return stages[-1]["steps"] if stages else 0


def score_noisy(study: Study) -> None:
    """Scores the noisy images as they are, as a row."""
    run: Run = {"row": NOISY, "seed": 0, "stage": 0, "learning_rate": 0, "steps": 0}
    run["held_out"] = None
    done = trainings.find_done(study, run)
    if not done or not trainings.is_scored(study, done):
        run["means"] = done["means"] if done else {}
        method = methods.open_classical(NOISY)
        trainings.score_method(study, run, method, study.workdir / NOISY)


def wrap(study: Study, stages: Sequence[Run]) -> None:
    """Scores a trained network inside a wrapper, in the units of its photos."""
    bare = stages[-1]
    keys = ("seed", "stage", "learning_rate", "steps")
    keys += ("preset", "photos", "chosen_by")
    run: Run = {"row": bare["row"] + ONLY, **{key: bare[key] for key in keys}}
    done = trainings.find_done(study, run)
    if done and trainings.is_scored(study, done):
        return
    found = weights.load_named(str(trainings.find_weights(study, stages)))
    trainings.score(study, stages)  # again, if its weights had to be trained again
    config = {**found.config, "wrapped": find_units(study)}
    params = {name: {"inner": values} for name, values in found.params.items()}
    folder = study.workdir / name_run(run)
    weights.save_weights(folder / weights.FILE, params, config, found.provenance)
    saved = weights.load_weights(folder / weights.FILE).sha256
    if done and trainings.find_scored(done) in (None, saved):
        run["means"] = done["means"]
    run["held_out"] = validate(study, bare, folder)
    (network,) = methods.open_methods([str(folder)])
    trainings.score_method(study, run, network, folder)


def find_units(study: Study) -> tuple[float, float]:
    """Returns the mean and the deviation of photos, as an unwrapped network has them.

    The deviation is that within an image, which is what the wrapper divides by.
    """
    source = sources.open_one(study.held_out)
    photos = [
        images.to_float(images.to_channels(source[i], 3)) for i in range(len(source))
    ]
    variance = np.mean([np.var(photo) for photo in photos])
    mean = np.mean([np.mean(photo) for photo in photos])
    return round(float(mean), 4), round(float(np.sqrt(variance)), 4)


def validate(study: Study, bare: Run, folder: Path) -> float:
    """Returns the score on the held-out photos under the noise that `bare` had."""
    recipe = trainings.make_recipe(
        study, bare["row"], bare["seed"], bare["stage"], None
    )
    return trainings.validate(str(folder), recipe)[f"psnr {IN_DISTRIBUTION}"]


if __name__ == "__main__":
    sys.exit(main())
