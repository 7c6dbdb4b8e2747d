"""Restores noisy photos: python denoise.py photo.png"""

import sys

from sevnet_jax.inference.command import main

if __name__ == "__main__":
    sys.exit(main())
