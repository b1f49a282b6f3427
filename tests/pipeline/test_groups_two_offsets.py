"""Groups with buckets of time: both offsets in one list, compared with two plain graphs with hand-made keys."""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.groups.reference import rank_score
from mbe_stage.pipeline import Config, EdgeData, run
from mbe_stage.pipeline.errors import ConfigError, VerificationError
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups import chance, searched
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage.groups.random_graphs import block_of
from tests.pipeline.groups_support import evidence, logs_of, names, rows
from tests.pipeline.test_groups_verify import changed
from tests.pipeline.test_problem_seam import forge

DAY = 86_400
WIDTH = 7 * DAY
BORDER = 1_600_000_000 // WIDTH * WIDTH


def events(seed: int = 1) -> pa.Table:
    """Random actions over twelve weeks, and three rings. One ring acts around the end of a bucket."""
    dice = random.Random(seed)
    found = [
        (f"u{dice.randrange(25):02}", dice.randrange(20), BORDER + dice.randrange(-6 * WIDTH, 6 * WIDTH))
        for _ in range(220)
    ]
    for account in range(6):
        found += [(f"ring{account}", 100 + item, BORDER + dice.randrange(-DAY, DAY)) for item in range(6)]
        # Around a border of the later buckets, and far from the borders of both offsets.
        found += [(f"cell{account}", 200 + item, BORDER + WIDTH // 2 + dice.randrange(-DAY, DAY)) for item in range(5)]
        found += [(f"core{account}", 300 + item, BORDER + WIDTH // 4 + dice.randrange(99)) for item in range(4)]
        found += [(f"ring{account}", dice.randrange(20), BORDER - 2 * WIDTH)]
    dice.shuffle(found)
    columns = zip(*found, strict=True)
    return pa.table(dict(zip(("l", "r", "t"), map(list, columns), strict=True)))


def settings(out: Path, groups: dict[str, Any] | None = None, **of_input: Any) -> Config:
    asked = {"left": "l", "right": "r", "timestamp": "t", "time_bucket": "7d", **of_input}
    return Config.from_mapping(
        {
            "input": {name: value for name, value in asked.items() if value is not None},
            "execution": {"engine": "reference"},
            "output": {"directory": str(out), "report": False, "compare": 0},
            "groups": {"chance_copies": 0, **(groups or {})},
        }
    )


def with_keys(source: pa.Table, offset: int) -> pa.Table:
    """The same edges with hand-made keys that include the bucket."""
    keys = []
    for item, moment in zip(source["r"].to_pylist(), source["t"].to_pylist(), strict=True):
        begin = pa.scalar((moment - offset) // WIDTH * WIDTH + offset, pa.timestamp("s")).as_py().isoformat()
        keys.append(json.dumps([item, f"{begin}Z"], separators=(",", ":")))
    return pa.table({"l": source["l"], "r": keys})


def plain_runs(tmp_path: Path, source: pa.Table) -> list[Path]:
    """Publish a run of each of the two graphs."""
    config = settings(tmp_path, {"limit": 1000, "kind": "short_list"}, timestamp=None, time_bucket=None)
    return [run(config, with_keys(source, offset)).run_dir for offset in (0, WIDTH // 2)]


def positive(run_dir: Path, later: bool) -> list[tuple[float, int, frozenset[str], bool]]:
    """Return significant bicliques by definition: surprise, key, left keys, and whether of the later buckets."""
    vertices = [rows(run_dir, f"{side}_vertices") for side in ("left", "right")]
    degrees = [[vertex["degree"] for vertex in side] for side in vertices]
    logs, found = logs_of(degrees), []
    for row in pq.read_table(run_dir / "bicliques").to_pylist():
        sides = set(row["left"]), set(row["right"])
        # Searching two graphs costs log 2.
        value = evidence(logs, sides) - names(degrees, sides) - math.log(2)
        if value > math.log(20):
            found.append((value, row["biclique_key"], frozenset(vertices[0][u]["key"] for u in row["left"]), later))
    return found


def expected(runs: list[Path], limit: int = 100) -> list[tuple[float, int, frozenset[str], bool]]:
    """The short list of both graphs, without near copies (a Jaccard index of at least 3 / 5)."""
    candidates = [one for later, run_dir in enumerate(runs) for one in positive(run_dir, bool(later))]
    kept: list[tuple[float, int, frozenset[str], bool]] = []
    for one in sorted(candidates, key=lambda each: (-round(each[0], 5), each[1])):
        if all(5 * len(one[2] & other[2]) < 3 * len(one[2] | other[2]) for other in kept):
            kept.append(one)
    return kept[:limit]


@pytest.mark.parametrize("seed", range(4))
def test_the_list_is_that_of_both_graphs(tmp_path: Path, seed: int) -> None:
    source = events(seed)
    runs = plain_runs(tmp_path / "plain", source)
    run_dir = run(settings(tmp_path / "both", {"kind": "short_list"}), source).run_dir
    groups, wanted = rows(run_dir, "groups"), expected(runs)
    assert [(row["group_key"], row["half_later"]) for row in groups] == [(one[1], one[3]) for one in wanted]
    assert [row["surprise"] for row in groups] == pytest.approx([one[0] for one in wanted], abs=1e-5)
    assert {True, False} <= {row["half_later"] for row in groups}
    # A group's figures are those of its own graph; ranks and near copies are those of both.
    alone = [{row["group_key"]: row for row in rows(each, "groups")} for each in runs]
    same = ("n_left", "n_right", "n_edges", "expected_edges", "left_edge_share", "median_right_degree", "evidence")
    for row in groups:
        if row["group_key"] in alone[row["half_later"]]:
            assert [row[name] for name in same] == [alone[row["half_later"]][row["group_key"]][name] for name in same]
    assert len(alone[0]) + len(alone[1]) > len(groups)


@pytest.mark.parametrize("kind", ["short_list", "grown_cover"])
def test_a_left_vertex_has_the_better_of_its_scores(tmp_path: Path, kind: str) -> None:
    source = events()
    run_dir = run(settings(tmp_path / "both", {"kind": kind}), source).run_dir
    found = rows(run_dir, "vertex_scores")
    alone = [
        {(row["side"], row["key"]): row for row in rows(each, "vertex_scores")}
        for each in plain_runs(tmp_path / "plain", source)
    ]
    groups = {row["group_key"]: row["rank"] for row in rows(run_dir, "groups")}
    of_vertex: dict[str, set[int]] = {}
    for row in rows(run_dir, "group_members"):
        of_vertex.setdefault(row["key"], set()).add(row["group_key"])
    for row in found:
        same = [each[row["side"], row["key"]] for each in alone if (row["side"], row["key"]) in each]
        for name in ("share_size", "edge_share", "edge_sqrt"):
            assert row[name] == max(each[name] for each in same)
        assert row["tfidf_eigenvector"] == same[0]["tfidf_eigenvector"]
        # Groups pay for the search of two graphs.
        paid = max(each["grown_surprise"] for each in same) - math.log(2)
        assert row["grown_surprise"] == pytest.approx(max(0, paid), abs=1e-6)
        assert row["degree"] == same[0]["degree"]
        mine = of_vertex.get(row["key"], set())
        assert row["n_groups"] == len(mine)
        assert row["group_key"] == min(mine, key=groups.__getitem__, default=None)
    assert sum(row["side"] == "right" for row in found) == len(rows(run_dir, "right_vertices"))
    for side in ("left", "right"):
        of_side = [row for row in found if row["side"] == side]
        parts = (np.array([row[name] for row in of_side]) for name in ("edge_share", "grown_surprise"))
        assert [row["score"] for row in of_side] == rank_score(*parts).tolist()


@pytest.mark.parametrize("kind", ["short_list", "grown_cover"])
def test_either_offset_may_be_the_first(tmp_path: Path, kind: str) -> None:
    """Starting half a bucket later swaps the two graphs and finds the same groups."""
    source = events(3)
    one, other = (
        rows(run(settings(tmp_path, {"kind": kind}, time_offset=offset), source).run_dir, "groups")
        for offset in ("0", "84h")
    )
    assert {row["group_key"]: not row["half_later"] for row in one} == {
        row["group_key"]: row["half_later"] for row in other
    }


def test_actions_around_a_border_form_one_group(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path), events()).run_dir
    members = rows(run_dir, "group_members")
    (ring,) = {row["group_key"] for row in members if row["key"] == "ring0"}
    found = [row for row in members if row["group_key"] == ring]
    assert {row["key"] for row in found if row["side"] == "left"} == {f"ring{i}" for i in range(6)}
    keys = {row["vertex"]: row["key"] for row in rows(run_dir, "half_later_vertices")}
    assert {row["vertex"]: row["key"] for row in found if row["side"] == "right"}.items() <= keys.items()
    assert min(keys) == len(rows(run_dir, "right_vertices"))
    (row,) = [row for row in rows(run_dir, "groups") if row["group_key"] == ring]
    assert (row["n_edges"], row["half_later"], row["busiest_share"]) == (36, True, 1.0)
    assert {row["half_later"] for row in rows(run_dir, "groups") if row["n_edges"] == 30} == {False}
    # It is within a bucket of either offset, and listed once.
    assert len({row["group_key"] for row in members if row["key"] == "core0"}) == 1


@pytest.mark.parametrize("groups", [{}, {"limit": 1}, {"kind": "grown_cover"}, {"rank_by": "evidence"}])
def test_sound_runs_pass(tmp_path: Path, groups: dict[str, Any]) -> None:
    config, source = settings(tmp_path, groups), events(2)
    result = run(config, source)
    report = verify_run(result.run_dir, ingest(reading_of(config), source))
    names = {check.name: check.detail for check in report.checks}
    assert {"half later vertices", "groups", "vertex scores", "weights and times of groups"} <= names.keys()
    counts = result.manifest.derived["groups"]
    assert names["half later bicliques"].startswith(f"all {counts['half_later_bicliques']:,}, enumerated again")
    assert [what for what in report.not_checked if not what.startswith("manifest.json")] == [
        "groups and vertex scores: that no other grown group is better: growing is not repeated"
    ]
    assert counts["half_later_truncated"] == 0
    assert "half_later" in result.manifest.seconds
    without = verify_run(result.run_dir)
    assert any("the input is not given with all" in what for what in without.not_checked)
    assert "groups" not in {check.name for check in without.checks}


@pytest.mark.parametrize("kind", ["short_list", "grown_cover"])
def test_known_keys_are_of_either_graph(tmp_path: Path, kind: str) -> None:
    """Right keys of later buckets may be listed too; groups of both offsets form one case."""
    source = events(2)
    keys = rows(run(settings(tmp_path), source).run_dir, "half_later_vertices")
    labels = [("ring0", "left", "fraud"), ("ring1", "left", "fraud"), ("u01", "left", "good")]
    labels += [(row["key"], "right", "fraud") for row in keys if row["key"].startswith("[101,")]
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([("key", "side", "class"), *labels])
    (tmp_path / "allow.csv").write_text("key\n" + "".join(f"core{i}\n" for i in range(6)))
    asked = {"kind": kind, "labels": str(tmp_path / "labels.csv"), "allow": str(tmp_path / "allow.csv")}
    config = settings(tmp_path, asked)
    run_dir = run(config, source).run_dir
    of_ring = {row["group_key"] for row in rows(run_dir, "group_members") if row["key"] == "ring0"}
    ring = [row for row in rows(run_dir, "groups") if row["group_key"] in of_ring]
    assert len({row["case"] for row in ring}) == 1
    assert ring[0]["n_known"] == 3
    assert [row["is_muted"] for row in rows(run_dir, "groups")].count(True) == 1
    found = {(row["side"], row["key"]): row["association"] for row in rows(run_dir, "vertex_scores")}
    assert found["left", "ring0"] is None
    assert found["left", "ring2"] > found["left", "u02"]
    report = verify_run(run_dir, ingest(reading_of(config), source))
    assert "cases" in {check.name for check in report.checks}


def test_the_report_shows_both(tmp_path: Path) -> None:
    config = settings(tmp_path)
    config = config.model_copy(update={"output": config.output.model_copy(update={"report": True})})
    page = (run(config, events()).run_dir / "report.html").read_text()
    assert "ring0" in page
    assert "cell0" in page


def of_later(change: Any) -> Any:
    """Return a change of the first group of the later buckets, made by `change` for its row."""

    def forged(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
        row = next(i for i, each in enumerate(table) if each["half_later"])
        return change(row)(table)

    return forged


FORGED: list[tuple[str, Any, str]] = [
    ("groups", of_later(lambda row: changed("half_later", lambda _: False, row)), "there is no vertex"),
    ("groups", of_later(lambda row: changed("surprise", lambda s: s + 1e-5, row)), "surprise is"),
    ("groups", of_later(lambda row: changed("evidence", lambda s: s + 1e-5, row)), "evidence is"),
    ("groups", of_later(lambda row: changed("expected_edges", lambda e: e * 2, row)), "expected_edges is"),
    ("groups", of_later(lambda row: changed("left_edge_share", lambda e: e / 2, row)), "left_edge_share is"),
    ("groups", of_later(lambda row: changed("busiest_share", lambda e: e / 2, row)), "busiest_share is"),
    ("group_members", changed("edge_share", lambda q: q / 2), "edge_share is"),
    ("group_members", changed("key", lambda key: key + "?", -1), "key is"),
    ("half_later_vertices", changed("degree", lambda d: d + 1), "degree is"),
    ("half_later_vertices", changed("vertex", lambda v: v + 1), "vertex is"),
    ("half_later_vertices", changed("key", lambda key: "!" + key), "its keys are not those of|group_key is"),
    ("half_later_vertices", lambda table: table[:-1], "its keys are not those of|there is no vertex"),
    ("vertex_scores", changed("n_groups", lambda n: n + 1), "n_groups is"),
    ("vertex_scores", changed("group_edge_share", lambda q: q / 2 + 0.1), "group_edge_share is"),
    ("vertex_scores", changed("score", lambda _: 0.0), "score is 0.0; recomputed"),
    ("vertex_scores", changed("share_size", lambda s: s * 1.001), "share_size is"),
    ("groups", of_later(lambda row: changed("n_bicliques", lambda n: n + 1, row)), "n_bicliques is"),
]


@pytest.mark.parametrize(("table", "change", "message"), FORGED)
def test_forged_tables_are_found(tmp_path: Path, table: str, change: Any, message: str) -> None:
    config, source = settings(tmp_path), events()
    run_dir = run(config, source).run_dir
    forge(run_dir, f"{table}.parquet", change)
    with pytest.raises(VerificationError, match=message):
        verify_run(run_dir, ingest(reading_of(config), source))


@pytest.mark.parametrize("kind", ["short_list", "grown_cover"])
@pytest.mark.parametrize("without", ["the sample", "a whole search", "the bicliques of the first"])
def test_later_groups_are_checked_without_their_bicliques(
    tmp_path: Path, kind: str, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each later group is still checked against its graph, and scores are lower bounds."""
    config, source = settings(tmp_path, {"kind": kind}), events(2)
    if without == "a whole search":
        whole = searched.enumerate_into
        monkeypatch.setattr(
            searched, "enumerate_into", lambda *given: replace(whole(*given), truncated="was cut short")
        )
    elif without == "the bicliques of the first":
        config = config.model_copy(update={"output": config.output.model_copy(update={"bicliques": False})})
    result = run(config, source)
    counts, edges = result.manifest.derived["groups"], ingest(reading_of(config), source)
    sample = None if without == "a whole search" else counts["half_later_bicliques"] - 1
    report = verify_run(result.run_dir, edges, sample)
    assert "half later bicliques" not in {check.name for check in report.checks}
    (why,) = [what for what in report.not_checked if what.startswith("half later bicliques: ")]
    assert ("a limit stopped their search" if sample is None else f"are more than {sample:,}, the most") in why
    assert any(what.startswith("half later groups: that no better one is missing") for what in report.not_checked)
    forge(result.run_dir, "vertex_scores.parquet", changed("edge_share", lambda _: 0.0))
    with pytest.raises(VerificationError, match="edge_share is below"):
        verify_run(result.run_dir, edges, sample)


@pytest.mark.parametrize("kind", ["short_list", "grown_cover"])
def test_errors_of_the_second_search_are_found(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One search loses the best later group, and one states another number."""
    source, whole = events(2), searched.enumerate_into
    config = settings(tmp_path, {"kind": kind})
    edges = ingest(reading_of(config), source)
    lost = edges.left_keys.to_pylist().index("ring0")

    def losing(sink: Any, *given: Any) -> Any:
        class Losing:
            detail = sink.detail

            def accept(self, block: Any) -> None:
                lists = [
                    np.split(members, offsets[1:-1])
                    for offsets, members in (
                        (block.left_offsets, block.left_members),
                        (block.right_offsets, block.right_members),
                    )
                ]
                sink.accept(block_of([pair for pair in zip(*lists, strict=True) if lost not in pair[0]]))

        return whole(Losing(), *given)

    monkeypatch.setattr(searched, "enumerate_into", losing)
    run_dir = run(config, source).run_dir
    wrong = r"is missing: it overlaps no better group|(group_key|share_size|score|n_bicliques|core_key) is"
    with pytest.raises(VerificationError, match=wrong):
        verify_run(run_dir, edges)
    monkeypatch.setattr(
        searched, "enumerate_into", lambda *given: replace(found := whole(*given), n_found=found.n_bicliques + 1)
    )
    with pytest.raises(VerificationError, match=r"half_later_bicliques is \d+; found \d+"):
        verify_run(run(config, source).run_dir, edges)


def test_both_searches_report_progress(tmp_path: Path) -> None:
    heard: list[Any] = []
    result = run(settings(tmp_path), events(), on_progress=heard.append)
    first, later = ([each for each in heard if bool(each.search) == of_later] for of_later in (False, True))
    assert heard == first + later
    assert {each.search for each in later} == {"buckets shifted by half"}
    assert [each[-1].n_found for each in (first, later)] == [
        result.manifest.counts.bicliques,
        result.manifest.derived["groups"]["half_later_bicliques"],
    ]
    assert later[-1].work_done == 1.0


def test_a_bucket_that_must_be_contained_is_refused(tmp_path: Path) -> None:
    key = ingest(settings(tmp_path).input, events()).right_keys[0].as_py()
    values = settings(tmp_path).model_dump(mode="json")
    values["query"]["containing_right"] = [key]
    with pytest.raises(ConfigError, match=r"query\.containing_right names a time bucket"):
        run(Config.from_mapping(values), events())
    assert not list((tmp_path / "runs").glob("*"))


def test_random_copies_are_searched_with_both_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, whole = list[EdgeData](), chance.search_graph
    monkeypatch.setattr(chance, "search_graph", lambda of, edges, *rest: heard.append(edges) or whole(of, edges, *rest))
    config = settings(tmp_path, {"chance_copies": 2})
    result = run(config, events())
    own = ingest(reading_of(config), events())
    assert own.half_later is not None
    assert result.manifest.derived["groups"]["chance_copies"] == 2
    assert {group["chance_p_value"] for group in rows(result.run_dir, "groups")} == {1 / 3}
    for place, edges in enumerate(heard):
        like = own.half_later if place % 2 else own
        assert edges.right_keys.equals(like.right_keys)
        n, n_of_rows = np.bincount(edges.right_ids), np.bincount(like.events.right)
        # Some rows of a copy may share an edge of the later buckets, as some do in the input.
        assert (n <= n_of_rows).all()
        assert n.sum() >= 0.97 * len(like.left_ids) if place % 2 else np.array_equal(n, np.bincount(like.right_ids))
        assert not np.array_equal(edges.right_ids, like.right_ids)
    assert len(heard) == 4
    verify_run(result.run_dir, own)


def test_times_that_move_within_a_bucket_make_another_run(tmp_path: Path) -> None:
    config, source = settings(tmp_path), events()
    first = run(config, source)
    assert run(config, source, if_changed=True).unchanged
    later = [moment // WIDTH * WIDTH for moment in source["t"].to_pylist()]
    moved = source.set_column(2, "t", pa.array(later))
    again = run(config, moved, if_changed=True)
    assert not again.unchanged
    assert again.manifest.input.fingerprint == first.manifest.input.fingerprint


def test_edges_between_tasks_keep_both(tmp_path: Path) -> None:
    edges = ingest(reading_of(settings(tmp_path)), events())
    loaded = load_edges(save_edges(edges, tmp_path / "edges"))
    assert edges.half_later is not None
    assert loaded.half_later is not None
    assert loaded.half_later.facts == edges.half_later.facts != edges.facts
    assert loaded.half_later.right_keys.equals(edges.half_later.right_keys)
    # Without an output that asks for it there is no second graph.
    assert ingest(settings(tmp_path).input, events()).half_later is None


def test_an_incomplete_second_search_calls_no_group_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit ends the second search only, so the run has all its bicliques, but perhaps not all its groups."""
    config = settings(tmp_path)
    asked = config.model_copy(update={"output": config.output.model_copy(update={"compare": 1000, "report": True})})
    run(asked, events())
    whole = searched.enumerate_into
    monkeypatch.setattr(searched, "enumerate_into", lambda *given: replace(whole(*given), truncated="was cut short"))
    result = run(asked, events(2))
    assert result.manifest.truncated is None
    assert {row["since"] for row in rows(result.run_dir, "groups")} == {None}
    (remark,) = result.manifest.derived_comparison["groups"].remarks
    assert "this run did not search all groups" in remark
    assert "A limit stopped the search with buckets shifted by half" in (result.run_dir / "report.html").read_text()

    monkeypatch.undo()
    (remark,) = run(asked, events(3)).manifest.derived_comparison["groups"].remarks
    assert "the run before did not search all groups" in remark
