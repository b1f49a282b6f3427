"""The ledger of leases: every root is finished once, with lost, late and partly finished leases."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from mbe_stage.errors import ClusterLost
from mbe_stage.runners.leases import Lease, Ledger, within
from mbe_stage.tasks import Roots, Task, cut

ROOTS = Roots("bicliques", 200, 7)


def pieces(n: int, seed: int = 0) -> list[Task]:
    return cut(ROOTS, np.random.default_rng(seed).random(ROOTS.n) ** 4, n)


def part_done(lease: Lease, dice: random.Random) -> tuple[list[int], list[Task]]:
    """Return the roots that a worker has finished, and the ranges that it returns."""
    done: list[int] = []
    left: list[Task] = []
    for task in lease.tasks:
        at = dice.choice([task.first, task.end, dice.randint(task.first, task.end)])
        done += range(at, task.end)
        if at > task.first:
            left.append(Task(ROOTS, task.first, at, 0.0))
    return done, left


@pytest.mark.parametrize("seed", range(200))
def test_every_root_is_finished_once_whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    ledger = Ledger(pieces(dice.randint(1, 60), seed))
    workers = [f"w{k}" for k in range(dice.randint(1, 5))]
    finished: Counter[int] = Counter()
    late: list[Lease] = []
    now, n_shares = 0.0, 0.0
    n_lost = 0
    while not ledger.is_over:
        now += 1.0
        worker = dice.choice(workers)
        mine = [lease for lease in ledger.leases if lease.worker == worker]
        event = dice.random()
        if mine and event < 0.05 and n_lost < 2:
            # Two at most: further losses with the same roots would blame the roots.
            n_lost += 1
            late += ledger.lose(worker)
        elif mine and event < 0.9:
            done, left = part_done(mine[0], dice)
            assert ledger.accept(mine[0].number, left)
            finished.update(done)
        elif not mine:
            lease = ledger.lend(worker, len(workers), now) or ledger.lend_again(worker, now - 5.0, now)
            assert lease is None or lease.worker == worker
        # A lease given up as lost arrives late and does not count.
        if late and dice.random() < 0.5:
            assert not ledger.accept(late.pop().number, [])
        left_over = {root for task in ledger.remaining() for root in range(task.first, task.end)}
        assert left_over == set(range(ROOTS.n)) - set(finished)
        assert ledger.work_done >= n_shares - 1e-9
        n_shares = ledger.work_done
    assert set(finished.values()) == {1}
    assert len(finished) == ROOTS.n
    assert ledger.work_done == pytest.approx(1.0)
    assert ledger.remaining() == ()


def test_the_largest_roots_come_first_in_shrinking_leases() -> None:
    ledger = Ledger(pieces(64))
    costs, ends = [], [ROOTS.n]
    while (lease := ledger.lend(f"w{len(costs)}", 2, 0.0)) is not None:
        costs.append(sum(task.cost for task in lease.tasks))
        assert lease.tasks[-1].end == ends[-1]
        ends.append(lease.tasks[0].first)
    assert ends[-1] == 0
    assert costs[0] == pytest.approx(sum(costs) / 4, rel=0.5)
    assert costs[-1] < costs[0] / 2


def test_all_idle_workers_get_some_of_the_last_roots() -> None:
    ledger = Ledger([Task(ROOTS, first, first + 1, 1.0) for first in range(ROOTS.n)])
    first = ledger.lend("a", 2, 0.0)
    assert first is not None
    left = [Task(ROOTS, task.first, task.end, task.cost) for task in first.tasks[:4]]
    while (lease := ledger.lend("b", 2, 0.0)) is not None:
        assert ledger.accept(lease.number, [])
    # Less than the smallest lease is returned while another worker is idle.
    assert ledger.accept(first.number, left)
    shares = [ledger.lend(worker, 2, 1.0, n_idle) for worker, n_idle in (("a", 2), ("b", 1))]
    assert [len(lease.tasks) for lease in shares if lease is not None] == [2, 2]
    assert not ledger.has_open


def test_two_workers_with_the_same_roots_count_once() -> None:
    ledger = Ledger(pieces(1))
    first = ledger.lend("slow", 2, 0.0)
    assert first is not None
    assert ledger.lend("quick", 2, 1.0) is None
    assert ledger.lend_again("quick", -1.0, 1.0) is None
    assert ledger.lend_again("slow", 5.0, 10.0) is None
    second = ledger.lend_again("quick", 5.0, 10.0)
    assert second is not None
    assert second.tasks == first.tasks
    assert ledger.lend_again("third", 5.0, 20.0) is None
    assert ledger.accept(second.number, [])
    assert not ledger.accept(first.number, [])
    assert ledger.is_over


def test_roots_also_lent_to_another_worker_stay_with_it() -> None:
    ledger = Ledger(pieces(1))
    first = ledger.lend("slow", 2, 0.0)
    second = ledger.lend_again("quick", 5.0, 10.0)
    assert first is not None
    assert second is not None
    assert [lease.number for lease in ledger.lose("slow")] == [first.number]
    assert not ledger.has_open
    assert ledger.accept(second.number, [])
    assert ledger.is_over


def test_roots_of_lost_workers_are_lent_alone_until_they_are_blamed() -> None:
    ledger = Ledger(pieces(8))
    lease = ledger.lend("a", 1, 0.0)
    assert lease is not None
    assert len(lease.tasks) > 1
    ledger.lose("a")
    for worker in ("b", "c"):
        lease = ledger.lend(worker, 1, 0.0)
        assert lease is not None
        assert len(lease.tasks) == 1
        if worker == "b":
            ledger.lose(worker)
    with pytest.raises(ClusterLost, match=r"given to 3 workers, .* what it had found, c the last; expected"):
        ledger.lose("c")


def test_a_returned_lease_can_be_lent_again() -> None:
    ledger = Ledger(pieces(1))
    lease = ledger.lend("a", 1, 0.0)
    assert lease is not None
    ledger.give_back(lease.number)
    ledger.give_back(lease.number)
    assert ledger.has_open
    again = ledger.lend("a", 1, 0.0)
    assert again is not None
    assert again.tasks == lease.tasks


def test_no_tasks_are_finished_at_once() -> None:
    assert Ledger([]).is_over
    assert Ledger([]).remaining() == ()


def test_parts_of_a_task() -> None:
    task = Task(ROOTS, 10, 20, 5.0)
    others = [Task(ROOTS, 0, 12, 1.0), Task(ROOTS, 15, 16, 1.0), Task(ROOTS, 20, 30, 1.0)]
    assert [(part.first, part.end, part.cost) for part in within(task, others)] == [(10, 12, 1.0), (15, 16, 0.5)]
