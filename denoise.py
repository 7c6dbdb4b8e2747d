"""Restores noisy photos: python denoise.py photo.png"""

import sys

if __name__ == "__main__":
    try:
        # Takes seconds, in which one may think better of it.
        from sevnet_jax.inference.command import main

        sys.exit(main())
    except KeyboardInterrupt:
        print("denoise.py: stopped", file=sys.stderr)
        sys.exit(130)
