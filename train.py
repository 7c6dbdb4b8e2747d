"""Trains a network: python train.py --config configs/sevnet_s.py --workdir runs/s"""

import os
import sys


def use_huge_pages() -> None:
    """Starts this program anew with glibc's setting for large pages of memory.

    XLA takes the memory of each step from the system and gives it back; in small pages
    that costs 6 % of a step on a CPU. glibc reads the setting when a program starts, so
    the process replaces itself, once. Whoever sets GLIBC_TUNABLES has their own way.
    """
    if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if __name__ == "__main__":
    use_huge_pages()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from sevnet_jax.training.command import main

    sys.exit(main())
