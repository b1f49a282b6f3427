"""Saved work in the journal: whatever is lost or damaged, each result is in a file or still to be found, once."""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage.pipeline import PublishError
from mbe_stage.pipeline.execution.journal import Header, Journal, begun_journal, read_journal
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from mbe_stage.tasks import OpenWork, Roots, Task, positions
from tests.mbe_stage.processes import run_module
from tests.pipeline.resume_support import noted

N_ROOTS, N_BELOW = 12, 4
ROOTS = Roots("bicliques", N_ROOTS, 7)
HEADER = Header(problem="bicliques", source="", input="", question={}, asked={}, versions={})
on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


class MadeUpSearch:
    """A search with four results below each root; results are numbers.

    Attributes
    ----------
    ahead : list of int
        Roots that have not begun.
    open_results : list of int
        Results below the other roots that are not found yet.
    """

    def __init__(self, remaining: Any, dice: random.Random) -> None:
        self._dice = dice
        tasks = [Task(ROOTS, 0, N_ROOTS, 0.0)] if remaining is None else remaining
        ranges = [(each.first, each.end) for each in tasks if isinstance(each, Task)]
        works = [each.arrays for each in tasks if isinstance(each, OpenWork)]
        self.ahead = [*positions(ranges).tolist(), *(root for work in works for root in work["order"].tolist())]
        self.open_results = [result for work in works for result in work["nodes"].tolist()]

    @property
    def rest(self) -> list[int]:
        return self.open_results + [N_BELOW * root + k for root in self.ahead for k in range(N_BELOW)]

    def found(self, *, is_at_barrier: bool) -> list[int]:
        """Begin some roots and find some results below them; at a barrier, find all of them."""
        self._dice.shuffle(self.ahead)
        for _ in range(min(len(self.ahead), self._dice.randrange(4))):
            self.open_results += [N_BELOW * self.ahead[-1] + k for k in range(N_BELOW)]
            del self.ahead[-1]
        self._dice.shuffle(self.open_results)
        kept = 0 if is_at_barrier else self._dice.randrange(len(self.open_results) + 1)
        found, self.open_results = self.open_results[kept:], self.open_results[:kept]
        return found

    def marked(self, *, is_at_barrier: bool) -> list[Task | OpenWork]:
        """Return the remaining tasks at a barrier, or the work saved in the middle."""
        if is_at_barrier:
            return [Task(ROOTS, root, root + 1, 0.0) for root in sorted(self.ahead)]
        arrays = {"order": np.array(self.ahead, np.int64), "nodes": np.array(self.open_results, np.int64)}
        return [OpenWork(ROOTS, "made up", arrays)]


def results_in(journal: Journal) -> list[int]:
    return [result for path in journal.files for result in json.loads(path.read_text())]


def assert_nothing_is_lost(journal: Journal) -> None:
    """Assert that each result is in a file or still to be found, once."""
    every = results_in(journal) + MadeUpSearch(journal.remaining(), random.Random()).rest
    assert Counter(every) == Counter(range(N_ROOTS * N_BELOW))
    assert journal.n_found == len(results_in(journal))


def damage(staging_dir: Path, dice: random.Random) -> None:
    """Remove or change a file of the run, or a line of its journal."""
    path = staging_dir / JOURNAL_NAME
    _, records = read_journal(staging_dir)
    kind = dice.choice(("line", "torn", "file", "saved", "changed"))
    if kind == "line":
        lines = path.read_bytes().splitlines(keepends=True)
        del lines[dice.randrange(1, len(lines))]
        path.write_bytes(b"".join(lines))
    elif kind == "torn":
        path.write_bytes(path.read_bytes()[: -dice.randrange(2, 60)])
    else:
        files = [staging_dir / entry.path for record in records for entry in record.files]
        chosen = list((staging_dir / "saved").glob("*")) if kind == "saved" else files
        for each in chosen[:: dice.randrange(1, 4)][:2]:
            each.write_bytes(each.read_bytes() + b" ") if kind == "changed" else each.unlink()


def history(directory: Path, dice: random.Random) -> None:
    """Simulate a run of several processes, each ended at some time, with damage between some of them."""
    staging_dir = directory / "run"
    run_path = staging_dir / "run"
    run_path.mkdir(parents=True)
    journal = begun_journal(staging_dir, HEADER)
    search, is_whole, number = MadeUpSearch(journal.remaining(), dice), dice.random() < 0.3, 0
    while search.rest:
        is_at_barrier = dice.random() < 0.2
        found = search.found(is_at_barrier=is_at_barrier)
        if not search.rest:
            return
        number += 1
        path = run_path / "bicliques" / f"part-{number:05d}.json"
        path.parent.mkdir(exist_ok=True)
        n_found = len(found)
        if is_whole:
            found += results_in(journal)
            n_found = len(found)
        path.write_text(json.dumps(found))
        remaining = search.marked(is_at_barrier=is_at_barrier)
        if remaining:
            journal.add(remaining, 0.5, [path], n_found, is_whole=is_whole)
            saved = sorted(staging_dir.glob("saved/*"))
            assert len(saved) == (journal.records[-1].saved is not None)
            assert_nothing_is_lost(journal)
        if dice.random() < 0.3:
            if dice.random() < 0.5:
                damage(staging_dir, dice)
            journal = begun_journal(staging_dir, HEADER)
            assert_nothing_is_lost(journal)
            search = MadeUpSearch(journal.remaining(), dice)


def test_no_result_is_lost_or_duplicated(tmp_path, monkeypatch) -> None:
    # Power does not fail here, so skip fsync.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for seed in range(25):
        with noted(seed, seed):
            history(tmp_path / str(seed), random.Random(seed))


def test_a_journal_of_an_earlier_version_is_refused(tmp_path) -> None:
    staging_dir = tmp_path / "run"
    (staging_dir / "run").mkdir(parents=True)
    journal = Journal(staging_dir, HEADER.model_copy(update={"version": 1}))
    journal.write()
    with pytest.raises(PublishError, match="expected version 4; remove it with mbe clean"):
        begun_journal(staging_dir, HEADER)


def assert_each_round_is_right(directory: Path, n_rounds: int) -> None:
    cases = [
        json.loads(line)
        for line in run_module("tests.pipeline.emulated_saved", str(directory), str(n_rounds)).splitlines()
    ]
    rounds = [case for case in cases if "found" in case]
    assert len(rounds) == n_rounds
    assert all(case["same"] and case["ended"] for case in rounds), rounds
    said = {case["case"]: case["said"] for case in cases if "said" in case}
    assert "resume with the engine that saved it" in said["cpu"]
    assert "the saved work of a search is damaged (array 'int_starts')" in said["changed"]


@on_the_emulator
def test_a_giant_root_is_resumed_in_the_middle(tmp_path) -> None:
    assert_each_round_is_right(tmp_path, 1)


@pytest.mark.slow
@on_the_emulator
def test_runs_ended_at_random_moments_find_each_biclique_once(tmp_path) -> None:
    assert_each_round_is_right(tmp_path, 100)
