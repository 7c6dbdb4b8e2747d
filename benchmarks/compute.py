"""Times our network against the same one in PyTorch, side by side on this CPU.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python benchmarks/compute.py

Needs requirements/bench.txt; the setting is the one that train.py gives itself. Each
library works in a process of its own, and they take turns: in one process they disturb
each other's memory and threads.
"""

import argparse
import dataclasses
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch_sevnet
import training

from sevnet_jax import create_model
from sevnet_jax.evaluation.complexity import count_macs
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.runtime import compiler_options

LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclasses.dataclass(frozen=True)
class Case:
    preset: str
    train: bool
    shape: tuple[int, int, int, int]
    goal: float


CASES = (
    Case("sevnet", False, (1, 256, 256, 3), 0.85),
    Case("sevnet", True, (4, 128, 128, 3), 0.95),
    Case("sevnet_s", False, (1, 512, 512, 3), 0.85),
    Case("sevnet_s", True, (8, 64, 64, 3), 0.95),
)


MEMORY_CASE = CASES[1]
RUNS_A_TURN = 3


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
    grads = jax.jit(jax.grad(functools.partial(l1, model)))(params, noisy, clean)
    output = jax.jit(model.apply)(params, noisy)
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


def time_alternating(runners: dict[str, Callable], rounds: int) -> dict[str, float]:
    """The best time of each, all of them running in turn in every round."""
    best = dict.fromkeys(runners, float("inf"))
    for run in runners.values():
        run()
    for _ in range(rounds):
        for name, run in runners.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure_gemm(size: int = 2048) -> float:
    """The FLOP/s of a large float32 matrix product, the better of both libraries."""
    a = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    b = torch.ones(size, size)
    runners = {
        "jax": lambda: jax.block_until_ready(product(a, a)),
        "torch": lambda: b @ b,
    }
    return 2 * size**3 / min(time_alternating(runners, 5).values())


def draw_case(case: Case, **changes):
    """The model, its parameters, a noisy and a clean batch."""
    model = create_model(case.preset, **changes)
    rng = np.random.default_rng(0)
    clean = jnp.asarray(rng.uniform(size=case.shape), "float32")
    noisy = clean + jnp.asarray(rng.normal(size=case.shape) * 0.05, "float32")
    params = jax.jit(model.init)(jax.random.key(0, impl="rbg"), noisy[:, :8, :8])
    return model, params, noisy, clean


def measure_peak(kind: str) -> int:
    """Megabytes that this process needed at most for two steps of MEMORY_CASE."""
    given = draw_case(MEMORY_CASE, remat=kind == "JAX, remat")
    if kind.startswith("JAX"):
        run, _ = make_jax_runner(*given, train=True)
    else:
        run = make_torch_runner(*given, train=True, layout=LAYOUTS["NHWC"])
    run()
    run()
    # Not from getrusage, which knows the peak of the process that started this one too.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def measure_peaks() -> dict[str, int]:
    """The peak of each kind in a process of its own."""
    found = {}
    for kind in ("JAX", "JAX, remat", "PyTorch"):
        command = [sys.executable, __file__, "--peak", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[kind] = int(done.stdout)
    return found


class Worker:
    """A process that runs one kind of a case whenever it is asked to."""

    def __init__(self, kind: str, case: Case):
        command = [sys.executable, __file__, "--serve", kind]
        command += ["--case", str(CASES.index(case))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, **pipes)
        self.compile_seconds = self._read()

    def take_turn(self) -> float:
        """Returns the seconds of the best of several runs, one after the other.

        After a rest the first one is slower: the memory that a process gave back must
        be got again, from a virtual machine's host even.
        """
        return min(self._run() for _ in range(RUNS_A_TURN))

    def _run(self) -> float:
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> float:
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def serve(kind: str, case: Case) -> None:
    """What a worker does: says when it is ready, then a time for each line it gets."""
    given = draw_case(case)
    seconds = 0.0
    if kind == "jax":
        run, seconds = make_jax_runner(*given, case.train)
    else:
        run = make_torch_runner(*given, case.train, LAYOUTS[kind])
    run()
    print(seconds, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


def run_case(case: Case, rounds: int) -> dict:
    model, params, noisy, clean = draw_case(case)
    small = tuple(a[:, :32, :32] for a in (noisy, clean))
    error = check_agreement(model, params, *small)
    workers = {kind: Worker(kind, case) for kind in ("jax", *LAYOUTS)}
    best = dict.fromkeys(workers, float("inf"))
    for _ in range(rounds):
        for kind, worker in workers.items():
            best[kind] = min(best[kind], worker.take_turn())
    for worker in workers.values():
        worker.close()
    # Backward costs two more passes of the same size.
    macs = count_macs(model.apply, params, noisy) * (3 if case.train else 1)
    theirs = min(best[name] for name in LAYOUTS)
    return {
        "preset": case.preset,
        "what": "train step" if case.train else "forward",
        "shape": case.shape,
        "jax_seconds": best["jax"],
        "torch_seconds": {name: best[name] for name in LAYOUTS},
        "ratio": best["jax"] / theirs,
        "goal": case.goal,
        "gflops": 2 * macs / best["jax"] / 1e9,
        "torch_gflops": 2 * macs / theirs / 1e9,
        "compile_seconds": workers["jax"].compile_seconds,
        "difference": error,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="best of so many (5)")
    parser.add_argument("--only", help="a preset's name")
    parser.add_argument("--json", action="store_true")
    for name in ("--peak", "--serve", "--case"):  # what its own processes are told
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    torch.set_num_threads(2)
    if args.serve:
        serve(args.serve, CASES[int(args.case)])
        return 0
    if args.peak:
        print(measure_peak(args.peak))
        return 0
    cases = [c for c in CASES if args.only in (None, c.preset)]
    peak = measure_gemm()
    results = [run_case(case, args.rounds) for case in cases]
    loop = training.measure_loop(args.rounds)
    peaks = measure_peaks()
    if args.json:
        found = {
            "gemm_gflops": peak / 1e9,
            "cases": results,
            "loop": loop,
            "peak_mb": peaks,
        }
        print(json.dumps(found, indent=2))
        return 0
    print(f"GEMM peak {peak / 1e9:.0f} GFLOP/s; ratio = JAX time / PyTorch time")
    rows = [
        [
            f"{r['preset']} {r['what']} {'x'.join(map(str, r['shape'][:3]))}",
            f"{r['ratio']:.2f}",
            f"{r['goal']:.2f}",
            f"{r['jax_seconds']:.3f}",
            *(f"{seconds:.3f}" for seconds in r["torch_seconds"].values()),
            f"{r['gflops']:.0f}",
            f"{r['gflops'] * 1e9 / peak:.0%}",
            f"{r['compile_seconds']:.1f}",
            f"{r['difference']:.0e}",
        ]
        for r in results
    ]
    header = ["case", "ratio", "goal", "JAX s", *(f"{n} s" for n in LAYOUTS)]
    print(format_table([*header, "GFLOP/s", "of peak", "compile s", "diff"], rows))
    print(training.describe_loop(loop))
    needed = ", ".join(f"{kind} {megabytes}" for kind, megabytes in peaks.items())
    shape = "x".join(map(str, MEMORY_CASE.shape[:3]))
    print(f"peak MB of a {MEMORY_CASE.preset} train step, {shape}: {needed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
