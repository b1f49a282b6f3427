"""Export of a run's graph in the formats of other systems, and of group members as CSV."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cases.graph_files import export_to, write_csv
from mbe_stage.pipeline.cases.looking import Looking
from mbe_stage.pipeline.cases.run_graph import EDGE_KINDS, LABELS, RunGraph, graph_frames
from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.views.export import export_rows
from tests.pipeline.groups_support import rows, settings
from tests.pipeline.test_problem_seam import mbe

# Keys that CSV, spreadsheets or headers could misread; `Both` is an account and an item.
HOSTILE = ("=1+1", 'a "quoted", b', "line\nbreak", "a;b", "größe", "\x1b[31m", " ", "Both")
SPLIT = 1_700_000_000


def table() -> pa.Table:
    """Rings of accounts that give the same ratings, in a sparse random graph, before and after the split."""
    dice = random.Random(4)
    found = []

    def add(account: str, item: str, rating: int, is_ring: bool) -> None:
        for after in (False, True) if is_ring or dice.random() < 0.5 else (dice.random() < 0.5,):
            time = SPLIT + (1 if after else -1) * dice.randrange(1, 30 * 86_400)
            found.append((account, item, rating, time, dice.randrange(1, 90) / 4, int(is_ring)))

    for account in HOSTILE:
        for v in range(5):
            add(account, f"new {v}", -5, is_ring=True)
    for v in range(6):
        for account in ("ring 0", "ring 1", "ring 2", "ring 3", "ring 4", "ring 5"):
            add(account, HOSTILE[v + 2], 3, is_ring=True)
    for u in range(40):
        for v in range(30):
            if dice.random() < 0.08:
                add(f"user {u:02}", f"page {v}", dice.randrange(-5, 6), is_ring=False)
    dice.shuffle(found)
    columns = zip(*found, strict=True)
    return pa.table(dict(zip(("account", "page", "rating", "time", "amount", "fraud"), columns, strict=True)))


@pytest.fixture(scope="module")
def edges_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edges") / "edges.parquet"
    pq.write_table(table(), path)
    return path


def made(out: Path, edges: Path, **reads: Any) -> RunResult:
    columns = {"left": "account", "right": "page", "timestamp": "time", "weight": "amount", "path": str(edges)}
    return run(settings(out, input=columns | reads))


@pytest.fixture(scope="module")
def composite(tmp_path_factory: pytest.TempPathFactory, edges_file: Path) -> RunResult:
    """A run whose items are pages with a rating."""
    return made(tmp_path_factory.mktemp("composite") / "out", edges_file, right=["page", "rating"])


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory, edges_file: Path) -> RunResult:
    """A run with time buckets, so its groups come from two graphs."""
    return made(tmp_path_factory.mktemp("buckets") / "out", edges_file, time_bucket="30d", weight=None)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory, edges_file: Path) -> RunResult:
    """A run of the rows before the split, with tried keys."""
    return made(tmp_path_factory.mktemp("train") / "out", edges_file, time_until=SPLIT)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, composite: RunResult) -> Callable[[str], Path]:
    """Export the run with composite keys for a system, once for all tests."""
    below = tmp_path_factory.mktemp("exported")

    def directory(system: Any) -> Path:
        place = below / system
        return place if place.exists() else export_to(composite.run_dir, system, place)

    return directory


def export_groups(run_dir: Path, output: io.BytesIO, limit: int | None = None) -> int:
    view = Looking(run_dir, "out").top(limit, None, (1, 1))
    export_rows(view.records, output)
    return len(view.values["groups"])


def strict(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read the header and rows of CSV by RFC 4180."""
    text = path.read_bytes().decode("utf-8")
    header, *found = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert len(set(header)) == len(header)
    assert all(len(row) == len(header) for row in found)
    return header, found


def columns(path: Path) -> dict[str, list[str]]:
    header, found = strict(path)
    return {name: [row[at] for row in found] for at, name in enumerate(header)}


# --- the graph -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["composite", "buckets", "train"])
def test_the_graph_is_that_of_the_tables(which: str, request: pytest.FixtureRequest) -> None:
    run_dir = request.getfixturevalue(which).run_dir
    graph = RunGraph(run_dir)
    keys = graph.keys.to_pylist()
    numbered = [pair for label in LABELS for pair in graph.nodes[label].select(["node", "key"]).to_pylist()]
    assert [(pair["node"], pair["key"]) for pair in numbered] == list(enumerate(keys))
    cases = {row["group_key"]: row["case"] for row in rows(run_dir, "groups")}
    members = {"Account": set(), "Item": set()}
    for row in rows(run_dir, "group_members"):
        members["Account" if row["side"] == "left" else "Item"].add((row["key"], row["group_key"], row["key_value"]))
    wanted: dict[str, set[Any]] = {f"{label.lower()}_member_of_group": found for label, found in members.items()}
    wanted["group_part_of_case"] = set(cases.items())
    assert cases
    assert all(members.values())
    for kind in EDGE_KINDS:
        found = {
            (keys[row["source"]], keys[row["target"]], *([row["key_value"]] if "key_value" in row else []))
            for row in graph.edges[kind].to_pylist()
        }
        if kind.target == "Item":
            assert_edges_of_groups(run_dir, found)
        else:
            assert found == {
                tuple(str(v) if isinstance(v, int) else v for v in each) for each in wanted[kind.file_name]
            }


def assert_edges_of_groups(run_dir: Path, found: set[tuple[str, str]]) -> None:
    """Assert that each edge joins members of one group and that no edge of the table is missing."""
    of_group: dict[int, tuple[set[str], set[str]]] = {}
    for row in rows(run_dir, "group_members"):
        of_group.setdefault(row["group_key"], (set(), set()))[row["side"] == "right"].add(row["key"])
    assert all(any(u in left and v in right for left, right in of_group.values()) for u, v in found)
    assert len(found) == len({(row["left"], row["right"]) for row in rows(run_dir, "group_edges")})


def test_frames_are_what_graphistry_takes(composite: RunResult) -> None:
    nodes, edges = composite.graph()
    assert isinstance(nodes, pd.DataFrame)
    assert nodes["id"].is_unique
    assert set(edges["source"]) | set(edges["target"]) == set(nodes["id"])
    assert {"account:Both", 'item:["Both",3]'} <= set(nodes["id"])
    assert set(edges["type"]) == {kind.name for kind in EDGE_KINDS}
    item = nodes[nodes["id"] == 'item:["Both",3]'].iloc[0]
    assert (item["page"], item["rating"], item["type"]) == ("Both", 3, "Item")
    others = graph_frames(composite.run_dir, "polars")
    assert all(isinstance(frame, pl.DataFrame) for frame in others)
    assert others[0]["id"].to_list() == nodes["id"].tolist()
    with pytest.raises(InvalidArgument, match="library is 'dask'; expected one of pandas, polars, cudf"):
        composite.graph("dask")  # type: ignore[arg-type]


def test_key_columns_may_have_names_that_the_export_uses(edges_file: Path, tmp_path: Path) -> None:
    every = pq.read_table(edges_file).rename_columns(["account", "page", "kind", "time", "amount", "fraud"])
    path = tmp_path / "edges.parquet"
    pq.write_table(every, path)
    nodes, _ = made(tmp_path / "out", path, right=["page", "kind"]).graph()
    assert set(nodes["kind_2"].dropna()) >= {-5, 3}
    assert set(nodes["kind"].dropna()) <= {"short_list", "grown_cover"}


def test_a_run_with_nothing_significant_is_written_too(tmp_path: Path) -> None:
    edges = pa.table({"l": ["a", "b", "c"], "r": [1, 2, 3]})
    nothing = run(settings(tmp_path / "out"), edges)
    nodes, lines = nothing.graph()
    assert (len(nodes), len(lines)) == (0, 0)
    for system in ("neo4j", "neptune"):
        export_to(nothing.run_dir, system, tmp_path / system)  # type: ignore[arg-type]
    assert columns(tmp_path / "neptune" / "vertices_accounts.csv")["~id"] == ["account:a", "account:b", "account:c"]
    assert strict(tmp_path / "neptune" / "edges_account_acts_on_item.csv") == (["~id", "~from", "~to", "~label"], [])
    output = io.BytesIO()
    assert export_groups(nothing.run_dir, output) == 0


def test_damaged_tables_are_refused(composite: RunResult, tmp_path: Path) -> None:
    for name, column, value in (
        ("groups", "case", None),
        ("group_members", "vertex", 10**6),
        ("group_members", "group_key", 1),
        ("group_edges", "left", -1),
        ("vertex_scores", "vertex", 10**6),
    ):
        damaged = tmp_path / f"{name} {column}"
        shutil.copytree(composite.run_dir, damaged)
        found = pq.read_table(damaged / f"{name}.parquet")
        at = found.schema.get_field_index(column)
        found = found.set_column(
            at, found.schema.field(at).with_nullable(True), pa.array([value] * len(found), found.schema.field(at).type)
        )
        pq.write_table(found, damaged / f"{name}.parquet")
        with pytest.raises(PublishError, match="cannot be read"):
            export_to(damaged, "neptune", tmp_path / "out")
        assert not [path for path in tmp_path.iterdir() if "out" in path.name]


# --- Neo4j ---------------------------------------------------------------------------------------------------------


def test_parquet_for_graph_analytics_has_numbers_only(exported: Callable[[str], Path]) -> None:
    nodes, relationships, keys = (
        pq.read_table(exported("neo4j") / f"{name}.parquet") for name in ("nodes", "relationships", "keys")
    )
    assert nodes.schema.field("nodeId").type == pa.int64()
    assert nodes["nodeId"].to_pylist() == list(range(len(nodes)))
    assert set(nodes["labels"].to_pylist()) == set(LABELS)
    assert [relationships.schema.field(at).type for at in (0, 1)] == [pa.int64()] * 2
    assert relationships.column_names[:3] == ["sourceNodeId", "targetNodeId", "relationshipType"]
    for found, first in ((nodes, ["nodeId", "labels"]), (relationships, relationships.column_names[:3])):
        assert {found.schema.field(name).type for name in set(found.column_names) - set(first)} == {pa.float64()}
        assert not any(column.null_count for column in found.columns)
    ends = set(relationships["sourceNodeId"].to_pylist()) | set(relationships["targetNodeId"].to_pylist())
    assert ends <= set(nodes["nodeId"].to_pylist())
    assert keys.column_names == ["nodeId", "label", "key"]
    assert keys["nodeId"].to_pylist() == nodes["nodeId"].to_pylist()


def test_csv_for_neo4j_admin_has_an_id_space_for_each_label(exported: Callable[[str], Path]) -> None:
    folder = exported("neo4j") / "csv"
    ids = {}
    for label, name in zip(LABELS, ("key", "key", "group_key", "case"), strict=True):
        found = columns(folder / f"{label.lower()}s.csv")
        assert list(found)[:2] == [f"{name}:ID({label})", ":LABEL"]
        assert set(found[":LABEL"]) == {label}
        ids[label] = found[f"{name}:ID({label})"]
        assert len(set(ids[label])) == len(ids[label])
        kinds = {field.rpartition(":")[2] for field in list(found)[2:]}
        assert kinds <= {"long", "double", "boolean", "datetime", "string"}
    for kind in EDGE_KINDS:
        found = columns(folder / f"{kind.file_name}.csv")
        assert list(found)[:3] == [f":START_ID({kind.source})", f":END_ID({kind.target})", ":TYPE"]
        assert set(found[f":START_ID({kind.source})"]) <= set(ids[kind.source])
        assert set(found[f":END_ID({kind.target})"]) <= set(ids[kind.target])
        assert set(found[":TYPE"]) == {kind.name}
    # Keys have no guard against formulas, so none changes.
    assert set(HOSTILE) <= set(ids["Account"])
    items = columns(folder / "items.csv")
    assert {"page:string", "rating:long"} <= set(items)
    assert [
        json.dumps([page, int(rating)], ensure_ascii=False, separators=(",", ":"))
        for page, rating in zip(items["page:string"], items["rating:long"], strict=True)
    ] == ids["Item"]
    first = columns(folder / "groups.csv")["first_time:datetime"][0]
    assert datetime.strptime(first, "%Y-%m-%dT%H:%M:%SZ").year == 2023


# --- Neptune -------------------------------------------------------------------------------------------------------


def test_csv_for_neptune(exported: Callable[[str], Path]) -> None:
    files = sorted(exported("neptune").iterdir())
    assert {path.name.partition("_")[0] for path in files} == {"vertices", "edges"}
    vertices: list[str] = []
    edges: list[str] = []
    for path in files:
        found = columns(path)
        n_own = 2 if path.name.startswith("vertices") else 4
        assert list(found)[:n_own] == ["~id", "~label", "~from", "~to"][:2] if n_own == 2 else True
        # Spaces, commas and line breaks are not allowed in headers.
        assert all(re.fullmatch(r"\w+:(Long|Double|Bool|Date|String)", field) for field in list(found)[n_own:])
        (vertices if n_own == 2 else edges).extend(found["~id"])
        if n_own == 4:
            assert list(found)[:4] == ["~id", "~from", "~to", "~label"]
            source, *_, target = path.stem.removeprefix("edges_").split("_")
            for end, label in (("~from", source), ("~to", target)):
                assert all(value.startswith(f"{label}:") for value in found[end])
    assert len(set(vertices)) == len(vertices)
    assert len(set(edges)) == len(edges)
    ends = {end for path in files if "edges" in path.name for name in ("~from", "~to") for end in columns(path)[name]}
    assert ends <= set(vertices)
    assert {f"account:{key}" for key in HOSTILE} <= set(vertices)


def test_a_reload_adds_nothing(exported: Callable[[str], Path], composite: RunResult, tmp_path: Path) -> None:
    again = export_to(composite.run_dir, "neptune", tmp_path / "again")
    for path in exported("neptune").iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_an_item_may_be_in_a_group_several_times(train: RunResult, tmp_path: Path) -> None:
    export_to(train.run_dir, "neptune", tmp_path / "out")
    ids = columns(tmp_path / "out" / "edges_item_member_of_group.csv")
    assert any(ids["key_value:String"])
    assert len(set(ids["~id"])) == len(ids["~id"])


def test_headers_escape_nothing_because_names_are_plain(tmp_path: Path) -> None:
    given = pa.table({"~id": ["1"], "a:b, c": ["x"], "a b  c": [None], "d\ne": [1.5]})
    write_csv(tmp_path / "f.csv", pa.concat_tables([given, given]), {"text": "String", "number": "Double"}, first=1)
    written = (tmp_path / "f.csv").read_text()
    assert written == '~id,a_b_c:String,a_b_c_2:String,d_e:Double\n"1","x",,1.5\n"1","x",,1.5\n'


# --- NVIDIA's Financial Fraud Training -------------------------------------------------------------------------------


def for_gnn(train: RunResult, out: Path, **given: Any) -> Path:
    return export_to(train.run_dir, "fraud-gnn", out, **{"edge_label": "fraud", "split": str(SPLIT)} | given)


def test_the_twins_of_train_and_test(train: RunResult, edges_file: Path, tmp_path: Path) -> None:
    out = for_gnn(train, tmp_path / "out")
    every = pq.read_table(edges_file).to_pylist()
    for below, wanted in (
        (out, [row for row in every if row["time"] < SPLIT]),
        (out / "test_gnn", [row for row in every if row["time"] >= SPLIT]),
    ):
        labels = {path.name for path in (below / "edges").glob("*_label.csv")}
        assert labels == {"account_acts_item_label.csv"}
        keys = {
            name: pq.read_table(below / "keys" / f"{name}.parquet")["key"].to_pylist()
            for name in ("account", "item", "group")
        }
        ends, fraud, more = (
            pd.read_csv(below / "edges" / f"account_acts_item{suffix}.csv") for suffix in ("", "_label", "_attr")
        )
        assert list(ends.columns) == ["src", "dst"]
        found = zip(ends["src"], ends["dst"], fraud["fraud"], more["weight"], more["hour"], strict=True)
        assert [(keys["account"][u], keys["item"][v], *rest) for u, v, *rest in found] == [
            (row["account"], row["page"], row["fraud"], row["amount"], row["time"] // 3600 % 24) for row in wanted
        ]
        for name, own in keys.items():
            nodes = pd.read_csv(below / "nodes" / f"{name}.csv")
            assert len(nodes) == len(own)
            assert not nodes.isna().any(axis=None)
            assert all(kind.kind in "if" for kind in nodes.dtypes)
            assert not set(nodes.columns) & {"association", "n_known", "known_share", "known_p_value", "label"}
            assert list(nodes.columns) == list(pd.read_csv(out / "nodes" / f"{name}.csv").columns)
        members = pd.read_csv(below / "edges" / "account_member_group.csv")
        listed = {
            (row["key"], row["group_key"]) for row in rows(train.run_dir, "group_members") if row["side"] == "left"
        }
        assert {(keys["account"][u], keys["group"][g]) for u, g in members.itertuples(index=False)} == {
            (account, group) for account, group in listed if account in keys["account"]
        }
    score = {row["key"]: row["score"] for row in rows(train.run_dir, "vertex_scores") if row["side"] == "left"}
    tested = pq.read_table(out / "test_gnn" / "keys" / "account.parquet")["key"].to_pylist()
    assert pd.read_csv(out / "test_gnn" / "nodes" / "account.csv")["score"].tolist() == [
        pytest.approx(score.get(key, 0.0)) for key in tested
    ]


def test_groups_made_with_test_rows_are_refused(composite: RunResult, train: RunResult, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no others.*mbe groups with --time-until {SPLIT}"):
        for_gnn(composite, tmp_path / "out")
    with pytest.raises(InputError, match=f"before {SPLIT}, while .* before {SPLIT - 86400}"):
        for_gnn(train, tmp_path / "out", split=str(SPLIT - 86400))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_label": "amount"}, r"column 'amount': \d+ other or missing values; expected 0 or 1"),
        ({"edge_label": "none"}, "no column 'none' for --edge-label"),
        ({"split": "soon"}, "'soon'; expected a number or an ISO-8601 moment"),
        ({"split": str(2 * SPLIT)}, "no others"),
    ],
)
def test_other_labels_and_splits_are_refused(
    train: RunResult, tmp_path: Path, given: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        for_gnn(train, tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


def test_groups_made_with_the_label_are_refused(edges_file: Path, tmp_path: Path) -> None:
    every = pq.read_table(edges_file)
    path = tmp_path / "edges.parquet"
    pq.write_table(every.set_column(2, "rating", pa.array([row % 2 for row in range(len(every))])), path)
    with pytest.raises(InputError, match=r"tried 'rating', which is the label.*--keys plain"):
        for_gnn(made(tmp_path / "runs", path, time_until=SPLIT), tmp_path / "out", edge_label="rating")


def test_the_input_may_have_moved(train: RunResult, edges_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(edges_file).slice(3), other)
    with pytest.raises(InputError, match="or others; expected a run of the rows before the split"):
        for_gnn(train, tmp_path / "out", source=str(other))
    pq.write_table(pq.read_table(edges_file), other)
    assert (for_gnn(train, tmp_path / "out", source=str(other)) / "nodes").is_dir()


def test_an_input_in_memory_is_asked_for(tmp_path: Path) -> None:
    reads = {"left": "account", "right": "page", "timestamp": "time", "time_until": SPLIT}
    of_memory = run(settings(tmp_path / "runs", input=reads, groups={"try_keys": "plain"}), table())
    with pytest.raises(InputError, match=r"an input in memory; .*--with INPUT"):
        for_gnn(of_memory, tmp_path / "out")
    assert (for_gnn(of_memory, tmp_path / "out", source=table()) / "edges").is_dir()


# --- CSV and the command -------------------------------------------------------------------------------------------


def test_members_of_groups_with_a_column_for_each_part_of_their_keys(composite: RunResult) -> None:
    output = io.BytesIO()
    n_groups = export_groups(composite.run_dir, output)
    header, *found = csv.reader(io.StringIO(output.getvalue().decode(), newline=""), strict=True)
    assert header[:8] == ["group", "group_key", "case", "since", "side", "account", "page", "rating"]
    members = rows(composite.run_dir, "group_members")
    assert n_groups == len({row["group_key"] for row in members}) > 1
    assert len(found) == len(members)
    for row, member in zip(found, members, strict=True):
        values = dict(zip(header, row, strict=True))
        assert values["group_key"] == str(member["group_key"])
        if member["side"] == "left":
            account = member["key"]
            assert values["account"] == (f"'{account}" if account[0] == "=" else account)
            assert values["page"] == values["rating"] == ""
        else:
            assert [values["page"], int(values["rating"])] == json.loads(member["key"])
            assert values["account"] == ""
    limited = io.BytesIO()
    assert export_groups(composite.run_dir, limited, limit=1) == 1
    assert output.getvalue().startswith(limited.getvalue())


def test_tried_key_columns_are_exported(train: RunResult) -> None:
    output = io.BytesIO()
    export_groups(train.run_dir, output)
    found = list(csv.DictReader(io.StringIO(output.getvalue().decode(), newline="")))
    members = rows(train.run_dir, "group_members")
    keys = {row["group_key"]: row["key"] for row in rows(train.run_dir, "groups")}
    assert set(keys.values()) != {"items"}
    for row, member in zip(found, members, strict=True):
        parts = [row[name] for name in ("rating", "time_bucket") if row.get(name)]
        assert parts == json.loads(member["key_value"] or "[]"), keys[member["group_key"]]


def test_the_command(composite: RunResult, tmp_path: Path) -> None:
    run_dir = composite.run_dir
    with_both = mbe("export", run_dir, "--csv", "-q")
    assert with_both.stdout.startswith('"biclique"')
    assert mbe("export", run_dir, "--csv", "--groups", "-q").stdout.startswith('"group"')
    wrong = {
        (): "one format",
        ("--csv", "--to", "neo4j", tmp_path / "out"): "one format",
        ("--to", "neo4j"): "needs a directory",
        ("--csv", tmp_path / "out"): "is for --to",
        ("--csv", "--split", "1"): "is for --to",
        ("--to", "neo4j", tmp_path / "out", "--limit", "1"): "is for --csv",
        ("--to", "neo4j", tmp_path / "out", "--split", "1"): "are for fraud-gnn, not neo4j",
        ("--to", "fraud-gnn", tmp_path / "out"): "--edge-label and --split missing",
        ("--to", "fraud-gnn", tmp_path / "out", "--split", "1"): "--edge-label missing",
    }
    for arguments, message in wrong.items():
        assert message in mbe("export", run_dir, *arguments, code=2).output
    mbe("export", run_dir, "--to", "neptune", tmp_path / "out", "-q")
    assert "is not empty" in mbe("export", run_dir, "--to", "neptune", tmp_path / "out", code=3).output


def test_a_run_without_groups(edges_file: Path, tmp_path: Path) -> None:
    asked = {"execution": {"engine": "reference"}, "output": {"directory": str(tmp_path / "out")}}
    asked["input"] = {"path": str(edges_file), "left": "account", "right": "page"}
    plain = run(Config.from_mapping(asked))
    with pytest.raises(PublishError, match="has no groups; expected a run with groups"):
        export_to(plain.run_dir, "neo4j", tmp_path / "there")
    with pytest.raises(PublishError, match="has no groups"):
        plain.graph()
