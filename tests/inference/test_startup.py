"""From the shell: how long somebody with one photo waits, on two cores."""

import runpy
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from PIL import Image

COLD, WARM = 15, 6  # seconds, without and with what was compiled before


@pytest.mark.slow
def test_a_photo_takes_seconds(project, rng, tmp_path):
    photo = tmp_path / "photo.png"
    Image.fromarray(rng.integers(0, 256, (512, 512, 3), np.uint8)).save(photo)
    command = [sys.executable, "denoise.py", str(photo), "-o", str(tmp_path / "o.png")]
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            command,
            cwd=project,
            check=True,
            env={"PATH": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        )
        seconds.append(time.perf_counter() - began)
    assert seconds[0] < COLD
    assert min(seconds[1:]) < WARM


def test_an_early_interruption_is_one_line(project, monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    command = types.SimpleNamespace(main=interrupt)
    monkeypatch.setitem(sys.modules, "sevnet_jax.inference.command", command)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(project / "denoise.py"), run_name="__main__")
    assert left.value.code == 130
    assert capsys.readouterr().err == "denoise.py: stopped\n"
