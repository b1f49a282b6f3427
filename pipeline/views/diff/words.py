"""What a difference says, in words."""

from __future__ import annotations

from mbe_stage.pipeline.views.diff.job import PAIRED, RunDiff, Status

__all__ = ["counts_words", "searched_words", "status_words"]

_WORDS: dict[Status, str] = {
    "new": "new",
    "gone": "gone",
    "grown": "grown",
    "shrunk": "shrunk",
    "changed": "changed",
    "only_in_new": "only in NEW",
    "only_in_old": "only in OLD",
}


def status_words(status: Status) -> str:
    """A status as people read it."""
    return _WORDS[status]


def counts_words(diff: RunDiff) -> str:
    """How many of what, in one line; what cannot be known of these runs is left out."""
    known = diff.comparability
    shown: list[Status] = ["new" if known.knows_new else "only_in_new", "gone" if known.knows_gone else "only_in_old"]
    if diff.pairs is not None:
        shown += PAIRED
    return ", ".join(f"{diff.counts[status]:,} {_WORDS[status]}" for status in shown)


def searched_words(diff: RunDiff) -> str | None:
    """Where partners were not sought, or not among all pairs, a sentence that says so; else None."""
    if diff.pairs is None:
        known = diff.comparability
        comparable = known.knows_gone and known.knows_new
        return "too many bicliques differ to look for what became of each" if comparable and diff.differ else None
    if diff.pairs.searched_from == 0:
        return None
    among = (
        "that differ by one member"
        if diff.pairs.searched_from == 1
        else f"with a Jaccard of at least {diff.pairs.searched_from:g}"
    )
    return (
        f"partners were sought only among groups {among}, for comparing all with all would take too long: "
        "some that count as new and gone may belong together"
    )
