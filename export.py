"""Writes a denoiser for other runtimes: python export.py --to onnx -o sevnet_s.onnx"""

import sys

if __name__ == "__main__":
    try:
        # Takes seconds, in which one may think better of it.
        from sevnet_jax.inference.export import main

        sys.exit(main())
    except KeyboardInterrupt:
        print("export.py: interrupted", file=sys.stderr)
        sys.exit(130)
