"""Trains a network: python train.py --config configs/sevnet_s.py --workdir runs/s"""

import sys

from sevnet_jax.training.command import start

if __name__ == "__main__":
    sys.exit(start())
