"""Commands and options of problems and derived outputs from other packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from mbe_stage.pipeline.cli import app, options, problems
from mbe_stage.pipeline.config.model import Config, QueryConfig
from mbe_stage.pipeline.config.setting_names import setting
from tests.patience import completed
from tests.pipeline.plugins import Installed, PathsSection, RankedSection, WedgesSection

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    monkeypatch.setenv("COLUMNS", "120")
    problems._warn_once.cache_clear()
    packages = Installed(tmp_path / "installed", monkeypatch)
    packages.add("walks", "paths", "wedges", "ranked_groups")
    yield packages
    packages.forget()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, dict[str, Any]]]:
    """Record what commands would publish, instead of publishing it."""
    given: list[tuple[Config, dict[str, Any]]] = []

    def publish(config: Config, options: dict[str, Any]) -> None:
        given.append((config, options))

    for module in (app, problems):
        monkeypatch.setattr(module, "publish", publish)
    return given


def mbe(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def config_of(asked: list[tuple[Config, dict[str, Any]]], *arguments: object) -> Config:
    result = mbe(*arguments)
    assert result.exit_code == 0, result.output
    return asked.pop()[0]


def refused(*arguments: object) -> str:
    result = mbe(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def in_a_new_process(installed: Installed, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{installed.directory}:{ROOT}"}
    return completed([sys.executable, "-c", code, *arguments], env=environment)


def test_the_list_has_a_name_and_a_line_of_each() -> None:
    shown = mbe("--help").stdout
    assert re.search(r"enumerate +Enumerate the .*\n  cliques +Enumerate the .*\n  count-pq +Count the ", shown)
    assert re.search(r"\n  paths +Every path of a length\.\n  wedges +Two edges ", shown)


def test_help_shows_the_keys_with_defaults_and_bounds() -> None:
    result = mbe("paths", "--help")
    assert result.exit_code == 0, result.output
    for expected in (
        r"Every path of a length\.\s",
        r"\nWhich paths:\n",
        r"--length +L +Edges of a path \(3; at least 1; at most 9\)\.",
        r"--weight-at-least +X +Least weight of a path\.",
        r"--name +TEXT +Of the paths \(path\)\.",
        r"--closed +Also closed ones\.",
        r"--no-ends +Whether ends are told\.",
        r"--loops / --no-loops +Whether there may be loops\.",
        r"--kind +<simple\|induced> +Which paths \(simple\)\.",
        r"--through +TEXT +Must lead through this key \(repeatable\)\.",
        r"--steps +N +From so many steps to so many \(repeatable\)\.",
        r"--shares +YAML +Of each kind\.",
        r"--max-bicliques +N ",
        r"--time-limit +SECONDS",
        r"--left +COL",
        r"--out +DIR",
        r"--if-changed",
    ):
        assert re.search(expected, result.stdout), expected
    assert "--seed" not in result.stdout
    assert "--members" not in result.stdout
    assert "--max-bicliques" not in mbe("wedges", "--help").stdout


@pytest.mark.parametrize(
    ("options", "section"),
    [
        ([], PathsSection()),
        (["--length", 4], PathsSection(length=4)),
        (["--weight-at-least", "0.5"], PathsSection(weight_at_least=0.5)),
        (["--name", "7"], PathsSection(name="7")),
        (["--closed"], PathsSection(closed=True)),
        (["--no-ends"], PathsSection(ends=False)),
        (["--loops"], PathsSection(loops=True)),
        (["--no-loops"], PathsSection(loops=False)),
        (["--kind", "induced"], PathsSection(kind="induced")),
        (["--through", "a", "--through", 7], PathsSection(through=("a", "7"))),
        (["--steps", 2, "--steps", 3], PathsSection(steps=(2, 3))),
        (["--shares", "{a: 0.5}"], PathsSection(shares={"a": 0.5})),
    ],
    ids=str,
)
def test_each_option_reaches_its_key(asked: list, options: Sequence[object], section: PathsSection) -> None:
    config = config_of(asked, "paths", "e.csv", "--out", "there", "--left", "who", "--max-bicliques", 9, *options)
    assert (config.problem, config.problem_section) == ("paths", section)
    assert (config.input.path, config.input.left, config.output.directory) == ("e.csv", "who", "there")
    assert config.execution.max_bicliques == 9


def test_a_plain_model_has_a_command_too(asked: list) -> None:
    config = config_of(asked, "wedges", "e.csv", "--fewest", 2, "--no-report")
    assert (config.problem_section, config.output.report) == (WedgesSection(fewest=2), False)


def test_options_that_are_no_settings_are_passed_on(asked: list) -> None:
    assert mbe("paths", "e.csv", "--count-only", "--json", "-q").exit_code == 0
    _, options = asked.pop()
    assert {name: options[name] for name in ("count_only", "as_json", "quiet", "verbose", "if_changed")} == {
        "count_only": True,
        "as_json": True,
        "quiet": True,
        "verbose": False,
        "if_changed": False,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["paths", "e.csv", "--length", 10], "command line: --length is '10': expected 1 to 9"),
        (["paths", "e.csv", "--length", "x"], "command line: --length is 'x': expected a whole number"),
        (["paths", "e.csv", "--kind", "odd"], "command line: --kind is 'odd': expected one of simple, induced"),
        (["paths", "e.csv", "--steps", 1], "command line: --steps"),
        (["paths", "e.csv", "--shares", "{"], "command line: --shares: not YAML"),
        (["paths", "e.csv", "--threads", -1], "command line: --threads is -1"),
        (["wedges", "e.csv", "--fewest", "x"], "command line: --fewest is 'x'"),
        (["enumerate", "e.csv", "--ranked-groups-at-least", 0], "command line: --ranked-groups-at-least is '0'"),
    ],
    ids=str,
)
def test_bad_values_are_one_line_with_the_option(arguments: Sequence[object], expected: str) -> None:
    assert refused(*arguments).startswith(expected)


def test_a_derived_output_is_switched_on_by_its_name_or_a_key(asked: list) -> None:
    assert config_of(asked, "enumerate", "e.csv", "--min-left", 2).section("ranked_groups") is None
    assert config_of(asked, "enumerate", "e.csv", "--ranked-groups").section("ranked_groups") == RankedSection()
    config = config_of(asked, "enumerate", "e.csv", "--min-left", 2, "--ranked-groups-by", "left", "--ranked-groups")
    assert config.section("ranked_groups") == RankedSection(by="left")
    assert config.query.min_left == 2
    shown = mbe("enumerate", "--help").stdout
    assert re.search(r"\nOutput ranked_groups:\n", shown)
    assert re.search(r"--ranked-groups +The groups by rank\.", shown)
    assert re.search(r"--ranked-groups-at-least +N +Smallest side \(2; at least 1\)\.", shown)
    assert "ranked" not in mbe("paths", "--help").stdout


def test_messages_name_the_options_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (
        "paths.length",
        "paths.ends",
        "input.left",
        "input.path",
        "output.directory",
        "output.members",
        "query.min_left",
    )
    called: list[str] = []
    monkeypatch.setattr(problems, "publish", lambda *_: called.extend(setting(key) for key in keys))
    assert mbe("paths", "e.csv").exit_code == 0
    assert called == ["--length", "--no-ends", "--left", "INPUT", "--out", "output.members", "query.min_left"]
    called.clear()
    keys = ("ranked_groups", "ranked_groups.by", "query.min_left")
    assert mbe("enumerate", "e.csv").exit_code == 0
    assert called == ["--ranked-groups", "--ranked-groups-by", "--min-left"]


def test_a_configuration_of_any_problem_runs(tmp_path: Path, asked: list) -> None:
    (tmp_path / "job.yaml").write_text("problem: paths\npaths: {length: 4}\n")
    config = config_of(asked, "run", tmp_path / "job.yaml", "--set", "paths.kind=induced")
    assert config.problem_section == PathsSection(length=4, kind="induced")
    (tmp_path / "job.yaml").write_text("problem: wedges\npaths: {length: 4}\n")
    assert "paths: the section of the problem paths, but problem is 'wedges'" in refused("run", tmp_path / "job.yaml")


def test_a_key_whose_option_exists_is_refused(installed: Installed) -> None:
    module = (
        "from pydantic import Field\nfrom mbe_stage.problem import Problem\n"
        "from mbe_stage.pipeline.config.section import Section\n"
        "from tests.pipeline.plugins import WEDGES_PUBLICATION, changed\n"
        "class Taken(Section):\n    threads: int = Field(0, description='Threads of a screw.')\n"
        "SCREWS = Problem('screws', {}, print, None, 'toolbox_screws:PUBLICATION', 'Screws.')\n"
        "PUBLICATION = changed(WEDGES_PUBLICATION, problem='screws', section_name='screws', section=Taken)\n"
    )
    (installed.directory / "toolbox_screws.py").write_text(module)
    installed.add("toolbox", "screws = toolbox_screws:SCREWS")
    told = refused("screws", "e.csv")
    assert "the problem 'screws' of the package toolbox has no command: its key 'threads' would be the option" in told
    assert "--threads" in told


def test_an_output_whose_option_exists_is_left_out(
    installed: Installed, asked: list, caplog: pytest.LogCaptureFixture
) -> None:
    (installed.directory / "toolbox_sort.py").write_text(
        "from mbe_stage.problem import DerivedOutput\n"
        "from tests.pipeline.plugins import RANKED_PUBLICATION, changed\n"
        "OUTPUT = DerivedOutput('sort', 'bicliques', 'toolbox_sort:PUBLICATION')\n"
        "PUBLICATION = changed(RANKED_PUBLICATION, name='sort')\n"
    )
    installed.add("toolbox", "sort = toolbox_sort:OUTPUT")
    result = mbe("enumerate", "e.csv", "--sort", "--ranked-groups")
    assert result.exit_code == 0, result.output
    assert asked.pop()[0].output.sort
    (record,) = caplog.records
    assert "the derived output 'sort' of the package toolbox has no options" in record.message


def test_a_problem_named_like_a_command_gets_no_command(installed: Installed, caplog: pytest.LogCaptureFixture) -> None:
    (installed.directory / "toolbox_top.py").write_text(
        "from mbe_stage.problem import Problem\nTOP = Problem('top', {}, print, None, 'nowhere:PUBLICATION')\n"
    )
    installed.add("toolbox", "top = toolbox_top:TOP")
    result = mbe("--help")
    (record,) = caplog.records
    assert "the problem 'top' of the package toolbox has no command: mbe top is another command" in record.message
    assert result.stdout.count("\n  top ") == 1


def test_a_broken_package_is_reported_in_one_line(installed: Installed) -> None:
    installed.add("astray", "lost = gone_astray:LOST")
    done = in_a_new_process(
        installed, "from mbe_stage.pipeline.cli.app import main; main()", "paths", "e.csv", "--length", "0"
    )
    told, refusal = done.stderr.splitlines()
    dated, said = told[:20], told[20:]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", dated), told
    assert said.startswith("the entry point 'lost' of mbe_stage.problems (gone_astray:LOST) is left out: ModuleNotF")
    assert refusal.startswith("error: command line: --length is '0'")
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [("--help",), ("somersaults",)])
def test_escape_sequences_of_a_broken_package_are_escaped(installed: Installed, arguments: tuple[str, ...]) -> None:
    installed.add("astray", "lost = gone\x1b[31m:LOST")
    done = in_a_new_process(installed, "from mbe_stage.pipeline.cli.app import main; main()", *arguments)
    assert "\x1b" not in done.stderr
    (told,) = [line for line in done.stderr.splitlines() if "the entry point 'lost'" in line]
    assert re.match(r"\d{4}-\d\d-\d\d .* \(gone\\x1b\[31m:LOST\) is left out", told), told


ODD = """
from pydantic import Field
from mbe_stage.problem import Problem
from mbe_stage.pipeline.config.section import Section
from tests.pipeline.plugins import PATHS_PUBLICATION, changed
class OddSection(Section):
    sides: str = Field("[left]", description="One of [left] and [/right]")
ODD = Problem("odd", {}, print, None, "odd_ends:PUBLICATION", "Takes [left] or [/right].")
PUBLICATION = changed(PATHS_PUBLICATION, problem="odd", section_name="odd", section=OddSection, unit=("[a]", "[/b]"))
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--help",), "Takes [left] or [/right]."),
        (("odd", "--help"), "Takes [left] or [/right]."),
        (("odd", "--help"), "One of [left] and [/right] ([left])."),
        (("odd", "--help"), "Which [/b]"),
    ],
)
def test_brackets_in_texts_of_other_packages_are_no_markup(
    installed: Installed, arguments: tuple[str, ...], said: str
) -> None:
    (installed.directory / "odd_ends.py").write_text(ODD)
    installed.add("oddities", "odd = odd_ends:ODD")
    assert said in mbe(*arguments).stdout


def test_an_unknown_command_is_refused() -> None:
    result = mbe("somersaults", "e.csv")
    assert result.exit_code == 2
    assert "No such command 'somersaults'." in result.stderr


def test_the_options_of_query_are_those_of_its_model() -> None:
    assert [each.key for each in options.QUERY] == [f"query.{key}" for key in QueryConfig.model_fields]
    for each in options.QUERY:
        default = QueryConfig.model_fields[each.key.partition(".")[2]].default
        (info,) = each.annotation.__metadata__
        assert (f"({default})" in info.help) == isinstance(default, int)


def test_every_key_of_the_tables_is_one_of_the_configuration() -> None:
    tables = (options.INSPECTING, options.publishing(options.QUERY, max_bicliques=True, members=True))
    for each in (each for table in tables for each in table if "." in each.key):
        section, _, key = each.key.partition(".")
        assert key in type(getattr(Config(), section)).model_fields


def test_options_know_their_names() -> None:
    table = options.publishing(options.QUERY, max_bicliques=True, members=True)
    command = typer.main.get_command(app.app).commands["enumerate"]  # type: ignore[attr-defined]
    for each in table:
        (parameter,) = (made for made in command.params if made.name == each.name)
        if parameter.param_type_name == "option":
            assert set(options.options_of(each)) == {*parameter.opts, *parameter.secondary_opts}


def test_a_near_command_is_named() -> None:
    assert "Did you mean 'paths'?" in mbe("pathz", "e.csv").stderr
    assert "Did you mean 'enumerate'?" in mbe("enumrate", "e.csv").stderr
