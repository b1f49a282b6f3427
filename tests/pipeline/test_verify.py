"""`verify_run` accepts correct runs, and names what is wrong, however well the damage is covered up."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mbe_stage.pipeline.verify
from mbe_stage import BipartiteCSR
from mbe_stage.bicliques.keys import edge_fingerprint, hash_integers, hash_text
from mbe_stage.bicliques.keys import vertex_hashes as stage_vertex_hashes
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.graphs.two_hop import two_hop_steps
from mbe_stage.pipeline.clean import facts
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.edges import EdgeData, InputFacts
from mbe_stage.pipeline.errors import PublishError, VerificationError
from mbe_stage.pipeline.execution.steps import enumerate_to, finish
from mbe_stage.pipeline.publish.manifest import config_fingerprint, file_entries, read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.publish.schemas import BICLIQUES, SIZE_HISTOGRAM
from mbe_stage.pipeline.verify import closure, verify_run
from mbe_stage.pipeline.verify.fields import standing_notes
from mbe_stage.pipeline.verify.recipe import KeySums, biclique_keys, text_hashes, vertex_hashes

Rows = list[tuple[list[int], list[int]]]

N_LEFT, N_RIGHT = 14, 11


def edge_data(adjacent: np.ndarray) -> EdgeData:
    """Edges of a 0-1 matrix without empty rows or columns; keys are strings on the left, integers on the right."""
    left, right = (ids.astype(np.int32) for ids in np.nonzero(adjacent))
    left_keys = pa.array([f"person {i:02}" for i in range(adjacent.shape[0])])
    right_keys = pa.array([100 + 7 * i for i in range(adjacent.shape[1])])
    hashes = vertex_hashes(left_keys, "left"), vertex_hashes(right_keys, "right")
    fingerprint = edge_fingerprint(left, right, *hashes)
    sizes = left.size, 0, 0, 0, 0, len(left_keys), len(right_keys), left.size
    columns = InputColumn("left", 0, "person"), InputColumn("right", 1, None)
    facts = InputFacts("memory:test", "numpy", *sizes, fingerprint, columns=columns)
    return EdgeData(left, right, left_keys, right_keys, facts)


def matrix(seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    adjacent = rng.random((N_LEFT, N_RIGHT)) < 0.45
    adjacent[np.arange(N_LEFT), np.arange(N_LEFT) % N_RIGHT] = True
    return adjacent


def publish(directory: Path, edges: EdgeData, **sections: dict) -> Path:
    sections.setdefault("execution", {"engine": "reference", "block_bytes": 4096})
    sections["output"] = {"directory": str(directory), "report": False, **sections.get("output", {})}
    config = Config.from_mapping(sections)
    with RunStore(directory).begin() as staging:
        facts = enumerate_to(edges, config, staging.path)
        finish(staging.path, edges.facts, config, facts)
        return staging.publish()


@pytest.fixture
def edges() -> EdgeData:
    return edge_data(matrix())


@pytest.fixture
def run(tmp_path: Path, edges: EdgeData) -> Path:
    return publish(tmp_path / "out", edges)


# --- forging: damage with everything else made to agree -----------------------------------------------------------


def edit_manifest(run: Path, edit: Callable[[dict], None]) -> None:
    path = run / "manifest.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


def refresh_files(run: Path) -> None:
    """Correct the sizes, checksums and rows in the manifest."""
    entries = [entry.model_dump() for entry in file_entries(run)]
    edit_manifest(run, lambda values: values.update(files=entries))


def edit_rows(path: Path, edit: Callable[[list[dict]], None]) -> None:
    """Edit a table as a list of rows, keeping its schema."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, compression="zstd")


def read_bicliques(run: Path) -> Rows:
    table = pq.read_table(run / "bicliques")
    return list(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))


def forge(run: Path, rows: Rows) -> None:
    """Replace the bicliques, and make keys, histogram, vertex tables, counts, fingerprint and checksums agree."""
    hashes = [vertex_hashes(pq.read_table(run / f"{side}_vertices.parquet")["key"], side) for side in ("left", "right")]
    sums = [np.array([hashes[side][row[side]].sum() for row in rows], np.uint64) for side in (0, 1)]
    keys = biclique_keys(*sums).tolist()
    for part in (run / "bicliques").glob("*"):
        part.unlink()
    table = [
        {
            "biclique_key": key,
            "left": left,
            "right": right,
            "n_left": len(left),
            "n_right": len(right),
            "n_edges": len(left) * len(right),
        }
        for key, (left, right) in zip(keys, rows, strict=True)
    ]
    pq.write_table(
        pa.Table.from_pylist(table, schema=BICLIQUES), run / "bicliques" / "part-00000.parquet", compression="zstd"
    )
    sizes = Counter((len(left), len(right)) for left, right in rows)
    histogram = [{"n_left": p, "n_right": q, "n_bicliques": n} for (p, q), n in sorted(sizes.items())]
    pq.write_table(
        pa.Table.from_pylist(histogram, schema=SIZE_HISTOGRAM), run / "size_histogram.parquet", compression="zstd"
    )
    for side, name in enumerate(("left", "right")):
        edit_rows(
            run / f"{name}_vertices.parquet", lambda vertices, side=side: _participate(vertices, side, rows, keys)
        )
    fingerprint = KeySums()
    fingerprint.add(np.array(keys, np.int64))
    counts = {
        "bicliques": len(rows),
        "left_members": sum(len(left) for left, _ in rows),
        "right_members": sum(len(right) for _, right in rows),
        "sizes": len(sizes),
        "max_left": max(p for p, _ in sizes),
        "max_right": max(q for _, q in sizes),
        "max_edges": max(p * q for p, q in sizes),
    }
    edit_manifest(run, lambda values: values.update(counts=counts, content_fingerprint=str(fingerprint)))
    refresh_files(run)


def _participate(vertices: list[dict], side: int, rows: Rows, keys: list[int]) -> None:
    for vertex in vertices:
        own = [
            (-len(row[0]) * len(row[1]), key)
            for row, key in zip(rows, keys, strict=True)
            if vertex["vertex"] in row[side]
        ]
        edges, key = min(own, default=(0, None))
        vertex.update(n_bicliques=len(own), largest_biclique_key=key, largest_biclique_edges=-edges)


def refused(run: Path, edges: EdgeData | None, *parts: str, **options: int) -> None:
    """Assert that the check fails with a one-line message that has every part."""
    with pytest.raises(VerificationError) as caught:
        verify_run(run, edges, **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


# --- correct runs pass --------------------------------------------------------------------------------------------


def test_a_good_run_passes(run: Path, edges: EdgeData) -> None:
    report = verify_run(run, edges)
    assert report.n_bicliques == report.n_against_input == len(maximal_bicliques(edges.graph())) > 50
    assert report.not_checked == standing_notes(read_manifest(run))
    assert [check.name for check in report.checks] == [
        "files",
        "schemas",
        "limits",
        "input",
        "rows",
        "complete and maximal",
        "manifest counts and content fingerprint",
        "size histogram",
        "left vertices",
        "left two-hop degrees",
        "right vertices",
        "right two-hop degrees",
        "all distinct",
        "nothing missing",
        "manifest fields",
        "reading",
    ]


def test_the_output_directory_means_its_latest_run(run: Path, edges: EdgeData) -> None:
    assert verify_run(run.parent.parent, edges).run.resolve() == run.resolve()


def test_forging_nothing_passes(run: Path, edges: EdgeData) -> None:
    forge(run, read_bicliques(run))
    verify_run(run, edges)


def test_without_the_input_open_checks_are_listed(run: Path) -> None:
    report = verify_run(run)
    assert report.n_against_input == 0
    assert any("the input is not given" in text for text in report.not_checked)


@pytest.mark.parametrize(
    "query",
    [
        {"min_left": 2, "min_right": 3},
        {"max_left": 3},
        {"max_right": 2, "min_edges": 4},
        {"containing_left": ["person 03"], "containing_right": [107]},
        {"min_left": 14, "min_right": 11},
    ],
    ids=str,
)
def test_filtered_runs_pass(tmp_path: Path, edges: EdgeData, query: dict) -> None:
    run = publish(tmp_path / "out", edges, query=query)
    report = verify_run(run, edges)
    assert report.n_against_input == report.n_bicliques == read_manifest(run).counts.bicliques


def test_runs_with_members_pass(tmp_path: Path, edges: EdgeData) -> None:
    report = verify_run(publish(tmp_path / "out", edges, output={"members": True}), edges)
    assert "members" in [check.name for check in report.checks]


def test_truncated_runs_pass_and_say_so(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path / "out", edges, execution={"engine": "reference", "max_bicliques": 20})
    report = verify_run(run, edges)
    assert report.n_bicliques == 20
    assert any("max_bicliques" in text for text in report.not_checked)


@pytest.mark.parametrize(
    ("truncated", "most"),
    [
        ("stopped at max_bicliques = 7", None),
        ("stopped at max_bicliques = 7", 7),
        ("stopped at time_limit_seconds = 5", None),
        ("stopped for lunch", 20),
        ("", None),
    ],
)
def test_a_finished_run_cannot_call_itself_incomplete(
    run: Path, edges: EdgeData, truncated: str, most: int | None
) -> None:
    """Otherwise a finished run could call itself incomplete and avoid the search for missing rows."""
    edit_manifest(run, lambda values: values.update(truncated=truncated))
    if most is not None:
        edit_manifest(run, lambda values: values["config"]["execution"].update(max_bicliques=most))
    refused(run, edges, "manifest.json: truncated is")


def test_one_more_than_the_limit_is_found(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path / "out", edges, execution={"engine": "reference", "max_bicliques": 20})
    edit_manifest(run, lambda values: values["config"]["execution"].update(max_bicliques=19))
    refused(run, edges, "20 bicliques are more than max_bicliques = 19 of its config")


def test_a_sample_is_stated(run: Path, edges: EdgeData) -> None:
    report = verify_run(run, edges, sample=7, seed=3)
    assert report.n_against_input == 7
    assert any(f"{report.n_bicliques - 7} bicliques outside" in text for text in report.not_checked)


# --- errors are named ---------------------------------------------------------------------------------------------


def test_flipped_byte(run: Path, edges: EdgeData) -> None:
    path = run / "bicliques" / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(run, edges, str(path), "SHA-256")


def test_shortened_file(run: Path, edges: EdgeData) -> None:
    path = run / "size_histogram.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    refused(run, edges, str(path), "bytes; the manifest says")


def test_missing_file(run: Path, edges: EdgeData) -> None:
    (run / "size_histogram.parquet").unlink()
    refused(run, edges, "size_histogram.parquet", "but missing")


def test_extra_file(run: Path, edges: EdgeData) -> None:
    (run / "bicliques" / "part-99999.parquet").write_bytes(b"")
    refused(run, edges, "part-99999.parquet", "is not in the manifest")


def test_no_parquet_behind_a_right_checksum(run: Path, edges: EdgeData) -> None:
    refresh_files(run)
    path = run / "size_histogram.parquet"
    path.write_bytes(b"not a table")
    edit_manifest(run, lambda values: _fake_entry(values, path))
    refused(run, edges, str(path), "not a Parquet file")


def _fake_entry(values: dict, path: Path) -> None:
    import hashlib

    for entry in values["files"]:
        if entry["path"] == path.name:
            entry.update(bytes=path.stat().st_size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def test_dropped_left_member(run: Path, edges: EdgeData) -> None:
    rows = read_bicliques(run)
    row = next(i for i, (left, _) in enumerate(rows) if len(left) > 2)
    dropped = rows[row][0].pop(1)
    forge(run, rows)
    refused(run, edges, f"row {row} ", "is not maximal", f"left 'person {dropped:02}' can join")


def test_dropped_right_member(run: Path, edges: EdgeData) -> None:
    rows, graph = read_bicliques(run), edges.graph()

    def left_of(right: list[int]) -> list[int]:
        return sorted(set.intersection(*(set(graph.neighbours_of_right(v).tolist()) for v in right)))

    # Without its second member the right side still has exactly this left side in common.
    row = next(i for i, (left, right) in enumerate(rows) if len(right) > 2 and left_of([right[0], *right[2:]]) == left)
    dropped = rows[row][1].pop(1)
    forge(run, rows)
    refused(run, edges, f"row {row} ", "is not maximal", f"right {100 + 7 * dropped} can join")


def test_added_stranger(run: Path, edges: EdgeData) -> None:
    rows = read_bicliques(run)
    row = next(i for i, (left, right) in enumerate(rows) if len(left) > 1 and len(right) > 1)
    left, right = rows[row]
    stranger = next(v for v in range(N_RIGHT) if v not in right)
    rows[row] = (left, sorted([*right, stranger]))
    forge(run, rows)
    refused(run, edges, f"row {row} ", "is not complete", f"and right {100 + 7 * stranger}")


def test_swapped_sides(run: Path, edges: EdgeData) -> None:
    forge(run, [(right, left) for left, right in read_bicliques(run) if max(left) < N_RIGHT])
    refused(run, edges, "row 0 ", "is not complete: no edge between left")


def test_removed_row_is_counted(run: Path, edges: EdgeData) -> None:
    path = run / "bicliques" / "part-00000.parquet"
    edit_rows(path, lambda rows: rows.pop(5))
    refresh_files(run)
    refused(run, edges, "counts.bicliques")


@pytest.mark.parametrize("side", [0, 1])
def test_removed_biclique_of_a_vertex(run: Path, edges: EdgeData, side: int) -> None:
    rows, graph = read_bicliques(run), edges.graph()
    whole = set(graph.neighbours_of_left(3).tolist()) if side == 0 else set(graph.neighbours_of_right(3).tolist())
    forge(run, [row for row in rows if set(row[1 - side]) != whole])
    assert len(read_bicliques(run)) == len(rows) - 1
    refused(run, edges, "a biclique is missing", f"generated by {('left', 'right')[side]}")


def test_removed_biclique_of_a_pair(run: Path, edges: EdgeData) -> None:
    rows, graph = read_bicliques(run), edges.graph()
    whole = [set(graph.neighbours_of_left(u).tolist()) for u in range(N_LEFT)]
    alone = [*whole, *(set(graph.neighbours_of_right(v).tolist()) for v in range(N_RIGHT))]
    pairs = [row for row in rows if not any(set(row[0]) == s or set(row[1]) == s for s in alone)]
    victim = next(row for row in pairs if any(a & b == set(row[1]) for a in whole for b in whole))
    forge(run, [row for row in rows if row != victim])
    refused(run, edges, "a biclique is missing", " and ")


def test_duplicated_row(run: Path, edges: EdgeData) -> None:
    rows = read_bicliques(run)
    forge(run, [*rows, rows[4]])
    refused(run, edges, "more than once")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "column", ["degree", "two_hop_degree", "n_bicliques", "largest_biclique_key", "largest_biclique_edges"]
)
def test_vertex_table(run: Path, edges: EdgeData, side: str, column: str) -> None:
    path = run / f"{side}_vertices.parquet"
    edit_rows(path, lambda rows: rows[6].update({column: rows[6][column] + 1}))
    refresh_files(run)
    refused(run, edges, str(path), f"row 6: {column}")


@pytest.mark.parametrize("side", ["left", "right"])
def test_two_hop_degrees_are_complete_or_absent(tmp_path: Path, run: Path, edges: EdgeData, side: str) -> None:
    path = run / f"{side}_vertices.parquet"
    edit_rows(path, lambda rows: rows[3].update(two_hop_degree=None))
    refresh_files(run)
    refused(run, edges, str(path), "1 of", "expected none")
    without = publish(tmp_path / "without", edges, output={"two_hop_steps": 0})
    assert any("left out" in check.detail for check in verify_run(without, edges).checks)
    path = without / f"{side}_vertices.parquet"
    edit_rows(path, lambda rows: [row.update(two_hop_degree=1) for row in rows])
    refresh_files(without)
    refused(without, edges, str(path), "expected all")


@pytest.mark.parametrize("n_edges_more", [0, -1])
def test_by_default_two_hop_degrees_are_counted_only_if_that_is_quick(
    tmp_path: Path, edges: EdgeData, monkeypatch: pytest.MonkeyPatch, n_edges_more: int
) -> None:
    steps = two_hop_steps(edges.graph())
    assert steps[0] != steps[1]
    monkeypatch.setattr(facts, "QUICK_TWO_HOP_STEPS", min(steps))
    monkeypatch.setattr(facts, "QUICK_TWO_HOP_EDGES", edges.facts.n_edges + n_edges_more)
    run = publish(tmp_path, edges)
    counted = [each == min(steps) and n_edges_more == 0 for each in steps]
    tables = (pq.read_table(run / f"{side}_vertices.parquet") for side in ("left", "right"))
    assert [table["two_hop_degree"].null_count == 0 for table in tables] == counted
    details = [check.detail for check in verify_run(run, edges).checks if "two-hop" in check.name]
    assert [not detail.startswith("left out") for detail in details] == counted


def test_too_many_two_step_paths_are_sampled(run: Path, edges: EdgeData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mbe_stage.pipeline.verify.two_hop, "_PATHS", 400)
    notes = verify_run(run, edges).not_checked
    assert [note.split(":")[0] for note in notes[:2]] == ["left two-hop degrees", "right two-hop degrees"]
    assert notes[2:] == standing_notes(read_manifest(run))
    path = run / "left_vertices.parquet"
    edit_rows(path, lambda rows: [row.update(two_hop_degree=0) for row in rows])
    refresh_files(run)
    refused(run, edges, str(path), "two_hop_degree is 0")


@settings(deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 0.95), st.booleans())
def test_steps_of_two_hop_degrees_are_recomputed(seed: int, density: float, has_hub: bool) -> None:
    adjacent = np.random.default_rng(seed).random((N_LEFT, N_RIGHT)) < density
    adjacent[np.arange(N_LEFT), np.arange(N_LEFT) % N_RIGHT] = True
    if has_hub:
        adjacent[:, 2] = True
    graph = edge_data(adjacent).graph()
    adjacency = closure.Adjacency.of(*graph.edges(), graph.n_left, graph.n_right)
    recomputed = tuple(mbe_stage.pipeline.verify.two_hop._steps(each) for each in (adjacency, adjacency.swapped()))
    assert recomputed == two_hop_steps(graph)


def test_largest_key_is_null_if_there_is_none(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path / "out", edges, query={"containing_left": ["person 03"], "min_right": 2})
    path = run / "right_vertices.parquet"
    idle = pq.read_table(path)["n_bicliques"].to_pylist().index(0)
    edit_rows(path, lambda rows: rows[idle].update(largest_biclique_key=0))
    refresh_files(run)
    refused(run, edges, str(path), f"row {idle}: largest_biclique_key")


def test_vertex_ids_and_keys(run: Path, edges: EdgeData) -> None:
    path = run / "left_vertices.parquet"
    original = path.read_bytes()
    edit_rows(path, lambda rows: rows[2].update(vertex=9))
    refresh_files(run)
    refused(run, edges, str(path), "row 2: vertex is 9")
    path.write_bytes(original)
    edit_rows(path, lambda rows: rows[2].update(key="person 01"))
    refresh_files(run)
    refused(run, edges, str(path), "row 2", "ascending, distinct")
    path.write_bytes(original)
    edit_rows(path, lambda rows: rows.pop())
    refresh_files(run)
    refused(run, edges, str(path), f"{N_LEFT - 1} rows")


def test_histogram(run: Path, edges: EdgeData) -> None:
    path = run / "size_histogram.parquet"
    original = path.read_bytes()
    edit_rows(path, lambda rows: rows[1].update(n_bicliques=999))
    refresh_files(run)
    refused(run, edges, str(path), "row 1: 999 bicliques")
    path.write_bytes(original)
    edit_rows(path, lambda rows: rows.pop(0))
    refresh_files(run)
    refused(run, edges, str(path), "is missing")
    path.write_bytes(original)
    edit_rows(path, lambda rows: rows.append(rows[0]))
    refresh_files(run)
    refused(run, edges, str(path), "occurs twice")


@pytest.mark.parametrize("name", ["bicliques", "left_members", "right_members", "sizes", "max_left", "max_edges"])
def test_manifest_counts(run: Path, edges: EdgeData, name: str) -> None:
    edit_manifest(run, lambda values: values["counts"].update({name: values["counts"][name] + 1}))
    refused(run, edges, f"counts.{name}")


def test_content_fingerprint(run: Path, edges: EdgeData) -> None:
    edit_manifest(run, lambda values: values.update(content_fingerprint=f"{len(read_bicliques(run))}-{'0' * 32}"))
    refused(run, edges, "content_fingerprint")


@pytest.mark.parametrize(
    ("column", "part"),
    [
        ("biclique_key", "the key of its members is"),
        ("n_left", "n_left is"),
        ("n_right", "n_right is"),
        ("n_edges", "n_edges is"),
    ],
)
def test_row_figures(run: Path, edges: EdgeData, column: str, part: str) -> None:
    path = run / "bicliques" / "part-00000.parquet"
    edit_rows(path, lambda rows: rows[8].update({column: rows[8][column] + 1}))
    refresh_files(run)
    refused(run, edges, "bicliques row 8 ", part)


@pytest.mark.parametrize(
    ("members", "part"),
    [
        ([], "has no left members"),
        ([3, 2], "2 follows 3"),
        ([4, 4], "4 follows 4"),
        ([1, N_LEFT], f"left member {N_LEFT} is not one of the {N_LEFT}"),
        ([-1, 1], "left member -1"),
    ],
)
def test_member_lists(run: Path, edges: EdgeData, members: list[int], part: str) -> None:
    path = run / "bicliques" / "part-00000.parquet"
    edit_rows(path, lambda rows: rows[8].update(left=members, n_left=len(members)))
    refresh_files(run)
    refused(run, edges, "bicliques row 8 ", part)


def test_query_not_obeyed(run: Path, edges: EdgeData) -> None:
    def ask(**query: object) -> None:
        edit_manifest(run, lambda values: values["config"]["query"].update(query))

    ask(min_left=3)
    refused(run, edges, "does not meet the run's query")
    ask(min_left=1, containing_right=[107])
    refused(run, edges, "lacks right vertex 1")


def test_other_input(run: Path) -> None:
    adjacent = matrix()
    u, v = np.argwhere(adjacent & (adjacent.sum(axis=0) > 1))[4]
    adjacent[u, v] = False
    refused(run, edge_data(adjacent), "input.fingerprint", "not the input of this run")
    refused(run, edge_data(matrix()[:-1]), "left_vertices.parquet", "its keys are not the left keys of memory:test")


def test_members_table(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path / "out", edges, output={"members": True})
    path = run / "members" / "part-00000.parquet"
    edit_rows(path, lambda rows: rows[3].update(vertex=rows[3]["vertex"] + 1))
    refresh_files(run)
    refused(run, edges, "members", "are not the members that the bicliques list")


def test_changed_schema(run: Path, edges: EdgeData) -> None:
    path = run / "size_histogram.parquet"
    table = pq.read_table(path)
    pq.write_table(table.rename_columns(["n_left", "n_right", "n"]), path)
    refresh_files(run)
    refused(run, edges, str(path), "has the columns n_left, n_right, n;")
    pq.write_table(table.set_column(2, "n_bicliques", table["n_bicliques"].cast(pa.int32())), path)
    refresh_files(run)
    refused(run, edges, str(path), "column 'n_bicliques'", "int32")


def test_promised_order(run: Path, edges: EdgeData) -> None:
    keys = pq.read_table(run / "bicliques")["biclique_key"].to_pylist()
    rows = [row for _, row in sorted(zip(keys, read_bicliques(run), strict=True))]
    edit_manifest(run, lambda values: values["config"]["output"].update(sort=True))
    asked = config_fingerprint(read_manifest(run).config)
    edit_manifest(run, lambda values: values.update(config_fingerprint=asked))
    forge(run, rows)
    verify_run(run, edges)
    rows[5], rows[6] = rows[6], rows[5]
    forge(run, rows)
    refused(run, edges, "bicliques row 6 ", "out of order")


def test_the_sample_decides_which_rows_are_checked(run: Path, edges: EdgeData) -> None:
    rows = read_bicliques(run)
    for left, right in rows:
        if len(left) > 1:
            left.pop(0)
        else:
            right.pop(0)
    forge(run, [row for row in rows if row[0] and row[1]])
    refused(run, edges, "is not maximal", sample=1)


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(PublishError):
        verify_run(tmp_path)


# --- the parts ----------------------------------------------------------------------------------------------------


WRITERS = ("bicliques", "both_sides", "cliques", "derived.", "groups", "pq_counts", "sink_collector")


def test_verification_shares_no_code_with_the_engines() -> None:
    """Except for searching runs without bicliques again; those results are checked like published rows."""
    imported, asked = set(), set()
    for path in Path(mbe_stage.pipeline.verify.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                if path.name == "bicliques.py" and node.module and node.module.startswith("mbe_stage.bicliques"):
                    asked |= names
                else:
                    imported |= {node.module} | names
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    assert asked == {
        "mbe_stage.bicliques.enumerate.enumerate_into",
        "mbe_stage.bicliques.query.BicliqueQuery",
        "mbe_stage.bicliques.results.BicliqueBlock",
        "mbe_stage.bicliques.results.Detail",
    }
    # Compiling does not compute results. A contract keeps the specification of groups apart from engines.
    tools = ("mbe_stage.runtime.jit", "mbe_stage.runtime.compile_ahead")
    apart = (*tools, "mbe_stage.groups.reference", "mbe_stage.pipeline")
    assert {name for name in imported if name and name.startswith("mbe_stage") and not name.startswith(apart)} == {
        "mbe_stage.groups",
        "mbe_stage.options",
        "mbe_stage.options.Execution",
    }
    assert not imported & {"mbe_stage.pipeline.execution.steps"}
    what_wrote_it = [f"mbe_stage.pipeline.{name}" for name in ("backends", *(f"problems.{each}" for each in WRITERS))]
    # This module makes graphs of rows, as the reader does.
    imported = {name for name in imported if name and "problems.groups.tried_keys" not in name}
    assert not [name for name in imported if name.startswith(tuple(what_wrote_it))]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_recipe_of_integers(values: list[int]) -> None:
    assert text_hashes(pa.array(values, pa.int64())).tolist() == hash_integers(np.array(values, np.int64)).tolist()


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), max_size=20))
def test_recipe_of_text(values: list[str]) -> None:
    data = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, data)])
    expected = hash_text(offsets, np.frombuffer(b"".join(data), np.uint8))
    keys = pa.array(["before", *values], pa.string())
    assert text_hashes(keys.slice(1)).tolist() == expected.tolist()
    assert vertex_hashes(keys.slice(1), "right").tolist() == stage_vertex_hashes(expected, "right").tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 7), st.integers(2, 7))
def test_judge_agrees_with_the_specification(seed: int, n_left: int, n_right: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = (ids.astype(np.int32) for ids in np.nonzero(rng.random((n_left, n_right)) < 0.6))
    edges = set(zip(left.tolist(), right.tolist(), strict=True))
    found = maximal_bicliques(BipartiteCSR.from_edges(left, right, n_left, n_right))
    rows = [(np.flatnonzero(rng.random(n_left) < 0.5), np.flatnonzero(rng.random(n_right) < 0.5)) for _ in range(30)]
    pairs = [*found, *((tuple(a.tolist()), tuple(b.tolist())) for a, b in rows if a.size and b.size)]
    offsets = [np.cumsum([0, *(len(pair[side]) for pair in pairs)]) for side in (0, 1)]
    members = [np.array([v for pair in pairs for v in pair[side]], np.int32) for side in (0, 1)]
    graph = closure.Adjacency.of(left, right, n_left, n_right)
    verdicts = closure.judge(graph, np.arange(len(pairs)), offsets[0], members[0], offsets[1], members[1], threads=2)
    for (own, other), (verdict, first, second) in zip(pairs, verdicts.tolist(), strict=True):
        assert (verdict == closure.COMPLETE_AND_MAXIMAL) == ((own, other) in found)
        if verdict == closure.MISSING_EDGE:
            assert first in own
            assert second in other
            assert (first, second) not in edges
        elif verdict == closure.LEFT_CAN_JOIN:
            assert first not in own
            assert all((first, v) in edges for v in other)
        elif verdict == closure.RIGHT_CAN_JOIN:
            assert first not in other
            assert all((u, first) in edges for u in own)
