"""Closed itemsets, rules and lattices equal their definitions, and the results of other packages if installed."""

from __future__ import annotations

import random
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from mbe_stage.bicliques import engine_cpu
from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, RightSink, TableSink
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.cxt import Context, read_cxt, write_cxt
from mbe_stage.pipeline.itemsets.baskets import least_of
from mbe_stage.pipeline.itemsets.closed import closed_itemset_lists, closed_itemsets, fpclose
from mbe_stage.pipeline.itemsets.lattice import concept_lattice
from mbe_stage.pipeline.itemsets.rules import association_rules
from tests.mbe_stage.graphs import random_matrix

Sets = dict[frozenset[int], int]


def baskets(seed: int, most_rows: int = 14, most_items: int = 8) -> list[list[int]]:
    rng = random.Random(seed)
    n_items, share = rng.randint(1, most_items), rng.choice([0.2, 0.5, 0.8])
    return [[i for i in range(n_items) if rng.random() < share] for _ in range(rng.randint(1, most_rows))]


def frequent(transactions: list[list[int]], least: int) -> Sets:
    """Return every frequent itemset with its support, including the empty one."""
    items = sorted(set().union(*transactions))
    rows, found = list(map(set, transactions)), {}
    for size in range(len(items) + 1):
        for chosen in map(frozenset, combinations(items, size)):
            support = sum(map(chosen.issubset, rows))
            if support >= least:
                found[chosen] = support
    return found


def closed_and_maximal_of(sets: Sets) -> tuple[Sets, Sets]:
    """Compare with sets of one item more: larger ones are no more frequent than those."""
    items = frozenset().union(*sets)
    above = {each: [sets.get(each | {item}, 0) for item in items - each] for each in sets if each}
    closed = {each: sets[each] for each, supports in above.items() if sets[each] not in supports}
    return closed, {each: sets[each] for each, supports in above.items() if not any(supports)}


def as_sets(rows: list[tuple[tuple[int, ...], int]]) -> Sets:
    found = {frozenset(items): support for items, support in rows}
    assert len(found) == len(rows)
    assert all(len(items) == len(set(items)) for items, _ in rows)
    return found


def test_closed_and_maximal_sets_are_those_of_the_definition() -> None:
    for seed, engine in product(range(60), ("cpu", "reference")):
        transactions = baskets(seed)
        least = 1 + seed % 4
        closed, maximal = closed_and_maximal_of(frequent(transactions, least))
        options = {"engine": engine, "threads": 1 + seed % 2}
        assert as_sets(closed_itemset_lists(transactions, least, **options)) == closed
        assert as_sets(closed_itemset_lists(transactions, least, maximal=True, **options)) == maximal
        short = closed_itemset_lists(transactions, least, max_len=2, **options)
        assert as_sets(short) == {each: n for each, n in closed.items() if len(each) <= 2}
        short = closed_itemset_lists(transactions, least, max_len=2, maximal=True, **options)
        assert as_sets(short) == {each: n for each, n in maximal.items() if len(each) <= 2}


@pytest.mark.parametrize(
    ("n_left", "n_right", "density"), [(40, 24, 0.3), (9, 40, 0.5), (300, 12, 0.6), (150, 90, 0.1)]
)
def test_left_sizes_are_those_of_all_members(n_left: int, n_right: int, density: float) -> None:
    """Graphs with merged columns, twins on both sides, either side as rows, and more than 64 columns."""
    for seed in range(3):
        matrix = random_matrix(seed, n_left, n_right, density)
        rows, columns = np.nonzero(np.repeat(np.repeat(matrix, 1 + seed % 2, axis=0), 1 + seed % 3, axis=1))
        graph = BipartiteCSR.from_edges(rows, columns)
        for query in (BicliqueQuery(), BicliqueQuery(min_left=4), BicliqueQuery(2, 2, max_left=30, min_edges=7)):
            right, everything = RightSink(), TableSink()
            for sink in (right, everything):
                enumerate_into(sink, graph, query, Execution(threads=2, block_bytes=1 << 12), "cpu")
            supports, offsets, members = right.arrays()
            found = {(tuple(members[a:b].tolist()), n) for a, b, n in zip(offsets, offsets[1:], supports.tolist())}  # noqa: B905
            assert len(supports) == len(found)
            assert found == {(of_right, len(of_left)) for of_left, of_right in everything.table().as_set()}


def test_left_members_are_left_out() -> None:
    graph = BipartiteCSR.from_edges(*np.nonzero(random_matrix(1, 200, 10, 0.5)))
    blocks: list[BicliqueBlock] = [
        block for block in engine_cpu.run(graph, BicliqueQuery(), Execution(), RightSink().detail) if len(block)
    ]
    assert blocks
    assert all(block.left_members is None for block in blocks)


def test_every_kind_of_input_gives_the_same() -> None:
    matrix = random_matrix(3, 30, 7, 0.4)
    names = [f"item {i}" for i in range(7)]
    expected = closed_itemsets(matrix, 3).to_pydict()
    by_position = as_sets(list(zip(map(tuple, expected["items"]), expected["support"], strict=True)))
    rows, items = np.nonzero(matrix)
    frame = pd.DataFrame(matrix, columns=names)
    zeros = scipy.sparse.csr_array(matrix.astype(np.int8))
    zeros.data[0] = 0
    assert as_sets(closed_itemset_lists(zeros, 3)) != by_position
    lists = [np.flatnonzero(row).tolist() for row in matrix]
    for data in (
        matrix.astype(np.float32),
        lists,
        [set(row) for row in lists],
        [[*row, *row] for row in lists],
        scipy.sparse.coo_array(matrix),
        BipartiteCSR.from_edges(rows, items, 30, 7),
        (rows, items),
        pa.table({"basket": rows, "item": items}),
    ):
        assert as_sets(closed_itemset_lists(data, 3)) == by_position
    by_name = {frozenset(names[i] for i in each): n for each, n in by_position.items()}
    for data in (
        frame,
        frame.astype(int),
        frame.astype(pd.SparseDtype(bool)),
        [[names[i] for i in row] for row in lists],
    ):
        table = closed_itemsets(data, 0.1)
        assert (
            as_sets(list(zip(map(tuple, table["items"].to_pylist()), table["support"].to_pylist(), strict=True)))
            == by_name
        )
    for use_colnames, of in ((True, by_name), (False, by_position)):
        found = fpclose(frame, 0.1, use_colnames=use_colnames)
        assert list(found.columns) == ["support", "itemsets"]
        assert dict(zip(found["itemsets"], found["support"], strict=True)) == {each: n / 30 for each, n in of.items()}
    large = closed_itemset_lists([[7 << 40, -3], [7 << 40]], 1)
    assert as_sets(large) == {frozenset([7 << 40]): 2, frozenset([7 << 40, -3]): 1}
    assert as_sets(closed_itemset_lists([[1, "a"], [(2, 3), 1]], 2)) == {frozenset([1]): 2}
    assert closed_itemset_lists([], 1) == closed_itemset_lists([[], []], 0.5) == []
    assert closed_itemsets([[]], 1).num_rows == 0


def test_a_share_is_compared_as_floats_divide() -> None:
    for n in range(1, 200):
        for least in range(1, n + 1):
            assert least_of(least / n, n) == least
    assert (least_of(0.5, 3), least_of(1.0, 3), least_of(1, 3), least_of(np.int32(2), 3)) == (2, 3, 1, 2)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([[1]], {"min_support": 0.0}, "min_support is 0.0: expected a share"),
        ([[1]], {"min_support": 1.5}, "min_support is 1.5: expected a share"),
        ([[1]], {"min_support": True}, "min_support is True: expected a share"),
        (["abc"], {}, "transaction 0 is 'abc': expected a list of its items"),
        ([1, 2], {}, "a transaction is no list of items"),
        (np.array([[0, 2]]), {}, "holds other values than 0 and 1"),
        (pd.DataFrame({"a": [0.0, None]}), {}, "holds other values than 0 and 1"),
        (pd.DataFrame({"a": ["x"]}), {}, "holds other values than 0 and 1"),
        ([[1, "a"]], {"min_support": 1}, "items cannot be a column"),
        ([[1]], {"max_len": 0}, "max_right is 0"),
    ],
)
def test_wrong_input_is_refused(data: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        closed_itemsets(data, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="expected a pandas DataFrame"):
        fpclose([[1]])


def rules_of(transactions: list[list[int]], least: int, min_confidence: float) -> set[tuple[object, ...]]:
    """Rules not made redundant by one of equal support and confidence with a smaller left and larger right side."""
    sets = frequent(transactions, least)
    pairs = [(before, whole) for whole in sets for before in sets if before < whole]
    found = [(a, b - a, sets[a], sets[b]) for a, b in pairs if sets[b] / sets[a] >= min_confidence]
    return {
        (before, behind, n_before, sets[behind], n_both)
        for before, behind, n_before, n_both in found
        if before
        and not any(
            (n_before, n_both) == supports and less <= before and behind <= more and (less, more) != (before, behind)
            for less, more, *others in found
            for supports in [tuple(others)]
        )
    }


def test_rules_are_the_minimal_non_redundant_ones() -> None:
    n_rules = 0
    for seed in range(100):
        transactions = baskets(seed, 9, 5)
        least, min_confidence = 1 + seed % 3, (0.3, 0.6, 1.0)[seed // 3 % 3]
        table = association_rules(transactions, least, min_confidence, engine="reference")
        rows, n = table.to_pylist(), len(transactions)
        supports = ("antecedent_support", "consequent_support", "support")
        found = [
            (*(frozenset(row[of]) for of in ("antecedent", "consequent")), *map(row.get, supports)) for row in rows
        ]
        assert len(set(found)) == len(found)
        assert set(found) == rules_of(transactions, least, min_confidence)
        for row in rows:
            before, behind, both = (row[name] / n for name in supports)
            expected = (both / before, both / before / behind, both - before * behind)
            assert (row["confidence"], row["lift"], row["leverage"]) == pytest.approx(expected)
        n_rules += len(rows)
    assert n_rules > 150
    with pytest.raises(InvalidArgument, match="min_confidence is 0"):
        association_rules([[1]], 1, 0)


def lattice_of(matrix: np.ndarray) -> tuple[set[tuple[tuple[int, ...], tuple[int, ...]]], set[tuple[int, ...]]]:
    """Return all concepts and the pairs of extents where one covers the other, by definition."""
    n_rows, n_columns = matrix.shape
    concepts = set()
    for size in range(n_columns + 1):
        for chosen in combinations(range(n_columns), size):
            extent = tuple(row for row in range(n_rows) if matrix[row, list(chosen)].all())
            intent = tuple(column for column in range(n_columns) if matrix[list(extent), column].all())
            concepts.add((extent, intent))
    below = {(one, other) for one, _ in concepts for other, _ in concepts if set(one) < set(other)}
    between = {(one, three) for one, two in below for also, three in below if two == also}
    return concepts, below - between  # type: ignore[return-value]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_lattices_are_those_of_the_definition(engine: str) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        matrix = random_matrix(seed, rng.randint(0, 8), rng.randint(0, 6), rng.choice([0.0, 0.3, 0.6, 0.9, 1.0]))
        lattice = concept_lattice(matrix, engine=engine)
        columns = [list(map(tuple, lattice.concepts[name].to_pylist())) for name in ("extent", "intent")]
        concepts, pairs = lattice_of(matrix)
        assert len(columns[0]) == len(concepts)
        assert set(zip(*columns, strict=True)) == concepts
        assert columns[0] == sorted(columns[0], key=lambda extent: (len(extent), extent))
        lower, upper = (lattice.covers[name].to_pylist() for name in ("lower", "upper"))
        assert {(columns[0][a], columns[0][b]) for a, b in zip(lower, upper, strict=True)} == pairs
        assert len(lower) == len(pairs)


def test_contexts_are_read_as_they_were_written(tmp_path: Path) -> None:
    for seed, shape in enumerate([(4, 3), (1, 1), (0, 2), (2, 0), (30, 9)]):
        matrix = random_matrix(seed, *shape, 0.5)
        context = Context(tuple(f"größe {i}" for i in range(shape[0])), tuple(map(str, range(shape[1]))), matrix)
        write_cxt(context, tmp_path / "a.cxt")
        again = read_cxt(tmp_path / "a.cxt")
        assert (again.objects, again.attributes) == (context.objects, context.attributes)
        np.testing.assert_array_equal(again.incidence, matrix)
    for text in ("B\n2\n1\na\nb\nc\nX\n.\n", "B\r\ntitle\r\n2\r\n1\r\n\r\na\r\nb\r\nc\r\nx\r\n.\r\n\r\n"):
        (tmp_path / "b.cxt").write_text(text)
        again = read_cxt(tmp_path / "b.cxt")
        assert (again.objects, again.attributes, again.incidence.tolist()) == (("a", "b"), ("c",), [[True], [False]])
    for text, message in (
        ("", "the first lines"),
        ("B\n\n1\nx\n", "the first lines"),
        ("B\n\n1\n1\n\na\nb\n", "2 lines of names and rows"),
        ("B\n\n1\n1\n\na\nb\nXX\n", "row 1 'XX'"),
        ("B\n\n1\n1\n\na\nb\n1\n", "row 1 '1'"),
    ):
        (tmp_path / "c.cxt").write_text(text)
        with pytest.raises(InputError, match=message):
            read_cxt(tmp_path / "c.cxt")
    with pytest.raises(InputError, match=r"none\.cxt"):
        read_cxt(tmp_path / "none.cxt")
    with pytest.raises(InvalidArgument, match="expected one line of text"):
        write_cxt(Context(("a\nb",), (), np.zeros((1, 0), np.bool_)), tmp_path / "d.cxt")
    with pytest.raises(InvalidArgument, match="incidence has the shape"):
        write_cxt(Context(("a",), (), np.zeros((2, 0), np.bool_)), tmp_path / "d.cxt")


def test_sets_are_those_of_pyfim() -> None:
    """pyfim omits the closure of the empty set, whose support is the number of transactions."""
    fim = pytest.importorskip("fim")
    for seed in range(200):
        transactions = baskets(seed, 40, 12)
        for target, maximal in (("c", False), ("m", True)):
            found = as_sets(closed_itemset_lists(transactions, 2, maximal=maximal))
            expected = as_sets(fim.fpgrowth(transactions, target=target, supp=-2, zmin=1))
            n = len(transactions)
            assert {each for each in found.items() if each[1] < n} == {each for each in expected.items() if each[1] < n}


def test_frames_are_those_of_mlxtend_without_sets_that_are_not_closed() -> None:
    fpgrowth = pytest.importorskip("mlxtend.frequent_patterns").fpgrowth
    for seed in range(200):
        frame = pd.DataFrame(random_matrix(seed, 20, 6, 0.5))
        expected = fpgrowth(frame, 0.15)
        sets = dict(zip(expected["itemsets"], expected["support"], strict=True))
        found = fpclose(frame, 0.15)
        assert dict(zip(found["itemsets"], found["support"], strict=True)) == closed_and_maximal_of(sets)[0]


def test_lattices_are_those_of_concepts(tmp_path: Path) -> None:
    package = pytest.importorskip("concepts")
    for seed in range(100):
        matrix = random_matrix(seed, 8, 7, 0.4)
        names = tuple(f"o{i}" for i in range(8)), tuple(f"a{i}" for i in range(7))
        write_cxt(Context(*names, matrix), tmp_path / "a.cxt")
        context = package.Context.fromfile(str(tmp_path / "a.cxt"), frmat="cxt")
        context.tofile(str(tmp_path / "b.cxt"), frmat="cxt")
        lattice = concept_lattice(read_cxt(tmp_path / "b.cxt"))
        extents = [tuple(names[0][i] for i in each) for each in lattice.concepts["extent"].to_pylist()]
        intents = [tuple(names[1][i] for i in each) for each in lattice.concepts["intent"].to_pylist()]
        expected = {(concept.extent, concept.intent) for concept in context.lattice}
        assert set(zip(extents, intents, strict=True)) == expected
        pairs = {(extents[pair["lower"]], extents[pair["upper"]]) for pair in lattice.covers.to_pylist()}
        assert pairs == {(one.extent, more.extent) for one in context.lattice for more in one.upper_neighbors}
