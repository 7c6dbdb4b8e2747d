"""Importing the package needs no TensorFlow, and little time."""

import subprocess
import sys


def test_import_leaves_tensorflow_alone():
    code = "import sys, sevnet_jax; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_import_takes_less_than_two_seconds():
    """Of computing time, which other processes on the machine do not lengthen."""
    code = "import time, sevnet_jax; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) < 2
