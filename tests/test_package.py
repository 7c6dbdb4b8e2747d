"""Importing the package needs no TensorFlow."""

import subprocess
import sys


def test_import_leaves_tensorflow_alone():
    code = "import sys, sevnet_jax; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
