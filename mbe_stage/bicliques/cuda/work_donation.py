"""Idle warps wait for work, and busy ones donate children of their bitset frames to them.

An idle warp has its bit in `idle_mask` set; whoever clears the bit (an atomic and) owns the warp's arena until it says
so in the mailbox. All shared words are read past the caches; fences stand between data and the word that announces it.

Donors and receivers are those of MCE (Almasri et al., III-C), whose list of idle blocks is a bit mask here, and whose
donors are all busy blocks where ours are chosen at random. cuMBE 5.3 lets the idle side look for work instead.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.warp import ALL, ballot, first_bit, global_nanoseconds, load_fresh, next_one, next_tile

_U = np.uint32
_NAP_NS = 400
# Donated children and rows after them: each such pair is a row to restrict. Fewer are not worth handing over.
_MIN_PAIRS = 4
# What waiting answers.
MORE, TASK, EXIT = 1, 2, 3


@cuda.jit(device=True, forceinline=True)
def wait_for_work(warp, warps, launch):
    """Be idle: until a task is put into this warp's arena (2), a subgraph has children (1), or all is over (3)."""
    lane = cuda.laneid
    control = launch.control
    word = warp >> 5
    bit = np.uint32(1) << np.uint32(warp & 31)
    answer = 0
    if lane == 0:
        cuda.atomic.exch(warps.mailbox, warp, 0)
        cuda.threadfence()
        # Counted before it can be claimed: below 0 the count would swallow the stop bit.
        cuda.atomic.add(control, at.SIGNAL, 1)
        cuda.threadfence()
        cuda.atomic.or_(warps.idle_mask, word, bit)
        cuda.atomic.add(control, at.N_BUSY, -1)
        naps = 0
        while answer == 0:
            if load_fresh(warps.mailbox, warp) == 1:
                answer = TASK
                break
            cuda.nanosleep(_NAP_NS)
            naps += 1
            if naps % 4 != 0:
                continue
            over = load_fresh(control, at.N_BUSY) == 0
            stopping = load_fresh(control, at.SIGNAL) >= at.STOP_BIT
            if over or stopping or load_fresh(control, at.N_OPEN) > 0:
                if cuda.atomic.and_(warps.idle_mask, word, ~bit) & bit != 0:
                    cuda.atomic.add(control, at.SIGNAL, -1)
                    answer = EXIT
                    if not over and not stopping:
                        cuda.atomic.add(control, at.N_BUSY, 1)
                        answer = MORE
                else:
                    # Somebody is just putting a task here.
                    while load_fresh(warps.mailbox, warp) != 1:
                        cuda.nanosleep(_NAP_NS)
                    answer = TASK
            elif global_nanoseconds() > launch.deadline:
                cuda.atomic.or_(control, at.STATUS, at.TIME_OVER)
                cuda.atomic.or_(control, at.SIGNAL, at.STOP_BIT)
    answer = cuda.shfl_sync(ALL, answer, 0)
    cuda.threadfence()
    cuda.syncwarp()
    return answer


@cuda.jit(device=True, forceinline=True)
def is_donor(warp, n_visits, n_idle, warps):
    """Whether this warp is to look for an idle one at this visit: of all busy ones, about four for each that is idle.

    If all of them looked, most would not find one, and wait for each other's atomics meanwhile.
    """
    mixed = _U(_U(_U(warp) * _U(0x9E3779B1)) + _U(_U(n_visits) * _U(0x85EBCA6B)))
    return np.int32(mixed >> _U(18)) * np.int32(warps.idle_mask.size << 5) < n_idle << 16


@cuda.jit(device=True, forceinline=True)
def _claim_idle(warp, warps, control):
    """An idle warp that is this warp's now, or -1.

    It looks at 1,024: where few warps are busy, some of those are idle, and where many are, others look at the rest.
    """
    lane = cuda.laneid
    n_words = warps.idle_mask.size
    word = np.int32(np.uint32((warp >> 5) * 7 + lane) % np.uint32(n_words))
    mask = np.uint32(0)
    if lane < n_words:
        mask = np.uint32(load_fresh(warps.idle_mask, word))
    holders = ballot(mask != 0)
    while holders != 0:
        source = first_bit(holders)
        holders &= holders - np.uint32(1)
        claimed = -1
        if lane == source:
            bit = np.uint32(mask & (~mask + np.uint32(1)))
            if cuda.atomic.and_(warps.idle_mask, word, ~bit) & bit != 0:
                cuda.atomic.add(control, at.SIGNAL, -1)
                cuda.atomic.add(control, at.N_BUSY, 1)
                claimed = word * 32 + first_bit(bit)
        claimed = cuda.shfl_sync(ALL, claimed, source)
        if claimed >= 0:
            return claimed
    return np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def donate_work(warp, depth, own, warps, launch):
    """Give half of the children still ahead in the shallowest frame that has enough of them to an idle warp.

    The deepest frame's cursor must be in memory. Its owner keeps at least one child, so that it is never left idle.
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
        warps.state[receiver, at.DEPTH] = 0
        warps.state[receiver, at.EMITTED] = 0
        warps.state[receiver, at.ROOT] = own.state[at.ROOT]
        frame[at.END] = frame[at.END] - donated
        own.state[at.N_DONATED] += 1
    # Every lane's writes must be out before the mailbox says so.
    cuda.threadfence()
    cuda.syncwarp()
    if cuda.laneid == 0:
        cuda.atomic.exch(warps.mailbox, receiver, 1)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _frame_to_share(depth, own):
    """The shallowest frame that has enough children ahead, and how many of them are to be donated, 0 for none."""
    frames = own.frames
    donated = np.int32(0)
    source = np.int32(0)
    while source <= depth:
        ahead = np.int32(frames[_U(source)][at.END] - frames[_U(source)][at.CURSOR])
        donated = np.int32(ahead >> 1 if source == depth else ahead - (ahead >> 1))
        later = np.int32(frames[_U(source)][at.N_ROWS] - frames[_U(source)][at.END])
        if donated * later + (donated * (donated - 1) >> 1) >= _MIN_PAIRS:
            break
        donated = np.int32(0)
        source = next_one(source)
    return source, donated


@cuda.jit(device=True, forceinline=True)
def _copy_frame(frame, receiver, donated, own, warps, mode):
    """Copy a frame with its last `donated` children into the receiver's arenas.

    Parameters
    ----------
    frame : (FRAME_FIELDS,) int32, global
        The donor's.
    receiver : int32
        A warp that is the donor's: nobody else writes its memory.
    own : Own
        The donor's.
    """
    lane = np.int32(cuda.laneid)
    target = warps.frames[receiver, 0]
    words_to, ints_to = warps.words[receiver], warps.ints[receiver]
    n_rows_and_excluded = np.int32(frame[at.N_ROWS] + frame[at.N_EXCLUDED])
    n_superset = frame[at.N_SUPERSET]
    n_header = np.int32(0)
    k = lane
    while k < n_rows_and_excluded:
        words_to[_U(k)] = own.words[_U(frame[at.WORDS] + k)]
        k = next_tile(k)
    if mode > at.COUNTS:
        n_header = np.int32(at.HEADER_IDS + own.ints[at.WORD_BITS])
        k = lane
        while k < n_header:
            ints_to[_U(k)] = own.ints[_U(k)]
            k = next_tile(k)
        k = lane
        while k < n_superset:
            words_to[_U(n_rows_and_excluded + k)] = own.words[_U(frame[at.SUPERSET] + k)]
            ints_to[_U(n_header + k)] = own.ints[_U(frame[at.SUPERSET_IDS] + k)]
            k = next_tile(k)
    if lane == 0:
        end = frame[at.END]
        target[at.CURSOR] = end - donated
        target[at.END] = end
        target[at.N_ROWS] = frame[at.N_ROWS]
        target[at.N_EXCLUDED] = frame[at.N_EXCLUDED]
        target[at.SINGLES] = frame[at.SINGLES]
        target[at.KIND] = at.BELOW
        target[at.WORDS] = 0
        target[at.SUPERSET] = n_rows_and_excluded
        target[at.N_SUPERSET] = n_superset
        target[at.WORDS_TOP] = n_rows_and_excluded + n_superset
        target[at.SUPERSET_IDS] = n_header
        target[at.INTS_TOP] = n_header + n_superset
