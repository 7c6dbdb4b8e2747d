"""Trains a denoiser: python train.py --config configs/sevnet_s.py --workdir runs/s

Any key of the config can be set: --config.batch_size=8, --config.source=my_photos,
--config.model.width=64. The same command goes on with a run that was stopped. Weights
are written to WORKDIR/weights.safetensors at the end.
"""

import logging
import os
import re
import sys

from absl import app, flags
from ml_collections import config_flags

USAGE_ERROR = 2
INTERRUPTED = 130
DIVERGED = 3

CONFIG = config_flags.DEFINE_config_file(
    "config", None, "The recipe, FILE.py or FILE.py:ARGUMENT; see configs/."
)
WORKDIR = flags.DEFINE_string("workdir", None, "The folder of the run.")
ACCEPT_CHANGES = flags.DEFINE_bool(
    "accept_changes",
    False,
    "Go on with a run although the config differs from its own.",
)
PROFILE = flags.DEFINE_bool("profile", False, "Write a trace of five steps.")
DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Several hosts, found by themselves: Slurm, TPU pods."
)
COORDINATOR = flags.DEFINE_string("coordinator", None, "Several hosts: IP:PORT.")
PROCESSES = flags.DEFINE_integer("processes", None, "Several hosts: how many.")
PROCESS = flags.DEFINE_integer("process", None, "Several hosts: which one this is.")


def use_huge_pages() -> None:
    """Starts this program anew with glibc's setting for large pages of memory.

    XLA takes the memory of each step from the system and gives it back; in small pages
    that costs 6 % of a step on a CPU. glibc reads the setting when a program starts, so
    the process replaces itself, once. Whoever sets GLIBC_TUNABLES has their own way.
    """
    if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def run(_: list[str]) -> int:
    # Imported here: --help and mistakes in the flags need no TensorFlow.
    try:
        from sevnet_jax.runtime import use_compilation_cache
        from sevnet_jax.training import parallel
        from sevnet_jax.training.loop import Diverged, train
        from sevnet_jax.training.recipe import from_mapping
    except ModuleNotFoundError as error:
        complain(f"{error}; pip install -r requirements/train.txt")
        return USAGE_ERROR

    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)
    for noisy in ("jax", "orbax", "absl", "tensorflow"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        if CONFIG.value is None or WORKDIR.value is None:
            raise ValueError(
                "--config FILE and --workdir FOLDER are needed; see --help"
            )
        recipe = from_mapping(CONFIG.value)
        use_compilation_cache()
        parallel.connect(
            DISTRIBUTED.value, COORDINATOR.value, PROCESSES.value, PROCESS.value
        )
        train(
            recipe,
            WORKDIR.value,
            accept_changes=ACCEPT_CHANGES.value,
            profile=PROFILE.value,
            terminal=sys.stderr.isatty(),
        )
    except (ValueError, OSError) as error:
        return leave(error, USAGE_ERROR)
    except Diverged as error:
        return leave(error, DIVERGED)
    except KeyboardInterrupt:
        return leave(KeyboardInterrupt("interrupted"), INTERRUPTED)
    return 0


def leave(error: BaseException, code: int) -> int:
    """Says what is wrong and returns the exit code; of several hosts, ends at once."""
    import jax

    complain(error)
    if jax.process_count() > 1:
        # At a usual exit JAX would wait for the hosts, and they for this one.
        sys.stderr.flush()
        os._exit(code)
    return code


def complain(error: BaseException | str) -> None:
    print("train.py:", " ".join(str(error).split()), file=sys.stderr)


def parse_flags(argv: list[str]) -> list[str]:
    """Reads the flags; a mistake in them is one line, whoever finds it."""
    try:
        rest = flags.FLAGS(argv)
    except Exception as error:  # ml_collections raises what the config file raises
        text = re.sub(r"\s+", " ", str(error).strip("'\""))
        complain(text)
        sys.exit(USAGE_ERROR)
    if len(rest) > 1:
        complain(f"unknown argument {rest[1]!r}; see --help")
        sys.exit(USAGE_ERROR)
    return rest


if __name__ == "__main__":
    use_huge_pages()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    app.run(run, flags_parser=parse_flags)
