"""Configuration sections of problems and derived outputs from other packages."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from mbe_stage.pipeline.config.model import Config, PublishedConfig, QueryConfig, load_config
from mbe_stage.pipeline.config.registry import TOP_LEVEL_KEYS
from mbe_stage.pipeline.config.section import read_section
from mbe_stage.pipeline.errors import ConfigError
from tests.pipeline.plugins import Installed, PathsSection, RankedSection, WedgesSection

PUBLISHED: TypeAdapter[Config] = TypeAdapter(PublishedConfig)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    packages = Installed(tmp_path / "installed", monkeypatch)
    packages.add("walks", "paths", "wedges", "ranked_groups")
    yield packages
    packages.forget()


def refused(values: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping(values, "job.yaml")
    message = str(caught.value)
    assert message.startswith("job.yaml: ")
    assert "\n" not in message
    return message.removeprefix("job.yaml: ")


def test_the_section_of_the_problem_is_its_query() -> None:
    config = Config.from_mapping({"problem": "paths", "paths": {"length": 4, "through": [7, "x"]}})
    assert config.problem_section == PathsSection(length=4, through=(7, "x"))
    assert Config(problem="paths").problem_section == PathsSection()
    assert Config(query=QueryConfig(min_left=2)).problem_section == QueryConfig(min_left=2)
    assert Config(problem="wedges").problem_section == WedgesSection()


def test_a_derived_output_is_asked_for_by_its_section() -> None:
    assert Config.from_mapping({"ranked_groups": {}}).section("ranked_groups") == RankedSection()
    assert Config().section("ranked_groups") is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"problem": "path"},
            "problem is 'path': did you mean 'paths'? expected one of bicliques, cliques, ",
        ),
        ({"problem": 7}, "problem is 7: "),
        ({"problem": "paths", "paths": {"lenth": 2}}, "paths.lenth: unknown key; did you mean 'length'?"),
        ({"problem": "paths", "paths": {"length": 10}}, "paths.length is 10: expected 1 to 9"),
        (
            {"problem": "paths", "paths": {"length": True}},
            "paths.length is True: expected a name or a number; YAML rea",
        ),
        ({"problem": "paths", "paths": {"kind": "{0}"}}, "paths.kind is '{0}': expected one of simple, induced"),
        ({"problem": "paths", "paths": {"through": [[]]}}, "paths.through is []: expected a whole number or text"),
        ({"problem": "paths", "paths": None}, "paths is None: expected keys and their values, or {} for the defaults"),
        ({"problem": "wedges", "wedges": {"fewest": True}}, "wedges.fewest is True: expected a name or a number"),
        ({"problem": "wedges", "wedges": {"fewst": 1}}, "wedges.fewst: unknown key; did you mean 'fewest'?"),
        ({"problem": "wedges", "wedges": {"fewest": -1}}, "wedges.fewest is -1: expected 0 or more"),
        ({"problem": "wedges", "wedges": {"fewest": 1000}}, "wedges.fewest is 1000: so many are nowhere"),
        ({"path": {}}, "path: unknown key; did you mean 'paths'?"),
        (
            {"nothing_like_it": {}},
            "nothing_like_it: unknown key; known keys: problem, input, query, execution, output, cliques, pq_counts, ",
        ),
        (
            {"paths": {}},
            "paths: the section of the problem paths, but problem is 'bicliques'; set problem to 'paths', or leave the",
        ),
        (
            {"problem": "wedges", "ranked_groups": {}},
            "ranked_groups: an output of the problem bicliques, but problem is 'wedges'; set problem to 'bicliques'",
        ),
        ({"problem": "wedges", "query": {"min_left": 2}}, "query.min_left: is for the problem bicliques, but problem"),
        ({"problem": "wedges", "output": {"members": True}}, "output.members: is for the problem bicliques"),
        ({"problem": "wedges", "execution": {"max_bicliques": 1}}, "execution.max_bicliques: is for the problem bicl"),
        ({"bicliques": {}}, "bicliques: unknown key; "),
    ],
    ids=str,
)
def test_mistakes_are_named(values: dict, expected: str) -> None:
    assert refused(values).startswith(expected)


def test_a_limit_that_the_problem_has_is_taken() -> None:
    assert Config.from_mapping({"problem": "paths", "execution": {"max_bicliques": 1}}).execution.max_bicliques == 1


def test_overrides_set_keys_of_such_sections(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("problem: paths\npaths: {length: 4}\n")
    config = load_config(path, ["paths.kind=induced", "paths.steps=[2, 3]"])
    assert config.problem_section == PathsSection(length=4, kind="induced", steps=(2, 3))
    assert load_config(None, ["problem=paths", "paths.length=5"]).problem_section.length == 5
    with pytest.raises(
        ConfigError, match=r"'problem' is not a section; expected one of input, query, .*, ranked_groups$"
    ):
        load_config(path, ["problem.length=5"])


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"problem": "paths", "paths": {"length": 4, "shares": {"a": 0.5}}},
        {"problem": "wedges"},
        {"ranked_groups": {"by": "left"}},
    ],
    ids=str,
)
def test_configurations_survive_serialisation(values: dict) -> None:
    config = Config.from_mapping(values)
    assert Config.model_validate(config.model_dump()) == config
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert Config.from_mapping(config.model_dump(mode="json")) == config
    assert Config.from_mapping(config.model_dump(exclude_unset=True)) == config
    assert Config.model_validate(config) == config
    published = PUBLISHED.validate_python(json.loads(config.model_dump_json()))
    assert published == config
    assert type(published.problem_section) is type(config.problem_section)


def test_configurations_of_missing_packages_are_read(installed: Installed) -> None:
    theirs = Config.from_mapping({"problem": "paths", "paths": {"length": 4}}).model_dump(mode="json")
    derived = Config.from_mapping({"ranked_groups": {"by": "left"}}).model_dump(mode="json")
    (installed.directory / "walks-1.dist-info" / "entry_points.txt").unlink()
    installed.forget()
    assert PUBLISHED.validate_python(theirs).problem == "paths"
    assert PUBLISHED.validate_python(theirs).problem_section == theirs["paths"]
    assert PUBLISHED.validate_python(derived).section("ranked_groups") == {"at_least": 2, "by": "left"}
    assert PUBLISHED.validate_python(theirs).model_dump(mode="json") == theirs
    for values in (theirs, derived):
        with pytest.raises(ValidationError):
            Config.model_validate(values)
    with pytest.raises(ValidationError, match="min_lft"):
        PUBLISHED.validate_python({"query": {"min_lft": 1}})


def test_a_run_published_before_there_was_another_problem_is_read() -> None:
    values = Config().model_dump(mode="json")
    del values["problem"]
    assert PUBLISHED.validate_python(values) == Config()


def test_our_configurations_read_no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("entry points were read")

    with monkeypatch.context() as patch:
        patch.setattr("mbe_stage.problem._others", looked)
        assert Config.from_mapping({"query": {"min_left": 2}}).problem_section == QueryConfig(min_left=2)
        assert Config().section("ranked_groups") is None


def test_a_broken_package_is_reported(installed: Installed, caplog: pytest.LogCaptureFixture) -> None:
    (installed.directory / "gone_astray.py").write_text(
        "from mbe_stage.problem import DerivedOutput, Problem\n"
        "LOST = Problem('lost', {}, print, None, 'gone_astray_publication:PUBLICATION')\n"
        "OUTPUT = DerivedOutput('strays', 'bicliques', 'gone_astray_publication:OUTPUT')\n"
    )
    (installed.directory / "gone_astray_publication.py").write_text("raise RuntimeError('no such drive')\n")
    installed.add("astray", "lost = gone_astray:LOST", "strays = gone_astray:OUTPUT", "worse = gone_astray:NOTHING")
    with caplog.at_level(logging.WARNING):
        assert Config.from_mapping({"ranked_groups": {}, "query": {"min_left": 2}}).section("ranked_groups")
        assert refused({"strays": {}}).startswith("strays: unknown key; ")
    told = [record.message for record in caplog.records]
    assert len(told) == 2
    assert "the entry point 'worse'" in told[0]
    assert "the derived output 'strays' is left out: gone_astray_publication:OUTPUT cannot be imported: Run" in told[1]
    assert "cannot be imported: RuntimeError: no such drive" in refused({"problem": "lost", "lost": {}})


def test_an_output_named_like_our_key_is_left_out(installed: Installed, caplog: pytest.LogCaptureFixture) -> None:
    (installed.directory / "like_ours.py").write_text(
        "from mbe_stage.problem import DerivedOutput\n"
        "OUTPUT = DerivedOutput('output', 'bicliques', 'nowhere:PUBLICATION')\n"
    )
    installed.add("bold", "output = like_ours:OUTPUT")
    with caplog.at_level(logging.WARNING):
        assert Config.from_mapping({"ranked_groups": {}, "output": {"sort": True}}).output.sort
    (record,) = caplog.records
    assert record.message == "'output' of the package bold is left out: the configuration has a key of that name"


def test_two_packages_with_the_same_name(installed: Installed, caplog: pytest.LogCaptureFixture) -> None:
    installed.add("zz_walks", "paths")
    with caplog.at_level(logging.WARNING):
        assert Config(problem="paths").problem_section == PathsSection()
    assert caplog.records[0].message.endswith("is left out: the name is taken")


@pytest.mark.parametrize("values", [{"shares": {"a": False}}, {"shares": {"a": 0.5, "b": True}}])
def test_a_boolean_within_a_mapping_is_no_number(values: dict[str, Any]) -> None:
    assert "expected a name or a number; YAML reads" in refused({"problem": "paths", "paths": values})
    assert read_section(PathsSection, "paths", {"shares": {"a": 0}}) == PathsSection(shares={"a": 0.0})


class Nested(BaseModel):
    strict: bool = True


class Roomy(BaseModel):
    """Fields in which a boolean is meant or allowed."""

    flags: dict[str, bool] = {}
    nested: dict[str, Nested] = {}
    several: tuple[Nested, ...] = ()
    anything: dict = {}
    numbers: set[float] = set()


def test_booleans_are_accepted_in_boolean_fields() -> None:
    values = {"flags": {"a": True}, "nested": {"b": {"strict": False}}, "several": [{"strict": False}]}
    read = read_section(Roomy, "roomy", values | {"anything": {"c": True}})
    assert read.model_dump() == {**values, "several": ({"strict": False},), "anything": {"c": True}, "numbers": set()}
    with pytest.raises(ValidationError, match="YAML reads yes"):
        read_section(Roomy, "roomy", {"numbers": {2.0, True}})


def test_no_other_section_can_have_a_key_of_ours() -> None:
    assert (*Config.model_fields,) == TOP_LEVEL_KEYS
