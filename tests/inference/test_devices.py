"""Four devices: each restores as many tiles as the others, to the bytes that one does.

In processes of their own: how many devices there are is fixed when JAX starts.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

PROGRAM = """
import json, sys
from collections import Counter
from sevnet_jax.inference import command, denoiser, program

denoiser.Denoiser.__init__.__defaults__ = (48 * 48, None, None)  # small tiles
shares = Counter()
init = program.Program.__init__

def watched(self, *args):
    init(self, *args)
    compiled = self._compile
    # Asked for once a tile.
    self._compile = lambda shape, n: shares.update([n]) or compiled(shape, n)

program.Program.__init__ = watched
code = command.main(sys.argv[1:])
print(json.dumps([shares[n] for n in sorted(shares)]))
sys.exit(code)
"""


@pytest.fixture
def restore(project, weights_file, tmp_path):
    """A function (files, devices): the bytes that are written, the tiles of each."""

    def run(files, devices):
        out = tmp_path / f"out{devices}"
        flags = f"--xla_force_host_platform_device_count={devices}"
        cache = str(project / ".pytest_cache" / "xla")
        options = ["--weights", str(weights_file), "--clipped", "no", "--quiet"]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(files), "-o", str(out), *options],
            cwd=project,
            env={
                **os.environ,
                "XLA_FLAGS": flags,
                "JAX_COMPILATION_CACHE_DIR": cache,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        written = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        return written, json.loads(done.stdout)

    return run


def test_four_devices_share_equally_and_change_no_byte(restore, rng, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "ab":
        pixels = rng.integers(0, 256, (128, 64, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    expected, (total,) = restore(folder, 1)
    found, shares = restore(folder, 4)
    assert total % 4 == 0
    assert total >= 16
    assert shares == [total // 4] * 4
    assert found == expected
    assert len(expected) == 2
