"""Devices and hosts: every device holds the state and computes its own rows."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXIS = "data"


def connect(
    automatic: bool, coordinator: str | None, processes: int | None, number: int | None
) -> None:
    """Joins the hosts of a run; before anything else is asked of JAX.

    Automatic where a cluster tells each process its place (Slurm, TPU pods, Open MPI,
    Kubernetes); else the three values of `jax.distributed.initialize`.
    """
    explicit = (coordinator, processes, number)
    if any(value is not None for value in explicit):
        if coordinator is None or processes is None or number is None:
            raise ValueError(
                "several hosts need --coordinator, --processes and --process together"
            )
        if not 0 <= number < processes:
            raise ValueError(f"--process must be 0..{processes - 1}, got {number}")
        _initialize(coordinator, processes, number)
    elif automatic:
        _initialize()


def _initialize(*args) -> None:
    try:
        jax.distributed.initialize(*args)
    except RuntimeError as error:
        raise ValueError(f"the hosts could not connect: {error}") from error


def make_mesh(batch_size: int, accumulation: int = 1) -> Mesh:
    """Returns all devices of all hosts in a row, if the batch can be dealt to them."""
    count = jax.device_count()
    if batch_size % (count * accumulation):
        parts = f" in {accumulation} parts" if accumulation > 1 else ""
        raise ValueError(
            f"batch_size {batch_size} cannot be split over {count} devices{parts}; "
            f"choose a multiple of {count * accumulation}"
        )
    return jax.make_mesh((count,), (AXIS,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def by_rows(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(AXIS))


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return jax.process_index() == 0


def agree(value: int) -> int:
    """Returns the first process's value on every process."""
    if jax.process_count() == 1:
        return value
    return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def any_process(flag: bool) -> bool:
    """Whether the flag is set on some process; all of them have to ask."""
    if jax.process_count() == 1:
        return flag
    return bool(multihost_utils.process_allgather(np.int32(flag)).any())


def is_same(flag: bool) -> bool:
    """Whether the flag is set on all processes or on none; all of them have to ask."""
    return any_process(flag) != any_process(not flag)


def on_all(action: Callable[[], Any]) -> Any:
    """Runs `action` on every process, and fails everywhere if it fails on one."""
    result, error = None, None
    try:
        result = action()
    except Exception as caught:
        error = caught
    failed = any_process(error is not None)
    if error is not None:
        raise error
    if failed:
        raise ValueError("another process has stopped; its message says why")
    return result


def on_first(action: Callable[[], Any]) -> Any:
    """Runs `action` on the first process, and fails everywhere if it fails there."""
    return on_all(lambda: action() if is_first() else None)


def describe_devices() -> str:
    devices = jax.devices()
    kinds = ", ".join(sorted({device.device_kind for device in devices}))
    count = f"{len(devices)} device" + "s" * (len(devices) > 1)
    hosts = jax.process_count()
    return f"{count} ({kinds})" + (f" on {hosts} hosts" if hosts > 1 else "")
