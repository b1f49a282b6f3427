"""Check saved work of a search for (p, q)-bicliques: open nodes and roots. Leaves are handed on after each quantum.

A node says nothing about its root. Rows and columns of a matrix may have any bits within its size: they choose among
candidates, and may make a stack longer than any core does, which kernels cut (`keep_entries`).
"""

from __future__ import annotations

import numpy as np

from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.memory_plan import KeyLayout, SearchSizes
from mbe_stage.search.cuda.saved_work import DTYPES, Arrays, are_below, check_arrays, damaged

VERSION = 1
"""Version of the layout of the arrays."""
_FIELDS = [layout.OFFSET, layout.WORDS, layout.CURSOR, layout.END, layout.N_ROWS, layout.N_COLUMNS, layout.PIVOT]
_KINDS = 0, layout.COLUMN_PIVOT, layout.IS_FRAME, layout.HAS_NO_PIVOT, layout.HAS_NO_PIVOT | layout.COLUMN_PIVOT


def form_of(keys: KeyLayout) -> str:
    """Return the form of saved work (`OpenWork.form`)."""
    return f"pq_counts, cuda {VERSION}, keys {keys.optional_rows} {keys.held_columns} {keys.optional_columns}"


def check(arrays: Arrays, sizes: SearchSizes, keys: KeyLayout) -> None:
    """Check that the arrays are work of this core and query, as far as kernels rely on it.

    Raises
    ------
    InvalidArgument
        They are not; the message names the array.
    """
    check_arrays(arrays, DTYPES, sizes.n_rows)
    nodes, words = arrays["nodes"], arrays["words"]
    if not _are_nodes(nodes, words.size, sizes, keys):
        raise damaged("nodes")
    for node in nodes[nodes[:, layout.KIND] != layout.IS_FRAME]:
        n_rows, n_columns = node[[layout.N_ROWS, layout.N_COLUMNS]].tolist()
        block = words[node[layout.OFFSET] :][: node[layout.WORDS]]
        n_by_row = n_rows * _n_words(n_columns)
        for bits, n_vectors, n in ((block[:n_by_row], n_rows, n_columns), (block[n_by_row:], n_columns, n_rows)):
            if n % 32 and (bits.reshape(n_vectors, -1)[:, -1] >> np.uint32(n % 32)).any():
                raise damaged("words")


def _are_nodes(nodes: np.ndarray, n_words: int, sizes: SearchSizes, keys: KeyLayout) -> bool:
    """Return True if the fields of all nodes fit each other, the words, the core and the query."""
    kind, key, missing = nodes[:, layout.KIND], nodes[:, layout.KEY], nodes[:, layout.MISSING].view(np.uint64)
    if not np.isin(kind, _KINDS).all() or not are_below(key, 1 << layout.KEY_BITS):
        return False
    offset, size, cursor, end, n_rows, n_columns, pivot = nodes[:, _FIELDS].T
    if not are_below(nodes[:, _FIELDS], 1 << 40):
        return False
    is_frame = kind == layout.IS_FRAME
    held_rows, optional_rows, held_columns, optional_columns = keys.numbers(key)
    # An open node has at least two more vertices to choose on each side.
    are_right = (held_rows > 0) & (held_rows <= sizes.most_rows - 2) & (held_columns <= sizes.most_columns - 2)
    are_right &= (optional_rows <= sizes.max_column_degree) & (optional_columns <= sizes.max_row_degree)
    # A child for each missed vertex, and the last one.
    n_children = np.where(is_frame, np.bitwise_count(missing), np.maximum(n_rows, n_columns)) + 1
    are_right &= (cursor < end) & (end <= n_children) & (offset + size <= n_words)
    n_matrix = n_rows * _n_words(n_columns) + n_columns * _n_words(n_rows)
    are_right &= size == np.where(is_frame, layout.MATRIX_WORDS, n_matrix)
    n_pivots = np.where(kind & layout.COLUMN_PIVOT, n_columns, n_rows)
    are_right &= pivot < np.where(is_frame, 2 * layout.FRAME_WIDTH, n_pivots)
    is_wide = (n_rows > 0) & (n_rows <= sizes.max_matrix_rows) & (n_columns > 0) & (n_columns <= sizes.max_row_degree)
    return bool((are_right & (is_frame | (is_wide & (n_matrix <= sizes.max_node_words)))).all())


def _n_words(n_bits: np.ndarray) -> np.ndarray:
    return (n_bits + 31) // 32
