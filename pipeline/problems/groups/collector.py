"""Collect candidates as bicliques stream past, then write the tables of groups."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.growth import Grown
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, UNIT
from mbe_stage.groups.vertex_scores import best_score, edge_sqrt, share_size
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.parts import write_table
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.both_sides import keys_of_both_sides
from mbe_stage.pipeline.problems.groups.association import associations, known_shares, labels_of
from mbe_stage.pipeline.problems.groups.cases import case_ids, case_numbers, members_of_cases
from mbe_stage.pipeline.problems.groups.chance import chance_p_values, n_copies, search_copies
from mbe_stage.pipeline.problems.groups.chosen import Chosen, GroupEdges, edges_of
from mbe_stage.pipeline.problems.groups.decided import DECIDED, read_decisions
from mbe_stage.pipeline.problems.groups.known import Known
from mbe_stage.pipeline.problems.groups.known_keys import read_lists
from mbe_stage.pipeline.problems.groups.one_list import (
    choose,
    edges_by_rank,
    half_later_vertices,
    keys_of_all,
    merged,
    with_columns,
)
from mbe_stage.pipeline.problems.groups.schemas import GROUP_KEYS
from mbe_stage.pipeline.problems.groups.searched import (
    N_OFFSETS,
    Searched,
    partners_of,
    refuse_one_graph_queries,
    search_half_later,
    search_keys,
    seconds_of_graph,
)
from mbe_stage.pipeline.problems.groups.tables import (
    edges_table,
    groups_table,
    halo_table,
    members_table,
    scores_table,
)
from mbe_stage.pipeline.problems.groups.times import figures_of, times_table
from mbe_stage.pipeline.problems.groups.tried_keys import are_tried, keys_of, n_tries
from mbe_stage.pipeline.views.listed_groups import BEST_SURPRISE, CHANCE_COPIES


def of_known(
    members: GroupMembers, edges: Sequence[np.ndarray], known: Known, left_hashes: np.ndarray
) -> tuple[dict[str, pa.Array], pa.Array | None]:
    """Return the columns of `groups` that known keys and cases give, and `association`, if there are labels.

    Parameters
    ----------
    members : GroupMembers
        Members of the groups, in rank order.
    edges : sequence of (m,) int64
        See `pipeline.problems.groups.cases.case_numbers`.
    left_hashes : (n_left,) uint64
        Hashes of the left vertices' keys.
    """
    is_muted = known.is_muted(members)
    numbers = case_numbers(members, edges, is_muted)
    vertices, owners = members.side(0)
    ids = case_ids(members_of_cases(numbers, owners, left_hashes[vertices]))
    columns = {"case": pa.array([ids[case] for case in numbers.tolist()], pa.string()), "is_muted": pa.array(is_muted)}
    if known.labels is None:
        return columns, None
    shares = known_shares(members, known.labels)
    return columns | shares.columns(), associations(members, is_muted, shares, known.labels)


class GroupsCollector:
    """See `pipeline.problems.base.DerivedCollector`: scores every biclique once, and keeps the candidates."""

    def __init__(self, collecting: Collecting) -> None:
        refuse_one_graph_queries(collecting)
        self.seconds: dict[str, float] = {}
        self.elsewhere_seconds = 0.0
        self._partners: Grown | None = None
        # The parts that differ between the backends, under the same names.
        self._place: Any = import_module(f"mbe_stage.pipeline.problems.groups.{collecting.backend.name}")
        self._collecting = collecting
        # Called once, because it looks at all rows.
        self._keys = keys_of(collecting.edges.events, collecting.config)
        self._n_graphs = n_tries(self._keys) if collecting.config.input.time_bucket is None else N_OFFSETS
        self._model = self._place.null_model(collecting.graph, self._n_graphs)
        self._sink = self._place.sink_of(self._model, collecting.graph)
        # Read a second time: the first read, before the run, only checked them.
        self._lists = read_lists(collecting.config.section("groups"))
        self._decisions = read_decisions(collecting.config)

    def __enter__(self) -> GroupsCollector:
        # Partners come first, so that there are groups whenever a limit stops the search.
        begun = time.perf_counter()
        seconds = seconds_of_graph(self._collecting.config, has_keys=bool(self._keys))
        with run_state.at_part("growing groups from partners"):
            self._partners = partners_of(self._place.on_host(self._collecting), self._model, seconds / 3)
        self.seconds["partners"] = time.perf_counter() - begun
        if limit := self._collecting.config.execution.time_limit_seconds:
            self.elsewhere_seconds = limit - seconds * 2 / 3 + self.seconds["partners"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No file is open between blocks, and no thread runs."""

    def accept(self, block: Any, keys: Any) -> None:
        """Accept one block in the backend's memory."""
        if len(block):
            self._sink.accept(block, keys)

    def sums(self) -> dict[str, np.ndarray]:
        """See `pipeline.problems.base.DerivedCollector`."""
        return self._sink.sums()

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """See `pipeline.problems.base.DerivedCollector`; checks ids, since compiled code does not."""
        graph, n_groups = self._collecting.graph, sums["keys"].size
        for side, n in (("left", graph.n_left), ("right", graph.n_right)):
            offsets, members, rows = (sums[f"{side}_{name}"] for name in ("offsets", "members", "best_rows"))
            are_integers = all(array.dtype.kind == "i" and array.ndim == 1 for array in (offsets, members, rows))
            sizes = offsets.size - 1, sums["surprise"].size, rows.size, offsets[0], offsets[-1]
            fit = sizes == (n_groups, n_groups, n, 0, members.size) and _are_within(np.diff(offsets), 1, n + 1)
            if not (are_integers and fit and _are_within(members, 0, n) and _are_within(rows, -1, n_groups)):
                raise PublishError(
                    f"the kept sums of groups name no {side} vertices of this graph; expected numbers below {n:,}; "
                    "start over without --resume"
                )
        self._sink.restore(sums)

    def for_workers(self) -> Callable[[], Any]:
        """See `pipeline.problems.base.DerivedCollector`; cluster workers have blocks in host memory."""
        graph = self._collecting.graph
        return partial(CandidateSink, self._model, graph.n_left, graph.n_right)

    def finish(self) -> dict[str, int]:
        """Choose the groups and write the tables.

        Returns
        -------
        dict of int
            ``groups``; ``left_members`` and ``right_members``, the vertices in at least one group;
            ``significant_candidates``, the significant candidates; ``candidates_not_scored`` (by edge) and
            ``seeds_not_grown``, for which the steps ran out; ``cases``; with an allow list, ``muted``. With time
            buckets also ``half_later_bicliques``, the bicliques of the second graph, and ``half_later_truncated``, 1 if
            a limit stopped that search. If keys were tried: ``keys``, their number with that of the items;
            ``keys_not_searched``, those that were not tried, or not to the end; and ``key_bicliques``. With random
            copies ``chance_copies``, the number for which there was time.
        """
        searches, facts = self._searches()
        config, host = self._collecting.config, searches[0].collecting
        edges, metadata = host.edges, dict[str | bytes, str]()
        known = Known.of(self._lists, (edges.left_keys, keys_of_all(searches)))
        parts, by_item = choose(searches, known)
        of_graphs = [self._of_graph(*of, edges.right_keys) for of in zip(searches, parts, strict=True)]
        of_cases = edges_by_rank(searches, parts, [of.edges for of in of_graphs])
        columns, association = of_known(by_item, of_cases, known, edges.key_hashes()[0])
        tables = merged([of.tables for of in of_graphs], parts, searches, of_keys=bool(facts))
        members, keys = tables["group_members"], keys_of_both_sides(edges.left_keys, edges.right_keys)
        tables |= {
            "group_members": with_columns(members, {"label": labels_of(members, known)}),
            "vertex_scores": scores_table(parts, [of.scores for of in of_graphs], host.graph, keys, association),
            DECIDED: self._decisions,
            **({} if known.table is None else {"known_keys": known.table}),
            **({} if config.input.time_bucket is None else {"half_later_vertices": half_later_vertices(*searches)}),
            **({"group_keys": pa.Table.from_pylist(facts, schema=GROUP_KEYS)} if are_tried(config) else {}),
        }
        if best := [int(one.candidates.surprise[0]) for one in searches if len(one.candidates)]:
            metadata[BEST_SURPRISE] = str(max(best) / UNIT)
        counts = {
            "groups": len(by_item),
            "left_members": int(np.unique(by_item.left_members).size),
            "right_members": sum(int(np.unique(part.members.right_members).size) for part in parts),
            "significant_candidates": sum(
                int(np.count_nonzero(one.candidates.surprise > SIGNIFICANT)) for one in searches
            ),
            "candidates_not_scored": sum(of.n_not_scored for of in of_graphs),
            "seeds_not_grown": sum(one.grown.n_left_out for one in searches),
            "cases": len(columns["case"].unique()),
        }
        if known.allowed is not None:
            counts["muted"] = columns["is_muted"].true_count
        if config.input.time_bucket is not None:
            counts["half_later_bicliques"] = searches[1].n_bicliques or 0
            counts["half_later_truncated"] = int(searches[1].is_truncated)
        if facts:
            counts["keys"] = 1 + len({row["key"] for row in facts})
            counts["keys_not_searched"] = len({row["key"] for row in facts if row["status"] != "searched"})
            counts["key_bicliques"] = sum(row.get("n_bicliques") or 0 for row in facts)
        if n := n_copies(config):
            begun = time.perf_counter()
            copies = search_copies(searches, self._collecting.backend, self._place, n, self._n_graphs)
            metadata[CHANCE_COPIES], counts["chance_copies"] = json.dumps(copies), len(copies)
            if copies:
                self.seconds["chance_copies"] = time.perf_counter() - begun
                surprise = tables["groups"]["surprise"].to_numpy()
                columns["chance_p_value"] = pa.array(chance_p_values(surprise, copies))
        tables["groups"] = with_columns(tables["groups"], columns).replace_schema_metadata(metadata or None)
        for name, table in tables.items():
            write_table(table, self._collecting.run_path / f"{name}.parquet", config.output.compression)
        return counts

    def _searches(self) -> tuple[list[Searched], list[dict[str, Any]]]:
        """Return the graphs after their search, that of the run first; and the rows of `group_keys`."""
        seconds = seconds_of_graph(self._collecting.config, has_keys=bool(self._keys)) / 3
        host = self._place.on_host(self._collecting)
        searches = [Searched.of(host, self._model, self._sink, self._partners, seconds)]
        if self._collecting.edges.half_later is not None:
            searches = [replace(searches[0], half_later=False), search_half_later(self._collecting, self._place)]
            self.seconds["half_later"] = searches[1].seconds
        facts: list[dict[str, Any]] = []
        if are_tried(self._collecting.config):
            whole = replace(searches[0].collecting, backend=self._collecting.backend)
            found, facts = search_keys(whole, self._keys, self._place)
            searches += found
            if found:
                self.seconds["keys"] = sum(one.seconds for one in found)
        return searches, facts

    def _of_graph(self, search: Searched, chosen: Chosen, items: pa.Array) -> _OfGraph:
        """Return tables and scores of one graph.

        Parameters
        ----------
        items : pa.Array
            The right keys of the run, which name the right vertices of tried keys.
        """
        collecting, graph, sink, grown = search.collecting, search.collecting.graph, search.sink, search.grown
        by_edge = edge_sqrt(graph, search.candidates, search.model)
        edges = edges_of(graph, chosen.members)
        events = figures_of(collecting.edges.events, edges, graph.n_right, search.items)
        right_keys = collecting.edges.right_keys if search.items is None else items.take(pa.array(search.items))
        keys = keys_of_both_sides(collecting.edges.left_keys, right_keys)
        tables = {
            "groups": groups_table(chosen, edges, graph, search.model, events),
            "group_members": members_table(chosen, edges, graph, keys),
            "group_edges": edges_table(chosen, edges),
            "group_halo": halo_table(chosen, graph, search.model, keys),
        }
        if collecting.config.input.timestamp is not None:
            tables["group_times"] = times_table(chosen.keys, events)
        degrees = graph.left_degrees, graph.right_degrees
        best_left, best_right = (best_score(*grown.members.side(i), grown.scores, degrees[i].size) for i in (0, 1))
        scores = {
            "group_edge_share": (edges.explained[0] / degrees[0], edges.explained[1] / degrees[1]),
            "share_size": (share_size(sink.left_share, degrees[0]), share_size(sink.right_share, degrees[1])),
            "edge_share": (by_edge.left_share, by_edge.right_share),
            "edge_sqrt": (by_edge.left, by_edge.right),
            "grown_surprise": (best_left / UNIT, best_right / UNIT),
        }
        return _OfGraph(tables, scores, edges, by_edge.n_left_out)


@dataclass(frozen=True, slots=True, eq=False)
class _OfGraph:
    """Tables of the groups of one graph, scores of its vertices, and the candidates for which the steps ran out."""

    tables: dict[str, pa.Table]
    scores: dict[str, tuple[np.ndarray, np.ndarray]]
    edges: GroupEdges
    n_not_scored: int


def _are_within(numbers: np.ndarray, first: int, end: int) -> bool:
    return not numbers.size or (first <= int(numbers.min()) and int(numbers.max()) < end)
