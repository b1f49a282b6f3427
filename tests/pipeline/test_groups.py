"""Groups as an output of a run: library, command line, configuration; they depend on the edges alone."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from mbe_stage.groups import reference
from mbe_stage.pipeline import Config, load_config, run
from mbe_stage.pipeline.cli import app, options
from mbe_stage.pipeline.cli.section_options import output_parameters
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups.publication import PUBLICATION
from mbe_stage.pipeline.problems.groups.section import GroupsSection
from mbe_stage.pipeline.problems.groups.tables import explanation
from mbe_stage.pipeline.problems.installed import derived_of, derived_publications
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.problem import OUTPUTS, derived_outputs, problem_named
from tests.mbe_stage import small_gpu
from tests.mbe_stage.groups.random_graphs import plain_edge_scores
from tests.mbe_stage.processes import run_module
from tests.pipeline import small_rapids
from tests.pipeline.groups_support import (
    EDGES,
    TABLES,
    blocks,
    planted,
    rows,
    settings,
    sides_of,
    swapped,
    tables,
    wanted,
)
from tests.pipeline.output_support import assert_sound, crown_pairs
from tests.pipeline.test_problem_seam import add_entry, refusal, said

ROOT = Path(__file__).parents[2]
SECTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"rank_by": "surprise_per_vertex"},
    {"rank_by": "surprise_per_edge"},
    {"rank_by": "evidence", "max_overlap": 0.8},
    {"max_overlap": 1.0, "limit": 7},
    {"max_overlap": 0.3, "limit": 2},
)
KINDS = ("both", "short_list", "grown_cover")
FEW = [(f"few {n} {u}", 10_000 * n + v) for n in (3, 4, 5) for u in range(2) for v in range(n)]
"""Pairs that may be significant, but do not also pay for what naming a grown group costs."""
MIXED = pa.concat_tables([EDGES, blocks(), pa.table({"l": [u for u, _ in FEW], "r": [v for _, v in FEW]})])


def all_grown(out: Path, edges: pa.Table, rank_by: str = "surprise") -> Path:
    """A run that lists every grown group, except worse ones with the same left members."""
    section = {"kind": "grown_cover", "limit": 10**6, "max_overlap": 1.0, "rank_by": rank_by}
    return run(settings(out, output={"report": False}, groups=section), edges).run_dir


@pytest.fixture(scope="module")
def grown_of_mixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Such a run of `MIXED` for each ranking."""
    place = tmp_path_factory.mktemp("grown")
    rankings = {section.get("rank_by", "surprise") for section in SECTIONS}
    return {rank_by: all_grown(place / rank_by, MIXED, rank_by) for rank_by in rankings}


def assert_listed(run_dir: Path, expected: list[dict[str, Any]]) -> None:
    """Assert that the published list equals this one, with cores and counts."""
    groups = rows(run_dir, "groups")
    assert [row["group_key"] for row in groups] == [each["key"] for each in expected]
    assert [row["rank"] for row in groups] == list(range(1, len(expected) + 1))
    assert [row["kind"] == "grown_cover" for row in groups] == [each["is_grown"] for each in expected]
    assert [row["n_bicliques"] for row in groups] == [each["n_bicliques"] for each in expected]
    assert [row["surprise"] for row in groups] == pytest.approx([each["surprise"] for each in expected], abs=1e-4)
    assert [row["evidence"] for row in groups] == pytest.approx([each["evidence"] for each in expected], abs=1e-4)
    assert sides_of(run_dir) == {each["key"]: each["sides"] for each in expected}
    assert [row["core_key"] for row in groups] == [each["core"] and each["core"]["key"] for each in expected]
    of_cores = {
        (each["key"], side, vertex)
        for each in expected
        if each["core"]
        for side, members in zip(("left", "right"), each["core"]["sides"], strict=True)
        for vertex in members
    }
    found = [row for row in rows(run_dir, "group_members") if row["is_core"]]
    assert {(row["group_key"], row["side"], row["vertex"]) for row in found} == of_cores


# --- the list -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_the_list_is_that_of_the_definition(
    tmp_path: Path, grown_of_mixed: dict[str, Path], section: dict[str, Any], kind: str
) -> None:
    engine = "reference" if kind == "both" else "cpu"
    result = run(settings(tmp_path, engine, groups={"kind": kind, **section}), MIXED)
    grown = grown_of_mixed[section.get("rank_by", "surprise")]
    expected = wanted(result.run_dir, grown, kind, **section)
    assert_listed(result.run_dir, expected)
    assert len(expected) >= 2
    if kind == "both":
        assert {each["is_grown"] for each in expected} == {True, False} or section.get("limit") == 2
        assert_sound(result.run_dir)
        checks = {check.name for check in verify_run(result.run_dir, ingest(Config().input, MIXED)).checks}
        assert {"groups", "group members", "halos", "vertex scores"} <= checks


def test_the_list_of_random_graphs(tmp_path: Path) -> None:
    """Bicliques inside grown groups, near copies, and a limit."""
    n_grown = n_left_out = 0
    for seed in range(6):
        dice = random.Random(seed)
        some = planted(seed, ((3 + seed, 5), (4, 4))), blocks(seed, dice.choice([0.6, 0.85]))
        edges = pa.concat_tables([some[0], some[1].slice(seed % 2 * 40)])
        section = {"limit": dice.choice([3, 100]), "max_overlap": dice.choice([0.2, 0.5, 0.7, 1.0])}
        output = {"report": False}
        run_dir = run(settings(tmp_path / str(seed), "cpu", groups=section, output=output), edges).run_dir
        grown = all_grown(tmp_path / f"{seed} grown", edges)
        expected = wanted(run_dir, grown, **section)
        assert_listed(run_dir, expected)
        verify_run(run_dir, ingest(Config().input, edges))
        n_grown += sum(each["is_grown"] for each in expected)
        n_left_out += len(wanted(run_dir, **section)) + sum(each["is_grown"] for each in expected) - len(expected)
    assert min(n_grown, n_left_out) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_rings_come_first_and_nothing_of_the_background(tmp_path: Path, kind: str) -> None:
    result = run(settings(tmp_path, groups={"kind": kind}), EDGES)
    members = rows(result.run_dir, "group_members")
    accounts = {row["key"] for row in members if row["side"] == "left"}
    # The best biclique of the first ring lacks one account, which is only in a near copy of it.
    first_ring = range(1, 8) if kind == "short_list" else range(8)
    assert {f"ring 0 <{u}>" for u in first_ring} | {f"ring 1 <{u}>" for u in range(6)} == accounts
    first = [row["key"] for row in members if row["group_key"] == rows(result.run_dir, "groups")[0]["group_key"]]
    # Keys of two types in one column become text.
    assert {"-100", "-104"} <= set(first) or {"-200", "-205"} <= set(first)


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_of_a_block_in_closed_form(tmp_path: Path, kind: str) -> None:
    """A complete 3 x 4 and 400 single edges, so degrees, expectation and shares are known.

    A grown group also pays for its sizes and number of edges; it comes before the biclique, its near copy.
    """
    pairs = [(u, v) for u in range(3) for v in range(4)] + [(10 + i, 10 + i) for i in range(400)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    result = run(settings(tmp_path, groups={"kind": kind}), source)
    (group,) = rows(result.run_dir, "groups")
    n_edges, is_grown = 412, kind != "short_list"
    assert {name: group[name] for name in ("n_left", "n_right", "n_edges", "density", "kind", "n_bicliques")} == {
        "n_left": 3,
        "n_right": 4,
        "n_edges": 12,
        "density": 1.0,
        "kind": "grown_cover" if is_grown else "short_list",
        "n_bicliques": 1,
    }
    evidence = 12 * math.log(n_edges) - 12 * math.log(4) - 12 * math.log(3)
    assert group["evidence"] == pytest.approx(evidence, abs=1e-5)
    # A grown group is strong if its evidence also pays for both numbers.
    paid = math.log(math.comb(403, 3) * math.comb(404, 4)) + is_grown * math.log(403 * 404 * 3 * 4 * 13)
    level = "strong" if evidence > paid else "significant"
    assert (group["significant"], group["level"], group["core_key"]) == (True, level, group["group_key"])
    assert group["p_bound"] == pytest.approx(math.exp(-group["surprise"]), rel=1e-12)
    # No other vertex has so many edges, so only both numbers are named.
    surprise = evidence - math.log(403) - math.log(404) - is_grown * math.log(3 * 4 * 13)
    assert group["surprise"] == pytest.approx(surprise, abs=1e-5)
    assert (group["expected_edges"], group["left_edge_share"], group["median_right_degree"]) == (144 / 412, 1.0, 3.0)
    assert group["explanation"] == (
        "3 left x 4 right members, all of 12 possible edges; by their degrees 0.3 would be expected; 100 % of the left "
        "members' edges are among them"
    )
    assert rows(result.run_dir, "group_halo") == []
    assert pq.read_schema(result.run_dir / "vertex_scores.parquet").field("key").type == pa.int64()
    members = rows(result.run_dir, "group_members")
    names = ("side", "vertex", "key", "n_edges", "edge_share", "is_core")
    assert [tuple(row[name] for name in names) for row in members] == [
        *(("left", u, u, 4, 1.0, True) for u in range(3)),
        *(("right", v, v, 3, 1.0, True) for v in range(4)),
    ]
    scores = rows(result.run_dir, "vertex_scores")
    in_it, beside = scores[0], scores[3]
    assert (in_it["share_size"], in_it["group_key"], in_it["n_groups"]) == (
        math.sqrt(4 * 4 * 3 / 4),
        group["group_key"],
        1,
    )
    for name in ("edge_share", "edge_sqrt"):
        assert in_it[name] == pytest.approx(4**0.25 * math.sqrt(evidence), abs=1e-5)
        assert beside[name] == pytest.approx(math.sqrt(math.log(n_edges)), abs=1e-5)
    assert (in_it["group_edge_share"], in_it["degree"], in_it["degree_percentile"]) == (1.0, 4, 401.5 / 403)
    assert (beside["share_size"], beside["group_key"], beside["n_groups"], beside["group_edge_share"]) == (
        1.0,
        None,
        0,
        0.0,
    )
    assert [row["key"] for row in scores] == [*range(3), *range(10, 410), *range(4), *range(10, 410)]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_vertex_scores_by_definition(tmp_path: Path, section: dict[str, Any]) -> None:
    run_dir = run(settings(tmp_path, groups=section), EDGES).run_dir
    every = all_grown(tmp_path / "every", EDGES, section.get("rank_by", "surprise"))
    groups = [each["sides"] for each in wanted(run_dir, every, **section)]
    grown = list(zip(sides_of(every).values(), (row["surprise"] for row in rows(every, "groups")), strict=True))
    keys = [row["group_key"] for row in rows(run_dir, "groups")]
    bicliques = [(set(row["left"]), set(row["right"])) for row in pq.read_table(run_dir / "bicliques").to_pylist()]
    graph, pairs = ingest(Config().input, EDGES).graph(), [tuple(map(tuple, sides)) for sides in bicliques]
    by_edge = {
        name: plain_edge_scores(graph, pairs, by_share=name == "edge_share") for name in ("edge_share", "edge_sqrt")
    }
    scores = rows(run_dir, "vertex_scores")
    for side in ("left", "right"):
        of_side = [row for row in scores if row["side"] == side]
        parts = (np.array([row[name] for row in of_side]) for name in ("edge_share", "grown_surprise"))
        assert [row["score"] for row in of_side] == reference.rank_score(*parts).tolist()
    # Neither the kind nor other settings of the list change a score.
    for name in ("score", "share_size", "edge_share", "edge_sqrt", "grown_surprise", "tfidf_eigenvector"):
        assert [row[name] for row in rows(every, "vertex_scores")] == [row[name] for row in scores]
    central = reference.tfidf_eigenvector(*graph.edges(), (graph.n_left, graph.n_right))
    assert [row["tfidf_eigenvector"] for row in scores] == pytest.approx(np.concatenate(central).tolist(), rel=4e-6)
    for row in scores:
        own = int(row["side"] == "right")
        holding = [sides for sides in bicliques if row["vertex"] in sides[own]]
        best = max(len(sides[1 - own]) ** 2 * len(sides[own]) for sides in holding)
        assert row["share_size"] == pytest.approx(math.sqrt(best / row["degree"]))
        for name, by_vertex in by_edge.items():
            assert row[name] == pytest.approx(by_vertex[own][row["vertex"]], abs=1e-5)
        inside = [place for place, sides in enumerate(groups) if row["vertex"] in sides[own]]
        assert (row["n_groups"], row["group_key"]) == (len(inside), keys[inside[0]] if inside else None)
        others = (graph.neighbours_of_right if own else graph.neighbours_of_left)(row["vertex"]).tolist()
        explained = set().union(*(groups[place][1 - own].intersection(others) for place in inside))
        best_grown = max((surprise for sides, surprise in grown if row["vertex"] in sides[own]), default=0.0)
        # Worse groups with the same left members are never listed.
        assert row["grown_surprise"] == best_grown or (own and row["grown_surprise"] > best_grown)
        assert row["group_edge_share"] == pytest.approx(len(explained) / row["degree"])


def test_explanations_do_not_round_to_all_or_nothing() -> None:
    assert "10 of 12 possible edges" in explanation(3, 4, 10, 0.05, 0.9995)
    assert "over 99.9 %" in explanation(3, 4, 10, 0.05, 0.9995)
    assert "under 0.1 %" in explanation(3, 4, 10, 0.05, 0.0004)
    assert "4.2 %" in explanation(3, 4, 10, 0.05, 0.042)
    assert "fewer than 0.1 would" in explanation(3, 4, 10, 0.05, 0.5)
    assert "1,234 would" in explanation(3, 4, 10, 1234.2, 0.5)
    assert "all of 1 possible edge;" in explanation(1, 1, 1, 1.0, 1.0)


# --- configuration ------------------------------------------------------------------------------------------------


def test_without_its_section_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_groups = run(settings(tmp_path / "a"), EDGES)
    collector = importlib.import_module("mbe_stage.pipeline.problems.groups.collector")

    def fail(*_: object) -> None:
        raise AssertionError("nobody asked for groups")

    for name in ("__init__", "accept", "finish"):
        monkeypatch.setattr(collector.GroupsCollector, name, fail)
    without = run(settings(tmp_path / "b", groups=None), EDGES)
    names = [{path.name for path in each.run_dir.iterdir()} for each in (with_groups, without)]
    assert names[0] - names[1] == {f"{name}.parquet" for name in (*TABLES, "group_keys")}
    assert without.manifest.derived == {}
    assert without.manifest.content_fingerprint == with_groups.manifest.content_fingerprint
    assert without.manifest.config_fingerprint != with_groups.manifest.config_fingerprint


def test_library_command_line_and_configuration_ask_the_same(tmp_path: Path) -> None:
    edges = tmp_path / "edges.parquet"
    pq.write_table(EDGES, edges)
    options = ("--groups-limit", 2, "--groups-rank-by", "surprise_per_vertex", "--groups-max-overlap", 0.4)
    options += "--groups-chance-copies", 0, "--groups-kind", "grown_cover"
    told = said("enumerate", edges, "--out", tmp_path / "a", "--engine", "reference", "--quiet", *options)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"input: {{path: {edges}}}\nexecution: {{engine: cpu}}\noutput: {{directory: {tmp_path / 'b'}}}\n"
        "groups: {limit: 2, rank_by: surprise_per_vertex, max_overlap: 0.4, chance_copies: 0, kind: grown_cover}\n"
    )
    again = said("run", config, "--quiet")
    section = {"limit": 2, "rank_by": "surprise_per_vertex", "max_overlap": 0.4, "kind": "grown_cover"}
    library = run(settings(tmp_path / "c", groups=section), EDGES)
    assert told["derived"] == again["derived"] == library.manifest.derived
    assert told["derived"]["groups"]["groups"] == 2
    runs = [Path(told["run"]), Path(again["run"]), library.run_dir]
    assert len({read_manifest(each).config_fingerprint for each in runs}) == 1
    for each in runs:
        assert tables(each) == tables(library.run_dir)
        assert said("verify", each, "--quiet")["verified"]
    assert not said("run", config, "--quiet", "--if-changed", "--set", "groups.limit=1")["unchanged"]
    assert "derived    groups: 2 groups, " in CliRunner().invoke(app.app, ["run", str(config), "--quiet"]).stdout


def test_the_switch_alone_asks_for_the_defaults(tmp_path: Path) -> None:
    edges = tmp_path / "edges.parquet"
    pq.write_table(EDGES, edges)
    told = said("enumerate", edges, "--out", tmp_path / "a", "--engine", "reference", "--quiet", "--groups")
    assert read_manifest(Path(told["run"])).config.section("groups") == GroupsSection()
    (listed,) = said("runs", tmp_path / "a")["runs"]
    assert listed["asked"] == {"groups": {}}


@pytest.mark.parametrize(
    ("option", "value"),
    [("limit", 0), ("limit", "many"), ("rank-by", "edges"), ("max-overlap", 0), ("max-overlap", 1.5)],
)
def test_wrong_options_are_one_line(tmp_path: Path, option: str, value: object) -> None:
    message = refusal("enumerate", "e.csv", "--out", tmp_path, f"--groups-{option}", value, code=2)
    assert f"--groups-{option} is '{value}'" in message


@pytest.mark.parametrize("key", ["limt", "maxoverlap"])
def test_unknown_keys_are_refused_with_the_nearest(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"groups\.{key}: unknown key; did you mean '(limit|max_overlap)'"):
        settings(tmp_path, groups={key: 1})


def test_the_options_are_those_of_the_model() -> None:
    """The options are kept in a table, so that `--help` imports no model."""
    made = output_parameters(GroupsSection, "groups", PUBLICATION.about)

    def told(parameter: options.Parameter) -> tuple[object, ...]:
        (info,) = parameter.annotation.__metadata__
        names = options.options_of(parameter)
        return parameter.name, parameter.key, names, info.help, info.metavar, info.rich_help_panel, parameter.default

    assert [told(each) for each in options.GROUPS] == [told(each) for each in made]
    shown = CliRunner().invoke(app.app, ["enumerate", "--help"]).stdout
    assert "Output groups:" in shown
    assert shown.count("--groups ") == 1


def test_the_shipped_defaults_are_those_of_the_model() -> None:
    """The section is a comment in `configs/default.yaml`, since its presence would ask for groups."""
    lines = (ROOT / "configs" / "default.yaml").read_text(encoding="utf-8").splitlines()
    section = lines[lines.index("# groups:") :]
    text = "\n".join(line.removeprefix("# ") for line in section)
    assert Config.from_mapping(yaml.safe_load(text)).section("groups") == GroupsSection()
    assert set(yaml.safe_load(text)["groups"]) == set(GroupsSection.model_fields)
    assert all("#" in line.removeprefix("# ") for line in section[1:])
    assert load_config(ROOT / "configs" / "fraud_lockstep.yaml").section("groups") is not None


def test_our_outputs_keep_their_names(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [output.name for output in derived_outputs("bicliques")] == [*OUTPUTS, "smaller_sides"]
    assert derived_outputs("butterflies") == ()
    assert derived_publications("bicliques")[0] is PUBLICATION
    assert derived_of(Config.from_mapping({"groups": {}})) == (PUBLICATION,)
    add_entry(installed, "groups = tests.toys.smaller_sides.output:OUTPUT")
    with caplog.at_level(logging.WARNING):
        assert len(derived_outputs("bicliques")) == 2
    assert "the entry point 'groups' of mbe_stage.problems" in caplog.text
    assert "the name is taken" in caplog.text
    assert problem_named("bicliques").name == "bicliques"


def test_auto_takes_the_device_with_groups_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    config = settings(tmp_path, "auto")
    assert tiers.choose_tier(config.execution, "bicliques", derived_of(config)).name == "rapids"


def test_groups_are_made_by_the_fallback_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run(settings(tmp_path / "cpu", "cpu"), EDGES)
    small_gpu.install(monkeypatch)
    small_rapids.install(monkeypatch, "enumerate")
    result = run(settings(tmp_path / "auto", "auto", execution={"device_memory": 1 << 20}), EDGES)
    # From the tier to the CUDA engine, and then to the CPU.
    assert (result.manifest.engine, len(result.manifest.warnings)) == ("cpu", 2)
    assert tables(result.run_dir) == tables(wanted.run_dir)
    assert result.manifest.derived == wanted.manifest.derived


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_blocks_in_device_memory_lead_to_the_same_tables(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in run_module("tests.pipeline.emulated_groups", str(tmp_path)).splitlines()]
    assert {line["kind"]: len(line["tables"]) for line in lines} == {"both": 8, "short_list": 8}
    assert all(line["groups"] > 0 for line in lines)


# --- invariance ---------------------------------------------------------------------------------------------------


def test_neither_the_order_of_rows_nor_threads_nor_blocks_matter(tmp_path: Path) -> None:
    first = tables(run(settings(tmp_path / "0", "reference"), MIXED).run_dir)
    variants: list[dict[str, Any]] = [
        {"execution": {"engine": "cpu", "threads": 1}},
        {"execution": {"engine": "cpu", "threads": 2, "block_bytes": 1024}},
        {"output": {"sort": True}},
    ]
    for number, sections in enumerate(variants, 1):
        shuffled = MIXED.take(pc.sort_indices(pa.array([hash((number, i)) for i in range(MIXED.num_rows)])))
        config = settings(tmp_path / str(number), **sections)
        assert tables(run(config, shuffled).run_dir) == first


def test_ties_go_to_the_lower_key(tmp_path: Path) -> None:
    """Twenty separate complete 4 x 4 blocks have equal scores."""
    pairs = [(f"{block}{u}", f"{block}{v}") for block in "abcdefghijklmnopqrst" for u in range(4) for v in range(4)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    result = run(settings(tmp_path), source)
    groups = rows(result.run_dir, "groups")
    assert len({row["surprise"] for row in groups}) == 1
    keys = [row["group_key"] for row in groups]
    assert keys == sorted(row["biclique_key"] for row in pq.read_table(result.run_dir / "bicliques").to_pylist())
    limited = run(settings(tmp_path, groups={"limit": 2}), source)
    assert [row["group_key"] for row in rows(limited.run_dir, "groups")] == keys[:2]
    verify_run(limited.run_dir)


def test_nothing_significant_is_a_result(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("left,right\n" + "".join(f"a{i},b{i}\na{i},b{i + 1}\n" for i in range(9)))
    told = said("enumerate", edges, "--out", tmp_path / "o", "--engine", "reference", "--quiet", "--groups")
    run_dir = Path(told["run"])
    nothing = {"groups": 0, "left_members": 0, "right_members": 0, "significant_candidates": 0}
    nothing |= {"candidates_not_scored": 0, "seeds_not_grown": 0, "cases": 0, "chance_copies": 5}
    assert told["derived"] == {"groups": nothing}
    assert [rows(run_dir, name) for name in TABLES if name != "vertex_scores"] == [[]] * 5
    scores = rows(run_dir, "vertex_scores")
    assert len(scores) == 9 + 10
    assert {(row["group_key"], row["n_groups"], row["group_edge_share"]) for row in scores} == {(None, 0, 0.0)}
    assert all(row["score"] > 0 for row in scores)
    assert "No group is significant." in (run_dir / "report.html").read_text()
    assert said("verify", run_dir, "--quiet")["verified"]


@pytest.mark.parametrize("seed", range(4))
def test_a_random_graph_of_the_same_degrees_has_no_group(tmp_path: Path, seed: int) -> None:
    result = run(settings(tmp_path), swapped(EDGES, seed))
    assert result.manifest.derived["groups"]["groups"] == 0


def test_a_run_without_bicliques(tmp_path: Path) -> None:
    result = run(settings(tmp_path, query={"min_left": 99}), EDGES)
    assert result.manifest.derived["groups"]["groups"] == 0
    assert {row["score"] for row in rows(result.run_dir, "vertex_scores")} == {0.0}
    verify_run(result.run_dir, ingest(Config().input, EDGES))


def test_a_truncated_run_has_groups_of_its_results(tmp_path: Path) -> None:
    limited = {"engine": "cpu", "max_bicliques": 60}
    result = run(settings(tmp_path, "cpu", execution=limited), planted(2))
    assert result.manifest.truncated is not None
    # Partners grow before the search, so the best groups are there.
    accounts = {row["key"] for row in rows(result.run_dir, "group_members") if row["side"] == "left"}
    assert {f"ring 0 <{u}>" for u in range(1, 8)} | {f"ring 1 <{u}>" for u in range(6)} <= accounts
    short = run(settings(tmp_path, "cpu", execution=limited, groups={"kind": "short_list"}), planted(2))
    assert_listed(short.run_dir, wanted(short.run_dir, kind="short_list"))
    assert "better groups may be missing" in (result.run_dir / "report.html").read_text()
    verify_run(result.run_dir)


def test_a_time_limit_leaves_an_answer(tmp_path: Path) -> None:
    """A ring in a crown of 60 x 60 with 2^60 bicliques: partners grow first, and random copies end too."""
    pairs = [(f"crown {u}", 1000 + v) for u, v in crown_pairs(60)]
    crown = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    edges, execution = pa.concat_tables([EDGES, crown]), {"engine": "cpu", "time_limit_seconds": 1.0}
    config = settings(tmp_path, execution=execution, output={"bicliques": False}, groups={"chance_copies": 5})
    result = run(config, edges)
    assert result.manifest.truncated == "stopped at time_limit_seconds = 1"
    accounts = {row["key"] for row in rows(result.run_dir, "group_members") if row["side"] == "left"}
    assert {f"ring 0 <{u}>" for u in range(8)} | {f"ring 1 <{u}>" for u in range(6)} <= accounts
    assert result.manifest.derived["groups"]["chance_copies"] == 0
    page = (result.run_dir / "report.html").read_text()
    assert "better groups may be missing" in page
    assert "no time to search a random copy" in page
    verify_run(result.run_dir, ingest(Config().input, edges))


def test_keys_of_one_type_keep_it(tmp_path: Path) -> None:
    text = pa.table({"l": EDGES["l"], "r": EDGES["r"].cast(pa.string())})
    for source, kind in ((EDGES, pa.string()), (text, pa.string())):
        run_dir = run(settings(tmp_path), source).run_dir
        for name in ("group_members", "vertex_scores"):
            assert pq.read_schema(run_dir / f"{name}.parquet").field("key").type == kind
    assert json.dumps(rows(run_dir, "groups")[0])
