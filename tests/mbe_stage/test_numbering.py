"""Numbering of keys and ordering of pairs, compared with NumPy and sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BipartiteCSR
from mbe_stage.graphs import numbering
from mbe_stage.graphs.numbering import Codes, IntegerNumbers, TextNumbers
from mbe_stage.graphs.pairs import distinct_pairs, row_offsets
from mbe_stage.graphs.texts import canonical_integers

ENDS = [-(2**63), -(2**63) + 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1]
near = st.integers(-50, 50)
anywhere = st.one_of(
    near, st.sampled_from(ENDS), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31).map(lambda x: 3 * x)
)


@given(st.lists(st.lists(anywhere, max_size=30), max_size=6))
@settings(max_examples=300, deadline=None)
def test_integers_get_their_ranks_over_any_range(parts: list[list[int]]) -> None:
    numbers = IntegerNumbers()
    for part in parts:
        numbers.add(np.array(part, np.int64))
    codes, keys = numbers.ranked()
    ranks = codes.whole()
    expected, inverse = np.unique(np.array([value for part in parts for value in part], np.int64), return_inverse=True)
    assert (ranks.dtype, keys.dtype) == (np.int32, np.int64)
    assert keys.tolist() == expected.tolist()
    assert ranks.tolist() == inverse.tolist()


@pytest.mark.parametrize("span", [5_000, 2**25, 2**31 - 1, 2**31, 2**62])
def test_all_methods_of_ranking_integers(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a range, by distances in a table, and by values in a growing table; over several blocks."""
    monkeypatch.setattr(numbering, "_BLOCK", 7_000)
    random = np.random.default_rng(span)
    values = random.integers(-span // 2, span // 2, 50_000)
    values[[10, 20_000]] = -(span // 2), span - span // 2
    values[30_000:40_000] = values[:10_000]
    numbers = IntegerNumbers()
    for part in np.array_split(values, 23):
        numbers.add(part)
    codes, keys = numbers.ranked()
    ranks = codes.whole()
    expected, inverse = np.unique(values, return_inverse=True)
    assert np.array_equal(keys, expected)
    assert np.array_equal(ranks, inverse)


def buffers(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([3, *map(len, texts)], dtype=np.int64)
    return ends, np.frombuffer(b"###" + b"".join(texts), np.uint8)


def numbered(parts: list[list[bytes]]) -> tuple[list[int], list[bytes]]:
    numbers, codes = TextNumbers(), Codes()
    for part in parts:
        numbers.number(*buffers(part), codes.more(len(part)))
    ends, data = numbers.texts()
    return codes.whole().tolist(), [data[ends[i] : ends[i + 1]].tobytes() for i in range(numbers.n)]


@given(st.lists(st.lists(st.one_of(st.binary(max_size=3), st.binary(max_size=40)), max_size=20), max_size=5))
@settings(max_examples=300, deadline=None)
def test_texts_are_numbered_in_order_of_appearance(parts: list[list[bytes]]) -> None:
    codes, keys = numbered(parts)
    texts = [text for part in parts for text in part]
    assert keys == list(dict.fromkeys(texts))
    assert [keys[code] for code in codes] == texts


def test_tables_of_texts_grow() -> None:
    texts = [b"%d" % (i * 7919 % 20_011) for i in range(50_000)] + [b"long" * 100_000, b"long" * 99_999, b"1"]
    codes, keys = numbered([texts[:3], texts[3:30_000], texts[30_000:]])
    assert keys == list(dict.fromkeys(texts))
    assert [keys[code] for code in codes] == texts


def test_texts_with_equal_hashes_stay_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(numbering._number_texts, "py_func"):
        pytest.skip("nothing is compiled")
    for name in ("_number_texts", "_look_ahead", "_text_slot", "_touch"):
        monkeypatch.setattr(numbering, name, getattr(numbering, name).py_func)
    monkeypatch.setattr(numbering, "text_hash", lambda *_: 5)
    texts = [b"a", b"b", b"aa", b"a", b"bb", b"b"]
    assert numbered([texts]) == ([0, 1, 2, 0, 3, 1], [b"a", b"b", b"aa", b"bb"])
    # Lengths that do not fit a slot.
    long = [b"a" * n for n in (65_534, 65_535, 65_536, 65_535, 65_536)]
    assert numbered([long]) == ([0, 1, 2, 1, 2], long[:3])


@pytest.mark.parametrize("text", ["0", "7", "-7", "10", "999999999999999999", "-999999999999999999"])
def test_canonical_integers(text: str) -> None:
    assert canonical_integers(*buffers([b"12", text.encode()])).tolist() == [12, int(text)]


@pytest.mark.parametrize("text", ["", "-", "-0", "00", "07", "+7", " 7", "7 ", "7.0", "1e3", "1/", "1:", "9" * 19, "٣"])
def test_other_texts_are_not_canonical_integers(text: str) -> None:
    assert canonical_integers(*buffers([b"12", text.encode()])) is None


@given(st.integers(1, 9), st.integers(1, 9), st.data())
@settings(max_examples=200, deadline=None)
def test_pairs_are_ordered_and_merged(n_first: int, n_second: int, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n_first - 1), st.integers(0, n_second - 1)), max_size=60))
    columns = np.array(pairs, np.int32).reshape(-1, 2).T
    first, second = distinct_pairs(columns[0], columns[1], n_first, n_second)
    assert (first.dtype, second.dtype) == (np.int32, np.int32)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == sorted(set(pairs))
    assert row_offsets(first, n_first).tolist() == [sum(pair[0] < i for pair in set(pairs)) for i in range(n_first + 1)]
    graph = BipartiteCSR.from_edges(columns[0], columns[1], n_first, n_second)
    assert [graph.neighbours_of_right(v).tolist() for v in range(n_second)] == [
        sorted(u for u, w in set(pairs) if w == v) for v in range(n_second)
    ]


def test_arrays_of_a_graph_are_writable_even_if_the_ids_are_not() -> None:
    ids = np.frombuffer(np.arange(4, dtype=np.int32).tobytes(), np.int32)
    graph = BipartiteCSR.from_edges(ids, ids)
    assert all(array.flags.writeable for array in (graph.left_members, graph.right_members, graph.left_offsets))
