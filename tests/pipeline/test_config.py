"""The configuration: documented defaults equal the real ones, and mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import yaml

from mbe_stage.pipeline.config.model import Config, load_config
from mbe_stage.pipeline.config.units import parse_bytes
from mbe_stage.pipeline.errors import ConfigError

CONFIGS = Path(__file__).parents[2] / "configs"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_default_yaml_equals_the_defaults() -> None:
    assert load_config(CONFIGS / "default.yaml") == Config()


def test_default_yaml_shows_every_key() -> None:
    shown = yaml.safe_load((CONFIGS / "default.yaml").read_text(encoding="utf-8"))
    assert shown.pop("problem") == "bicliques"
    assert {section: set(keys) for section, keys in shown.items()} == {
        name: set(type(section).model_fields) for name, section in Config() if name != "problem"
    }


def test_default_yaml_gives_a_reason_for_every_key() -> None:
    text = (CONFIGS / "default.yaml").read_text(encoding="utf-8")
    keys = [line for line in text.splitlines() if line.startswith(("  ", "problem"))]
    assert keys
    assert [line for line in keys if "#" not in line] == []


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_config_loads(path: Path) -> None:
    load_config(path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("query:\n  min_lft: 2\n", ["query.min_lft", "unknown key", "did you mean 'min_left'"]),
        ("querry:\n  min_left: 2\n", ["querry", "unknown key", "did you mean 'query'"]),
        ("output:\n  zzz: 1\n", ["output.zzz", "known keys", "directory"]),
        ("query:\n  min_left: 0\n", ["query.min_left", "is 0"]),
        ("query:\n  min_left: 5\n  max_left: 3\n", ["max_left is 3", "min_left = 5"]),
        ("execution:\n  memory_budget: much\n", ["execution.memory_budget", "'much'", "512MiB"]),
        ("execution:\n  engine: gpu\n", ["execution.engine", "'gpu'"]),
        ("query:\n  min_edges: 99999999999999999999\n", ["query.min_edges", "is 99999999999999999999"]),
        ("query:\n  max_left: 99999999999999999999\n", ["query.max_left", "is 99999999999999999999"]),
        (
            "execution:\n  block_bytes: 2GiB\n",
            ["execution.block_bytes", "is 2147483648", "expected 1,024 to 1,073,741,824"],
        ),
        ("execution:\n  threads: 100000\n", ["execution.threads", "is 100000", "expected 0 to 1,024"]),
        ("execution:\n  time_limit_seconds: .inf\n", ["execution.time_limit_seconds", "is inf", "finite"]),
        ("input:\n  weight: w\n  min_weight: .nan\n", ["input.min_weight", "is nan", "finite"]),
        ("input:\n  min_weight: 2\n", ["min_weight needs the weight column"]),
        ("problem: no\n", ["problem", "is False", "quote the name"]),
        ("- a\n- b\n", ["holds a list"]),
        ("a: [1\n", ["not YAML"]),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = write(tmp_path / "job.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("setting", "value", "parts"),
    [
        ("input.format", "cvs", ["did you mean 'csv'? expected one of auto, parquet, csv, "]),
        ("execution.engine", "gpu", ["is 'gpu': expected one of auto, cpu, cuda, rapids, reference"]),
        ("groups.kind", "Short-list", ["did you mean 'short_list'? expected one of both, short_list, grown_cover"]),
        ("output.compression", ["zip"], ["expected one of zstd, snappy, lz4, none"]),
        ("query.min_left", "x", ["expected a whole number"]),
        ("query.min_left", 2.5, ["expected a whole number"]),
        ("query.min_left", None, ["expected a whole number"]),
        ("query.min_left", "1" * 5000, ["expected a whole number"]),
        ("execution.time_limit_seconds", "abc", ["expected a number"]),
        ("execution.time_limit_seconds", 0, ["is 0: expected greater than 0"]),
        ("output.sort", "perhaps", ["expected true or false"]),
        ("groups.labels", 3, ["expected text"]),
        ("groups.negative", "x", ["expected a list"]),
        ("query", "x", ["expected keys and their values"]),
        ("query", {1: 2}, ["expected keys that are text"]),
    ],
)
def test_no_message_is_pydantics(setting: str, value: object, parts: list[str]) -> None:
    section, _, key = setting.partition(".")
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping({section: {key: value} if key else value})
    message = str(caught.value)
    assert message.startswith(f"configuration: {setting}")
    assert "nput" not in message.replace("input.", "")
    assert "valid" not in message
    for part in parts:
        assert part in message


def test_every_choice_of_every_section_is_named() -> None:
    """The message for an invalid choice lists all valid ones."""
    n = 0
    for name, section in Config():
        fields = {} if name == "problem" else type(section).model_fields
        for key, field in fields.items():
            if get_origin(field.annotation) is Literal:
                n += 1
                with pytest.raises(ConfigError, match=f"expected one of {', '.join(get_args(field.annotation))}$"):
                    Config.from_mapping({name: {key: "#"}})
    assert n >= 6


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read"):
        load_config(tmp_path / "nowhere.yaml")


def test_overrides_win_and_are_yaml(tmp_path: Path) -> None:
    path = write(tmp_path / "job.yaml", "query:\n  min_left: 2\n")
    config = load_config(
        path,
        ["query.min_left=3", "output.sort=true", "query.containing_left=[7, x]", "execution.memory_budget=2GiB"],
    )
    assert config.query.min_left == 3
    assert config.output.sort is True
    assert config.query.containing_left == (7, "x")
    assert config.execution.memory_budget == 2 << 30


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("min_left=3", "section.key=value"),
        ("query.min_left", "section.key=value"),
        ("query.min_lef=3", "did you mean 'min_left'"),
        ("query.min_left=[", "not YAML"),
        ("problem=bicliqes", "problem is 'bicliqes': did you mean 'bicliques'"),
        ("problem.=1", "section.key=value"),
    ],
)
def test_wrong_overrides_are_named(tmp_path: Path, override: str, part: str) -> None:
    path = write(tmp_path / "job.yaml", "{}\n")
    with pytest.raises(ConfigError, match=part.replace("[", r"\[")):
        load_config(path, [override])


@pytest.mark.parametrize(
    ("text", "expected"), [("65536", 65536), ("1.5GiB", 3 << 29), ("2 GB", 2 * 10**9), ("512MiB", 512 << 20)]
)
def test_parse_bytes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected
