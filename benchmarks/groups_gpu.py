"""``python -m benchmarks.groups_gpu``: cost of group candidates on one GPU, besides the enumeration.

Needs the stage with the extra ``cuda``, and the graphs of ``MBE_DATA``. The enumeration leaves blocks in device memory;
each is named, which every publication needs, and then added to the sink. Both are timed with the device idle before and
after. ``--check`` compares the kept candidates with the host's sink on the same blocks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.bench_gpu import device_facts, graph_on_device, read_graph
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.keys import hash_integers, vertex_hashes
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.options import Execution

__all__ = ["main"]

MOST_SECONDS = {"EuAll": 0.1}
GRAPHS = ("youtube", "EuAll", "bookcrossing")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a target is missed or the two sinks differ, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help=f"names; {', '.join(GRAPHS)} by default")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare with the host's sink, which takes seconds")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    facts = device_facts(options.commit)
    print(f"{facts['device']}, {facts['date']}, commit {facts['commit']}\n")
    print(
        f"{'graph':<16}{'bicliques':>12}{'members':>14}{'blocks':>8}{'enumerate':>11}{'name':>8}{'sink':>8}{'finish':>8}"
        f"{'in all':>8}{'at most':>9}{'kept':>9}{'sink MB':>9}{'peak MB':>9}"
    )
    worst = 0
    for name in options.graphs or GRAPHS:
        row = measured(name, options.repeats)
        print(_line(name, row), flush=True)
        worst |= row["groups"] > MOST_SECONDS.get(name, float("inf"))
        if options.check:
            difference = differs_from_the_host(name)
            print(f"  {difference or 'the same as on the host'}", flush=True)
            worst |= difference is not None
    return int(worst)


class _TimedSink:
    """Names each block and passes it to a candidate sink; the device is idle when a time is taken."""

    detail = Detail.MEMBERS
    on_device = True

    def __init__(self, hashes: tuple[Any, Any], sink: Any) -> None:
        self.hashes, self.sink = hashes, sink
        self.n_members = self.n_blocks = 0
        self.seconds = {"name": 0.0, "sink": 0.0}

    def accept(self, block: Any) -> None:
        from mbe_stage.bicliques.cuda.keys import biclique_keys

        if not block.n_bicliques:
            return
        start = _now()
        keys = biclique_keys(block, *self.hashes)
        named = _now()
        self.sink.accept(block, keys)
        self.seconds["name"] += named - start
        self.seconds["sink"] += _now() - named
        self.n_blocks += 1
        self.n_members += block.left_members.size + block.right_members.size


def measured(name: str, repeats: int) -> dict[str, Any]:
    """Return medians of some repeats, after one that compiles and warms the memory pool."""
    import cupy as cp

    graph, on_device = read_graph(name), graph_on_device(name)
    hashes = _hashes(graph)
    model = NullModel.of(graph)
    rows = [_measured_once(on_device, model, hashes) for _ in range(repeats + 1)][1:]
    medians = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    return medians | {"peak_bytes": cp.get_default_memory_pool().total_bytes()}


def differs_from_the_host(name: str) -> str | None:
    """Return the difference between the sinks on the device and the host; None if they agree."""
    import cupy as cp

    graph, on_device = read_graph(name), graph_on_device(name)
    model = NullModel.of(graph)
    theirs = CandidateSink(model, graph.n_left, graph.n_right)
    ours = _device_sink(model)

    class Both:
        def accept(self, block: Any, keys: Any) -> None:
            ours.accept(block, keys)
            arrays = block.left_sizes, block.right_sizes, block.left_members, block.right_members
            theirs.accept(BicliqueBlock(block.n_bicliques, *map(cp.asnumpy, arrays)), cp.asnumpy(keys))

    enumerate_into(_TimedSink(_hashes(graph), Both()), on_device, None, Execution(), "cuda")
    found, wanted = ours.finish(), theirs.finish()
    pairs = {"keys": (found.keys, wanted.keys), "surprise": (found.surprise, wanted.surprise)}
    for field in ("left_offsets", "left_members", "right_offsets", "right_members"):
        pairs[field] = getattr(found.members, field), getattr(wanted.members, field)
    for field in ("left_best", "right_best", "left_share", "right_share", "n_bicliques_of_left"):
        pairs[field] = getattr(ours, field), getattr(theirs, field)
    different = [what for what, (one, other) in pairs.items() if not np.array_equal(one, other)]
    return f"DIFFERENT: {', '.join(different)}" if different else None


def _measured_once(graph: BipartiteCSR, model: NullModel, hashes: tuple[Any, Any]) -> dict[str, Any]:
    sink = _TimedSink(hashes, _device_sink(model))
    start = _now()
    facts = enumerate_into(sink, graph, None, Execution(), "cuda")
    streamed = _now()
    nbytes = sink.sink.nbytes
    candidates = sink.sink.finish()
    finished = _now()
    return {
        "bicliques": facts.n_bicliques,
        "members": sink.n_members,
        "blocks": sink.n_blocks,
        "enumerate": streamed - start - sum(sink.seconds.values()),
        **sink.seconds,
        "finish": finished - streamed,
        "groups": sink.seconds["sink"] + finished - streamed,
        "kept": len(candidates),
        "sink_bytes": nbytes,
    }


def _device_sink(model: NullModel) -> Any:
    # This module is imported without a GPU too, for its message.
    from mbe_stage.groups.cuda.candidates import DeviceCandidateSink

    return DeviceCandidateSink(model, model.left_log_degrees.size, model.right_log_degrees.size)


def _hashes(graph: BipartiteCSR) -> tuple[Any, Any]:
    import cupy as cp

    left, right = (hash_integers(np.arange(n)) for n in (graph.n_left, graph.n_right))
    return cp.asarray(vertex_hashes(left, "left")), cp.asarray(vertex_hashes(right, "right"))


def _now() -> float:
    import cupy as cp

    cp.cuda.runtime.deviceSynchronize()
    return time.perf_counter()


def _line(name: str, row: dict[str, Any]) -> str:
    most = MOST_SECONDS.get(name)
    verdict = "" if most is None else "  met" if row["groups"] <= most else "  MISSED"
    return (
        f"{name:<16}{row['bicliques']:>12,}{row['members']:>14,}{row['blocks']:>8.0f}{row['enumerate']:>11.4f}"
        f"{row['name']:>8.4f}{row['sink']:>8.4f}{row['finish']:>8.4f}{row['groups']:>8.4f}"
        f"{'' if most is None else most:>9}{row['kept']:>9,}{row['sink_bytes'] / 1e6:>9.1f}"
        f"{row['peak_bytes'] / 1e6:>9,.0f}{verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
