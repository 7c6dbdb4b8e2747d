"""What the scripts of the studies share: options, error messages and exit codes."""

import argparse
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from sevnet_jax.evaluation import runs
from sevnet_jax.runtime import use_compilation_cache
from sevnet_jax.training.loop import Diverged
from studies import results, trainings
from studies.trainings import Study


def make_parser(description: str | None, out: Path) -> argparse.ArgumentParser:
    """Returns a parser with the options that every study has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--photos",
        required=True,
        help="folder of clean photos to train on; A=4,B=1 mixes two",
    )
    parser.add_argument(
        "--held_out", required=True, help="folder of other photos, to choose stages by"
    )
    parser.add_argument(
        "--test", required=True, nargs="+", help="folders of photos to score on"
    )
    parser.add_argument(
        "--workdir", required=True, type=Path, help="folder for the runs"
    )
    parser.add_argument(
        "--out",
        default=out,
        type=Path,
        help="folder for the result files; other photos need another",
    )
    parser.add_argument(
        "--write", metavar="FILE", help="Markdown file to write the tables into"
    )
    return parser


def read_study(args: argparse.Namespace, **others) -> Study:
    """Returns the study of parsed options and of what its script adds."""
    # A run remembers what it started from: not by a path that depends on the folder.
    workdir = args.workdir.resolve()
    return Study(args.photos, args.held_out, args.test, workdir, args.out, **others)


def run_study(
    name: str, study: Study, document: str | None, work: Callable[[], None]
) -> int:
    """Checks, works, and returns the exit code; a mistake or an end is one line."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)
    for loud in ("jax", "orbax", "absl", "tensorflow"):
        logging.getLogger(loud).setLevel(logging.WARNING)
    use_compilation_cache()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runs.hash_code()  # what is edited during a training is not what will score
        check(study, document)
        work()
    except (ValueError, OSError, Diverged) as error:
        print(f"{name}:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; rerun the same command to resume", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def check(study: Study, document: str | None) -> None:
    """Raises now what would be noticed after hours."""
    trainings.find_scenes(study)
    if any(study.out.glob("*.json")):
        wanted = trainings.name_photos(study)
        for name, run in results.load(study.out).items():
            others = [key for key in wanted if run.get(key, wanted[key]) != wanted[key]]
            if others:
                raise ValueError(
                    f"{study.out / name}.json belongs to a run with other settings "
                    f"({', '.join(others)}); give another --out"
                )
    if document:
        results.replace_block(Path(document).read_text(encoding="utf-8"), "")
