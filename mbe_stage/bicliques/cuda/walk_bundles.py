"""Bundles that the functions of the walk pass to each other.

Of the launch, of a warp, of a node and a child that is being visited. `layout` says what stands in memory. This module
needs no GPU library.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Launch(NamedTuple):
    """Values shared by all warps of a launch.

    Attributes
    ----------
    control : (CONTROL_FIELDS,) int32, global
    control_64 : (CONTROL_64_FIELDS,) int64, global
        Words that all warps change, and those that the host set.
    deadline : int64
        When the time quantum is over, by the clock that all multiprocessors share.
    mode : int, known when it is compiled
        How much the kernel says: `COUNTS` and so on.
    techniques : int, known when it is compiled
        Bits of what it makes use of (`techniques`).
    """

    control: Any
    control_64: Any
    deadline: Any
    mode: Any
    techniques: Any


class Own(NamedTuple):
    """One warp's rows of `Warps`, and its shared memory.

    A table, two bitmaps of subsets or a few candidates, its chunk of the output.
    """

    words: Any
    ints: Any
    frames: Any
    state: Any
    own_nodes: Any
    bits: Any
    counts: Any
    nonzero: Any
    columns: Any
    table: Any
    subsets: Any
    chunk: Any


class Node(NamedTuple):
    """A subgraph: where its piece of `Pool.ints` begins (int64), and the parts of the piece (uint32).

    The offsets of the ids come first; `n_path` is int32.
    """

    offset: Any
    ids: Any
    row_ids: Any
    row_offsets: Any
    column_offsets: Any
    row_members: Any
    column_members: Any
    path: Any
    n_path: Any


class Child(NamedTuple):
    """A child of a subgraph: its row, and the list of its left set, columns of the node."""

    row: Any
    left_at: Any
    n_left: Any


class Singles(NamedTuple):
    """Facts about the rows that hold only one column of a bitmap child, if these rows are not collected.

    Attributes
    ----------
    earlier : uint32
        Columns that some row before the child's holds, alone or with others: no left set by themselves.
    later : uint32
        The other columns, as far as a row behind the child's holds nothing but them.
    """

    earlier: Any
    later: Any


class Seen(NamedTuple):
    """The rows that see the left set of a subgraph's child, as the accumulator has them.

    Attributes
    ----------
    is_list : bool
        True if `counts` says how many of the left set each holds; else `bits` says which.
    n_nonzero : int32
        How many there are, as they stand in `nonzero`.
    singles : Singles
        What is known of those that are not there.
    """

    is_list: Any
    n_nonzero: Any
    singles: Any


class Rows(NamedTuple):
    """The rows that see a list child's left set.

    Attributes
    ----------
    n_nonzero : int32
        All of them, as they stand in `nonzero`.
    n_pairs : int32
        Paths to later ones, counted up to the size of the arena of words. Where all of them fit it, each stands there
        (`paths.pairs_from`), in two words: the row, and the column's place in the left set.
    n_candidates, n_full : int32
        Later ones that hold a part of the left set; those that hold all of it. Of up to `MOST_KEY_ROWS` candidates each
        stands in `subsets`, under its number.
    most_earlier : int32
        The most of the left set that an earlier one holds: it holds no larger group of columns as a whole.
    """

    n_nonzero: Any
    n_pairs: Any
    n_candidates: Any
    n_full: Any
    most_earlier: Any


class Columns(NamedTuple):
    """The columns that a list child keeps, as groups that its candidates cannot tell apart.

    Attributes
    ----------
    n_columns, n_kept : int32
        New columns, and how many of the left set they stand for.
    is_merged : bool
        True if a new column may stand for several. Then the arena of words holds the places of the kept ones in the
        left set, sorted by new column, from 0 on, and from `sizes` on how many each new column stands for.
    sizes : int32
    """

    n_columns: Any
    n_kept: Any
    is_merged: Any
    sizes: Any


class FramePlaces(NamedTuple):
    """Offsets of the parts of a first frame.

    The child's row, candidates behind it, and the superset in the arena of words; the superset's ids in that of ints;
    all int32. Excluded rows begin at 0.
    """

    first: Any
    superset: Any
    superset_ids: Any


class BitsetChild(NamedTuple):
    """A child of a bitset frame while it is visited.

    Attributes
    ----------
    cursor : int32
        Its row's place among the frame's rows.
    left : uint32
        Its left set.
    left_most : int32
        How many of the user's vertices that is; 0 where there are no size constraints.
    kind : int32
        The frame's.
    is_small : bool
        True if the subsets of its left set fit a closed-set bitmap: its subtree is finished at once.
    is_written : bool
        True if it is in the output, or counted, already.
    """

    cursor: Any
    left: Any
    left_most: Any
    kind: Any
    is_small: Any
    is_written: Any


class Below(NamedTuple):
    """The closed sets below a small child of a bitset frame, or the candidates of a larger one.

    Attributes
    ----------
    closed : uint32
        This lane's part of the bitmap of left sides that are not written yet.
    moves : 5 uint32
        How subsets of the left set are packed (`closed_sets.moves_of`).
    top, n_kept : int32
        Where in the arena of words its candidates' rows stand, and how many there are.
    n_listed : int32
        How many bicliques the rows from there on are, what two have in common included.
    """

    closed: Any
    moves: Any
    top: Any
    n_kept: Any
    n_listed: Any


class Superset(NamedTuple):
    """The rows that can be in a right side.

    Where they begin in the arena of words, how many, where their ids begin in that of ints; all int32.
    """

    rows: Any
    n_rows: Any
    ids: Any
