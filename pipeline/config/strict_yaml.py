"""YAML of a configuration, read strictly and within bounds.

Several things that YAML accepts silently are refused: duplicate keys, where YAML keeps the last; keys that YAML reads
as booleans (`on`, `yes`) or as nothing; and numbers that YAML reads in another base, such as `010` and `12:30`.
Documents far larger or deeper than any configuration, also after expanding aliases, are refused too: they would take
minutes or hit interpreter limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.package_files import default_configuration

LARGEST_DOCUMENT = 1 << 18
"""Maximum characters of a document, and maximum bytes of a file to read."""

_DEEPEST = 20
_MOST_NODES = 10_000
_NO_KEYS = {"bool": "a boolean", "null": "nothing"}
# Octal, hexadecimal, binary and base 60 would turn a vertex name into another one.
_OTHER_BASE = re.compile(r"[-+]?0[0-7_xXbB]|.*:")
_LONG_LISTS = "pass longer lists of keys to mbe_stage.pipeline.run, in a Config"


def parse_yaml(text: str, source: str) -> Any:
    """Return the plain values of one YAML document; None if it is empty.

    Parameters
    ----------
    source : str
        The origin of the text; messages begin with it.

    Raises
    ------
    ConfigError
        It is not YAML, has a duplicate key or one that is a boolean or nothing, or exceeds the limits on length, depth
        or size.
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
    # An impossible date, or a number of thousands of digits, is a ValueError of the constructor.
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the sections of a YAML file.

    Raises
    ------
    ConfigError
        The file cannot be read, or as `parse_yaml`.
    """
    try:
        with path.open(encoding="utf-8") as file:
            # One character more than the limit, and no more of a file that is not a configuration.
            text = file.read(LARGEST_DOCUMENT + 1)
    except (OSError, UnicodeDecodeError) as error:
        see = default_configuration()
        raise ConfigError(f"{path}: cannot be read ({error}); expected a YAML file; see {see}") from None
    values = parse_yaml(text, str(path)) or {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds a {type(values).__name__}; expected sections such as input: and output:")
    return values


def _check_bounds(text: str, source: str) -> None:
    """Refuse a document that is too long, too deep, or too large with aliases expanded, before constructing values."""
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
    """Yield line, depth and number of values of a document as it is read, without recursion or following aliases."""
    n_nodes = 0
    # The anchor of each open collection, and the number of values before it.
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
                    f"{source}, line {line}: *{event.anchor} refers to a value that contains it; expected a "
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
                    f"{source}, line {line}: the key {key.value!r} is {_NO_KEYS[kind]} in YAML; expected the name of a "
                    f"section or key; write {_quoted(key.value)} if that is its name"
                )
            if name in lines:
                raise ConfigError(
                    f"{source}, line {line}: the key {key.value!r} is a duplicate of line {lines[name]}; "
                    "expected each key once in its section; remove one of the two"
                )
            lines[name] = line


def _check_numbers(document: yaml.Node, loader: yaml.SafeLoader, source: str) -> None:
    for node in _nodes(document, set()):
        kind = node.tag.rpartition(":")[2]
        if isinstance(node, yaml.ScalarNode) and kind in ("int", "float") and _OTHER_BASE.match(node.value):
            number = loader.construct_object(node)
            raise ConfigError(
                f"{source}, line {node.start_mark.line + 1}: YAML reads {node.value} as {number}; expected a "
                f"decimal number or a text; write {_quoted(node.value)} for the text, or {number}"
            )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _mappings(document: yaml.Node) -> Iterator[yaml.MappingNode]:
    return (node for node in _nodes(document, set()) if isinstance(node, yaml.MappingNode))


def _nodes(node: yaml.Node, seen: set[int]) -> Iterator[yaml.Node]:
    """Yield every value and key once, however many aliases lead to it, parents first."""
    if id(node) in seen:
        return
    seen.add(id(node))
    yield node
    if isinstance(node, yaml.ScalarNode):
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            yield from _nodes(part, seen)
