"""Work in progress as arrays on the host: open nodes and stacks, saved between two quanta, and loaded by a new session.

A node is a matrix of rows by columns, with the vertices that they stand for. In the pool it has the lists of both
directions. Dense nodes are saved as bits, which takes a twentieth of that on graphs with giant roots; other nodes as
the lists of their rows. Loading makes the lists of the columns again. Stacks are saved as they are.

Arrays may come from a file that others can write. So everything that kernels use as a place is checked first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.memory_plan import ReducedSizes
from mbe_stage.bicliques.cuda.pool_compaction import live_nodes
from mbe_stage.bicliques.cuda.work_handover import TASK_FIELDS, SuspendedTasks, tasks_in_progress
from mbe_stage.device import whole_lines
from mbe_stage.device.copying import copy_pieces
from mbe_stage.search.cuda.saved_work import Arrays, are_below, check_arrays, damaged

VERSION = 2
"""Version of the meaning of the arrays; results depend on the order in which kernels visit what they are given."""
_MOST_BITS = 1 << 23
"""Bits of a node that is saved as such, and entries that pass through other memory at a time."""
_AT_ONCE = 1 << 21
"""Bits, or entries of lists, that are turned into each other at once, a larger node alone. Each takes some 45 bytes of
device memory besides the plan."""
_KEPT_FIELDS = [layout.NODE_COLUMNS, layout.NODE_ROWS, layout.NODE_EDGES, layout.NODE_PATH, layout.NODE_END]
_KEPT_FIELDS += [layout.NODE_IDS, layout.NODE_SIZE, layout.NODE_ROOT, layout.NODE_RIGHT]
_DTYPES = {
    "order": np.int32,
    "nodes": np.int64,
    "cursors": np.int32,
    "heads": np.int32,
    "bits": np.uint8,
    "lists": np.int32,
    "tasks": np.int64,
    "frames": np.int32,
    "words": np.int32,
    "ints": np.int32,
    "word_starts": np.int64,
    "int_starts": np.int64,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Sizes and places of some nodes, as `subgraph_parts.parts_of` has them; (n,) int64 each, on the host."""

    n_columns: np.ndarray
    n_rows: np.ndarray
    n_edges: np.ndarray
    n_path: np.ndarray
    head: np.ndarray
    n_head: np.ndarray
    row_offsets: np.ndarray
    column_offsets: np.ndarray
    row_members: np.ndarray
    column_members: np.ndarray
    path: np.ndarray

    @classmethod
    def of(cls, fields: np.ndarray, offsets: np.ndarray, mode: int) -> _Nodes:
        """Return the parts of nodes with these fields at these offsets; a head has vertices of columns, and rows."""
        kinds = layout.NODE_COLUMNS, layout.NODE_ROWS, layout.NODE_EDGES, layout.NODE_PATH, layout.NODE_IDS
        n_columns, n_rows, n_edges, n_path, n_ids = (fields[:, kind] for kind in kinds)
        # A walk that only counts leaves the offsets of the columns' vertices unwritten.
        head = offsets + (n_columns + 1 if mode == layout.COUNT else 0)
        row_offsets = offsets + n_columns + 1 + n_ids + n_rows
        column_offsets = row_offsets + n_rows + 1
        row_members = column_offsets + n_columns + 1
        column_members = row_members + n_edges
        path = column_members + n_edges
        lists = row_offsets, column_offsets, row_members, column_members, path
        return cls(n_columns, n_rows, n_edges, n_path, head, row_offsets - head, *lists)

    @property
    def n_bits(self) -> np.ndarray:
        """Bits of each matrix, in whole bytes."""
        return -(-self.n_rows * self.n_columns // 8) * 8

    @property
    def are_bits(self) -> np.ndarray:
        """True for each node that is saved as bits, which take less than the lists of its rows."""
        return (self.n_bits <= 32 * self.n_edges) & (self.n_bits <= _MOST_BITS)

    @property
    def n_list(self) -> np.ndarray:
        """Entries of the lists of a node that is not saved as bits: ends, and members of the rows."""
        return self.n_rows + self.n_edges

    def some(self, which: np.ndarray) -> _Nodes:
        """Return some of the nodes."""
        return _Nodes(*(getattr(self, name)[which] for name in self.__slots__))


def saved(
    pool: layout.Pool, n_nodes: int, warps: layout.Warps, suspended: Sequence[SuspendedTasks], mode: int, most: int
) -> Arrays | None:
    """Copy open nodes and stacks to the host; None if they take more than `most` bytes. Roots ahead are not included.

    Parameters
    ----------
    n_nodes : int
        Nodes of the pool in use.
    suspended : sequence of SuspendedTasks
        Tasks that no warp has.
    mode : int
        Output mode of the walk.
    most : int
    """
    state = cp.asnumpy(warps.state)
    fields, cursors = cp.asnumpy(pool.nodes[:n_nodes]), cp.asnumpy(pool.cursors[:n_nodes])
    pending = [state[:, layout.PENDING_NODE], *(tasks.pending_nodes for tasks in suspended)]
    live = live_nodes(fields, cursors, np.concatenate(pending), mode)
    numbers = live.numbers[1:]
    nodes = _Nodes.of(fields[numbers], fields[numbers, layout.NODE_OFFSET], mode)
    running, sizes = tasks_in_progress(warps, state, mode > layout.COUNT)
    n_bytes = sum(tasks.nbytes for tasks in suspended) + 4 * int(sizes.sum()) + warps.frames[0].nbytes * running.size
    n_bytes += int(np.where(nodes.are_bits, nodes.n_bits // 8, 4 * nodes.n_list).sum())
    n_bytes += int(4 * (nodes.n_head + nodes.n_path).sum()) + 8 * layout.NODE_FIELDS * numbers.size
    if n_bytes > most:
        return None
    kept = np.zeros((numbers.size, layout.NODE_FIELDS), np.int64)
    kept[:, _KEPT_FIELDS] = fields[numbers][:, _KEPT_FIELDS]
    # Bitmaps of columns are not saved.
    kept[:, layout.NODE_SIZE] = nodes.path + nodes.n_path - fields[numbers, layout.NODE_OFFSET]
    heads = np.stack([nodes.head, nodes.path]).T.reshape(-1), np.stack([nodes.n_head, nodes.n_path]).T.reshape(-1)
    arrays = {
        "nodes": kept,
        # A cursor passes the end once for each warp that finds no child.
        "cursors": np.minimum(cursors[numbers], kept[:, layout.NODE_END]).astype(np.int32),
        "heads": _gathered(pool.ints, *heads),
        "bits": _bits_of(pool.ints, nodes.some(nodes.are_bits)),
        "lists": _lists_of(pool.ints, nodes.some(~nodes.are_bits)),
    }
    return arrays | _saved_tasks(warps, state, running, sizes, suspended, live.new_numbers(n_nodes))


def _saved_tasks(
    warps: layout.Warps,
    state: np.ndarray,
    running: np.ndarray,
    sizes: np.ndarray,
    suspended: Sequence[SuspendedTasks],
    numbers: np.ndarray,
) -> Arrays:
    """Copy the tasks of the warps that are `running`, and others, with nodes under their new numbers.

    Parameters
    ----------
    state : (n_warps, STATE_FIELDS) int64
    sizes : (n, 2) int64
        Words and ints on the stacks of the warps that are `running`.
    numbers : (n_nodes + 1,) int64
    """
    fields = [state[running][:, TASK_FIELDS], *(tasks.fields for tasks in suspended)]
    frames = [cp.asnumpy(warps.frames[cp.asarray(running)]), *(cp.asnumpy(tasks.frames) for tasks in suspended)]
    arrays = {"tasks": np.concatenate(fields), "frames": np.concatenate(frames)}
    pending = TASK_FIELDS.index(layout.PENDING_NODE)
    arrays["tasks"][:, pending] = numbers[arrays["tasks"][:, pending]]
    for side, (name, arena) in enumerate((("words", warps.words), ("ints", warps.ints))):
        flat = arena.reshape(-1).view(cp.int32)
        content = [_gathered(flat, running * arena.shape[1], sizes[:, side])]
        starts = [getattr(tasks, f"{name[:-1]}_starts") for tasks in suspended]
        # Some of the tasks may have left this memory.
        memory = [getattr(tasks, name) for tasks in suspended]
        content += [cp.asnumpy(each[begin[0] : begin[-1]]) for each, begin in zip(memory, starts, strict=True)]
        every = np.concatenate([sizes[:, side], *map(np.diff, starts)])
        arrays |= {name: np.concatenate(content), f"{name[:-1]}_starts": np.concatenate([[0], np.cumsum(every)])}
    return arrays


def merged(works: Sequence[Arrays]) -> Arrays:
    """Return the work of several sessions as that of one."""
    if len(works) == 1:
        return works[0]
    together = {name: np.concatenate([work[name] for work in works]) for name in _DTYPES if "starts" not in name}
    pending, n_nodes, first = TASK_FIELDS.index(layout.PENDING_NODE), 0, 0
    for work in works:
        # Node 0 is the whole graph, of each of them.
        nodes = together["tasks"][first : first + len(work["tasks"]), pending]
        nodes[nodes > 0] += n_nodes
        n_nodes, first = n_nodes + len(work["nodes"]), first + len(work["tasks"])
    for name in ("word_starts", "int_starts"):
        sizes = np.concatenate([np.diff(work[name]) for work in works])
        together[name] = np.concatenate([[0], np.cumsum(sizes)])
    return together


def roots_of(arrays: Arrays) -> np.ndarray:
    """Return the begun roots with work left, each once."""
    tasks = arrays["tasks"][:, TASK_FIELDS.index(layout.ROOT)]
    return np.unique(np.concatenate([arrays["nodes"][:, layout.NODE_ROOT], tasks]))


def pool_ints_of(arrays: Arrays) -> int:
    """Entries of a pool that the nodes take."""
    return int(whole_lines(arrays["nodes"][:, layout.NODE_SIZE]).sum())


def words_of(arrays: Arrays) -> int:
    """Words of an arena that every stack fits."""
    return int(max(np.diff(arrays[name]).max(initial=0) for name in ("word_starts", "int_starts")))


def tasks_of(arrays: Arrays) -> SuspendedTasks:
    """Return the stacks and taken children, on the device."""
    return SuspendedTasks(
        fields=arrays["tasks"].copy(),
        frames=cp.asarray(arrays["frames"]),
        words=cp.asarray(arrays["words"]),
        ints=cp.asarray(arrays["ints"]),
        word_starts=arrays["word_starts"],
        int_starts=arrays["int_starts"],
    )


def load_nodes(arrays: Arrays, pool: layout.Pool, top: int, mode: int) -> None:
    """Write the nodes into a pool with room for them, as nodes 1 and so on, from entry `top` on.

    Raises
    ------
    InvalidArgument
        Their bits or lists are of another size.
    """
    fields = arrays["nodes"].copy()
    n, room = len(fields), whole_lines(fields[:, layout.NODE_SIZE])
    offsets = top + np.cumsum(room) - room
    nodes = _Nodes.of(fields, offsets, mode)
    places = np.stack([nodes.head, nodes.path]).T.reshape(-1), np.stack([nodes.n_head, nodes.n_path]).T.reshape(-1)
    _scatter(arrays["heads"], pool.ints, *places)
    for name, which, sizes in (
        ("bits", nodes.are_bits, nodes.n_bits),
        ("lists", ~nodes.are_bits, 32 * nodes.n_list),
    ):
        chosen, ends = np.flatnonzero(which), np.cumsum(sizes[which]) // (8 if name == "bits" else 32)
        for some in _groups(sizes[chosen], _AT_ONCE if name == "bits" else 32 * _AT_ONCE):
            content = arrays[name][(ends[some.start - 1] if some.start else 0) : ends[some.stop - 1]]
            group = nodes.some(chosen[some])
            _write_lists(pool.ints, group, *(_pairs_of_bits if name == "bits" else _pairs_of_lists)(content, group))
    fields[:, layout.NODE_OFFSET] = offsets
    if n:
        pool.nodes[1 : n + 1] = cp.asarray(fields)
        pool.cursors[1 : n + 1] = cp.asarray(arrays["cursors"])


def _groups(sizes: np.ndarray, most: int) -> Iterator[slice]:
    """Ranges of consecutive pieces of at most `most` together; a larger piece alone."""
    ends, first = np.cumsum(sizes), 0
    while first < sizes.size:
        before = int(ends[first] - sizes[first])
        stop = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(first, stop)
        first = stop


def _gathered(source: cp.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Copy pieces of an array to the host, contiguously."""
    ends = np.cumsum(sizes)
    gathered = np.empty(int(sizes.sum()), np.int32)
    for some in _groups(sizes, _MOST_BITS):
        first, end = int(ends[some.start] - sizes[some.start]), int(ends[some.stop - 1])
        passing = cp.empty(end - first, cp.int32)
        copy_pieces(source, starts[some], sizes[some], passing, ends[some] - sizes[some] - first)
        gathered[first:end] = cp.asnumpy(passing)
    return gathered


def _scatter(content: np.ndarray, target: cp.ndarray, places: np.ndarray, sizes: np.ndarray) -> None:
    """Copy contiguous pieces on the host to their places."""
    ends = np.cumsum(sizes)
    for some in _groups(sizes, _MOST_BITS):
        first, end = int(ends[some.start] - sizes[some.start]), int(ends[some.stop - 1])
        passing = cp.asarray(content[first:end])
        copy_pieces(passing, ends[some] - sizes[some] - first, sizes[some], target, places[some])


@dataclass(frozen=True, slots=True, eq=False)
class _Firsts:
    """Offsets of the rows, columns, edges and bits of each node within its group, on the device.

    Attributes
    ----------
    node_of_row, node_of_column : int64
        Number within the group of the node of each.
    """

    rows: cp.ndarray
    columns: cp.ndarray
    edges: cp.ndarray
    bits: cp.ndarray
    node_of_row: cp.ndarray
    node_of_column: cp.ndarray

    @classmethod
    def of(cls, nodes: _Nodes) -> _Firsts:
        ends = [np.cumsum(sizes) for sizes in (nodes.n_rows, nodes.n_columns)]
        owners = [cp.searchsorted(cp.asarray(end), cp.arange(int(end[-1])), side="right") for end in ends]
        sizes = nodes.n_rows, nodes.n_columns, nodes.n_edges, nodes.n_bits
        return cls(*(cp.asarray(np.cumsum(size) - size) for size in sizes), *owners)


def _bits_of(ints: cp.ndarray, nodes: _Nodes) -> np.ndarray:
    """Return the matrices of nodes as bits, row after row, each from a whole byte on; (n,) uint8."""
    packed = [np.empty(0, np.uint8)]
    for some in _groups(nodes.n_bits, _AT_ONCE):
        group = nodes.some(np.arange(some.start, some.stop))
        firsts = _Firsts.of(group)
        n_rows, n_edges = int(group.n_rows.sum()), int(group.n_edges.sum())
        ends, members = cp.empty(n_rows, cp.int32), cp.empty(n_edges, cp.int32)
        copy_pieces(ints, group.row_offsets + 1, group.n_rows, ends, np.cumsum(group.n_rows) - group.n_rows)
        copy_pieces(ints, group.row_members, group.n_edges, members, np.cumsum(group.n_edges) - group.n_edges)
        row = cp.searchsorted(ends + firsts.edges[firsts.node_of_row], cp.arange(n_edges), side="right")
        node = firsts.node_of_row
        starts = firsts.bits[node] + (cp.arange(n_rows) - firsts.rows[node]) * cp.asarray(group.n_columns)[node]
        matrix = cp.zeros(int(group.n_bits.sum()), cp.uint8)
        matrix[starts[row] + members] = 1
        packed.append(cp.asnumpy(cp.packbits(matrix)))
    return np.concatenate(packed)


def _lists_of(ints: cp.ndarray, nodes: _Nodes) -> np.ndarray:
    """Return the ends and the members of the rows of each node."""
    starts = np.stack([nodes.row_offsets + 1, nodes.row_members]).T.reshape(-1)
    return _gathered(ints, starts, np.stack([nodes.n_rows, nodes.n_edges]).T.reshape(-1))


def _pairs_of_bits(bits: np.ndarray, nodes: _Nodes) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the row of each edge, among all of the group, and its column within the node."""
    firsts = _Firsts.of(nodes)
    place = cp.flatnonzero(cp.unpackbits(cp.asarray(bits)))
    node = cp.searchsorted(cp.asarray(np.cumsum(nodes.n_bits)), place, side="right")
    within, width = place - firsts.bits[node], cp.asarray(nodes.n_columns)[node]
    row = within // width
    if bool((row >= cp.asarray(nodes.n_rows)[node]).any()):
        raise damaged("bits")
    return firsts.rows[node] + row, within - row * width


def _pairs_of_lists(lists: np.ndarray, nodes: _Nodes) -> tuple[cp.ndarray, cp.ndarray]:
    """Return the row of each edge, among all of the group, and its column within the node."""
    firsts, given = _Firsts.of(nodes), cp.asarray(lists)
    begin = np.cumsum(nodes.n_list) - nodes.n_list
    ends, members = cp.empty(int(nodes.n_rows.sum()), cp.int32), cp.empty(int(nodes.n_edges.sum()), cp.int32)
    copy_pieces(given, begin, nodes.n_rows, ends, np.cumsum(nodes.n_rows) - nodes.n_rows)
    copy_pieces(given, begin + nodes.n_rows, nodes.n_edges, members, np.cumsum(nodes.n_edges) - nodes.n_edges)
    n_edges = cp.asarray(nodes.n_edges)[firsts.node_of_row]
    ascending = ends + firsts.edges[firsts.node_of_row]
    are_wrong = bool((ends < 0).any() | (ends > n_edges).any() | (cp.diff(ascending) < 0).any())
    row = cp.searchsorted(ascending, cp.arange(members.size), side="right")
    if are_wrong or bool((row >= ends.size).any()):
        raise damaged("lists")
    width = cp.asarray(nodes.n_columns)[firsts.node_of_row[row]]
    if bool((members < 0).any() | (members >= width).any()):
        raise damaged("lists")
    return row, members


def _write_lists(ints: cp.ndarray, nodes: _Nodes, row: cp.ndarray, column: cp.ndarray) -> None:
    """Write the lists of both directions from the edges, by ascending row; checked to be as many as the nodes say."""
    firsts = _Firsts.of(nodes)
    node = firsts.node_of_row[row]
    if not np.array_equal(cp.asnumpy(cp.bincount(node, minlength=nodes.n_rows.size)), nodes.n_edges):
        raise damaged("edges")
    key = firsts.columns[node] + column
    by_column = cp.argsort(key, kind="stable")
    if bool(((cp.diff(key[by_column]) == 0) & (cp.diff(row[by_column]) == 0)).any()):
        raise damaged("lists")
    first_edges = np.cumsum(nodes.n_edges) - nodes.n_edges
    row_within = (row - firsts.rows[node])[by_column]
    for owner, owners, sizes, offsets, places, members in (
        (row, firsts.node_of_row, nodes.n_rows, nodes.row_offsets, nodes.row_members, column),
        (key, firsts.node_of_column, nodes.n_columns, nodes.column_offsets, nodes.column_members, row_within),
    ):
        ends = cp.cumsum(cp.bincount(owner, minlength=owners.size)) - firsts.edges[owners]
        ints[cp.asarray(offsets)] = 0
        copy_pieces(ends.astype(cp.int32), np.cumsum(sizes) - sizes, sizes, ints, offsets + 1)
        copy_pieces(members.astype(cp.int32), first_edges, nodes.n_edges, ints, places)


def check(arrays: Arrays, facts: ReducedSizes, mode: int) -> None:
    """Check that arrays are work of this graph in this mode, as far as kernels rely on it.

    Raises
    ------
    InvalidArgument
        They are not; the message names the array.
    """
    check_arrays(arrays, _DTYPES, facts.n_rows, layout.NODE_FIELDS)
    _check_nodes(arrays, facts, mode)
    _check_tasks(arrays, facts, mode)


def _check_nodes(arrays: Arrays, facts: ReducedSizes, mode: int) -> None:
    fields, cursors = arrays["nodes"], arrays["cursors"]
    if len(fields) != cursors.size:
        raise damaged("nodes")
    most = {
        layout.NODE_COLUMNS: facts.max_row_degree,
        layout.NODE_ROWS: facts.n_rows,
        layout.NODE_EDGES: facts.n_edges,
        layout.NODE_PATH: facts.n_rows,
        layout.NODE_IDS: facts.n_columns * (mode >= layout.MEMBERS),
        layout.NODE_ROOT: facts.n_rows - 1,
        layout.NODE_RIGHT: facts.n_vertices,
    }
    are_right = all(are_below(fields[:, field], limit + 1) for field, limit in most.items())
    are_right = are_right and bool((fields[:, [layout.NODE_COLUMNS, layout.NODE_ROWS]] > 0).all())
    nodes = _Nodes.of(fields, np.zeros(len(fields), np.int64), mode)
    are_right = are_right and np.array_equal(nodes.path + nodes.n_path, fields[:, layout.NODE_SIZE])
    ends = fields[:, layout.NODE_END]
    are_right = are_right and bool(((ends > 0) & (ends <= nodes.n_rows) & (cursors >= 0) & (cursors <= ends)).all())
    if not are_right or not (fields == _only(fields, _KEPT_FIELDS)).all():
        raise damaged("nodes")
    if arrays["heads"].size != (nodes.n_head + nodes.n_path).sum():
        raise damaged("heads")
    if 8 * arrays["bits"].size != nodes.n_bits[nodes.are_bits].sum():
        raise damaged("bits")
    if arrays["lists"].size != nodes.n_list[~nodes.are_bits].sum():
        raise damaged("lists")
    first, n_ids = 0, fields[:, layout.NODE_IDS]
    for k in range(len(fields)):
        head, first = arrays["heads"][first : first + nodes.n_head[k]], int(first + nodes.n_head[k])
        path, first = arrays["heads"][first : first + nodes.n_path[k]], int(first + nodes.n_path[k])
        n_offsets = head.size - int(nodes.n_rows[k] + n_ids[k])
        offsets, ids, rows = np.split(head, [n_offsets, n_offsets + int(n_ids[k])])
        # If only sizes are written, they count the user's vertices, and each column has some.
        are_listed = not offsets.size or _are_offsets(offsets, int(n_ids[k] if mode >= layout.MEMBERS else offsets[-1]))
        if layout.COUNT < mode < layout.MEMBERS:
            are_listed = are_listed and bool((np.diff(offsets) > 0).all()) and int(offsets[-1]) <= facts.n_vertices
        if not (are_listed and are_below(ids, facts.n_columns) and are_below(rows, facts.n_rows)):
            raise damaged("heads")
        if not are_below(path, facts.n_rows):
            raise damaged("heads")


def _check_tasks(arrays: Arrays, facts: ReducedSizes, mode: int) -> None:
    fields, frames = arrays["tasks"], arrays["frames"]
    n = len(fields)
    if fields.shape != (n, len(TASK_FIELDS)) or frames.shape != (n, layout.MAX_DEPTH, layout.FRAME_FIELDS):
        raise damaged("tasks")
    for starts, content in (("word_starts", "words"), ("int_starts", "ints")):
        if arrays[starts].size != n + 1 or not _are_offsets(arrays[starts], arrays[content].size):
            raise damaged(starts)
    depths, nodes, rows, emitted, roots = fields.T
    n_rows = np.concatenate([[facts.n_rows], arrays["nodes"][:, layout.NODE_ROWS]])
    is_stack = nodes < 0
    are_right = are_below(depths + 1, layout.MAX_DEPTH + 1) and are_below(nodes + 1, n_rows.size + 1)
    are_right = are_right and bool(((depths >= 0) == is_stack).all()) and are_below(roots, facts.n_rows)
    are_right = are_right and bool((rows >= 0).all() and (rows < n_rows[np.maximum(nodes, 0)])[~is_stack].all())
    if not are_right or bool((emitted < 0).any() or (emitted >= 1 << 31).any()):
        raise damaged("tasks")
    if mode == layout.COUNT and arrays["ints"].size:
        raise damaged("ints")
    for k in np.flatnonzero(is_stack):
        words = arrays["words"][arrays["word_starts"][k] : arrays["word_starts"][k + 1]]
        ints = arrays["ints"][arrays["int_starts"][k] : arrays["int_starts"][k + 1]]
        if not _is_stack(frames[k, : depths[k] + 1].astype(np.int64), words, ints, facts, mode):
            raise damaged("frames")


def _is_stack(frames: np.ndarray, stack: np.ndarray, ints: np.ndarray, facts: ReducedSizes, mode: int) -> bool:
    """Return True if frames point into their own stack, get smaller, and its ids are vertices."""
    cursor, end, n_rows, n_excluded, words, words_top, superset, n_superset, ids, ints_top, _, kind = frames.T[:12]
    sizes = cursor, end - cursor, n_rows - end, n_excluded, words, superset, n_superset, ids
    is_right = all((each >= 0).all() for each in sizes) and are_below(kind, layout.BELOW + 1)
    is_right = is_right and bool((words + n_rows + n_excluded <= words_top).all() and (words_top <= stack.size).all())
    if not is_right or not _get_smaller(stack, words, n_rows):
        return False
    if mode == layout.COUNT:
        return not n_superset.any()
    are_apart = (superset + n_superset <= words) | (words + n_rows + n_excluded <= superset) | (n_superset == 0)
    if not are_apart.all() or bool((n_superset > facts.n_rows).any()):
        return False
    if ints.size < layout.HEADER_IDS or bool((superset + n_superset > words_top).any() or (ints_top > ints.size).any()):
        return False
    header, counts, others = np.split(ints, [layout.HEADER_MULTIPLICITIES, layout.HEADER_IDS])
    n_ids = int(header[-1]) if mode >= layout.MEMBERS else 0
    first = layout.HEADER_IDS + n_ids
    if not (
        _are_offsets(header, int(header[-1]))
        and header[-1] <= facts.n_vertices
        and 0 <= n_ids <= others.size
        and bool((counts >= 0).all())
    ):
        return False
    are_apart = bool((ids >= first).all() and (ids + n_superset <= ints_top).all())
    return are_apart and are_below(others[:n_ids], facts.n_columns) and are_below(others[n_ids:], facts.n_rows)


def _get_smaller(stack: np.ndarray, words: np.ndarray, n_rows: np.ndarray) -> bool:
    """Return True if the rows of each frame fit one vertex less than those above: no stack gets too deep."""
    n_bits = np.bitwise_count(stack.view(np.uint32))
    ends = zip(words.tolist(), (words + n_rows).tolist(), strict=True)
    most = (n_bits[first:end].max(initial=0) for first, end in ends)
    return all(int(n) <= layout.WORD_BITS - depth for depth, n in enumerate(most))


def _only(fields: np.ndarray, kept: Sequence[int]) -> np.ndarray:
    """Return the fields with zeros in place of those that are not kept."""
    others = np.zeros_like(fields)
    others[:, kept] = fields[:, kept]
    return others


def _are_offsets(offsets: np.ndarray, end: int) -> bool:
    return bool(offsets[0] == 0 and offsets[-1] == end and (np.diff(offsets) >= 0).all())
