"""Patches per second of the data pipeline, next to PyTorch's loader and to training.

    python benchmarks/pipeline.py [--images FOLDER] [--json OUT] [--memory]

Needs the extras `train` and `bench`. The pipeline and what it is compared with are
measured in turn, and the best round of each counts, so other work on the machine
affects all alike. Without --images, dead leaves are drawn to a temporary folder.
"""

import argparse
import functools
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from sevnet_jax import images
from sevnet_jax.data import dead_leaves, pipeline, sources
from sevnet_jax.data.config import Data

PATCH, BATCH = 128, 4
IMAGES, WORKERS = 48, 2
LAWS = {"gaussian": "gaussian:5-20", "variants": "variant2", "isp": "isp"}
GOALS = {
    "gaussian / PyTorch DataLoader": 1.5,
    "gaussian / sevnet_s training": 5.0,
    "isp / sevnet_s training": 2.0,
}


def draw_images(folder: Path) -> None:
    for i in range(IMAGES):
        Image.fromarray(dead_leaves.render(256, (0, i))).save(folder / f"{i:03}.png")


def settle() -> None:
    """Waits until this process rests: what fills its buffers must not hit the next."""
    used = -1.0
    while time.process_time() - used > 0.01:
        used = time.process_time()
        time.sleep(0.1)


def patches_per_second(next_batch: Callable, seconds: float, ready: int) -> float:
    settle()
    for _ in range(ready):  # what lay ready is not counted
        next_batch()
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        next_batch()
        count += 1
    return count * BATCH / passed


def our_batches(noise: str, source: str, **options) -> Callable:
    config = Data(
        source=source, noise=noise, patch_size=PATCH, batch_size=BATCH, **options
    )
    return pipeline.make_batches(config).__next__


def torch_batches(folder: str) -> Callable:
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Patches(Dataset):
        """The gaussian job as one writes it in PyTorch; images decoded once."""

        def __init__(self):
            self.images = [
                images.to_channels(images.read_pixels(p), 3)
                for p in sorted(Path(folder).iterdir())
            ]

        def __len__(self):
            return 10**9

        def __getitem__(self, _):
            image = self.images[int(torch.randint(len(self.images), ()))]
            top = int(torch.randint(image.shape[0] - PATCH + 1, ()))
            left = int(torch.randint(image.shape[1] - PATCH + 1, ()))
            patch = image[top : top + PATCH, left : left + PATCH]
            if torch.rand(()) < 0.5:
                patch = patch[:, ::-1]
            patch = np.rot90(patch, int(torch.randint(4, ())))
            patch = np.ascontiguousarray(patch.transpose(2, 0, 1))
            clean = torch.from_numpy(patch).float() / 255
            sigma = torch.empty(()).uniform_(5 / 255, 20 / 255)
            return {"clean": clean, "noisy": clean + sigma * torch.randn(clean.shape)}

    return iter(DataLoader(Patches(), batch_size=BATCH, num_workers=WORKERS)).__next__


def training_step(batch: dict) -> Callable:
    """One Adam step of the fastest preset on L1, on a batch that lies ready."""
    import jax
    import optax

    import sevnet_jax
    from sevnet_jax.runtime import compiler_options

    model = sevnet_jax.create_model("sevnet_s")
    params = model.init(jax.random.key(0), batch["noisy"][:1])
    optimizer = optax.adam(2e-4)

    @functools.partial(jax.jit, compiler_options=compiler_options())
    def step(params, state, batch):
        def loss(params):
            restored = model.apply(params, batch["noisy"])
            return abs(restored - batch["clean"]).mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    held = [params, optimizer.init(params)]

    def run():
        held[:] = step(*held, batch)
        jax.block_until_ready(held)

    return run


def measure(folder: str, seconds: float, rounds: int) -> dict[str, float]:
    """Returns the best patches a second of each contestant."""
    contestants = {"PyTorch DataLoader": torch_batches(folder)}
    contestants |= {name: our_batches(law, folder) for name, law in LAWS.items()}
    # Without a cache: a file read for every patch, as from a set larger than it, and an
    # image drawn for every patch, as in a run's first steps.
    contestants["gaussian, streamed"] = our_batches(
        LAWS["gaussian"], folder, cache_bytes=0
    )
    contestants["dead leaves, drawn anew"] = our_batches(
        LAWS["gaussian"], "dead_leaves", cache_bytes=0
    )
    for name in LAWS:  # decode every image once
        for _ in range(100):
            contestants[name]()
    contestants["sevnet_s training"] = training_step(contestants["gaussian"]())
    best = dict.fromkeys(contestants, 0.0)
    for _ in range(rounds):
        for name, next_batch in contestants.items():
            ready = 1 if "training" in name else pipeline.PREFETCH + 2
            rate = patches_per_second(next_batch, seconds, ready)
            best[name] = max(best[name], rate)
    return best


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_memory(folder: str, batches: int) -> dict[str, float]:
    """Returns megabytes held after a tenth of the batches, and after all of them.

    First with all images in the cache, then with none.
    """
    held = {}
    for name, cache in (("cached", sources.CACHE_BYTES), ("streamed", 0)):
        next_batch = our_batches(LAWS["gaussian"], folder, cache_bytes=cache)
        for i in range(1, batches + 1):
            next_batch()
            if i in (batches // 10, batches):
                gc.collect()
                held[f"MB after {i} batches, {name}"] = resident_megabytes()
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of images of 128x128 or larger")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--memory", action="store_true", help="only the memory test")
    parser.add_argument("--batches", type=int, default=10_000, help="of that test")
    parser.add_argument("--json", help="file for the numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.images or temporary
        if not arguments.images:
            draw_images(Path(temporary))
        if arguments.memory:
            results = measure_memory(folder, arguments.batches)
        else:
            results = measure(folder, arguments.seconds, arguments.rounds)
    ratios = {}
    for name in GOALS:
        ours, theirs = name.split(" / ")
        if ours in results and theirs in results:
            ratios[name] = results[ours] / results[theirs]
    width = max(map(len, [*results, *ratios]))
    for name, value in results.items():
        print(f"{name:{width}}  {value:8.0f}{'' if arguments.memory else ' patches/s'}")
    for name, value in ratios.items():
        print(f"{name:{width}}  {value:8.2f} (goal {GOALS[name]:g})")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results | ratios, indent=2) + "\n")


if __name__ == "__main__":
    main()
