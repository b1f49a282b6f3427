"""Bicliques in passing into candidates, and those into the tables of groups."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np

from mbe_stage.groups.selection import seed_rows
from mbe_stage.groups.vertex_scores import edge_sqrt, share_size
from pipeline.backends.arrow.parts import write_table
from pipeline.outputs.groups.chosen import GROWN_COVER, edges_of, grown_cover, short_list_of
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
            ``significant_candidates``, the candidates with a positive surprise; and what there were no steps left for:
            ``candidates_not_scored``, of scores by edge, and ``seeds_not_grown``.
        """
        candidates = self._sink.finish()
        collecting = self._place.on_host(self._collecting)
        asked, graph = collecting.config.section("groups"), collecting.graph
        is_grown, has_times = asked.kind == GROWN_COVER, collecting.config.input.timestamp is not None
        if is_grown:
            seeds = seed_rows(len(candidates), self._sink.left_best, self._sink.right_best)
            chosen = grown_cover(candidates, seeds, collecting, self._model)
        else:
            chosen = short_list_of(candidates, asked, self._model)
        by_edge = edge_sqrt(graph, candidates, self._model)
        edges = edges_of(graph, chosen.members)
        events = figures_of(collecting.edges.events, edges, graph.n_right)
        keys = keys_of_both_sides(collecting.edges.left_keys, collecting.edges.right_keys)
        by_size = tuple(
            share_size(*of)
            for of in ((self._sink.left_share, graph.left_degrees), (self._sink.right_share, graph.right_degrees))
        )
        scores = {
            "share_size": np.concatenate(by_size),
            "edge_share": np.concatenate([by_edge.left_share, by_edge.right_share]),
            "edge_sqrt": np.concatenate([by_edge.left, by_edge.right]),
        }
        tables = {
            "groups": groups_table(chosen, edges, graph, events),
            "group_members": members_table(chosen, edges, graph, keys),
            "vertex_scores": scores_table(chosen, edges, graph, scores, keys),
            **({"group_edges": edges_table(chosen, edges)} if is_grown else {}),
            **({"group_times": times_table(chosen.keys, events)} if has_times else {}),
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
        }
