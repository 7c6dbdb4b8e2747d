"""Times our network against the same one in other libraries, side by side on this CPU.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python benchmarks/compute.py

Needs requirements/train.txt and requirements/bench.txt; the setting is the one that
train.py gives itself. The others are PyTorch, eager and compiled, in two layouts, and
for forward passes ONNX Runtime and OpenVINO, with the file that export.py writes. Each
works in a process of its own, and they take turns: in one process they disturb each
other's memory and threads."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import torch
from libraries import MAKERS, OURS, THREADS, check_agreement, draw, list_kinds

from sevnet_jax.evaluation.complexity import count_macs
from sevnet_jax.evaluation.report import format_table


@dataclasses.dataclass(frozen=True)
class Case:
    preset: str
    train: bool
    shape: tuple[int, int, int, int]
    goal: float


CASES = (
    Case("sevnet", False, (1, 256, 256, 3), 0.85),
    Case("sevnet", True, (4, 128, 128, 3), 0.90),
    Case("sevnet_s", False, (1, 512, 512, 3), 0.90),
    Case("sevnet_s", True, (8, 64, 64, 3), 0.90),
)


MEMORY_CASE = CASES[1]
REMAT = f"{OURS}, remat"
RUNS_A_TURN = 3
SAME = 1e-4  # relative; the two libraries' outputs and gradients must be closer


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


def measure_gemm() -> float:
    """The FLOP/s of a large float32 matrix product, the better of both libraries."""
    size = 2048
    a = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    b = torch.ones(size, size)
    runners = {
        "jax": lambda: jax.block_until_ready(product(a, a)),
        "torch": lambda: b @ b,
    }
    return 2 * size**3 / min(time_alternating(runners, 5).values())


def measure_peak(kind: str) -> int:
    """Megabytes that this process needed at most for two steps of MEMORY_CASE."""
    given = draw(MEMORY_CASE.preset, MEMORY_CASE.shape, remat=kind == REMAT)
    run, _ = MAKERS[OURS if kind == REMAT else kind](*given, train=True)
    run()
    run()
    # Not from getrusage, which knows the peak of the process that started this one too.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def measure_peaks() -> dict[str, int]:
    """The peak of each kind in a process of its own."""
    found = {}
    for kind in (OURS, REMAT, "PyTorch eager, NHWC"):
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
    run, seconds = MAKERS[kind](*draw(case.preset, case.shape), case.train)
    run()
    print(seconds, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


def run_case(case: Case, rounds: int) -> dict:
    model, params, noisy, clean = draw(case.preset, case.shape)
    small = tuple(a[:, :32, :32] for a in (noisy, clean))
    error = check_agreement(model, params, *small)
    if not error < SAME:
        sys.exit(f"{case.preset}: outputs or gradients differ by {error:.1e}")
    workers = {kind: Worker(kind, case) for kind in list_kinds(case.train)}
    best = dict.fromkeys(workers, float("inf"))
    for _ in range(rounds):
        for kind, worker in workers.items():
            best[kind] = min(best[kind], worker.take_turn())
    for worker in workers.values():
        worker.close()
    # Backward costs two more passes of the same size.
    macs = count_macs(model.apply, params, noisy) * (3 if case.train else 1)
    ours = best.pop(OURS)
    rival = min(best, key=best.__getitem__)
    return {
        "preset": case.preset,
        "what": "train step" if case.train else "forward",
        "shape": case.shape,
        "seconds": ours,
        "others_seconds": best,
        "best_other": rival,
        "ratio": ours / best[rival],
        "goal": case.goal,
        "gflops": 2 * macs / ours / 1e9,
        "compile_seconds": {
            kind: worker.compile_seconds for kind, worker in workers.items()
        },
        "difference": error,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="best of so many (5)")
    parser.add_argument("--only", help="a preset's name")
    parser.add_argument(
        "--memory", action="store_true", help="also the peak memory of a train step"
    )
    parser.add_argument("--json", action="store_true")
    for name in ("--peak", "--serve", "--case"):  # what its own processes are told
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    # JAX takes all cores that it is given; the processes of this one get the same.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    torch.set_num_threads(THREADS)
    if args.serve:
        serve(args.serve, CASES[int(args.case)])
        return 0
    if args.peak:
        print(measure_peak(args.peak))
        return 0
    cases = [c for c in CASES if args.only in (None, c.preset)]
    peak = measure_gemm()
    if not args.json:
        print(f"GEMM peak {peak / 1e9:.0f} GFLOP/s")
    results = []
    for case in cases:
        results.append(run_case(case, args.rounds))
        if not args.json:
            print(describe(results[-1], peak), flush=True)
    peaks = measure_peaks() if args.memory else {}
    if args.json:
        found = {"gemm_gflops": peak / 1e9, "cases": results, "peak_mb": peaks}
        print(json.dumps(found, indent=2))
        return 0
    print("\nGFLOP/s: as if 3x3 convolutions took all products; Winograd's take fewer")
    if peaks:
        needed = "; ".join(f"{kind} {megabytes}" for kind, megabytes in peaks.items())
        shape = "x".join(map(str, MEMORY_CASE.shape[:3]))
        print(f"peak MB of a {MEMORY_CASE.preset} train step, {shape}: {needed}")
    return 0


def describe(r: dict, peak: float) -> str:
    shape = "x".join(map(str, r["shape"][:3]))
    title = (
        f"\n{r['preset']} {r['what']} {shape}: {r['ratio']:.2f} of the best other, "
        f"{r['best_other']} (goal {r['goal']:.2f}); {r['gflops']:.0f} GFLOP/s, "
        f"{r['gflops'] * 1e9 / peak:.0%} of peak; difference {r['difference']:.0e}"
    )
    times = {OURS: r["seconds"], **r["others_seconds"]}
    rows = [
        [
            kind,
            f"{seconds:.3f}",
            f"{r['seconds'] / seconds:.2f}",
            f"{r['compile_seconds'][kind]:.1f}",
        ]
        for kind, seconds in times.items()
    ]
    table = format_table(["library", "s", "ours / theirs", "compile s"], rows)
    return f"{title}\n{table}"


if __name__ == "__main__":
    sys.exit(main())
