"""What the loop adds to the bare step, what remat saves, how devices share work.

python benchmarks/training.py
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from PIL import Image

from sevnet_jax.data import dead_leaves
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.training import loop, parallel
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.objective import Objective
from sevnet_jax.training.recipe import Recipe, Watch, from_mapping, make_config
from sevnet_jax.training.step import create_state, make_step

STRETCH = 10  # steps timed together
STEP = {"data": {"batch_size": 8, "patch_size": 64}}


def compile_step(recipe: Recipe):
    """The compiled step."""
    objective = Objective(recipe)
    step = make_step(objective.loss, recipe, parallel.make_mesh(recipe.data.batch_size))
    state = jax.eval_shape(lambda: create_state(objective.model, recipe))
    shape = (recipe.data.batch_size, recipe.data.patch_size, recipe.data.patch_size, 3)
    image = jax.ShapeDtypeStruct(shape, np.float32)
    return step.lower(state, {"clean": image, "noisy": image}, None).compile()


def time_bare_step(recipe: Recipe, rounds: int) -> float:
    """Seconds a step on a batch that is already there, the median of the rounds."""
    step = compile_step(recipe)
    mesh = parallel.make_mesh(recipe.data.batch_size)
    create = jax.jit(
        lambda: create_state(Objective(recipe).model, recipe),
        out_shardings=parallel.replicated(mesh),
    )
    state = create()
    shape = (recipe.data.batch_size, recipe.data.patch_size, recipe.data.patch_size, 3)
    image = np.random.default_rng(0).uniform(size=shape).astype(np.float32)
    batch = jax.device_put(
        {"clean": image, "noisy": image + np.float32(0.01)}, parallel.by_rows(mesh)
    )
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(STRETCH):
            state, _ = step(state, batch, None)
        jax.block_until_ready(state)
        seconds.append((time.perf_counter() - start) / STRETCH)
    return float(np.median(seconds))


def time_loop(recipe: Recipe, rounds: int) -> tuple[float, float]:
    """Seconds a step in a real run, and seconds a save costs; medians.

    Every other stretch of the log has a save, in the background of its steps.
    """
    with tempfile.TemporaryDirectory() as folder:
        draw_photos(Path(folder, "photos"))
        recipe = dataclasses.replace(
            recipe,
            data=dataclasses.replace(recipe.data, source=f"{folder}/photos"),
            watch=Watch(
                log_every=STRETCH,
                checkpoint_every=2 * STRETCH,
                validate_every=10**9,
                images=1,
            ),
            steps=2 * STRETCH * (rounds + 1),
        )
        loop.train(recipe, f"{folder}/run")
        records = read_metrics(Path(folder, "run"))
    steps = [
        recipe.data.batch_size / r["images_per_second"]
        for r in records
        if r["kind"] == "train"
    ][2:]  # the first ones read the files
    # A save starts at the end of its own stretch, and burdens the next one.
    plain, saving = np.median(steps[1::2]), np.median(steps[0::2])
    return float(plain), float(saving - plain) * STRETCH


def draw_photos(folder: Path) -> None:
    """Drawn images as files: what is timed is the loop, not the drawing."""
    folder.mkdir()
    for index in range(16):
        pixels = dead_leaves.render(256, seed=(0, index))
        Image.fromarray(pixels).save(folder / f"{index}.png")


def measure_loop(rounds: int) -> dict:
    recipe = from_mapping(make_config("sevnet_s", **STEP))
    bare = [time_bare_step(recipe, rounds)]
    in_loop, save = time_loop(recipe, rounds)
    bare.append(time_bare_step(recipe, rounds))
    return {
        "bare_seconds": float(np.mean(bare)),
        "loop_seconds": in_loop,
        "save_seconds": save,
        "checkpoint_every": recipe.watch.checkpoint_every,
    }


def describe_loop(timed: dict) -> str:
    whole = timed["loop_seconds"] + timed["save_seconds"] / timed["checkpoint_every"]
    return (
        f"sevnet_s, 8x64x64: bare step {timed['bare_seconds']:.3f} s, in the loop "
        f"{timed['loop_seconds']:.3f} s; a save costs {timed['save_seconds']:.2f} s, "
        f"one in {timed['checkpoint_every']} steps: ratio "
        f"{whole / timed['bare_seconds']:.3f} (goal 1.05)"
    )


def measure_memory(preset: str) -> dict[str, dict[str, int]]:
    """Bytes without and with remat: kept for the backward pass, and XLA's here."""
    found = {}
    for remat in (False, True):
        recipe = from_mapping(make_config(preset, {"remat": remat}))
        objective = Objective(recipe)
        state = jax.eval_shape(lambda r=recipe, o=objective: create_state(o.model, r))
        shape = (
            recipe.data.batch_size,
            recipe.data.patch_size,
            recipe.data.patch_size,
            3,
        )
        image = jax.ShapeDtypeStruct(shape, np.float32)

        def backward(params, batch, objective=objective):
            return jax.vjp(lambda p: objective.loss(p, None, batch, 0), params)[1]

        kept = jax.eval_shape(backward, state.params, {"clean": image, "noisy": image})
        found["remat" if remat else "plain"] = {
            "kept": sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(kept)),
            "xla": compile_step(recipe).memory_analysis().temp_size_in_bytes,
        }
    return found


def measure_share() -> dict:
    """The work of one device; called in a process with its own device count."""
    recipe = from_mapping(make_config("sevnet_s", **STEP))
    step = compile_step(recipe)
    text = step.as_text()
    return {
        "devices": jax.device_count(),
        "rows": recipe.data.batch_size // jax.device_count(),
        "gflop": step.cost_analysis()["flops"] / 1e9,
        "all_reduce": text.count(" all-reduce("),
        "all_gather": text.count(" all-gather("),
    }


def measure_shares() -> list[dict]:
    shares = []
    for devices in (1, 2, 4, 8):
        environment = {
            **os.environ,
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        }
        done = subprocess.run(
            [sys.executable, __file__, "--share"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        shares.append(json.loads(done.stdout.splitlines()[-1]))
    return shares


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="best of so many (6)")
    parser.add_argument("--share", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.share:
        print(json.dumps(measure_share()))
        return 0
    timed = measure_loop(args.rounds)
    memory = measure_memory("sevnet")
    shares = measure_shares()
    if args.json:
        print(json.dumps({**timed, "memory": memory, "shares": shares}, indent=2))
        return 0
    print(describe_loop(timed))
    print("sevnet, 4x128x128, memory beside the state, MB:")
    rows = [
        [name, *(f"{found[key] / 2**20:.0f}" for key in ("kept", "xla"))]
        for name, found in memory.items()
    ]
    print(format_table(["", "kept for backward", "XLA's on this CPU"], rows))
    print("sevnet_s, 8x64x64 in all:")
    keys = ("devices", "rows", "gflop", "all_reduce", "all_gather")
    rows = [[f"{share[key]:.4g}" for key in keys] for share in shares]
    header = ["devices", "rows each", "GFLOP each", "all-reduces", "all-gathers"]
    print(format_table(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
