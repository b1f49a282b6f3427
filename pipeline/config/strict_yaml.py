"""YAML of a configuration, read strictly and within bounds: what YAML lets pass in silence is refused here.

A key that stands twice in one mapping, of which YAML would keep the last; one that is a boolean to YAML, as `on` and
`yes` are, or nothing; a number that YAML reads in another base, as `010` and `12:30` are; and text that is far larger,
deeper or, with its aliases written out, longer than any configuration, which would take minutes or end in the
interpreter's own limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.package_files import default_configuration

__all__ = ["LARGEST_DOCUMENT", "parse_yaml"]

LARGEST_DOCUMENT = 1 << 18
"""Characters of a document; also bytes of a file that is worth reading."""

_DEEPEST = 20
_MOST_NODES = 10_000
_NO_KEYS = {"bool": "a boolean", "null": "nothing"}
# Octal, hexadecimal, binary and base 60: a vertex that is called so would be another one.
_OTHER_BASE = re.compile(r"[-+]?0[0-7_xXbB]|.*:")
_LONG_LISTS = "lists of keys that are longer go to mbe_stage.pipeline.run, in a Config"


def parse_yaml(text: str, source: str) -> Any:
    """The plain values of one YAML document; None where it is empty.

    Parameters
    ----------
    source : str
        Where it came from; messages begin with it.

    Raises
    ------
    ConfigError
        It is no YAML, holds a key twice or one that is a boolean or nothing, or is too long, too deep, or too large
        with its aliases written out.
    """
    try:
        _check_bounds(text, source)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_keys(node, source)
            _check_numbers(node, loader, source)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    # A date without such a day, or a number of thousands of digits, is a ValueError of the constructor.
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}") from None


def _check_bounds(text: str, source: str) -> None:
    """Refuse what is too long, too deep, or too large with its aliases written out, before anything is made of it."""
    if len(text) > LARGEST_DOCUMENT:
        raise ConfigError(
            f"{source}: longer than {LARGEST_DOCUMENT:,} characters; expected a configuration; {_LONG_LISTS}"
        )
    for line, depth, n_nodes in _growth(text, source):
        if depth > _DEEPEST:
            raise ConfigError(
                f"{source}, line {line}: nested more than {_DEEPEST} deep; expected sections and their keys; see "
                f"{default_configuration()}"
            )
        if n_nodes > _MOST_NODES:
            raise ConfigError(
                f"{source}, line {line}: more than {_MOST_NODES:,} values, aliases written out; expected a "
                f"configuration; {_LONG_LISTS}"
            )


def _growth(text: str, source: str) -> Iterator[tuple[int, int, int]]:
    """Line, depth and values so far of a document as it is read: no recursion, and no alias is followed."""
    n_nodes = 0
    # Of each collection that is still open: its anchor, and how many values came before it.
    within: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = within.pop()
            sizes[anchor] = n_nodes - before
        elif isinstance(event, yaml.CollectionStartEvent):
            within.append((event.anchor, n_nodes))
            n_nodes += 1
        elif isinstance(event, yaml.ScalarEvent):
            n_nodes += 1
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in within):
                raise ConfigError(
                    f"{source}, line {line}: *{event.anchor} stands within what it names, without end; expected a "
                    "value; write it out"
                )
            n_nodes += sizes.get(event.anchor, 1)
        yield line, len(within), n_nodes


def _check_keys(document: yaml.Node, source: str) -> None:
    for mapping in _mappings(document):
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            kind = key.tag.rpartition(":")[2]
            if kind in _NO_KEYS:
                raise ConfigError(
                    f"{source}, line {line}: the key {key.value!r} is {_NO_KEYS[kind]} to YAML; expected the name of a "
                    f"section or key; write {_quoted(key.value)} if that is its name"
                )
            if name in lines:
                raise ConfigError(
                    f"{source}, line {line}: the key {key.value!r} stands twice, first in line {lines[name]}; "
                    "expected each key once in its section; remove one of the two"
                )
            lines[name] = line


def _check_numbers(document: yaml.Node, loader: yaml.SafeLoader, source: str) -> None:
    for node in _nodes(document, set()):
        kind = node.tag.rpartition(":")[2]
        if isinstance(node, yaml.ScalarNode) and kind in ("int", "float") and _OTHER_BASE.match(node.value):
            number = loader.construct_object(node)
            raise ConfigError(
                f"{source}, line {node.start_mark.line + 1}: {node.value} is the number {number} to YAML; expected a "
                f"decimal number or a text; write {_quoted(node.value)} for the text, or {number}"
            )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _mappings(document: yaml.Node) -> Iterator[yaml.MappingNode]:
    return (node for node in _nodes(document, set()) if isinstance(node, yaml.MappingNode))


def _nodes(node: yaml.Node, seen: set[int]) -> Iterator[yaml.Node]:
    """Every value and key once, however many aliases lead to it; what holds others before them."""
    if id(node) in seen:
        return
    seen.add(id(node))
    yield node
    if isinstance(node, yaml.ScalarNode):
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            yield from _nodes(part, seen)
