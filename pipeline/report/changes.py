"""The section on what differs from the run before, as HTML."""

from __future__ import annotations

from collections.abc import Iterable

from mbe_stage.pipeline.publish.changes import ComparedGroup, Comparison
from mbe_stage.pipeline.report.wording import count, escape, key

__all__ = ["since"]

_WORDS = {"only_in_new": "only in this run", "only_in_old": "only in the run before"}


def since(comparison: Comparison | None) -> str:
    """The whole section; nothing where no comparison was asked for."""
    if comparison is None:
        return ""
    remarks = "".join(f'<p class="quiet">{escape(_sentence(remark))}</p>' for remark in comparison.remarks)
    if comparison.run_id is None:
        return f'<section id="since"><h2>Since the last run</h2>{remarks}</section>'
    return (
        f'<section id="since"><h2>Since the last run</h2>{remarks}<p>{_counts(comparison)} '
        f"Compared with run <code>{escape(comparison.run_id)}</code>.</p>{_groups(comparison.largest)}</section>"
    )


def _counts(comparison: Comparison) -> str:
    if comparison.n_same is None:
        return ""
    shown = ", ".join(f"<b>{count(n)}</b> {_word(status)}" for status, n in comparison.counts.items())
    return f"{shown or 'Nothing differs'}; {count(comparison.n_same)} as before."


def _groups(groups: Iterable[ComparedGroup]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_word(group.status)}</th><td>{count(group.n_left)} × {count(group.n_right)}</td>'
        f"<td>{_keys(group.left, group.n_left)}</td><td>{_keys(group.right, group.n_right)}</td>"
        f"<td>{_keys(group.came)}</td><td>{_keys(group.went)}</td></tr>"
        for group in groups
    )
    if not rows:
        return ""
    names = ("", "size", "left", "right", "came", "went")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _keys(keys: tuple[str, ...], of_all: int | None = None) -> str:
    more = "" if of_all is None or of_all <= len(keys) else f" and {count(of_all - len(keys))} more"
    return ", ".join(map(key, keys)) + more


def _word(status: str) -> str:
    return _WORDS.get(status, status)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
