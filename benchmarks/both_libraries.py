"""One step of a network in JAX and in PyTorch, and a check that both agree."""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch_sevnet

from sevnet_jax import create_model
from sevnet_jax.runtime import compiler_options

LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


def draw(preset: str, shape: tuple[int, ...], **changes):
    """The model, its parameters, a noisy and a clean batch."""
    model = create_model(preset, **changes)
    rng = np.random.default_rng(0)
    clean = jnp.asarray(rng.uniform(size=shape), "float32")
    noisy = clean + jnp.asarray(rng.normal(size=shape) * 0.05, "float32")
    params = jax.jit(model.init)(jax.random.key(0, impl="rbg"), noisy[:, :8, :8])
    return model, params, noisy, clean


def l1(model, params, noisy, clean):
    return jnp.abs(model.apply(params, noisy) - clean).mean()


def make_jax_runner(model, params, noisy, clean, train) -> tuple[Callable, float]:
    """A function that runs one step, and the seconds that compiling it took."""
    start = time.perf_counter()
    if not train:
        forward = jax.jit(model.apply, compiler_options=compiler_options())
        forward = forward.lower(params, noisy).compile()
        seconds = time.perf_counter() - start
        return lambda: jax.block_until_ready(forward(params, noisy)), seconds
    optimizer = optax.adam(1e-4)

    @functools.partial(
        jax.jit, donate_argnums=(0, 1), compiler_options=compiler_options()
    )
    def step(params, state, noisy, clean):
        loss, grads = jax.value_and_grad(functools.partial(l1, model))(
            params, noisy, clean
        )
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    held = [jax.tree.map(jnp.copy, params), optimizer.init(params)]
    compiled = step.lower(*held, noisy, clean).compile()
    seconds = time.perf_counter() - start

    def run():
        held[0], held[1], loss = compiled(*held, noisy, clean)
        jax.block_until_ready(loss)
        jax.block_until_ready(held[0])

    return run, seconds


def make_torch_runner(model, params, noisy, clean, train, layout) -> Callable:
    tensors = torch_sevnet.convert_params(params, layout)
    noisy, clean = (to_torch(a, layout) for a in (noisy, clean))
    if not train:

        def forward():
            with torch.inference_mode():
                torch_sevnet.restore(model, tensors, noisy)

        return forward
    optimizer = torch.optim.Adam(jax.tree.leaves(tensors), lr=1e-4)

    def step():
        optimizer.zero_grad()
        (torch_sevnet.restore(model, tensors, noisy) - clean).abs().mean().backward()
        optimizer.step()

    return step


def to_torch(x, layout):
    x = torch.from_numpy(np.array(x).transpose(0, 3, 1, 2).copy())
    return x.contiguous(memory_format=layout)


def check_agreement(model, params, noisy, clean) -> float:
    """The largest relative difference of outputs and gradients."""
    jit = functools.partial(jax.jit, compiler_options=compiler_options())
    grads = jit(jax.grad(functools.partial(l1, model)))(params, noisy, clean)
    output = jit(model.apply)(params, noisy)
    tensors = torch_sevnet.convert_params(params, torch.contiguous_format)
    theirs = torch_sevnet.restore(model, tensors, to_torch(noisy, LAYOUTS["NCHW"]))
    (theirs - to_torch(clean, LAYOUTS["NCHW"])).abs().mean().backward()
    theirs = theirs.detach().numpy().transpose(0, 2, 3, 1)
    errors = [np.abs(theirs - output).max() / np.abs(output).max()]
    converted = torch_sevnet.convert_params(grads, torch.contiguous_format)
    for ours, tensor in zip(
        jax.tree.leaves(converted), jax.tree.leaves(tensors), strict=True
    ):
        ours = ours.detach()
        errors.append(float((ours - tensor.grad).abs().max() / ours.abs().max()))
    return float(max(errors))
