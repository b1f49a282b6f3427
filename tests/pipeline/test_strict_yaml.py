"""Things that YAML accepts silently are refused: booleans as names, duplicate keys, text without limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline.config.model import Config, load_config
from mbe_stage.pipeline.config.strict_yaml import LARGEST_DOCUMENT, parse_yaml
from mbe_stage.pipeline.errors import ConfigError

NESTED_ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 8)
)


@pytest.mark.parametrize("word", ["no", "yes", "on", "off", "true", "False"])
@pytest.mark.parametrize(
    "key", ["input.left", "input.weight", "input.path", "input.time_from", "execution.threads", "execution.engine"]
)
def test_a_boolean_is_no_name_and_no_number(tmp_path: Path, key: str, word: str) -> None:
    section, name = key.split(".")
    path = tmp_path / "job.yaml"
    path.write_text(f"{section}:\n  {name}: {word}\n", encoding="utf-8")
    for load in (lambda: load_config(path), lambda: load_config(None, [f"{key}={word}"])):
        with pytest.raises(ConfigError, match=rf"{key} is (True|False): .*quote the name"):
            load()


@pytest.mark.parametrize("value", [True, ["A001", False], ("A001", True)])
def test_a_boolean_is_no_key(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"query\.containing_right is .*quote the name"):
        Config.from_mapping({"query": {"containing_right": value}})


def test_booleans_stay_in_boolean_fields() -> None:
    config = load_config(None, ["input.header=no", "output.sort=yes", "input.left='no'"])
    assert (config.input.header, config.output.sort, config.input.left) == (False, True, "no")


def test_a_boolean_is_no_section() -> None:
    with pytest.raises(ConfigError, match=r"configuration: input is True: expected keys and their values"):
        Config.from_mapping({"input": True})


@pytest.mark.parametrize(("text", "key"), [("A001", "A001"), ("7", 7), ("'7'", "7"), ("[A001]", "A001")])
def test_one_key_is_a_list_of_one(text: str, key: int | str) -> None:
    assert load_config(None, [f"query.containing_left={text}"]).query.containing_left == (key,)


@pytest.mark.parametrize(
    ("text", "number"), [("010", 8), ("-007", -7), ("12:30", 750), ("[A001, 0x1f]", 31), ("0b11", 3), ("1:30.5", 90.5)]
)
def test_numbers_of_other_bases_are_refused(text: str, number: float) -> None:
    """`010` would mean the vertex 8."""
    written = text.strip("[]").rpartition(" ")[2]
    with pytest.raises(ConfigError, match=f'line 2: YAML reads {written} as {number}; .*; write "{written}" for'):
        parse_yaml(f"query:\n  containing_left: {text}\n", "job.yaml")


@pytest.mark.parametrize("text", ["2024-01-31", "1.5", "[a]"])
def test_other_types_are_refused_by_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"input\.left is .*: expected a whole number or text"):
        load_config(None, [f"input.left={text}"])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("input:\n  left: a\n  right: b\n  left: c\n", ["line 4", "'left' is a duplicate of line 2"]),
        ("input: {}\nquery: {}\ninput: {}\n", ["line 3", "'input' is a duplicate of line 1"]),
        ("input: {left: a, left: b}\n", ["line 1", "'left' is a duplicate"]),
        (NESTED_ALIASES, ["line 5", "more than 10,000 values"]),
        ("a: &a\n  b: *a\n", ["line 2", "*a refers to a value that contains it"]),
        ("[" * 5000, ["line 1", "nested more than 20 deep"]),
        ("- " * 5000, ["line 1", "nested more than 20 deep"]),
        ("# nothing\n" * (LARGEST_DOCUMENT // 8), [f"longer than {LARGEST_DOCUMENT:,} characters"]),
        ("a: 2024-13-45\n", ["not YAML", "month must be in 1..12"]),
        (f"a: {'9' * 5000}\n", ["not YAML", "4300 digits"]),
        ("a: 1\n---\na: 2\n", ["not YAML", "another document"]),
        ("a: *nobody\n", ["not YAML", "undefined alias"]),
    ],
    ids=lambda value: None if isinstance(value, list) else value[:12],
)
def test_one_sentence_says_what_and_where(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("[" * 5000, "nested more than"),
        ("{a: 1, a: 2}", "'a' is a duplicate"),
        (f"[{'a,' * 20_000}]", "more than 10,000"),
    ],
)
def test_the_same_for_an_option(value: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        load_config(None, [f"input.left={value}"])
    assert str(caught.value).startswith("--set 'input.left=")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", None),
        ("a: &x 1\nb: [*x, *x]\n", {"a": 1, "b": [1, 1]}),
        (
            "a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y, q: 3}\n",
            {"a": {"p": 1}, "b": {"p": 1, "q": 2}, "c": {"p": 1, "q": 3}},
        ),
        ("a: {k: 1}\nb: {k: 1}\n", {"a": {"k": 1}, "b": {"k": 1}}),
        ("1: a\n'1': b\n", {1: "a", "1": "b"}),
    ],
)
def test_plain_yaml_is_read(text: str, values: Any) -> None:
    assert parse_yaml(text, "here") == values


@pytest.mark.parametrize(
    ("key", "kind"),
    [("yes", "a boolean"), ("on", "a boolean"), ("False", "a boolean"), ("~", "nothing")],
)
def test_keys_that_are_no_text_in_yaml_are_refused(key: str, kind: str) -> None:
    expected = f"f.yaml, line 2: the key {key!r} is {kind} in YAML; expected the name of a section or key; write"
    with pytest.raises(ConfigError, match=re.escape(f'{expected} "{key}" if')):
        parse_yaml(f"shares:\n  {key}: 0.5\n", "f.yaml")
    assert parse_yaml(f'shares:\n  "{key}": 0.5\n', "f.yaml") == {"shares": {key: 0.5}}


def test_merge_keys_are_applied() -> None:
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a}\n", "f.yaml")["c"] == {"b": 1}
