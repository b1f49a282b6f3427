"""Messages name options to users of options, and configuration keys to users of configurations."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from mbe_stage.pipeline import InputConfig
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.cli.options import option_of
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting, settings_called
from mbe_stage.pipeline.errors import ConfigError, InputError
from mbe_stage.pipeline.execution.ingest import ingest

COMMANDS: dict[str, click.Command] = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]

CASES = {
    "no column": ("1,2\n", {"left": "who"}, "input.left", "--left"),
    "both the same": ("1,2\n", {"left": "1"}, "input.left and input.right are both", "--left and --right are both"),
    "header or not": ("ann,tea\n", {}, "with input.header (true or false)\n", "with --header or --no-header\n"),
    "delimiter": ("1,2\n", {"delimiter": "ab"}, "input.delimiter 'ab'", "--delimiter 'ab'"),
    "nulls": ("1,2\n,3\n", {}, "set input.nulls to drop", "set --nulls to drop"),
    "keys": ("a,1\n", {"header": False, "key_type": "integer"}, "set input.key_type to", "set --key-type to"),
    "key": ("1,2\n", {"containing_left": "9"}, "(query.containing_left)", "(--containing-left)"),
    "filter": (
        "1,2,3\n",
        {"weight": "2", "min_weight": 9},
        "input.min_weight is 9.0",
        "--min-weight is 9.0",
    ),
    "no weight": ("1,2\n", {"min_weight": 9}, "set input.weight to", "set --weight to"),
    "a bound": ("1,2\n", {"min_left": 0}, "query.min_left is 0", "--min-left is 0"),
    "bounds": ("1,2\n", {"min_left": 5, "max_left": 3}, "query.max_left is 3, below", "--max-left is 3, below"),
    "seconds": ("1,2\n", {"time_limit_seconds": -1}, "execution.time_limit_seconds is -1", "--time-limit is -1"),
}


def options(values: dict[str, object]) -> list[str]:
    given = []
    for key, value in values.items():
        option = {"time_limit_seconds": "--time-limit"}.get(key, f"--{key.replace('_', '-')}")
        given += ["--no-header"] if key == "header" else [option, str(value)]
    return given


def sections(path: Path, values: dict[str, object]) -> dict[str, dict[str, object]]:
    split: dict[str, dict[str, object]] = {"input": {"path": str(path)}}
    for key, value in values.items():
        section = next(name for name, part in Config() if key in getattr(type(part), "model_fields", ()))
        split.setdefault(section, {})[key] = value
    return split


def configured(path: Path, values: dict[str, object]) -> list[str]:
    """Return the arguments that set the same values by a configuration."""
    file = path.with_name("job.yaml")
    file.write_text(
        "".join(
            f"{section}:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items())
            for section, keys in sections(path, values).items()
        )
    )
    return [str(file)]


@pytest.mark.parametrize("case", CASES)
def test_the_same_refusal_both_ways(tmp_path: Path, case: str) -> None:
    text, values, key, option = CASES[case]
    path = tmp_path / "e.csv"
    path.write_text(text)
    arguments = ["--quiet", "--count-only"]
    by_options = CliRunner().invoke(app.app, ["enumerate", str(path), *options(values), *arguments])
    by_keys = CliRunner().invoke(app.app, ["run", *configured(path, values), *arguments])
    assert (by_options.exit_code, by_keys.exit_code) == (2, 2)
    assert option in by_options.stderr
    assert not any(f"{section}." in by_options.stderr for section in ("input", "query", "execution", "output"))
    assert key in by_keys.stderr
    assert option not in by_keys.stderr
    # The words that Pydantic puts before ours.
    assert not any(said in by_options.stderr + by_keys.stderr for said in ("Value error", "Assertion failed"))


def test_a_missing_file_is_an_argument(tmp_path: Path) -> None:
    result = CliRunner().invoke(app.app, ["inspect", str(tmp_path / "nothing.csv")])
    assert "correct INPUT\n" in result.stderr
    with pytest.raises(InputError, match=r"correct input\.path"):
        ingest(InputConfig(path=str(tmp_path / "nothing.csv")))


def test_a_library_gets_keys() -> None:
    with pytest.raises(ConfigError, match=r"configuration: query\.min_left is 0"):
        Config.from_mapping({"query": {"min_left": 0}})


@pytest.mark.parametrize(
    ("command", "key", "name"),
    [
        ("enumerate", "input.path", "INPUT"),
        ("enumerate", "output.directory", "--out"),
        ("enumerate", "input.format", "--format"),
        ("enumerate", "execution.engine", "--engine"),
        ("enumerate", "output.report", "--no-report"),
        ("enumerate", "execution.block_bytes", "execution.block_bytes"),
        ("verify", "input.path", "--input"),
        ("run", "input.left", "input.left"),
        ("run", "output.directory", "output.directory"),
    ],
)
def test_option_names_of_settings(command: str, key: str, name: str) -> None:
    assert option_of(key, COMMANDS[command]) == name


def test_names_hold_while_their_context_lasts() -> None:
    with settings_called(str.upper):
        assert setting("input.left") == "INPUT.LEFT"
        with settings_called(str.title):
            assert setting("input.left") == "Input.Left"
        assert setting("input.left") == "INPUT.LEFT"
    assert setting("input.left") == "input.left"
    assert option_of("input.left", None) == "input.left"
