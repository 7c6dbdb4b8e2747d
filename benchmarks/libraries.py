"""One step of a network in JAX and in other libraries, and a check that they agree."""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import openvino
import optax
import torch
import torch_sevnet

from sevnet_jax import create_model
from sevnet_jax.inference import onnx_graph
from sevnet_jax.runtime import compiler_options

LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
OURS = "JAX"
THREADS = 2


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
        forward = jax.jit(model.apply, compiler_options=compiler_options(forward=True))
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


def make_torch_runner(
    model, params, noisy, clean, train, *, layout: str, compiled: bool
) -> tuple[Callable, float]:
    """As `make_jax_runner`; the seconds are those of the first run, if `compiled`."""
    torch.set_num_threads(THREADS)
    order = LAYOUTS[layout]
    tensors = torch_sevnet.convert_params(params, order)
    noisy, clean = (to_torch(a, order) for a in (noisy, clean))
    restore = functools.partial(torch_sevnet.restore, model, tensors)
    restore = torch.compile(restore) if compiled else restore
    optimizer = torch.optim.Adam(jax.tree.leaves(tensors), lr=1e-4)

    def forward():
        with torch.inference_mode():
            restore(noisy)

    def step():
        optimizer.zero_grad()
        (restore(noisy) - clean).abs().mean().backward()
        optimizer.step()

    run = step if train else forward
    return run, time_one(run) if compiled else 0.0


def make_onnx_runner(model, params, noisy, clean, train) -> tuple[Callable, float]:
    """The file that export.py writes, in ONNX Runtime; forward only."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    file = export(model, params)
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(
        file, options, providers=["CPUExecutionProvider"]
    )
    given = {session.get_inputs()[0].name: np.asarray(noisy)}
    return lambda: session.run(None, given), time.perf_counter() - start


def make_openvino_runner(model, params, noisy, clean, train) -> tuple[Callable, float]:
    """The file that export.py writes, in OpenVINO, float32, for this one size."""
    core = openvino.Core()
    image = np.asarray(noisy)
    file = export(model, params)
    start = time.perf_counter()
    program = core.read_model(file)
    program.reshape(list(image.shape))
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": THREADS,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(program, "CPU", options).create_infer_request()
    return lambda: request.infer([image]), time.perf_counter() - start


def export(model, params) -> bytes:
    graph = onnx_graph.build(model, params, False, {})
    return graph.SerializeToString(deterministic=True)


def time_one(run: Callable) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


FORWARD_ONLY = {
    "ONNX Runtime": make_onnx_runner,
    "OpenVINO": make_openvino_runner,
}
MAKERS = {
    OURS: make_jax_runner,
    **{
        f"PyTorch {'compiled' if compiled else 'eager'}, {layout}": functools.partial(
            make_torch_runner, layout=layout, compiled=compiled
        )
        for compiled in (False, True)
        for layout in LAYOUTS
    },
    **FORWARD_ONLY,
}


def list_kinds(train: bool) -> list[str]:
    """Returns what can run a case: ours first."""
    return [kind for kind in MAKERS if not (train and kind in FORWARD_ONLY)]


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
