"""Bundles that the functions of the walk pass to each other.

Bundles of the launch, of a warp, of a node and of a visited child. `layout` describes the memory. What functions take
beside bundles has these types, if they say nothing else: numbers, positions and sizes are int32, rows and sets of
columns or lanes are words of 32 bits, uint32. A `frame` is a row of `Warps.frames`, `numbers` are `Pool.ints`. This
module needs no GPU library.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Launch(NamedTuple):
    """Values shared by all warps of a launch.

    Attributes
    ----------
    control : (CONTROL_FIELDS,) int32, global
    control_64 : (CONTROL_64_FIELDS,) int64, global
        Words that all warps change, and words set by the host.
    deadline : int64
        End of the quantum, by the clock that all multiprocessors share.
    mode : int, known at compile time
        Output mode of the kernel: `COUNT` and so on.
    techniques : int, known at compile time
        Bits of the techniques (`techniques`).
    """

    control: Any
    control_64: Any
    deadline: Any
    mode: Any
    techniques: Any


class Own(NamedTuple):
    """One warp's rows of `Warps`, and its shared memory.

    Shared memory has a table, two bitmaps of subsets or a few candidates, and the chunk of the output.
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
    """A subgraph: first entry of its segment of `Pool.ints` (int64), and the parts of the segment (uint32).

    The offsets of the ids come first. `n_path`, and `shift`, the logarithm of the words of a bitmap, are int32.
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
    bitmaps: Any
    shift: Any


ANY = -(1 << 31)
"""Fewest columns of a row if all rows matter: comparisons with it disappear from the compiled code."""


class Child(NamedTuple):
    """A child of a subgraph: its row, and the list of its left set, columns of the node.

    Attributes
    ----------
    whole : int32
        Count of a row that holds the whole left set: `n_left`, or the user's vertices if sizes of a list are written.
    fewest : int32
        Rows that hold fewer columns, of a list the user's vertices, are in no wanted biclique below; `ANY` without.
    """

    row: Any
    left_at: Any
    n_left: Any
    whole: Any
    fewest: Any


class Verdict(NamedTuple):
    """Size constraints of a subgraph's child, for kernels that count within them.

    Attributes
    ----------
    is_wanted : bool
        True if the child itself is within them.
    is_settled : bool
        True if only the left sizes of the bicliques below it remain to be checked. Then no superset is kept.
    right_least : int32
        Fewest of the user's right vertices of the child.
    """

    is_wanted: Any
    is_settled: Any
    right_least: Any


class Singles(NamedTuple):
    """Facts about the rows that hold only one column of a bitmap child, if these rows are not collected.

    Attributes
    ----------
    earlier : uint32
        Columns that some row before the child's holds, alone or with others: no left sets by themselves.
    later : uint32
        The other columns that are all that some row behind the child's holds.
    """

    earlier: Any
    later: Any


class Seen(NamedTuple):
    """The rows that see the left set of a subgraph's child, in the accumulator.

    Attributes
    ----------
    is_list : bool
        True if `counts` has the number of its columns that each row holds; otherwise `bits` has the columns.
    n_nonzero : int32
        Number of rows in `nonzero`.
    singles : Singles
        Facts about the rows that are not there.
    """

    is_list: Any
    n_nonzero: Any
    singles: Any


class Rows(NamedTuple):
    """The rows that see a list child's left set.

    Attributes
    ----------
    n_nonzero : int32
        Number of all of them in `nonzero`.
    n_pairs : int32
        Paths to later ones, counted up to the size of the arena of words. If all fit, each is recorded there
        (`two_step_paths.pairs_from`) in two words: the row, and the column's position in the left set.
    n_candidates, n_full : int32
        Later ones that hold a part of the left set; those that hold all of it. Up to `MOST_KEY_ROWS` candidates are in
        `subsets`, under their numbers.
    most_earlier : int32
        Most columns of the left set that an earlier row holds: it contains no larger group of columns.
    """

    n_nonzero: Any
    n_pairs: Any
    n_candidates: Any
    n_full: Any
    most_earlier: Any


class Paths(NamedTuple):
    """The lists of up to 32 columns of a left set, one a lane, joined: two-step paths by their numbers.

    The end of this lane's list, the shift to its position among the node's column members, and the number of paths.
    """

    ends: Any
    shift: Any
    total: Any


class KeptColumn(NamedTuple):
    """The new column of one of the columns that a list child keeps: its number, and the number of columns in its group.

    `leads`, a bool, is true for the column that leads the group.
    """

    number: Any
    size: Any
    leads: Any


class Columns(NamedTuple):
    """The columns that a list child keeps, in groups with the same candidates.

    Attributes
    ----------
    n_columns, n_kept : int32
        New columns, and the number of columns of the left set in them.
    is_merged : bool
        True if a new column may represent several. Then the arena of words has the positions of the kept columns in the
        left set, sorted by new column, from 0 on, and from `sizes` on the number of columns of each new one.
    sizes : int32
    """

    n_columns: Any
    n_kept: Any
    is_merged: Any
    sizes: Any


class BitsetChild(NamedTuple):
    """A child of a bitset frame while it is visited.

    Attributes
    ----------
    cursor, kind : int32
        Position of its row among the frame's rows, and the kind of the frame.
    left : uint32
        Its left set.
    left_most : int32
        The user's vertices in it; 0 without size constraints.
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


class Earlier(NamedTuple):
    """The excluded rows of a bitset frame's child: the rows before the cursor, and the frame's excluded ones.

    Attributes
    ----------
    first, n : int32
        First of them in the arena of words, and their number.
    split, gap : int32
        Rows before the gap, and entries to skip there.
    """

    first: Any
    n: Any
    split: Any
    gap: Any


class Below(NamedTuple):
    """The closed sets below a small child of a bitset frame, or the candidates of a larger one.

    Attributes
    ----------
    closed : uint32
        This lane's share of the bitmap of unwritten left sides.
    moves : 5 uint32
        Moves that pack subsets of the left set (`closed_sets.moves_of`).
    top, n_kept : int32
        First of its candidates' rows in the arena of words, and their number.
    n_listed : int32
        Number of bicliques in the rows from there on, including common columns of two.
    """

    closed: Any
    moves: Any
    top: Any
    n_kept: Any
    n_listed: Any


class Superset(NamedTuple):
    """The rows that can be in a right side.

    First of them in the arena of words, their number, and first of their ids in that of ints; all int32.
    """

    rows: Any
    n_rows: Any
    ids: Any
