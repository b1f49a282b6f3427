"""Closed itemsets, compared with pyFIM and mlxtend: lists in and out, frames in and out, and memory of a large table.

    python -m benchmarks.itemsets [--repeats 9] [--only lists frames memory]

The baskets are `BMS_WebView2`, `retail` and `mushroom` of the directory `MBE_DATA`. Programs alternate in one process
on one thread; seconds are processor time, the best of the repeats. The large table is generated, searched in a separate
process, and measured by its peak memory. pyFIM and mlxtend must be installed for their parts.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.graphs import data_directory
from benchmarks.machine import describe
from mbe_stage import BipartiteCSR
from mbe_stage.pipeline import closed_itemset_lists, fpclose

__all__ = ["closed_only", "main"]

_BASKETS, _SHARES = ("BMS_WebView2", "retail", "mushroom"), (0.0005, 0.001, 0.01)
_MLXTEND_SHARE, _TIMES_MLXTEND, _MOST_BYTES = 0.001, 20.0, 4 << 30
_LARGE = """
import json, sys, time
import numpy as np
from scipy.sparse import csr_array
from mbe_stage.pipeline import closed_itemsets
def peak(): return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
n_rows, n_items, each = (int(word) for word in sys.argv[1:])
popularity = np.cumsum(1 / np.arange(10.0, n_items + 10)); popularity /= popularity[-1]
dice, items = np.random.default_rng(1), np.empty(n_rows * each, np.int32)
for part in np.array_split(items, 100):
    part[:] = np.searchsorted(popularity, dice.random(part.size))
table = csr_array((np.ones(items.size, bool), items, np.arange(n_rows + 1, dtype=np.int32) * each), (n_rows, n_items))
began, before = time.perf_counter(), peak()
n = closed_itemsets(table, 0.001).num_rows
print(json.dumps({"n": n, "seconds": time.perf_counter() - began, "before": before, "peak": peak()}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if numbers of itemsets differ or the memory is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parts = {"lists": _lists, "frames": _frames, "memory": _memory}
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--rows", type=int, default=1_800_000, help="rows of the large table")
    options = parser.parse_args(arguments)
    print("\n".join(f"{name}: {value}" for name, value in describe().items()))
    is_right = True
    for name in options.only:
        for line, is_so in parts[name](options):
            print(line, flush=True)
            is_right &= is_so
    return 0 if is_right else 1


def closed_only(frame: Any) -> Any:
    """Return the rows of mlxtend's frame without a superset of the same support."""
    by_support = defaultdict(list)
    for support, items in zip(frame["support"], frame["itemsets"], strict=True):
        by_support[support].append(items)
    closed = [
        not any(items < other for other in by_support[support])
        for support, items in zip(frame["support"], frame["itemsets"], strict=True)
    ]
    return frame[closed]


def _in_turn(repeats: int, calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, int]]:
    """Return the best processor time and the number of results of each call."""
    seconds, sizes = dict.fromkeys(calls, math.inf), {}
    for _ in range(repeats):
        for name, call in calls.items():
            began = time.process_time()
            found = call()
            seconds[name] = min(seconds[name], time.process_time() - began)
            sizes[name] = len(found)
            del found
    return seconds, sizes


def _graph(name: str) -> BipartiteCSR:
    with np.load(data_directory() / f"{name}.npz") as arrays:
        return BipartiteCSR.from_edges(arrays["u"], arrays["v"])


def _lists(options: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    import fim

    yield f"{'baskets':>14} {'share':>7} {'itemsets':>9} {'ours':>7} {'fpgrowth':>8} {'eclat':>7}", True
    for name in _BASKETS:
        graph = _graph(name)
        items = graph.left_members.tolist()
        baskets = [items[start:end] for start, end in pairwise(graph.left_offsets.tolist())]
        for share in _SHARES:
            least = math.ceil(share * len(baskets))
            calls: dict[str, Callable[[], Any]] = {
                "ours": lambda baskets=baskets, least=least: closed_itemset_lists(baskets, least, threads=1)
            }
            for peer in ("fpgrowth", "eclat"):
                calls[peer] = lambda baskets=baskets, least=least, peer=peer: getattr(fim, peer)(
                    baskets, target="c", supp=-least, zmin=1
                )
            seconds, sizes = _in_turn(options.repeats, calls)
            # pyFIM omits the set of the items that are in all baskets.
            n_universal = int((graph.right_degrees == graph.n_left).any())
            times = f"{seconds['ours']:7.4f} {seconds['fpgrowth']:8.4f} {seconds['eclat']:7.4f}"
            yield (
                f"{name:>14} {share:7.2%} {sizes['ours']:9,} {times}",
                sizes["ours"] - n_universal == sizes["fpgrowth"] == sizes["eclat"],
            )


def _frames(options: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    import pandas as pd
    from mlxtend.frequent_patterns import fpgrowth
    from scipy.sparse import csr_array

    graph = _graph("retail")
    shape = graph.n_left, graph.n_right
    matrix = csr_array((np.ones(graph.n_edges, bool), graph.left_members, graph.left_offsets), shape)
    frame = pd.DataFrame.sparse.from_spmatrix(matrix)
    calls = {
        "ours": lambda: fpclose(frame, _MLXTEND_SHARE, threads=1),
        "mlxtend": lambda: closed_only(fpgrowth(frame, _MLXTEND_SHARE)),
    }
    seconds, sizes = _in_turn(min(options.repeats, 3), calls)
    times = seconds["mlxtend"] / seconds["ours"]
    yield (
        f"retail {_MLXTEND_SHARE:.1%}, frames: {sizes['ours']:,} itemsets, ours {seconds['ours']:.3f} s, mlxtend's "
        f"fpgrowth and a filter {seconds['mlxtend']:.3f} s: {times:.1f} times (wanted {_TIMES_MLXTEND:.0f})",
        sizes["ours"] == sizes["mlxtend"],
    )


def _memory(options: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    command = [sys.executable, "-c", _LARGE, str(options.rows), "11161", "20"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield (
        f"{options.rows:,} x 11,161 with 20 items per row, .1 %: {found['n']:,} itemsets in {found['seconds']:.1f} s, "
        f"all cores, peak {found['peak'] / 2**30:.2f} GiB, {found['before'] / 2**30:.2f} before the call",
        found["peak"] <= _MOST_BYTES,
    )


if __name__ == "__main__":
    sys.exit(main())
