"""Check the tables of cliques: every row against the graph, the sums over rows, and missing cliques.

The graph is built again from the edges; no code is shared with engines and writers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import closure, recipe, rows
from mbe_stage.pipeline.verify.closure import Adjacency, check_distinct, judge_rows
from mbe_stage.pipeline.verify.fields import check_key_type, check_vertex_table
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.products import matrix_of, products_before, shared_of_rows
from mbe_stage.pipeline.verify.rows import (
    Batch,
    VertexStatistics,
    check_column,
    check_containing,
    check_members,
    chosen_rows,
    refuse,
    sampled,
)
from mbe_stage.runtime.compile_ahead import CompileStep

# Maximum nodes of a search for all cliques; beyond it, only the cliques of sampled vertices and edges are looked up.
_MOST_NODES = 500_000
_SEEDS = 10_000
_MOST_PRODUCTS = 500_000_000
# Both sides of a row are the members.
_READ = rows.reader("cliques", ("vertices", "vertices"), ("size", "size", "size"))


def compile_steps() -> tuple[CompileStep, ...]:
    """List what checking cliques needs compiled."""
    return (*closure.compile_steps(), *rows.compile_steps(), *recipe.compile_steps())


def check(job: Job) -> None:
    """Check the tables of cliques against each other and, if it is given, against the input.

    Raises
    ------
    VerificationError
        The first error found.
    """
    checking = _Cliques(job)
    checking.check_rows()
    checking.check_sums()
    checking.check_vertices()
    checking.check_nothing_missing()


class _Cliques:
    """A check in progress, with the data read so far."""

    def __init__(self, job: Job) -> None:
        self.job, self.run, self.manifest = job, job.run, job.manifest
        self.section = job.manifest.config.problem_section
        self.path = job.run / "vertices.parquet"
        facts = job.manifest.input
        n_vertices = facts.n_right if self.section.project == "right" else facts.n_left
        self.keys = check_vertex_table(self.path, n_vertices, "vertices")
        check_key_type(self.path, job.manifest, self.keys)
        self.hashes = recipe.vertex_hashes(self.keys, "left")
        self.containing = rows.wanted_ids(self.keys, self.section.containing)
        self.graph = self._graph()
        self.parts, n_rows = job.parts_of("cliques")
        self.row_keys, self.n_rows, self.n_members = np.empty(n_rows, np.int64), 0, 0
        self.sizes: Counter[int] = Counter()
        self.statistics = VertexStatistics(n_vertices)

    def _graph(self) -> CliqueGraph | None:
        """Build the searched graph again, and compare the input's keys with those of the table."""
        edges, project = self.job.edges, self.section.project
        if edges is None:
            return None
        keys = edges.right_keys if project == "right" else edges.left_keys
        if not pa.chunked_array([keys]).equals(self.keys):
            raise VerificationError(f"{self.path}: its keys are not those of {edges.facts.source}")
        if (len(edges.left_keys), len(edges.right_keys)) != (self.manifest.input.n_left, self.manifest.input.n_right):
            raise VerificationError(
                f"{self.run / 'manifest.json'}: input.n_left and n_right are {self.manifest.input.n_left} and "
                f"{self.manifest.input.n_right}; recomputed {len(edges.left_keys)} and {len(edges.right_keys)}"
            )
        graph = graph_of(edges, project, self.section.min_shared)
        if graph is None:
            self.job.not_checked("the projection, and cliques against it: building it again takes too many steps")
        return graph

    def check_rows(self) -> None:
        """Check every row by itself and a sample against the graph; collect the sums for later checks."""
        job, n_rows = self.job, self.row_keys.size
        joined = None if self.graph is None else self.graph.with_loops()
        chosen = chosen_rows(n_rows, job.sample, job.rng)
        for batch, own in sampled(job, self.parts, _READ, n_rows, chosen):
            self._check_batch(batch)
            if joined is not None:
                judge_rows(joined, batch, own, (self.keys, self.keys), job.threads, "a clique", ("", ""))
            self._add(batch)
        job.passed("rows", f"{n_rows:,} cliques: members, sizes, keys and the query's conditions")
        self.row_keys.sort()
        check_distinct(f"{self.run / 'cliques'}", self.row_keys, "clique_key")
        job.passed("all distinct", f"{n_rows:,} keys")
        if joined is None:
            if job.edges is None:
                job.not_checked("cliques and maximal, degrees, core numbers, nothing missing: the input is not given")
            return
        job.passed_sample("cliques and maximal", "cliques", chosen.size)

    def _check_batch(self, batch: Batch) -> None:
        check_members(batch, 0, len(self.keys), "")
        sizes = batch.sizes(0)
        check_column(batch, "size", batch.n_left, sizes, "its list says")
        sums = np.add.reduceat(self.hashes[batch.members[0]], batch.offsets[0][:-1])
        keys = recipe.mix(sums).view(np.int64)
        check_column(batch, "clique_key", batch.keys, keys, "the key of its members is")
        if (wrong := np.flatnonzero(~self._accepts(sizes))).size:
            row = int(wrong[0])
            raise VerificationError(f"{batch.name(row)}: {sizes[row]} members do not meet the run's query")
        check_containing(batch, 0, self.containing, "")

    def _accepts(self, sizes: np.ndarray) -> np.ndarray:
        accepted = sizes >= self.section.min_size
        return accepted if self.section.max_size is None else accepted & (sizes <= self.section.max_size)

    def _key(self, vertex: int) -> str:
        return shortened(repr(self.keys[vertex].as_py()), 80)

    def _add(self, batch: Batch) -> None:
        self.row_keys[self.n_rows : self.n_rows + batch.keys.size] = batch.keys
        self.n_rows += batch.keys.size
        self.n_members += batch.members[0].size
        for size, count in zip(*(part.tolist() for part in np.unique(batch.sizes(0), return_counts=True)), strict=True):
            self.sizes[size] += count
        self.statistics.add(batch, 0)

    def check_sums(self) -> None:
        """Check the size histogram, the manifest's counts and the content fingerprint."""
        path = self.run / "size_histogram.parquet"
        table = pq.read_table(path)
        found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if found != sorted(self.sizes.items()):
            wrong = next(iter(set(found) ^ set(self.sizes.items())), None)
            raise VerificationError(
                f"{path}: its sizes are not those of the rows, ascending; the first wrong one is {wrong}"
            )
        self.job.passed("size histogram", f"{len(found):,} sizes")
        expected = {
            "cliques": self.n_rows,
            "members": self.n_members,
            "sizes": len(self.sizes),
            "max_size": max(self.sizes, default=0),
            "vertices": len(self.keys),
        }
        self.job.check_sums(expected, recipe.KeySums.of(self.row_keys), "cliques")

    def check_vertices(self) -> None:
        """Check the vertex table: the figures from the rows and, with the graph, degrees and core numbers."""
        table, statistics, counts = pq.read_table(self.path), self.statistics, self.manifest.counts
        largest = table["largest_clique_key"]
        expected = {
            "n_cliques": (table["n_cliques"], statistics.n_bicliques),
            "largest_clique_size": (table["largest_clique_size"], statistics.edges),
            "largest_clique_key": (pc.fill_null(largest, 0), statistics.key),
        }
        if self.graph is not None:
            expected["degree"] = (table["degree"], np.diff(self.graph.offsets))
            expected["core_number"] = (table["core_number"], core_numbers(self.graph))
        for column, (found, right) in expected.items():
            check_column(self.path, column, found.to_numpy(), right, "recomputed")
        nulls = pc.is_null(largest).to_numpy(zero_copy_only=False)
        what = "largest_clique_key must be null exactly for vertices in no clique"
        refuse(self.path, nulls != (statistics.n_bicliques == 0), what)
        degrees, cores = table["degree"].to_numpy(), table["core_number"].to_numpy()
        facts, sums = self.manifest.input, {"edges": int(degrees.sum()) // 2, "degeneracy": int(cores.max(initial=0))}
        for name, value in sums.items():
            if getattr(counts, name) != value:
                raise VerificationError(
                    f"{self.run / 'manifest.json'}: counts.{name} is {getattr(counts, name)}; {self.path} says {value}"
                )
        if facts.undirected is not None and (facts.n_edges, facts.undirected.lone_vertices) != (
            counts.edges,
            int(np.count_nonzero(degrees == 0)),
        ):
            raise VerificationError(
                f"{self.run / 'manifest.json'}: input has {facts.n_edges} edges and {facts.undirected.lone_vertices} "
                f"vertices without one; the degrees in {self.path} say otherwise"
            )
        has = "" if self.graph is not None else " (degrees and core numbers need the graph)"
        self.job.passed("vertices", f"{table.num_rows:,} vertices{has}")

    def check_nothing_missing(self) -> None:
        """Search for missing cliques: all of them if that is fast, else those at some vertices and edges."""
        job, graph = self.job, self.graph
        if graph is None:
            return
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        every = cliques_of(graph, core_numbers(graph), min(_MOST_NODES, 10 * job.sample))
        if every is not None:
            self._look_up(every)
            job.passed("nothing missing", f"{len(every):,} cliques of another search")
            return
        seeds = list(_seeds(graph, job.rng, min(_SEEDS, job.sample)))
        self._look_up(grown(graph, seed) for seed in seeds)
        job.passed("nothing missing", f"the cliques that {len(seeds):,} vertices and edges grow to")
        job.not_checked("nothing missing: another search for all cliques takes too long; those of a sample are present")

    def _look_up(self, cliques: Iterable[list[int]]) -> None:
        wanted = set(self.containing.tolist())
        for clique in cliques:
            if not (self._accepts(np.array([len(clique)]))[0] and wanted <= set(clique)):
                continue
            key = recipe.mix(self.hashes[clique].sum(dtype=np.uint64, keepdims=True)).view(np.int64)[0]
            place = int(np.searchsorted(self.row_keys, key))
            if place == self.row_keys.size or self.row_keys[place] != key:
                named = ", ".join(self._key(vertex) for vertex in clique[:8])
                more = f" and {len(clique) - 8} more" if len(clique) > 8 else ""
                raise VerificationError(f"a clique is missing: {named}{more}, {len(clique)} members, clique_key {key}")


def _seeds(graph: CliqueGraph, rng: np.random.Generator, most: int) -> Iterator[tuple[int, ...]]:
    """Draw vertices and edges at random."""
    for vertex in rng.choice(graph.n, min(most, graph.n), replace=False).tolist():
        yield (vertex,) if not graph.neighbours(vertex) else (vertex, *sorted(graph.neighbours(vertex))[:1])
    n_ends = graph.members.size
    places = rng.integers(0, n_ends, min(most, n_ends)) if n_ends else np.empty(0, np.int64)
    sources = np.searchsorted(graph.offsets, places, side="right") - 1
    yield from zip(sources.tolist(), graph.members[places].tolist(), strict=True)


@dataclass(frozen=True, slots=True, eq=False)
class CliqueGraph:
    """Neighbours of each vertex, ascending: those of `v` are ``members[offsets[v]:offsets[v + 1]]``."""

    offsets: np.ndarray
    members: np.ndarray
    known: dict[int, frozenset[int]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of vertices."""
        return self.offsets.size - 1

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.members.size // 2

    def neighbours(self, vertex: int) -> frozenset[int]:
        """Return the neighbours as a set, built once."""
        if vertex not in self.known:
            self.known[vertex] = frozenset(self.members[self.offsets[vertex] : self.offsets[vertex + 1]].tolist())
        return self.known[vertex]

    def with_loops(self) -> Adjacency:
        """Return the bipartite graph of neighbours, with each vertex also joined to itself.

        There, a set of vertices placed on both sides is a maximal biclique if and only if it is a maximal clique here.
        """
        n = self.n
        sources = np.concatenate([np.repeat(np.arange(n), np.diff(self.offsets)), np.arange(n)]).astype(np.int32)
        targets = np.concatenate([self.members, np.arange(n)]).astype(np.int32)
        return Adjacency.of(sources, targets, n, n)


def graph_of(edges: EdgeData, project: str | None, min_shared: int) -> CliqueGraph | None:
    """Build the graph of the edges, or their projection; None if that takes too many steps.

    Parameters
    ----------
    min_shared : int
        `cliques.min_shared` of the projection.
    """
    joined = matrix_of(edges)
    if project is None:
        both = joined + joined.T
        both.setdiag(0)
        both.eliminate_zeros()
        return _graph(both.tocsr())
    side = joined if project == "left" else joined.T.tocsr()
    return _projection(side, min_shared)


def _projection(side: csr_array, min_shared: int) -> CliqueGraph | None:
    before, parts = products_before(side), []
    if before[-1] > _MOST_PRODUCTS:
        return None
    for first, shared in shared_of_rows(side, before):
        rows, columns = shared.row + first, shared.col
        wanted = (shared.data >= min_shared) & (rows != columns)
        parts.append((rows[wanted], columns[wanted]))
    rows, columns = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return _graph(csr_array((np.ones(rows.size, np.int8), (rows, columns)), (side.shape[0], side.shape[0])))


def _graph(matrix: csr_array) -> CliqueGraph:
    matrix.sort_indices()
    return CliqueGraph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def core_numbers(graph: CliqueGraph) -> np.ndarray:
    """Return for each vertex the largest k such that it is in a subgraph where all have k neighbours; (n,) int64.

    Vertices with at most k remaining neighbours are removed, round by round, for k = 0, 1, 2, ...
    """
    left = np.diff(graph.offsets)
    cores, is_there, k = np.zeros(graph.n, np.int64), np.ones(graph.n, np.bool_), 0
    while is_there.any():
        leaving = np.flatnonzero(is_there & (left <= k))
        if not leaving.size:
            k = int(left[is_there].min())
            continue
        cores[leaving], is_there[leaving] = k, False
        starts, sizes = graph.offsets[leaving], np.diff(graph.offsets)[leaving]
        places = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
        left = left - np.bincount(graph.members[places], minlength=graph.n)
    return cores


def grown(graph: CliqueGraph, seed: tuple[int, ...]) -> list[int]:
    """Extend pairwise adjacent vertices to a maximal clique, always adding the first vertex that fits."""
    clique, candidates = list(seed), set.intersection(*(set(graph.neighbours(vertex)) for vertex in seed))
    while candidates:
        vertex = min(candidates)
        clique.append(vertex)
        candidates &= graph.neighbours(vertex)
    return sorted(clique)


def cliques_of(graph: CliqueGraph, cores: np.ndarray, most_nodes: int) -> list[list[int]] | None:
    """Return every maximal clique; None if the search needs more nodes.

    Bron and Kerbosch (1973) from each vertex, with the vertices of larger core numbers as candidates. Sets are bits of
    integers.
    """
    order = np.lexsort((np.arange(graph.n), cores))
    rank = np.empty(graph.n, np.int64)
    rank[order] = np.arange(graph.n)
    found: list[list[int]] = []
    n_nodes = 0
    for root in order.tolist():
        local = sorted(graph.neighbours(root), key=lambda vertex: rank[vertex])
        place = {vertex: i for i, vertex in enumerate(local)}
        rows = [sum(1 << place[other] for other in graph.neighbours(vertex) if other in place) for vertex in local]
        later = sum(1 << i for i, vertex in enumerate(local) if rank[vertex] > rank[root])
        open_nodes = [([root], later, (1 << len(local)) - 1 - later)]
        while open_nodes:
            n_nodes += 1
            if n_nodes > most_nodes:
                return None
            clique, candidates, excluded = open_nodes.pop()
            if not candidates:
                if not excluded:
                    found.append(sorted(clique))
                continue
            pivot = max(_bits(candidates | excluded), key=lambda i: (candidates & rows[i]).bit_count())
            for i in _bits(candidates & ~rows[pivot]):
                open_nodes.append(([*clique, local[i]], candidates & rows[i], excluded & rows[i]))
                candidates &= ~(1 << i)
                excluded |= 1 << i
    return found


def _bits(word: int) -> list[int]:
    places = []
    while word:
        lowest = word & -word
        places.append(lowest.bit_length() - 1)
        word ^= lowest
    return places
