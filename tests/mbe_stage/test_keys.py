"""Keys and fingerprints depend on members, never on order, type or block."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbe_stage.bicliques.keys import (
    Fingerprint,
    biclique_keys,
    edge_fingerprint,
    hash_integers,
    hash_text,
    vertex_hashes,
)
from mbe_stage.bicliques.results import BicliqueBlock

KNOWN_KEY = -8422822007451549852


def text_hashes(texts: list[str]) -> np.ndarray:
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in data])])
    return hash_text(offsets, np.frombuffer(b"".join(data), np.uint8))


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@given(st.lists(st.text()))
def test_text_hash_is_fnv1a(texts: list[str]) -> None:
    assert text_hashes(texts).tolist() == [fnv1a(text) for text in texts]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_hash_as_their_digits(numbers: list[int]) -> None:
    assert hash_integers(np.array(numbers, np.int64)).tolist() == [fnv1a(str(number)) for number in numbers]


def block(pairs: list[tuple[list[int], list[int]]]) -> BicliqueBlock:
    return BicliqueBlock(
        len(pairs),
        np.array([len(left) for left, _ in pairs], np.int32),
        np.array([len(right) for _, right in pairs], np.int32),
        np.array([u for left, _ in pairs for u in left], np.int32),
        np.array([v for _, right in pairs for v in right], np.int32),
    )


def test_keys_name_members_and_sides() -> None:
    left, right = (vertex_hashes(hash_integers(np.arange(4)), side) for side in ("left", "right"))
    keys = biclique_keys(block([([0, 1], [2]), ([1, 0], [2]), ([2], [0, 1]), ([0], [1, 2])]), left, right)
    assert keys.dtype == np.int64
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 3


def test_key_of_a_known_biclique_never_changes() -> None:
    """Published tables are compared across versions by these keys."""
    left, right = vertex_hashes(text_hashes(["ann"]), "left"), vertex_hashes(text_hashes(["tea"]), "right")
    assert biclique_keys(block([([0], [0])]), left, right).tolist() == [KNOWN_KEY]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.randoms(use_true_random=False))
def test_fingerprint_ignores_order_and_pieces(keys: list[int], random) -> None:
    whole, pieces = Fingerprint(), Fingerprint()
    whole.add(np.array(keys, np.int64))
    shuffled = random.sample(keys, len(keys))
    for start in range(0, len(keys), 3):
        pieces.add(np.array(shuffled[start : start + 3], np.int64))
    assert str(whole) == str(pieces)
    other = Fingerprint()
    other.add(np.array([*keys, 12345], np.int64))
    assert str(other) != str(whole)


def test_edge_fingerprint_ignores_order() -> None:
    left, right = (vertex_hashes(hash_integers(np.arange(3)), side) for side in ("left", "right"))
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    assert edge_fingerprint(edges[:, 0], edges[:, 1], left, right) == edge_fingerprint(
        edges[::-1, 0], edges[::-1, 1], left, right
    )
    assert edge_fingerprint(edges[:, 0], edges[:, 1], left, right) != edge_fingerprint(
        edges[:, 1], edges[:, 0], left, right
    )
