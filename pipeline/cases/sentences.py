"""Sentences about groups with the names of the columns for the sides."""

from __future__ import annotations

import re

from mbe_stage.pipeline.cases.finding import several

_MEMBERS = re.compile(r"([0-9,]+) left x ([0-9,]+) right members")


def members_name(side: str) -> str:
    """Return the name of several members of a side.

    Examples
    --------
    >>> members_name("account"), members_name("user_id"), members_name("left")
    ('accounts', 'user_id values', 'left vertices')
    """
    return several(side, 2).removeprefix("2 ")


def key_name(key: str | None, right: str) -> str:
    """Return the name of a group's key; empty if one key alone was searched.

    Examples
    --------
    >>> key_name("rating x 7d", "page"), key_name("items", "page"), key_name(None, "page")
    ('rating x 7d', 'same pages only', '')
    """
    return f"same {members_name(right)} only" if key == "items" else key or ""


def sentence(explanation: str, names: tuple[str, str]) -> str:
    """Return the explanation of a group with the names of the sides, and with its full stop.

    Examples
    --------
    >>> text = "8 left x 6 right members, all of 48 possible edges; 94 % of the left members' edges are among them"
    >>> print(sentence(text, ("account", "page")))
    8 accounts × 6 pages, all of 48 possible edges; 94 % of the accounts' edges are among them.
    >>> print(sentence(text, ("left", "right")))
    8 left × 6 right members, all of 48 possible edges; 94 % of the left members' edges are among them.
    """
    if names == ("left", "right"):
        return f"{explanation.replace(' x ', ' × ', 1)}."

    def members(found: re.Match[str]) -> str:
        sizes = (int(text.replace(",", "")) for text in found.groups())
        return " × ".join(several(name, size) for name, size in zip(names, sizes, strict=True))

    owners = members_name(names[0])
    possessive = f"the {owners}'" if owners.endswith("s") else f"their ({owners})"
    return (
        _MEMBERS.sub(members, explanation, count=1)
        .replace("the left members'", possessive, 1)
        .replace("all edges of these items", f"all edges of these {members_name(names[1])}")
        + "."
    )
