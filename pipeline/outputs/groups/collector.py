"""Bicliques in passing into candidates, and those into the tables of groups."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.selection import seed_rows
from mbe_stage.groups.vertex_scores import EdgeScores, edge_sqrt, share_size
from pipeline.backends.arrow.parts import write_table
from pipeline.outputs.groups.chosen import GROWN_COVER, edges_of, grown_cover, short_list_of
from pipeline.outputs.groups.known import Known
from pipeline.outputs.groups.known_columns import of_known
from pipeline.outputs.groups.known_keys import read_lists
from pipeline.outputs.groups.tables import edges_table, groups_table, keys_of_both_sides, members_table, scores_table
from pipeline.outputs.groups.times import figures_of, times_table
from pipeline.publication import Collecting

__all__ = ["GroupsCollector"]


class GroupsCollector:
    """See `pipeline.publication.DerivedCollector`: scores every biclique once, and keeps the candidates."""

    def __init__(self, collecting: Collecting) -> None:
        # What differs between the backends; the names are the same in both.
        self._place: Any = import_module(f"pipeline.outputs.groups.{collecting.backend.name}.sink")
        self._collecting = collecting
        self._model = self._place.null_model(collecting.graph)
        self._sink = self._place.sink_of(self._model, collecting.graph)
        # Read once more, where the run begins: they were looked at before anything else.
        self._lists = read_lists(collecting.config.section("groups"))

    def __enter__(self) -> GroupsCollector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No file is open between blocks, and no thread runs."""

    def accept(self, block: Any, keys: Any) -> None:
        """Take one block in, of the backend's memory."""
        if len(block):
            self._sink.accept(block, keys)

    def finish(self) -> dict[str, int]:
        """Choose the groups and write the tables.

        Returns
        -------
        dict of int
            ``groups``; the vertices in at least one of them, ``left_members`` and ``right_members``;
            ``significant_candidates``, the candidates with a positive surprise; what there were no steps left for:
            ``candidates_not_scored``, of scores by edge, and ``seeds_not_grown``; ``cases``, and with an allow list
            ``muted``.
        """
        candidates = self._sink.finish()
        collecting = self._place.on_host(self._collecting)
        asked, graph = collecting.config.section("groups"), collecting.graph
        known = Known.of(self._lists, (collecting.edges.left_keys, collecting.edges.right_keys), asked)
        is_grown, has_times = asked.kind == GROWN_COVER, collecting.config.input.timestamp is not None
        if is_grown:
            seeds = seed_rows(len(candidates), self._sink.left_best, self._sink.right_best)
            chosen = grown_cover(candidates, seeds, collecting, self._model, known)
        else:
            chosen = short_list_of(candidates, asked, self._model, known)
        by_edge = edge_sqrt(graph, candidates, self._model)
        edges = edges_of(graph, chosen.members)
        events = figures_of(collecting.edges.events, edges, graph.n_right)
        keys = keys_of_both_sides(collecting.edges.left_keys, collecting.edges.right_keys)
        told = of_known(chosen.members, known, collecting.edges.key_hashes()[0])
        tables = {
            "groups": groups_table(chosen, edges, graph, events, told.columns),
            "group_members": members_table(chosen, edges, graph, keys, known),
            "vertex_scores": scores_table(chosen, edges, graph, self._scores(graph, by_edge), keys, told.association),
            **({"group_edges": edges_table(chosen, edges)} if is_grown else {}),
            **({"group_times": times_table(chosen.keys, events)} if has_times else {}),
            **({} if known.table is None else {"known_keys": known.table}),
        }
        for name, table in tables.items():
            write_table(table, collecting.run_path / f"{name}.parquet", collecting.config.output.compression)
        return {
            "groups": len(chosen.members),
            "left_members": int(np.unique(chosen.members.left_members).size),
            "right_members": int(np.unique(chosen.members.right_members).size),
            "significant_candidates": int(np.count_nonzero(candidates.surprise > 0)),
            "candidates_not_scored": by_edge.n_left_out,
            "seeds_not_grown": chosen.n_left_out,
            **told.counts,
        }

    def _scores(self, graph: BipartiteCSR, by_edge: EdgeScores) -> dict[str, np.ndarray]:
        """Of all vertices, the left ones first."""
        by_size = (
            share_size(*of)
            for of in ((self._sink.left_share, graph.left_degrees), (self._sink.right_share, graph.right_degrees))
        )
        return {
            "share_size": np.concatenate(list(by_size)),
            "edge_share": np.concatenate([by_edge.left_share, by_edge.right_share]),
            "edge_sqrt": np.concatenate([by_edge.left, by_edge.right]),
        }
