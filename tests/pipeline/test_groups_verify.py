"""`mbe verify` of groups: sound runs pass, and forgeries are found in every table and every column."""

from __future__ import annotations

import datetime
import math
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import reference
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups import arrow as sink
from mbe_stage.pipeline.problems.groups import publication
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.verify import group_graphs, verify_run
from tests.pipeline.groups_support import EDGES, case_with, planted, rows, settings
from tests.pipeline.output_support import crown_pairs
from tests.pipeline.test_problem_seam import edit, forge

Rows = list[dict[str, Any]]
HOUR = 3600


def changed(column: str, change: Callable[[Any], Any], row: int = 0) -> Callable[[Rows], Rows]:
    """Return a change of one value of a table."""

    def forged(table: Rows) -> Rows:
        new = [dict(each) for each in table]
        new[row][column] = change(new[row][column])
        assert new[row][column] != table[row][column]
        return new

    return forged


def without_first(table: Rows) -> Rows:
    return table[1:]


def everything(seed: int = 1, hours: int = 36) -> pa.Table:
    """Random ratings, a ring within hours, one that shares only its items, and a block of one rating with gaps."""
    dice = random.Random(seed)

    def row(account: str, item: int, stars: int | None = None, at: int | None = None) -> tuple[str, int, int, int, int]:
        moment = dice.randrange(hours * HOUR) if at is None else at + dice.randrange(9000)
        return account, item, stars or dice.randrange(1, 6), 1_600_000_000 + moment, dice.randrange(1, 9)

    found = [row(f"u{dice.randrange(90)}", dice.randrange(60)) for _ in range(350)]
    found += [row(f"ring{i}", v, 5, 20 * HOUR) for i in range(7) for v in range(6)]
    found += [row(f"slow{i}", 200 + v) for i in range(6) for v in range(6)]
    found += [row(f"block{i}", 100 + v, 4) for i in range(12) for v in range(10) if dice.random() < 0.75]
    found += [row(f"few{i}", 300 + v) for i in range(2) for v in range(5)]
    found += [row(f"u{i}", 100 + dice.randrange(10), 4) for i in range(5) for _ in range(3)]
    dice.shuffle(found)
    names = ("account", "item", "stars", "time", "weight")
    return pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))


WHOLE = everything()


def with_everything(folder: Path, **groups: Any) -> Config:
    """Settings of a run with every table except `half_later_vertices`."""
    classes = {"key": ["block0", "block1", "ring0", "u1"], "class": ["fraud", "fraud", "fraud", "good"]}
    pyarrow.csv.write_csv(pa.table(classes), folder / "labels.csv")
    pyarrow.csv.write_csv(pa.table({"key": [f"slow{i}" for i in range(6)]}), folder / "allow.csv")
    verdicts = Verdicts(folder / "verdicts.sqlite")
    for number, (name, n, verdict) in enumerate((("ring", 7, "fine"), ("block", 12, "fraud"), ("gone", 2, "open"))):
        case = case_with(f"{number:016x}", [f"{name}{i}" for i in range(n)], ring0="fraud")
        verdicts.label(case, "an earlier run", verdict)
    named = {"left": "account", "right": "item", "timestamp": "time", "weight": "weight"}
    lists = {name: str(folder / f"{name}.csv") for name in ("labels", "allow")}
    lists["verdicts"] = str(verdicts.path)
    output = {"report": False, "compare": 0}
    asked = {"query": {"min_left": 2, "min_right": 2}, "output": output, "input": named}
    return settings(folder, "cpu", **asked, groups={**lists, "chance_copies": 2, **groups})


def kept(run_dir: Path) -> dict[str, bytes]:
    return {path.relative_to(run_dir).as_posix(): path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


def copied(files: dict[str, bytes], to: Path) -> Path:
    for name, content in files.items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return to


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], EdgeData]:
    """The files of a sound run with every kind of group, and its input."""
    # Less than a day, so there are no keys of days, whose graphs each check would search again.
    config, source = with_everything(tmp_path_factory.mktemp("whole")), everything(hours=23)
    run_dir = run(config, source).run_dir
    groups = rows(run_dir, "groups")
    assert {group["kind"] for group in groups} == {"short_list", "grown_cover"}
    assert {group["is_muted"] for group in groups} == {False, True}
    assert {group["verdict"] for group in groups} == {"fine", "fraud", None}
    assert {row["key_value"] is None for row in rows(run_dir, "group_halo")} == {False, True}
    return kept(run_dir), ingest(reading_of(config), source)


OF_ALL = Config.from_mapping(
    {"input": {"left": "l", "right": "r", "timestamp": "t"}, "groups": {"labels": "labels.csv"}}
)
COLUMNS = [
    (name.removesuffix(".parquet"), column)
    for name, schema in publication.PUBLICATION.schemas(OF_ALL, (pa.string(), pa.int64())).items()
    for column in schema.names
]


def other(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return not value
    if pa.types.is_timestamp(kind):
        return (value or datetime.datetime(2020, 9, 13)) + datetime.timedelta(hours=1)
    if pa.types.is_floating(kind):
        return 1e6 if value is None else value * 1.001 + 0.01
    if pa.types.is_integer(kind):
        return (value or 0) + 1
    return f"{value or ''}?"


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Search the graphs of other keys only once for each number of bicliques that a table states."""
    found: dict[Any, Path | None] = {}
    search = group_graphs._bicliques_again

    def searched(job: Any, graph: Any) -> Path | None:
        stated = graph.name, graph.n_bicliques, graph.is_truncated
        if stated not in found:
            directory = search(job, graph)
            found[stated] = directory and shutil.copytree(directory, tmp_path_factory.mktemp("searched") / "again")
        return found[stated]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_graphs, "_bicliques_again", searched)
        yield


@pytest.mark.usefixtures("searched_once")
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_another_value_of_any_column_is_found(
    whole: tuple[dict[str, bytes], EdgeData], tmp_path: Path, table: str, column: str
) -> None:
    """The change is in the last row with a value, and in the last with null."""
    files, edges = whole
    run_dir = copied(files, tmp_path)
    name = f"{table}.parquet"
    kind, content = pq.read_schema(run_dir / name).field(column).type, rows(run_dir, table)
    for row in {content[at][column] is None: at for at in range(len(content))}.values():
        copied(files, tmp_path)
        # A small change of one half of a score need not change the score.
        change = (lambda _: 1e6) if column == "grown_surprise" else (lambda value: other(value, kind))
        forge(run_dir, name, changed(column, change, row=row))
        with pytest.raises(VerificationError):
            verify_run(run_dir, edges)


@pytest.mark.parametrize("table", sorted({table for table, _ in COLUMNS} - {"known_keys"}))
@pytest.mark.parametrize("change", [without_first, lambda table: [*table, table[-1]]])
def test_missing_and_duplicate_rows_are_found(
    whole: tuple[dict[str, bytes], EdgeData], tmp_path: Path, table: str, change: Any
) -> None:
    files, edges = whole
    forge(copied(files, tmp_path), f"{table}.parquet", change)
    with pytest.raises(VerificationError):
        verify_run(tmp_path, edges)


FORGED: list[tuple[str, Any, str]] = [
    ("groups", changed("surprise", lambda _: math.nan), "surprise is"),
    ("groups", changed("kind", lambda _: "grown_cover"), "kind is grown_cover; recomputed short_list"),
    ("groups", changed("core_key", lambda _: None), "core_key is None"),
    ("groups", changed("half_later", lambda _: False), "key and half_later are not those of a graph"),
    ("group_members", changed("side", lambda _: "right"), "out of order|there is no vertex|n_left is"),
    ("group_members", changed("vertex", lambda _: -1), "there is no vertex -1"),
    ("group_members", lambda table: [table[1], table[0], *table[2:]], "out of order"),
    ("group_edges", lambda table: table[1:], "a biclique lacks edges"),
    ("group_edges", changed("right", lambda _: 29), "the right vertex is not a member"),
    ("vertex_scores", changed("group_key", lambda _: None, row=1), "group_key must be null exactly for"),
    ("vertex_scores", changed("group_key", lambda _: 7, row=20), "group_key must be null exactly for"),
    ("vertex_scores", changed("share_size", lambda s: s * (1 + 1e-9)), "share_size is"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run_dir = run(settings(tmp_path_factory.mktemp("sound"), groups={"kind": "short_list"}), EDGES).run_dir
    assert rows(run_dir, "vertex_scores")[1]["group_key"] is not None
    assert rows(run_dir, "vertex_scores")[20]["group_key"] is None
    return kept(run_dir)


@pytest.fixture
def run_dir(published: dict[str, bytes], tmp_path: Path) -> Path:
    return copied(published, tmp_path)


@pytest.mark.parametrize(("table", "change", "message"), FORGED)
def test_forged_tables_are_found(run_dir: Path, table: str, change: Any, message: str) -> None:
    forge(run_dir, f"{table}.parquet", change)
    with pytest.raises(
        VerificationError, match=rf"(groups|group_members|group_edges|vertex_scores)\.parquet.*({message})"
    ):
        verify_run(run_dir)


def test_a_sound_run_passes(run_dir: Path) -> None:
    report = verify_run(run_dir, ingest(Config().input, EDGES))
    assert "of" in next(check.detail for check in report.checks if check.name == "groups")
    assert not any("tfidf_eigenvector" in what for what in report.not_checked)
    assert any("tfidf_eigenvector: the input is not given" in what for what in verify_run(run_dir).not_checked)


@pytest.mark.parametrize("row", [0, 20, -1])
def test_a_forged_eigenvector_is_found_with_the_input(run_dir: Path, row: int) -> None:
    forge(run_dir, "vertex_scores.parquet", changed("tfidf_eigenvector", lambda x: x + 1e-5, row=row))
    with pytest.raises(VerificationError, match=r"vertex_scores\.parquet.*tfidf_eigenvector is"):
        verify_run(run_dir, ingest(Config().input, EDGES))


@pytest.mark.parametrize("count", ["groups", "candidates_not_scored", "seeds_not_grown"])
def test_forged_counts_are_found(run_dir: Path, count: str) -> None:
    edit(run_dir, lambda values: values["derived"]["groups"].update({count: 10**6}))
    with pytest.raises(VerificationError, match=r"manifest\.json: derived\.groups is"):
        verify_run(run_dir)


def relisted(run_dir: Path, order: Callable[[list[int]], list[int]]) -> None:
    """Rewrite all tables as if other groups, or another order, had been chosen."""
    keys = order([row["group_key"] for row in rows(run_dir, "groups")])
    for name in ("groups", "group_members", "group_edges", "group_halo"):

        def chosen(table: Rows) -> Rows:
            some = [row for row in table if row["group_key"] in keys]
            return sorted(some, key=lambda row: keys.index(row["group_key"]))

        forge(run_dir, f"{name}.parquet", chosen)
    forge(run_dir, "groups.parquet", lambda table: [{**row, "rank": i} for i, row in enumerate(table, 1)])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (lambda keys: keys[1:], "is missing: it overlaps no|group_key is .*; recomputed"),
        (lambda keys: keys[:-1], "is missing: it overlaps no|group_key is .*; recomputed"),
        (lambda keys: [keys[1], keys[0], *keys[2:]], "row 0: group_key is .*; recomputed"),
    ],
)
def test_another_list_is_found(run_dir: Path, order: Any, message: str) -> None:
    relisted(run_dir, order)
    with pytest.raises(VerificationError, match=message):
        verify_run(run_dir)


@pytest.mark.parametrize(
    ("wide", "asked", "message"),
    [
        ({"kind": "both"}, {"kind": "short_list"}, "is not a candidate|is missing|recomputed"),
        ({"kind": "short_list"}, {"kind": "grown_cover"}, "one group too many"),
        ({"max_overlap": 1.0}, {"max_overlap": 0.5}, "recomputed|one group too many"),
        ({"limit": 2}, {"limit": 1}, "one group too many"),
        ({"limit": 1}, {"limit": 100}, "is missing"),
        ({"rank_by": "surprise_per_vertex"}, {"rank_by": "surprise"}, "group_key is .*; recomputed"),
        (
            {"rank_by": "surprise_per_edge"},
            {"rank_by": "surprise_per_vertex"},
            "group_key is|is missing",
        ),
        ({"rank_by": "evidence"}, {"rank_by": "surprise_per_edge"}, "group_key is|is missing"),
    ],
)
def test_another_list_than_was_asked_for_is_found(
    tmp_path: Path, wide: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    source = planted(3, ((16, 3), (4, 4), (3, 7)))
    made = run(settings(tmp_path / "a", groups={"kind": "short_list", **wide}), source).run_dir
    verify_run(made)
    edit(made, lambda values: values["config"]["groups"].update(asked))
    with pytest.raises(VerificationError, match=message):
        verify_run(made)


@pytest.mark.parametrize("n_right", [4001, 601])
def test_both_round_the_same_logarithms(n_right: int) -> None:
    """The check rounds by its own means; here on a graph with thousands of degrees."""
    dice = [(i * i * 7919 + 31 * i) % n_right for i in range(60_000)]
    graph = BipartiteCSR.from_edges([i % 311 for i in range(60_000)], dice)
    model = NullModel.of(graph)
    null = reference.Null((graph.left_degrees, graph.right_degrees), graph.n_edges)
    assert null.log_edges == model.log_edges
    assert null.logs[0].tolist() == model.left_log_degrees.tolist()
    assert null.logs[1].tolist() == model.right_log_degrees.tolist()
    assert null.is_fitted == model.is_fitted == (n_right == 601)
    assert null.at_least[0].tolist() == model.left_at_least.tolist()
    assert null.at_least[1].tolist() == model.right_at_least.tolist()
    assert null.class_cost == model.class_cost
    sizes = np.arange(1, 50)
    names = null.cost_of_members(0, 5, sizes) + null.cost_of_members(1, 7, sizes)
    assert names.tolist() == model.costs_of_members(sizes, sizes, 5, 7).tolist()


@pytest.mark.parametrize("top", [1, 4, 20_000])
def test_writing_and_checking_agree_on_random_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    """The two share no code; a small top leaves candidates that are only the best of a vertex."""
    monkeypatch.setattr(sink, "CandidateSink", partial(CandidateSink, top=top))
    monkeypatch.setattr(reference, "TOP", top)
    n_groups = 0
    for seed in range(8):
        section = {"max_overlap": (0.2, 0.5, 1.0)[seed % 3], "limit": (100, 3)[seed % 2]}
        rank_by = ("surprise", "surprise_per_vertex", "surprise_per_edge", "evidence")[seed // 2]
        output = {"directory": str(tmp_path / str(seed)), "report": False}
        source = planted(seed, ((3 + seed, 5), (6, 3 + seed // 2), (4, 4)))
        section |= {"rank_by": rank_by, "kind": ("both", "short_list")[seed // 3 % 2]}
        made = run(settings(tmp_path, groups=section, output=output), source).run_dir
        verify_run(made)
        n_groups += len(rows(made, "groups"))
    assert n_groups >= 16


def test_wrong_candidates_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crown has 252 bicliques that tie for the best, but its 20 vertices keep at most 20 of them."""
    pairs = [*crown_pairs(10), *((u, u) for u in range(10, 1010))]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    made = run(settings(tmp_path / "all", "cpu"), source)
    monkeypatch.setattr(sink, "CandidateSink", partial(CandidateSink, top=1))
    fewer = run(settings(tmp_path / "one", "cpu"), source)
    assert made.manifest.derived["groups"]["significant_candidates"] >= 252
    assert fewer.manifest.derived["groups"]["significant_candidates"] <= 21
    verify_run(made.run_dir)
    with pytest.raises(VerificationError, match=r"recomputed|is missing|n_bicliques is|significant_candidates"):
        verify_run(fewer.run_dir)
    monkeypatch.setattr(reference, "TOP", 1)
    verify_run(fewer.run_dir)
    with pytest.raises(VerificationError, match=r"is not a candidate|n_bicliques is|significant_candidates"):
        verify_run(made.run_dir)
