"""Scores and studies networks and noise: python eval.py COMMAND --help"""

import sys

from sevnet_jax.evaluation.commands import main

if __name__ == "__main__":
    sys.exit(main())
