"""One GPU as several: its multiprocessors are cut into equal parts, and each part searches as a separate device.

Each part is a green context of the driver: a stream whose kernels run only on the multiprocessors of that part. Cache,
memory and bus are shared, so parts slow each other down where devices would not; copies between parts are faster than
between devices. Several parts are compared with one part that has the same memory. ``python -m benchmarks.device_parts
--help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, read_graph
from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["main"]

_MEMORY_SHARE = 0.6


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if parts disagree on a number, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph")
    parser.add_argument("--min-left", type=int, default=1, help="only bicliques of so many vertices on the left")
    parser.add_argument("--min-right", type=int, default=1)
    parser.add_argument(
        "--parts", nargs="*", type=int, default=[2, 4], help="how many; each is compared with one alone"
    )
    parser.add_argument("--repeats", type=int, default=2, help="of each; the best is shown")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    print(json.dumps(device_facts(options.commit)), flush=True)
    query = BicliqueQuery(min_left=options.min_left, min_right=options.min_right)
    graph = read_graph(options.graph)
    compile_ahead(engine_cuda.compile_steps(query, Detail.COUNT))
    found = set()
    for n_parts in options.parts:
        with _cut_into(n_parts) as parts:
            memory = int(_MEMORY_SHARE * _total_bytes())
            alone = _best(graph, query, parts, 1, memory // n_parts, options.repeats)
            together = _best(graph, query, parts, n_parts, memory, options.repeats)
        found |= {alone["found"], together["found"]}
        facts = {"graph": options.graph, "parts": n_parts, "multiprocessors": parts.multiprocessors}
        times = round(alone["seconds"] / together["seconds"], 3)
        print(json.dumps({**facts, "alone": alone, "together": together, "times": times}), flush=True)
    return 0 if len(found) == 1 else 1


class _Parts:
    """The streams of all parts; each is the default stream of its thread.

    Attributes
    ----------
    multiprocessors : int
        Multiprocessors per part.
    """

    def __init__(self, streams: Sequence[Any], multiprocessors: int) -> None:
        self.multiprocessors = multiprocessors
        self._streams = streams
        self._n_taken = 0
        self._taking = threading.Lock()
        self.own = threading.local()

    def begin(self) -> None:
        """Free the parts for the threads of another run."""
        self._n_taken = 0

    def take(self) -> Any:
        """Return the CuPy stream of an unused part; register Numba's for this thread."""
        with self._taking:
            cupy_stream, self.own.numba_stream = self._streams[self._n_taken]
            self.own.cupy_stream = cupy_stream
            self._n_taken += 1
        return cupy_stream


@contextmanager
def _cut_into(n_parts: int) -> Iterator[_Parts]:
    """Give each thread of a `DeviceRunner` a part of the device as its device.

    The engines use the default stream and all multiprocessors. Only here, threads' streams replace the default in
    Numba's launches and in `device_work`, and the plan uses a part's multiprocessors.
    """
    import cupy as cp
    from numba.cuda.dispatcher import CUDADispatcher

    from mbe_stage.device import launch, memory_budget, selection

    parts = _parts_of_device(n_parts)
    whole = selection.selected, CUDADispatcher.__getitem__, launch._multiprocessors_of, memory_budget.cp

    @contextmanager
    def selected(number: int) -> Iterator[None]:
        with whole[0](number), parts.take():
            yield

    def on_own_stream(dispatcher: Any, shape: tuple[Any, ...]) -> Any:
        stream = getattr(parts.own, "numba_stream", None)
        return dispatcher.configure(*shape) if stream is None else dispatcher.configure(*shape[:2], stream)

    class OwnStream:
        @property
        def null(self) -> Any:
            return getattr(parts.own, "cupy_stream", cp.cuda.Stream.null)

    selection.selected, CUDADispatcher.__getitem__ = selected, on_own_stream
    launch._multiprocessors_of = lambda _device: parts.multiprocessors
    cuda = {name: getattr(cp.cuda, name) for name in ("get_current_stream", "runtime", "memory")}
    memory_budget.cp = SimpleNamespace(
        cuda=SimpleNamespace(**cuda, Stream=OwnStream()), get_default_memory_pool=cp.get_default_memory_pool
    )
    try:
        yield parts
    finally:
        selection.selected, CUDADispatcher.__getitem__, launch._multiprocessors_of, memory_budget.cp = whole


def _parts_of_device(n_parts: int) -> _Parts:
    """Return equal parts of the current device with a stream each; a remainder is unused."""
    import cupy as cp
    from cuda.bindings import driver
    from numba import cuda

    cuda.current_context()
    device = _checked(driver.cuDeviceGet(cp.cuda.runtime.getDevice()))
    whole = _checked(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    # Multiprocessors come in groups of eight.
    least = whole.sm.smCount // n_parts // 8 * 8
    pieces, n, _ = _checked(driver.cuDevSmResourceSplitByCount(n_parts, whole, 0, least))
    if n < n_parts or len({piece.sm.smCount for piece in pieces[:n_parts]}) > 1:
        raise SystemExit(f"error: {whole.sm.smCount} multiprocessors do not make {n_parts} equal parts")
    streams = []
    for piece in pieces[:n_parts]:
        described = _checked(driver.cuDevResourceGenerateDesc([piece], 1))
        flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = _checked(driver.cuGreenCtxCreate(described, device, flags))
        stream = int(_checked(driver.cuGreenCtxStreamCreate(context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0)))
        streams.append((cp.cuda.Stream.from_external(_Handle(stream)), cuda.external_stream(stream)))
    return _Parts(streams, pieces[0].sm.smCount)


class _Handle:
    """A stream of the driver, as libraries pass theirs to each other."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *given = answer
    if int(error) != 0:
        raise SystemExit(f"error: the driver cannot cut the device into parts: {error}")
    return given[0] if len(given) == 1 else given


def _total_bytes() -> int:
    import cupy as cp

    return int(cp.cuda.runtime.memGetInfo()[1])


def _best(
    graph: BipartiteCSR, query: BicliqueQuery, parts: _Parts, n_workers: int, memory: int, repeats: int
) -> dict[str, Any]:
    """Return the best of several runs with this many parts, after one that loads code."""
    best: dict[str, Any] = {}
    all_seconds = []
    for k in range(repeats + 1):
        runner = DeviceRunner([0] * n_workers)
        parts.begin()
        start = time.perf_counter()
        execution = Execution(memory_budget_bytes=8 << 30, device_memory_bytes=memory)
        found = sum(map(len, runner.run("bicliques", "cuda", graph, query, execution, Detail.COUNT)))
        seconds = time.perf_counter() - start
        all_seconds.append(round(runner.seconds, 4))
        if (k == 0 and repeats) or (best and runner.seconds >= best["seconds"]):
            continue
        best = {
            "seconds": runner.seconds,
            "with_copies": seconds,
            "found": found,
            "busy": [round(each, 3) for each in runner.busy],
            "given": [rank.n_given for rank in runner.ranks],
            "received": [rank.n_received for rank in runner.ranks],
            "leases": [rank.n_leases for rank in runner.ranks],
        }
    return best | {"all": all_seconds}


if __name__ == "__main__":
    sys.exit(main())
