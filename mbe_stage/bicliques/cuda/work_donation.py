"""Share work between warps: take children of open subgraphs, donate children of frames, end a quantum.

Any warp takes the next child of any open subgraph. This is the load-aware splitting of GMBE (idea 3 of its slides) and
GMBE+ IV-C 1, which enqueue the children of nodes above two thresholds.

An idle warp sets its bit in `idle_mask`. The warp that clears the bit (an atomic and) owns the idle one's arena until
it writes to the mailbox. One lane reads shared words for all, past the caches; fences stand between data and the word
that announces it. Donors and receivers are those of MCE (Almasri et al., III-C). Its list of idle blocks is a bit mask
here; its donors are all busy blocks, ours are chosen at random. In cuMBE 5.3 the idle side looks for work instead.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_children import set_frame
from mbe_stage.bicliques.cuda.walk_bundles import Superset
from mbe_stage.device.intrinsics import global_nanoseconds, load_fresh
from mbe_stage.device.warp import ALL, ballot, first_bit, lowest_bit, max_all, next_one, next_tile

_U = np.uint32
_NAP_NS = 400
# Pairs of a donated child and a later row, each a row to restrict. Fewer are not worth a donation.
_MIN_PAIRS = 4
# Results of waiting.
MORE, TASK, EXIT = 1, 2, 3
_FEW_OPEN = 1024
_LARGEST = 1 << 30
NO_NODE = -1


@cuda.jit(device=True, forceinline=True)
def read_shared(values, index):
    """Read a word that other warps change, once for all lanes: lanes must never branch differently on it."""
    value = 0
    if cuda.laneid == 0:
        value = load_fresh(values, index)
    return cuda.shfl_sync(ALL, value, 0)


@cuda.jit(device=True, forceinline=True)
def ask_to_stop(control, reason):
    """End the quantum: all warps stop before their next child."""
    if cuda.laneid == 0:
        cuda.atomic.or_(control, layout.STATUS, reason)
        cuda.atomic.or_(control, layout.SIGNAL, layout.STOP_BIT)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def ask_for_words(needed, words, launch):
    """True if a warp's arenas have this many entries. If not, the quantum ends and the host enlarges them."""
    if needed <= words.size:
        return True
    if cuda.laneid == 0:
        cuda.atomic.max(launch.control_64, layout.NEEDED_WORDS, needed)
    ask_to_stop(launch.control, layout.WORDS_SHORT)
    return False


@cuda.jit(device=True, forceinline=True)
def end_overdue_quantum(launch):
    """End the quantum when its time is over."""
    if cuda.any_sync(ALL, global_nanoseconds() > launch.deadline):
        ask_to_stop(launch.control, layout.TIME_OVER)


@cuda.jit(device=True, forceinline=True)
def wait_for_work(warp, warps, launch):
    """Wait until this warp gets a task (2), a subgraph has children (1), or all work is done (3)."""
    lane = cuda.laneid
    control = launch.control
    word = warp >> 5
    bit = np.uint32(1) << np.uint32(warp & 31)
    answer = 0
    if lane == 0:
        cuda.atomic.exch(warps.mailbox, warp, 0)
        cuda.threadfence()
        # Counted before it can be claimed: below 0 the count would swallow the stop bit.
        cuda.atomic.add(control, layout.SIGNAL, 1)
        cuda.threadfence()
        cuda.atomic.or_(warps.idle_mask, word, bit)
        cuda.atomic.add(control, layout.N_BUSY, -1)
        naps = 0
        while answer == 0:
            if load_fresh(warps.mailbox, warp) == 1:
                answer = TASK
                break
            cuda.nanosleep(_NAP_NS)
            naps += 1
            if naps % 4 != 0:
                continue
            over = load_fresh(control, layout.N_BUSY) == 0
            stopping = load_fresh(control, layout.SIGNAL) >= layout.STOP_BIT
            if over or stopping or load_fresh(control, layout.N_OPEN) > 0:
                if cuda.atomic.and_(warps.idle_mask, word, ~bit) & bit != 0:
                    cuda.atomic.add(control, layout.SIGNAL, -1)
                    answer = EXIT
                    if not over and not stopping:
                        cuda.atomic.add(control, layout.N_BUSY, 1)
                        answer = MORE
                else:
                    # A donor is writing a task here.
                    while load_fresh(warps.mailbox, warp) != 1:
                        cuda.nanosleep(_NAP_NS)
                    answer = TASK
            elif global_nanoseconds() > launch.deadline:
                cuda.atomic.or_(control, layout.STATUS, layout.TIME_OVER)
                cuda.atomic.or_(control, layout.SIGNAL, layout.STOP_BIT)
    answer = cuda.shfl_sync(ALL, answer, 0)
    cuda.threadfence()
    cuda.syncwarp()
    return answer


@cuda.jit(device=True, forceinline=True)
def is_donor(warp, n_visits, n_idle, warps):
    """True if this warp looks for an idle one at this visit: about four busy warps for each idle one.

    If all looked, most would find none, and wait for each other's atomics.
    """
    mixed = _U(_U(_U(warp) * _U(0x9E3779B1)) + _U(_U(n_visits) * _U(0x85EBCA6B)))
    return np.int32(mixed >> _U(18)) * np.int32(warps.idle_mask.size << 5) < n_idle << 16


@cuda.jit(device=True, forceinline=True)
def _claim_idle(warp, warps, control):
    """Claim an idle warp; -1 if none is found.

    It looks at 1,024 warps. If few warps are busy, some of these are idle; if many are, others look at the rest.
    """
    lane = cuda.laneid
    n_words = warps.idle_mask.size
    word = np.int32(np.uint32((warp >> 5) * 7 + lane) % np.uint32(n_words))
    mask = np.uint32(0)
    if lane < n_words:
        mask = np.uint32(load_fresh(warps.idle_mask, word))
    holders = ballot(mask != 0)
    while holders != 0:
        source, holders = lowest_bit(holders)
        claimed = -1
        if lane == source:
            bit = np.uint32(mask & (~mask + np.uint32(1)))
            if cuda.atomic.and_(warps.idle_mask, word, ~bit) & bit != 0:
                cuda.atomic.add(control, layout.SIGNAL, -1)
                cuda.atomic.add(control, layout.N_BUSY, 1)
                claimed = word * 32 + first_bit(bit)
        claimed = cuda.shfl_sync(ALL, claimed, source)
        if claimed >= 0:
            return claimed
    return np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def donate_work(warp, depth, own, warps, launch):
    """Give an idle warp half of the remaining children of the shallowest frame that has enough.

    The deepest frame's cursor must be in memory. Its owner keeps at least one child, so it is never idle.
    """
    source, donated = _frame_to_share(depth, own)
    if donated <= 0:
        return
    receiver = _claim_idle(warp, warps, launch.control)
    if receiver < 0:
        return
    frame = own.frames[_U(source)]
    _copy_frame(frame, receiver, donated, own, warps, launch.mode)
    if cuda.laneid == 0:
        warps.state[receiver, layout.DEPTH] = 0
        warps.state[receiver, layout.EMITTED] = 0
        warps.state[receiver, layout.ROOT] = own.state[layout.ROOT]
        frame[layout.END] = frame[layout.END] - donated
        own.state[layout.N_DONATED] += 1
    # Every lane's writes must be out before the mailbox says so.
    cuda.threadfence()
    cuda.syncwarp()
    if cuda.laneid == 0:
        cuda.atomic.exch(warps.mailbox, receiver, 1)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _frame_to_share(depth, own):
    """The shallowest frame with enough remaining children, and the number to donate; 0 for none."""
    frames = own.frames
    donated = np.int32(0)
    source = np.int32(0)
    while source <= depth:
        ahead = np.int32(frames[_U(source)][layout.END] - frames[_U(source)][layout.CURSOR])
        donated = np.int32(ahead >> 1 if source == depth else ahead - (ahead >> 1))
        later = np.int32(frames[_U(source)][layout.N_ROWS] - frames[_U(source)][layout.END])
        if donated * later + (donated * (donated - 1) >> 1) >= _MIN_PAIRS:
            break
        donated = np.int32(0)
        source = next_one(source)
    return source, donated


@cuda.jit(device=True, forceinline=True)
def _copy_frame(frame, receiver, donated, own, warps, mode):
    """Copy a frame of this warp, with its last `donated` children, into the arenas of the receiver.

    This warp has claimed the receiver: no other warp writes its memory.
    """
    target = warps.frames[receiver, 0]
    words_to, ints_to = warps.words[receiver], warps.ints[receiver]
    n_rows_and_excluded = np.int32(frame[layout.N_ROWS] + frame[layout.N_EXCLUDED])
    n_superset = frame[layout.N_SUPERSET]
    n_header = np.int32(0)
    _copy(own.words, frame[layout.WORDS], n_rows_and_excluded, words_to, 0)
    if mode > layout.COUNT:
        n_header = np.int32(layout.HEADER_IDS + (own.ints[layout.WORD_BITS] if mode >= layout.MEMBERS else 0))
        _copy(own.ints, 0, n_header, ints_to, 0)
        _copy(own.words, frame[layout.SUPERSET], n_superset, words_to, n_rows_and_excluded)
        _copy(own.ints, frame[layout.SUPERSET_IDS], n_superset, ints_to, n_header)
    if cuda.laneid == 0:
        end, n_rows, n_excluded = frame[layout.END], frame[layout.N_ROWS], frame[layout.N_EXCLUDED]
        superset, words_top = Superset(n_rows_and_excluded, n_superset, n_header), n_rows_and_excluded + n_superset
        set_frame(target, layout.BELOW, end, n_rows, n_excluded, frame[layout.SINGLES], 0, words_top, superset)
        target[layout.CURSOR] = end - donated


@cuda.jit(device=True, forceinline=True)
def _copy(source, first, n, target, to):
    """Copy `n` entries of an arena, from `first` on, to ``target[to:]``."""
    k = np.int32(cuda.laneid)
    while k < n:
        target[_U(to + k)] = source[_U(first + k)]
        k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def take_child(node, is_own, pool, control):
    """Take the next child of a subgraph, or -1; the same for all lanes.

    A node of this warp's own needs no check and no fence: its cursor passes the end once for each warp that finds it
    exhausted, and the warp has written the data itself.
    """
    child = np.int32(0)
    if cuda.laneid == 0:
        child = np.int32(-1)
        end = load_fresh(pool.nodes[node], layout.NODE_END)
        if is_own or load_fresh(pool.cursors, node) < end:
            taken = cuda.atomic.add(pool.cursors, node, 1)
            if taken < end:
                child = taken
                if taken + 1 == end:
                    cuda.atomic.add(control, layout.N_OPEN, -1)
    child = cuda.shfl_sync(ALL, child, 0)
    if not is_own and node != 0:
        # The node's data was written before END: nothing read from here on may be older. The whole graph is older than
        # the launch; the fence empties the multiprocessor's cache, and most children of a small graph are roots.
        cuda.threadfence()
    return child


@cuda.jit(device=True, forceinline=True)
def find_open_node(pool, control, any_owner, mode):
    """Find a node with open children, or -1; without `any_owner` only one that no warp keeps for itself.

    The oldest node is high in the tree, and warps that work on the same node find it in the caches. But if few are
    open, long work must not be left to the end. Then it is the largest of any 32 consecutive nodes, the same for all
    warps at the time. This does not pay if bicliques are written: those of large nodes would be neighbours in the
    output, and one warp would have to expand all the long lists.
    """
    lane = cuda.laneid
    n_open = read_shared(control, layout.N_OPEN)
    if n_open <= 0:
        return np.int32(NO_NODE)
    low = np.int32(read_shared(control, layout.LOW_NODE))
    n_nodes = np.int32(min(read_shared(control, layout.N_NODES), pool.cursors.size))
    is_any = mode < layout.SIZES and any_owner and n_open < _FEW_OPEN
    tile = np.int32(low + _anywhere(n_open, n_nodes, np.int32(n_nodes - low)) if is_any else low)
    while tile < n_nodes:
        node = np.int32(tile + lane)
        size = np.int32(0)
        is_over = False
        if node < n_nodes:
            end = load_fresh(pool.nodes[node], layout.NODE_END)
            is_open = load_fresh(pool.cursors, node) < end
            # A node that is still being written has no end yet.
            is_over = end > 0 and not is_open and any_owner
            if is_open and (any_owner or pool.nodes[node, layout.NODE_IS_OWNED] == 0):
                size = np.int32(min(pool.nodes[node, layout.NODE_SIZE], _LARGEST) if is_any else 1)
        largest = max_all(size)
        if largest > 0:
            return np.int32(tile + first_bit(ballot(size == largest)))
        if tile == low and cuda.all_sync(ALL, is_over):
            low = np.int32(tile + 32)
            if lane == 0:
                cuda.atomic.max(control, layout.LOW_NODE, low)
        tile = np.int32(low if is_any else next_tile(tile))
        is_any = False
    return np.int32(NO_NODE)


@cuda.jit(device=True, forceinline=True)
def _anywhere(n_open, n_nodes, n):
    """Return a number below `n` that changes with each of the other two."""
    mixed = _U(_U(_U(n_nodes) + _U(_U(n_open) * _U(0x85EBCA6B))) * _U(0x9E3779B1))
    return np.int32(np.uint64(np.uint64(mixed) * np.uint64(_U(n))) >> np.uint64(32))
