"""Saved results are damaged before resuming: the damage is found, and only the lost results are searched again."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import PublishError, RunStore, run
from mbe_stage.pipeline.execution.journal import Record, read_journal
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    IN_ROUNDS,
    SORTED_TOO,
    assert_as_undisturbed,
    config_for,
    edges,
    ended_after,
    in_rounds,
    is_sorted,
    output_of_run,
    undisturbed,
    whatever_they_cost,
)

__all__ = ["edges", "undisturbed", "whatever_they_cost"]

LEAST_RECORDS, MOST_RECORDS, MOST_FILES = 2, 8, 3


def flipped(content: bytes, dice: random.Random) -> bytes:
    """Flip a bit of a random byte, but not the bit that changes the case of a letter in a checksum."""
    place = dice.randrange(len(content))
    return b"%b%c%b" % (content[:place], content[place] ^ 1 << dice.randrange(5), content[place + 1 :])


def cut_short(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def removed(_content: bytes, _dice: random.Random) -> None:
    """Remove everything."""


HARMS: list[Callable[[bytes, random.Random], bytes | None]] = [flipped, cut_short, removed]


def harm_files(staging_dir: Path, records: list[Record], n: int, dice: random.Random) -> set[int]:
    """Damage `n` files in random ways; return the numbers of their records."""
    files = [(number, staging_dir / entry.path) for number, record in enumerate(records) for entry in record.files]
    chosen = dice.sample(files, min(n, len(files)))
    for _, path in chosen:
        content = dice.choice(HARMS)(path.read_bytes(), dice)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    return {number for number, _ in chosen}


def harm_a_line(staging_dir: Path, dice: random.Random) -> set[int]:
    """Damage a line of the journal other than the first; return the number of the lost record."""
    journal = staging_dir / JOURNAL_NAME
    header, *lines = journal.read_bytes().splitlines(keepends=True)
    number = dice.randrange(len(lines))
    # Keep the end of the line, or the next line would be damaged too.
    content = dice.choice(HARMS)(lines[number].removesuffix(b"\n"), dice)
    lines[number] = b"" if content is None else content + b"\n"
    journal.write_bytes(b"".join([header, *lines]))
    return {number}


def tear_the_journal(staging_dir: Path, dice: random.Random) -> set[int]:
    """Cut the journal at a random byte after its first line; return the numbers of the lost records."""
    journal = staging_dir / JOURNAL_NAME
    header, *lines = journal.read_bytes().splitlines(keepends=True)
    ends = [len(b"".join([header, *lines[: number + 1]])) for number in range(len(lines))]
    cut = dice.randrange(len(header), ends[-1] - 1)
    journal.write_bytes(journal.read_bytes()[:cut])
    # A line that lacks only its end is intact.
    return {number for number, end in enumerate(ends) if cut < end - 1}


def nothing_lost(_staging_dir: Path, _dice: random.Random) -> set[int]:
    return set()


def damage_and_resume(out: Path, edges: Path, undisturbed: Path, dice: random.Random, caplog: Any) -> None:
    """One round: damage up to three files, a line of the journal, or its end."""
    config = config_for(out, edges, output=output_of_run(undisturbed))
    staging_dir = ended_after(dice.randint(LEAST_RECORDS, MOST_RECORDS), config)
    _, records = read_journal(staging_dir)
    harm_journal = dice.choice([nothing_lost, nothing_lost, harm_a_line, tear_the_journal])
    damaged = harm_files(staging_dir, records, dice.randint(harm_journal is nothing_lost, MOST_FILES), dice)
    lost = harm_journal(staging_dir, dice)
    whole = [record for number, record in enumerate(records) if number not in damaged | lost]
    caplog.clear()
    result = run(config, resume=True)
    assert sum("are searched again" in text for text in caplog.messages) == len(damaged - lost)
    # Intact results are not searched again (they would come twice); the others are (they would be missing).
    n_kept = sum(record.n_found for record in whole)
    told = [text for text in result.manifest.warnings if f"and resumed: {n_kept:,} results" in text]
    assert len(told) == len(result.manifest.warnings) == (len(whole) > 0)
    if not is_sorted(undisturbed):
        published = {entry.sha256 for entry in result.manifest.files}
        assert {entry.sha256 for record in whole for entry in record.files} <= published
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(out)


@SORTED_TOO
@IN_ROUNDS
def test_damaged_results_are_searched_again(tmp_path, edges, undisturbed, caplog, rounds) -> None:
    with caplog.at_level(logging.WARNING, "mbe_stage.pipeline"):
        in_rounds(rounds, tmp_path, lambda out, dice: damage_and_resume(out, edges, undisturbed, dice, caplog))


def test_a_torn_first_line_blocks_no_run(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    staging_dir = ended_after(1, config)
    journal = staging_dir / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes()[3:])
    with pytest.raises(PublishError, match="its first line is damaged"):
        read_journal(staging_dir)
    # Its query is unknown, so it blocks no run.
    assert run(config, resume=True).manifest.counts.bicliques
    assert RunStore(tmp_path).clean() == [str(staging_dir)]
