"""Trains a small denoiser on drawn images and on photos, and tests both on photos.

python benchmarks/dead_leaves.py --photos FOLDER --test FOLDER
"""

import argparse
import functools
import itertools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from sevnet_jax import create_model
from sevnet_jax.data import noise, pipeline, sources
from sevnet_jax.data.images import to_float
from sevnet_jax.evaluation.metrics import psnr, to_rgb8
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.runtime import use_compilation_cache

TEST_NOISES = ("gaussian:20", "speckle:60")
TEST_SIDE = 256


def train(source: str, steps: int, seed: int):
    """A model and its parameters after `steps` of Adam, L1, gaussian noise 5 to 20."""
    model = create_model("sevnet_s", width=24, blocks=(1, 1), bottleneck=1)
    config = pipeline.Config(source=source, batch_size=8, patch_size=64, seed=seed)
    batches = pipeline.prefetch_to_device(pipeline.make_batches(config))
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(optax.cosine_decay_schedule(2e-3, steps)),
    )

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, batch):
        def loss(params):
            return jnp.abs(model.apply(params, batch["noisy"]) - batch["clean"]).mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, updates), state

    params = model.init(jax.random.key(seed), jnp.zeros((1, 8, 8, 3)))
    state = optimizer.init(params)
    for batch in itertools.islice(batches, steps):
        params, state = step(params, state, batch)
    return model, params


def score(model, params, folder: str, law_name: str, limit: int) -> float:
    """The mean PSNR (rgb8) over the centres of the first images of `folder`."""
    apply = jax.jit(model.apply)
    photos = sources.Folder(folder, min_side=TEST_SIDE)
    scores = []
    for index in range(min(limit, len(photos))):
        photo = photos[index]
        top, left = ((side - TEST_SIDE) // 2 for side in photo.shape[:2])
        clean = to_float(photo[top : top + TEST_SIDE, left : left + TEST_SIDE])
        clip = not law_name.startswith("gaussian")
        noisy = noise.sample(noise.parse(law_name), clean, seed=(0, index), clip=clip)
        restored = np.asarray(apply(params, noisy[None])[0])
        scores.append(psnr(to_rgb8(restored), to_rgb8(clean)))
    return float(np.mean(scores))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", required=True, help="folder of clean photos")
    parser.add_argument("--test", required=True, help="folder of other clean photos")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--limit", type=int, default=50, help="test images (50)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    use_compilation_cache()
    results = {}
    for name, source in (("photos", args.photos), ("dead leaves", "dead_leaves")):
        model, params = train(source, args.steps, args.seed)
        results[name] = {
            law: score(model, params, args.test, law, args.limit) for law in TEST_NOISES
        }
    if args.json:
        print(json.dumps(results, indent=2))
        return 0
    print(f"PSNR (rgb8) of 256x256 crops after {args.steps} steps on each source")
    rows = [
        [name, *(f"{results[name][law]:.2f}" for law in TEST_NOISES)]
        for name in results
    ]
    print(format_table(["trained on", *TEST_NOISES], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
