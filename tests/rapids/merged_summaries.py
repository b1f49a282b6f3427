"""Check that merged sums of parts in device memory equal those of the whole: on a GPU, or as a script on the emulator.

The script prints the passed cases.
"""

from __future__ import annotations

import warnings
from unittest.mock import patch

import numpy as np

from mbe_stage import BipartiteCSR
from mbe_stage.pipeline.problems.bicliques import largest
from tests.mbe_stage import graphs

__all__ = ["cases", "check"]


def cases() -> dict[str, BipartiteCSR]:
    """Return graphs with many bicliques of equal size, with none, and with one too large for an array of sizes."""
    return {
        "no edges": BipartiteCSR.from_edges([], [], 3, 2),
        "star": graphs.star(600),
        "crown": graphs.crown(5),
        "sparse": graphs.from_matrix(graphs.random_matrix(2, 30, 24, 0.08)),
        "dense": graphs.from_matrix(graphs.random_matrix(3, 11, 8, 0.7)),
    }


SHOWN = 2
# Number of largest bicliques kept, and of their members.
FEW, FEW_MEMBERS = 9, 60


def check(graph: BipartiteCSR) -> None:
    """Merge three parts in both orders and compare with the host's sums; the merged-in part is unchanged."""
    _check(graph)
    with patch.object(largest, "_MOST", FEW):
        _check(graph)
        with patch.object(largest, "_MOST_MEMBERS", FEW_MEMBERS):
            _check(graph)
            _check(graph, 1)


def _check(graph: BipartiteCSR, n_blocks: int = 3) -> None:
    from mbe_stage.bicliques.keys import biclique_keys
    from mbe_stage.pipeline.problems.bicliques.arrow import Summary as HostSummary
    from tests.mbe_stage.device_checks import blocks_of, hashes_of, to_host

    hashes = hashes_of(graph)
    keyed = [(block, biclique_keys(to_host(block), *hashes)) for block in blocks_of(graph, n_blocks)]
    wanted = HostSummary(graph.n_left, graph.n_right, SHOWN)
    for block, keys in keyed:
        wanted.add(to_host(block), keys)
    for order in (slice(None), slice(None, None, -1)):
        merged, *others = [_summed(graph, *each) for each in keyed[order]]
        before = [_plain(other) for other in others]
        for other in others:
            merged.merge(other)
        assert _plain(merged) == _plain(wanted)
        assert [_plain(other) for other in others] == before
    # Each restores the other's kept state.
    assert _plain_sums(merged) == _plain_sums(wanted)
    on_device, on_host = _summed(graph, *keyed[0]), HostSummary(graph.n_left, graph.n_right)
    on_host.add(to_host(keyed[0][0]), keyed[0][1])
    for each, other in ((on_device, wanted), (on_host, merged)):
        each.restore(other.sums())
    assert _plain_sums(on_device) == _plain_sums(on_host)
    assert on_device.fingerprint.n_items == wanted.fingerprint.n_items + len(keyed[0][1])


def _summed(graph: BipartiteCSR, block, keys: np.ndarray):
    import cupy as cp

    from mbe_stage.pipeline.problems.bicliques.cudf_summary import Summary

    summary = Summary.of(graph.n_left, graph.n_right, SHOWN)
    summary.add(block, cp.asarray(keys))
    return summary


def _plain(summary) -> list[object]:
    columns = [*summary.sizes.sorted_rows()]
    for side in summary.vertex_statistics():
        columns += [side.n_bicliques, side.largest_edges, side.largest_keys]
    members = summary.left_members, summary.right_members
    shown = [_shown(summary.largest, fewest) for fewest in largest.FEWEST]
    return [str(summary.fingerprint), members, shown, *(column.tolist() for column in columns)]


def _plain_sums(summary) -> dict[str, object]:
    return {name: (str(array.dtype), array.tolist()) for name, array in summary.sums().items()}


def _shown(kept, fewest: int) -> tuple[bool, list[object]]:
    """Return the largest bicliques that do not depend on the parts, and whether those are all."""
    found, are_all = kept.first(fewest)
    best = found[: largest.LOOKED_THROUGH * SHOWN]
    return are_all, [(one.key, one.n_edges, one.left.tolist(), one.right.tolist()) for one in best]


def main() -> None:
    from tests.mbe_stage.emulated_device import use_the_emulator

    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    for name, graph in cases().items():
        check(graph)
        print(name, flush=True)


if __name__ == "__main__":
    main()
