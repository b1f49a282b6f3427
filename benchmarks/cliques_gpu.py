"""The CUDA engine of maximal cliques on one GPU, compared with RDMCE and mce-gpu on the same kind of device.

Times are those of `enumerate_cliques_into`, as a user calls it, from the graph's CSR on the device to the last clique
(including order, excluding compilation), best of several; the others' are those of their kernels only. Counts are
compared with the recorded ones. ``python -m benchmarks.cliques_gpu --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts
from mbe_stage import CliqueQuery, Execution, UndirectedCSR, enumerate_cliques_into
from mbe_stage.cliques import engine_cuda
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.results import Detail

__all__ = ["PEERS", "main", "undirected_on_device"]


class Peers(NamedTuple):
    """Maximal cliques of a graph, and kernel seconds of other programs on one H200; 2026-11-22.

    Attributes
    ----------
    n_cliques : int
    rdmce : float
        As published; the best variant with the right count.
    rdmce_short_waits : float or None
        With its idle wait cut from 5 ms to 10 us, if measured.
    mce_gpu : float
        The best variant.
    wanted : float
        Target of this project, including the order.
    """

    n_cliques: int
    rdmce: float
    rdmce_short_waits: float | None
    mce_gpu: float
    wanted: float


PEERS: dict[str, Peers] = {
    "ca_HepPh": Peers(14_937, 0.0102, None, 0.0136, 0.005),
    "email_Enron": Peers(226_859, 0.0064, 0.0013, 0.0151, 0.004),
    "wiki_Vote": Peers(459_002, 0.0066, 0.0016, 0.0153, 0.004),
    "soc_Epinions1": Peers(1_775_065, 0.0156, 0.0064, 0.0258, 0.010),
    "follow_flickr": Peers(10_342_039, 0.0323, 0.0231, 0.0932, 0.020),
    "Cornell5": Peers(11_200_870, 0.0673, 0.0319, 0.108, 0.030),
    "blogcatalog": Peers(116_299_960, 0.889, None, 0.833, 0.30),
}
_EXECUTION = Execution()
_EVERYTHING = Techniques()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a count is wrong, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", default=list(PEERS), help="of those that are known")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--members", action="store_true", help="the cliques written to the device's memory too")
    parser.add_argument("--ablation", action="store_true", help="the same without each technique in turn too")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--json", type=Path, help="where the rows go as well")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    facts = device_facts(options.commit)
    print(json.dumps(facts))
    rows = []
    for row in _measured(options.graphs, options.repeats, with_members=options.members, ablation=options.ablation):
        rows.append(row)
        print("  ".join(f"{name} {_shown(value)}" for name, value in row.items()), flush=True)
    for peer in ("times RDMCE", "times mce-gpu"):
        faster = [row[peer] for row in rows if row.get(peer)]
        if faster:
            mean = exp(sum(map(log, faster)) / len(faster))
            print(
                f"{peer}, kernels, {len(faster)} graphs: {mean:.2f} in the geometric mean, {min(faster):.2f} at least"
            )
    if options.json:
        options.json.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["right"] is False for row in rows))


def undirected_on_device(name: str) -> UndirectedCSR:
    """Return a graph of `MBE_DATA` in device memory."""
    import cupy as cp

    with np.load(Path(os.environ["MBE_DATA"]) / f"uni_{name}.npz") as arrays:
        graph = UndirectedCSR.from_edges(arrays["src"], arrays["dst"])
    return UndirectedCSR(graph.n, cp.asarray(graph.offsets), cp.asarray(graph.members))


def _measured(names: Sequence[str], repeats: int, *, with_members: bool, ablation: bool) -> Iterator[dict[str, Any]]:
    for name in names:
        graph = undirected_on_device(name)
        yield _row(name, graph, Detail.COUNT, repeats)
        if with_members:
            yield _row(name, graph, Detail.SIZES, min(3, repeats))
            yield _row(name, graph, Detail.MEMBERS, min(3, repeats))
            yield _row(name, graph, Detail.MEMBERS, repeats, on_device=True)
        for field in fields(Techniques) if ablation else ():
            row = _row(name, graph, Detail.COUNT, min(3, repeats), Techniques.without(field.name))
            yield {"without": field.name} | row


class _Counted:
    """A user's sink that only counts cliques."""

    def __init__(self, detail: Detail, *, on_device: bool) -> None:
        self.detail, self.on_device, self.n_cliques = detail, on_device, 0

    def accept(self, block: Any) -> None:
        self.n_cliques += block.n_cliques


def _seconds(graph: UndirectedCSR, detail: Detail, *, on_device: bool) -> tuple[float, int]:
    """Return the time of a user's call and its number of cliques, with library options only."""
    import cupy as cp

    sink = _Counted(detail, on_device=on_device)
    start = time.perf_counter()
    enumerate_cliques_into(sink, graph, CliqueQuery(), _EXECUTION, "cuda")
    cp.cuda.runtime.deviceSynchronize()
    return time.perf_counter() - start, sink.n_cliques


def _row(
    name: str,
    graph: UndirectedCSR,
    detail: Detail,
    repeats: int,
    techniques: Techniques = _EVERYTHING,
    *,
    on_device: bool = False,
) -> dict[str, Any]:
    """Return the best of several runs, compared with other programs if it is a count with every technique.

    With members on the host, most of the time is the copy. ``seconds`` are those of a user's call. Figures of the warps
    come from further runs, because reading them takes time; rows of the ablation have only those.
    """
    best, kernel = float("inf"), float("inf")
    facts: dict[str, int] = {}
    counts = set()
    # The first may have compiled the kernel.
    for turn in range(repeats + 1):
        if techniques == _EVERYTHING:
            seconds, n_cliques = _seconds(graph, detail, on_device=on_device)
            counts.add(n_cliques)
            best = min(best, seconds) if turn else best
        found: dict[str, int] = {}
        if on_device:
            blocks = engine_cuda.device_blocks(graph, CliqueQuery(), _EXECUTION, statistics=found)
        else:
            blocks = engine_cuda.run(graph, CliqueQuery(), _EXECUTION, detail, statistics=found, techniques=techniques)
        counts.add(sum(block.n_cliques for block in blocks))
        if turn and found["kernel_us"] < kernel * 1e6:
            kernel, facts = found["kernel_us"] / 1e6, found
    peers = PEERS[name]
    what = f"{detail.name.lower()}{' on the device' if on_device else ''}"
    row: dict[str, Any] = {"graph": name, "detail": what, "right": counts == {peers.n_cliques}}
    row |= {"counts": sorted(counts) if counts != {peers.n_cliques} else peers.n_cliques}
    row |= {"seconds": best} if techniques == _EVERYTHING else {}
    row |= {"kernel s": kernel}
    if detail == Detail.COUNT and techniques == _EVERYTHING:
        rdmce = peers.rdmce_short_waits or peers.rdmce
        row |= {"wanted": peers.wanted, "RDMCE": rdmce, "times RDMCE": rdmce / kernel}
        row |= {"times mce-gpu": peers.mce_gpu / kernel}
    all_ns = max(1.0, 1e9 * kernel * facts["warps"])
    row |= {
        "busy": facts["busy_ns"] / all_ns,
        "idle": facts["idle_ns"] / all_ns,
        "in pieces": facts["piece_ns"] / all_ns,
    }
    row |= _loads(facts)
    return row | {
        name: facts[name] for name in ("visited", "pieces", "nodes", "pool_words", "quanta", "warps", "plan_bytes")
    }


def _loads(facts: dict[str, int]) -> dict[str, Any]:
    """Return the minimum, median and maximum load of the warps, relative to the mean.

    The maximum is the papers' load imbalance.
    """
    mean = max(1.0, facts["busy_ns"] / facts["warps"])
    return {f"{which} load": facts[f"{which}_busy_ns"] / mean for which in ("least", "median", "most")}


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, list):
        return str(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
