"""Reading within a memory budget: the same keys, facts and results, or a refusal that names a sufficient budget."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from benchmarks.ingest import write_edges
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import Config, EdgeData, count, run
from mbe_stage.pipeline.backends.arrow import spooled
from mbe_stage.pipeline.backends.arrow.spooled import ReadingSteps, Spooled, SpooledEncoder, Spools
from mbe_stage.pipeline.clean import core
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.execution import ingest_within as within
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io import read_edges
from mbe_stage.pipeline.verify import verify_run
from tests.patience import completed
from tests.pipeline.resume_support import ended_after, whatever_they_cost

__all__ = ["whatever_they_cost"]

MIB = 1 << 20


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    in_pieces(monkeypatch, 8, 32)


@pytest.fixture
def larger_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger parts, but still many, for tests that need many rows."""
    in_pieces(monkeypatch, 1_000, 4_000)


def in_pieces(monkeypatch: pytest.MonkeyPatch, fewest_rows: int, piece: int) -> None:
    monkeypatch.setattr(core, "_FEWEST_ROWS", fewest_rows)
    for module in (core, spooled):
        monkeypatch.setattr(module, "PIECE", piece)


def made(seed: int) -> pa.Table:
    """Random edges: duplicates, nulls, empty texts, and integers or texts as keys."""
    random = np.random.default_rng(seed)
    n, n_left, n_right = (int(random.integers(1, most)) for most in (400, 40, 40))
    left, right = random.integers(0, n_left, n), (n_right * random.random(n) ** 2).astype(np.int64)
    kinds: list[Callable[[np.ndarray], pa.Array]] = [
        lambda ids: pa.array([f"k{i}" for i in ids.tolist()]),
        lambda ids: pa.array(7 * ids + 10**10),
        lambda ids: pa.array(ids * 0x9E3779B97F4A7C1),
        lambda ids: pa.array([str(i) for i in ids.tolist()]),
        lambda ids: pa.array([f"k{i}" if i else "" for i in ids.tolist()]),
        lambda ids: pa.array(ids, mask=random.random(ids.size) < 0.1),
    ]
    return pa.table({"u": kinds[seed % 6](left), "v": kinds[seed // 6 % 6](right)})


def written(table: pa.Table, directory: Path, seed: int) -> Path | list[Path]:
    """Return a Parquet file, a CSV file, or two CSV files."""
    if seed % 3 == 0:
        pq.write_table(table, directory / f"{seed}.parquet", row_group_size=64)
        return directory / f"{seed}.parquet"
    if seed % 3 == 1:
        csv.write_csv(table, directory / f"{seed}.csv")
        return directory / f"{seed}.csv"
    halves = table.slice(0, len(table) // 2 + 1), table.slice(len(table) // 2)
    paths = [directory / f"{seed} {number}.csv" for number in range(2)]
    for half, path in zip(halves, paths, strict=True):
        csv.write_csv(half, path)
    return paths


def read_within(config: InputConfig, source: Any, most_bytes: int, least: tuple[int, int]) -> EdgeData:
    spools = Spools(1 << 30)
    rows = read_edges(config, source, new_column=spools.column)
    spools.check_keys()
    return core.clean_within(core.number_rows(rows, spools, config), config, most_bytes, least, ReadingSteps())


def outcome(read: Callable[[], EdgeData]) -> EdgeData | str:
    """Return what is read, or the refusal."""
    try:
        return read()
    except InputError as error:
        return str(error)


def in_core(edges: EdgeData, least: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the edges that are left after removing vertices with too few neighbours."""
    left = set(zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True))
    while True:
        of_left, of_right = Counter(u for u, _ in left), Counter(v for _, v in left)
        kept = {(u, v) for u, v in left if of_left[u] >= least[1] and of_right[v] >= least[0]}
        if kept == left:
            return kept
        left = kept


def size_of(edges: EdgeData, n_edges: int) -> int:
    of_vertices = sum(keys.nbytes + core._VERTEX_BYTES * len(keys) for keys in (edges.left_keys, edges.right_keys))
    return of_vertices + core._EDGE_BYTES * n_edges


def pairs(edges: EdgeData) -> list[tuple[int, int]]:
    return list(zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True))


def test_edges_are_those_of_reading_without_a_budget(tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(36):
        random = np.random.default_rng(seed)
        source = written(made(seed), tmp_path, seed)
        config = InputConfig(nulls="drop", key_type="string" if seed % 5 == 0 else "auto")
        least = int(random.integers(1, 7)), int(random.integers(1, 7))
        expected = outcome(lambda: ingest(config, source))  # noqa: B023 - called at once
        if isinstance(expected, str):
            assert outcome(lambda: read_within(config, source, MIB, least)) == expected  # noqa: B023
            continue
        core_edges = in_core(expected, least)
        for most_bytes in (MIB, size_of(expected, len(core_edges)), size_of(expected, len(core_edges)) - 1):
            if len(core_edges) == expected.facts.n_edges and most_bytes < MIB:
                continue
            seen[check_within(config, source, most_bytes, least, expected, core_edges)] += 1
    assert min(seen[found] for found in ("whole", "part", "refused")) > 3, seen


def check_within(
    config: InputConfig,
    source: Any,
    most_bytes: int,
    least: tuple[int, int],
    expected: EdgeData,
    core_edges: set[tuple[int, int]],
) -> str:
    needed = size_of(expected, len(core_edges))
    if size_of(expected, 0) > most_bytes:
        with pytest.raises(MemoryBudgetExceeded, match=r"vertices and .* rows take"):
            read_within(config, source, most_bytes, least)
        return "refused"
    if needed > most_bytes:
        message = f"{len(core_edges):,} of {expected.facts.n_edges:,} edges"
        with pytest.raises(MemoryBudgetExceeded, match=message) as refused:
            read_within(config, source, most_bytes, least)
        assert refused.value.needed_bytes == needed
        return "refused"
    found = read_within(config, source, most_bytes, least)
    assert size_of(expected, len(found.left_ids)) <= most_bytes
    assert found.left_keys.equals(expected.left_keys)
    assert found.right_keys.equals(expected.right_keys)
    assert replace(found.facts, n_edges_held=None) == expected.facts
    if found.facts.n_edges_held is None:
        assert pairs(found) == pairs(expected)
        assert found.degrees is None
        return "whole"
    assert found.facts.n_edges_held == len(core_edges) < expected.facts.n_edges
    assert pairs(found) == sorted(core_edges)
    assert found.degrees is not None
    graph = expected.graph()
    for degrees, whole in zip(found.degrees, (graph.left_degrees, graph.right_degrees), strict=True):
        assert degrees.tolist() == whole.tolist()
    return "part"


def wide(random: np.random.Generator) -> pa.Table:
    """Random rows with weights, times, graphs, a second part of right keys, and keys of odd types."""
    n = int(random.integers(1, 300))

    def column(most: int, *kinds: Callable[[np.ndarray], pa.Array]) -> pa.Array:
        ids = random.integers(0, most, n)
        values = kinds[int(random.integers(len(kinds)))](ids)
        return pa.array(values.to_pylist(), values.type, mask=random.random(n) < random.choice([0, 0.05]))

    text = lambda ids: pa.array([f'k{i}"' if i else "" for i in ids.tolist()])  # noqa: E731
    integers, decimals = (lambda ids: pa.array(ids - 3)), lambda ids: pa.array(ids.tolist()).cast(pa.decimal128(20))
    as_text = lambda ids: pa.array([f"{i % 9}{i / 10 if i % 3 else i}" for i in ids.tolist()])  # noqa: E731
    first = 1_700_000_000
    seconds = lambda ids: pa.array(first + 7200 * ids)  # noqa: E731
    moments = lambda ids: seconds(ids).cast(pa.timestamp("s"))  # noqa: E731
    return pa.table(
        {
            "u": column(20, text, integers, decimals),
            "v": column(12, text, integers, lambda ids: pa.array(ids.astype(np.float64))),
            "v2": column(3, text, integers),
            "g": column(3, text, integers),
            "w": column(40, lambda ids: pa.array(ids, pa.int32()), lambda ids: pa.array(ids / 4), as_text),
            "t": column(
                60,
                seconds,
                moments,
                lambda ids: pa.array([f"{each.isoformat()}" for each in moments(ids).to_pylist()]),
                lambda ids: pa.array(20240101 + ids % 28),
                lambda ids: pa.array(ids, pa.int16()),
            ),
        }
    )


def asked(random: np.random.Generator) -> InputConfig:
    settings: list[dict[str, Any]] = [
        {"right": ["v", "v2"]},
        {"by": "g"},
        {"weight": "w", "min_weight": 3.5},
        {"timestamp": "t", "time_from": 1_700_100_000},
        {"timestamp": "t", "time_until": "2023-11-18"},
        {"timestamp": "t", "time_from": 20240105},
        {"timestamp": "t", "time_bucket": "12h", "time_offset": "1h"},
        {"weight": "w", "timestamp": "t"},
        {"key_type": "string"},
    ]
    chosen = [each for each in settings if random.random() < 0.25] + [{"nulls": "drop"}] * (random.random() < 0.85)
    config = InputConfig(**{"left": "u", "right": "v"} | {key: value for each in chosen for key, value in each.items()})
    return config.keeping_events() if random.random() < 0.5 and config.by is None else config


def everything(edges: EdgeData | str) -> Any:
    if isinstance(edges, str):
        return edges
    events = edges.events
    columns = () if events is None else (events.left, events.right, events.weights, events.times)
    return (
        pairs(edges),
        [(keys.type, keys.to_pylist()) for keys in (edges.left_keys, edges.right_keys)],
        edges.facts,
        [None if each is None else (each.dtype, each.tobytes()) for each in columns],
        None if edges.half_later is None else everything(edges.half_later),
    )


def test_filters_and_keys_of_several_columns_are_those_without_a_budget(tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(60):
        random = np.random.default_rng(seed)
        source, config = written(wide(random), tmp_path, seed), asked(random)
        expected = outcome(lambda: ingest(config, source))  # noqa: B023 - called at once
        found = outcome(lambda: read_within(config, source, MIB, (1, 1)))  # noqa: B023
        assert everything(found) == everything(expected), (seed, config)
        if isinstance(expected, str):
            seen["refused"] += 1
            continue
        seen["read"] += 1
        seen["weights"] += expected.events is not None and expected.events.weights is not None
        seen["times"] += expected.events is not None and expected.events.times is not None
        seen["later"] += expected.half_later is not None
        seen["filtered"] += expected.facts.rows_dropped_weight + expected.facts.rows_dropped_time > 0
        seen["tuples"] += len(config.right_columns) > 1 or config.by is not None
    assert min(seen.values()) > 3, seen


def test_one_vertex_with_more_rows_than_a_part(tmp_path: Path) -> None:
    rows = [("hub", i % 90) for i in range(400)] + [(f"u{i}", i) for i in range(90)]
    pq.write_table(pa.table(dict(zip("uv", zip(*rows, strict=True), strict=True))), tmp_path / "e.parquet")
    config = InputConfig(path=str(tmp_path / "e.parquet"))
    expected = ingest(config)
    # A part has eight rows.
    assert check_within(config, None, size_of(expected, 1), (1, 1), expected, set(pairs(expected))) == "refused"
    assert check_within(config, None, MIB, (1, 1), expected, set(pairs(expected))) == "whole"


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (b"u,v\na,1\n,2\nb,3\n", {}),
        (b"u,v\na,1\nu,v\nb,3\n", {"left": "u", "right": "v"}),
        (b"a,1\nb,007\n", {"key_type": "integer"}),
        (b"u,v\na,1\nb\xff,2\n", {"left": "u", "right": "v"}),
        (b"u,v\na,1\nb,2,3\n", {}),
        (b"3 3\n1 2\n2 3\n3 1\n", {}),
        (b"a,1,2\nb,2,x\n", {"weight": 2, "min_weight": 1}),
        (b"a,1,2\n" * 64 + b"b,2,2024-01-01\n" * 40, {"timestamp": 2, "time_from": 1}),
        (b"a,1,2\n" * 40 + b"b,2,2024-01-01\nb,2,7\n" * 40, {"timestamp": 2, "time_from": 1}),
        (b"a,1,1700000000000000001\n" * 40 + b"b,2,.5\n" * 40, {"timestamp": 2, "time_from": "2024-01-01"}),
        (b"a,1,2\nx,2,7\nx,2,3\n", {"weight": 2, "min_weight": 5, "key_type": "integer"}),
        (b"a,1,2\nb,2,3\n", {"weight": 2, "min_weight": 5}),
    ],
)
def test_refusals_are_the_same(tmp_path: Path, content: bytes, settings: dict[str, Any]) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(content)
    config = InputConfig(path=str(path), **settings)
    messages = []
    for read in (lambda: ingest(config), lambda: read_within(config, None, MIB, (1, 1))):
        with pytest.raises(InputError) as refused:
            read()
        messages.append((str(refused.value), refused.value.settings))
    assert messages[0] == messages[1]


# --- whole runs ------------------------------------------------------------------------------------------------


def config_of(tmp_path: Path, path: Path, name: str, sizes: tuple[int, int], **others: Any) -> Config:
    problem = others.get("problem", "bicliques")
    of_problem = {
        "bicliques": {"query": {"min_left": sizes[0], "min_right": sizes[1]}},
        "pq_counts": {"pq_counts": {"p": sizes[0], "q": sizes[1], "local": "vertices"}},
    }[problem]
    values = {"input": {"path": str(path)}, "output": {"directory": str(tmp_path / name)}, **of_problem, **others}
    values["execution"] = {"engine": "cpu", "threads": 1, **others.get("execution", {})}
    return Config.model_validate(values)


@pytest.fixture
def few_edges_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows fit into memory; 200 edges fit into the smallest budget."""
    monkeypatch.setattr(within, "_ROW_BYTES", MIB)
    monkeypatch.setattr(core, "_EDGE_BYTES", MIB // 200)


def without_two_hop(path: Path) -> pa.Table:
    table = pq.read_table(path)
    return table.drop_columns("two_hop_degree") if "two_hop_degree" in table.column_names else table


@pytest.mark.usefixtures("few_edges_fit")
@pytest.mark.parametrize("problem", ["bicliques", "pq_counts"])
def test_runs_publish_the_same(tmp_path: Path, problem: str) -> None:
    random = np.random.default_rng(3)
    n_held = 0
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        left, right = random.integers(0, 150, 500), (120 * random.random(500) ** 2).astype(np.int64)
        dense = np.divmod(np.arange(80), 8)
        table = {"u": [f"k{i}" for i in np.append(left, dense[0])], "v": np.append(right, dense[1])}
        pq.write_table(pa.table(table), path)
        outputs = [
            run(config_of(tmp_path, path, f"{number} {budget}", (4, 4), problem=problem, execution=execution))
            for budget, execution in enumerate(({}, {"memory_budget": MIB}))
        ]
        whole, bounded = (output.manifest for output in outputs)
        assert bounded.content_fingerprint == whole.content_fingerprint
        assert bounded.counts == whole.counts
        assert replace(bounded.input, n_edges_held=None) == whole.input
        assert bounded.input.n_edges_held is not None
        n_held += bounded.input.n_edges_held
        names = sorted(each.path for each in whole.files if each.path.endswith(".parquet"))
        assert names == sorted(each.path for each in bounded.files if each.path.endswith(".parquet"))
        for name in names:
            first, second = (without_two_hop(output.run_dir / name) for output in outputs)
            assert first.equals(second), name
        verify_run(outputs[1].run_dir, ingest(InputConfig(path=str(path))))
    assert n_held > 4


@pytest.mark.usefixtures("few_edges_fit")
@pytest.mark.parametrize(
    "others",
    [
        {"groups": {"try_keys": "plain", "chance_copies": 1}},
        {
            "input": {"weight": "w", "timestamp": "t", "time_bucket": "1d", "min_weight": 2},
            "groups": {"chance_copies": 1},
        },
        {"input": {"right": ["v", "w"], "by": "g"}},
        {"input": {"left": "x"}, "problem": "pq_counts"},
    ],
    ids=["groups", "groups-buckets", "by", "decimal-keys"],
)
def test_runs_of_any_rows_publish_the_same(tmp_path: Path, others: dict[str, Any]) -> None:
    random, path = np.random.default_rng(11), tmp_path / "e.parquet"
    dense = np.divmod(np.arange(300) % 48, 8)
    left, right = np.append(random.integers(0, 90, 300), dense[0]), np.append(random.integers(0, 60, 300), dense[1])
    seconds = np.append(random.integers(0, 30 * 86_400, 300), random.integers(0, 86_400, 300)) + 1_700_000_000
    columns = {"u": [f"k{i}" for i in left], "v": right, "w": random.integers(1, 6, 600), "g": left % 2}
    columns |= {"x": pa.array(left.tolist()).cast(pa.decimal128(20)), "t": pa.array(seconds, pa.timestamp("s"))}
    pq.write_table(pa.table(columns), path)
    others["input"] = {"left": "u", "right": "v", **others.get("input", {}), "path": str(path)}
    runs = [
        run(config_of(tmp_path, path, f"of {budget}", (2, 2), **others, execution={"memory_budget": budget}))
        for budget in (None, 8 * MIB)
    ]
    whole, bounded = (each.manifest for each in runs)
    assert (bounded.content_fingerprint, bounded.counts) == (whole.content_fingerprint, whole.counts)
    assert (replace(bounded.input, n_edges_held=None), bounded.derived) == (whole.input, whole.derived)
    if "groups" in others:
        assert whole.derived["groups"]["groups"]
    for name in sorted(each.path for each in whole.files if each.path.endswith(".parquet")):
        first, second = (pq.read_table(each.run_dir / name) for each in runs)
        assert first.equals(second, check_metadata=True), name


@pytest.mark.usefixtures("few_edges_fit", "whatever_they_cost")
def test_a_run_is_resumed_with_another_budget(tmp_path: Path) -> None:
    path, random = tmp_path / "e.parquet", np.random.default_rng(4)
    left, right = random.integers(0, 900, 700), random.integers(0, 900, 700)
    dense = np.nonzero(random.random((20, 20)) < 0.8)
    pq.write_table(pa.table({"u": np.append(left, dense[0]), "v": np.append(right, dense[1])}), path)

    def config(name: str, **execution: int) -> Config:
        output = {"directory": str(tmp_path / name), "checkpoint_seconds": 0.001}
        return config_of(tmp_path, path, name, (3, 3), output=output, execution={"block_bytes": 1024, **execution})

    whole = run(config("whole")).manifest
    ended_after(2, config("out", memory_budget=2 * MIB))
    with pytest.raises(PublishError, match="cannot be resumed"):
        run(config("out"), resume=True)
    resumed = run(config("out", memory_budget=3 * MIB), resume=True).manifest
    assert resumed.content_fingerprint == whole.content_fingerprint
    assert resumed.input.n_edges_held is not None


@pytest.mark.usefixtures("few_edges_fit")
def test_counting_gives_the_same_text(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    left = np.repeat(np.arange(100), 3)
    pq.write_table(pa.table({"u": left, "v": (left * 3 + np.tile(np.arange(3), 100)) % 250}), path)
    sizes = {"pq_counts": {"p": 5, "q": 4}}
    found = [
        count(config_of(tmp_path, path, "out", (5, 4), problem="pq_counts", execution=execution, **sizes))
        for execution in ({}, {"memory_budget": MIB})
    ]
    assert found[1].input.n_edges_held == 0
    assert found[0].result_text == found[1].result_text


@pytest.mark.usefixtures("few_edges_fit")
def test_the_refusal_names_a_sufficient_budget(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    csv.write_csv(pa.table(dict(zip("uv", np.divmod(np.arange(400), 20), strict=True))), path)
    with pytest.raises(MemoryBudgetExceeded, match=r"400 of 400 edges .* raise it to 3MiB, or raise the minimum"):
        count(config_of(tmp_path, path, "out", (2, 2), execution={"memory_budget": MIB}))
    assert count(config_of(tmp_path, path, "out", (2, 2), execution={"memory_budget": 3 * MIB})).n_found == 1


@pytest.mark.usefixtures("few_edges_fit")
@pytest.mark.parametrize(
    ("name", "others", "reason"),
    [
        ("e.parquet", {"groups": {}}, r"keys are tried with 'a', 't' \(.*auto, not plain"),
        ("e.parquet", {"problem": "cliques"}, "edges have no direction"),
        ("e.fimi", {}, "format is fimi"),
        ("e.csv", {"input": {"trim": True}}, "'u' has blanks around values"),
    ],
)
def test_inputs_that_must_be_in_memory_are_refused(
    tmp_path: Path, name: str, others: dict[str, Any], reason: str
) -> None:
    path = tmp_path / name
    table = {"u": [1, 2, 3, 4], "v": [1, 2, 3, 4], "a": [1, 1, 2, 2], "t": [1_700_000_000] * 4}
    pq.write_table(pa.table(table), path) if path.suffix == ".parquet" else path.write_text(
        {".csv": "u,v\n a,1\nb ,2\n"}.get(path.suffix, "1 2 3\n1 2\n")
    )
    config = Config.model_validate(
        {"execution": {"memory_budget": MIB}, **others, "input": {"path": str(path), **others.get("input", {})}}
    )
    with pytest.raises(MemoryBudgetExceeded, match=f"{reason}.*raise it to"):
        count(config)


@pytest.mark.usefixtures("few_edges_fit")
def test_objects_in_memory_are_refused_and_standard_input_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path, Path("-"), "out", (1, 1), execution={"memory_budget": MIB})
    with pytest.raises(MemoryBudgetExceeded, match="the format is memory"):
        count(config, pa.table({"u": [1, 2], "v": [1, 2]}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"u,v\na,1\nb,1\n")))
    found = count(config)
    assert (found.n_found, found.input.source) == (1, "standard input")


def test_without_a_budget_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within, "_ROW_BYTES", 1 << 40)
    config = config_of(tmp_path, Path("-"), "out", (1, 1))
    assert count(config, pa.table({"u": [1, 2], "v": [1, 2]})).n_found == 2


@pytest.mark.usefixtures("larger_pieces")
@pytest.mark.parametrize("kind", ["text", "scattered", "csv", "tuples", "wide tuples", "vertices"])
def test_keys_beyond_the_budget_are_refused_with_a_sufficient_budget(tmp_path: Path, kind: str) -> None:
    random, n = np.random.default_rng(5), 60_000
    numbers = random.permutation(n)
    table = {"u": numbers % 7, "v": numbers // 100, "w": numbers % 100}
    if kind == "text":
        table["u"] = [f"{i % 40_000:x}" * (1 + i % 3) for i in numbers.tolist()]
    if kind in ("scattered", "csv"):
        table["u"] = random.integers(0, 1 << 62, n)
    if kind == "wide tuples":
        table |= {"v": random.integers(0, 1 << 62, 300)[numbers // 200], "w": [f"{i % 200:060}" for i in numbers]}
    if kind == "vertices":
        table |= {"u": numbers % 20_000, "v": numbers % 9_000}
    path = tmp_path / ("e.csv" if kind == "csv" else "e.parquet")
    csv.write_csv(pa.table(table), path) if kind == "csv" else pq.write_table(
        pa.table(table), path, row_group_size=9000
    )
    right = ["v", "w"] if "tuples" in kind else ["v"]
    words = {"tuples": "keys of several columns", "wide tuples": "keys of several columns", "vertices": "vertices and"}
    message = words.get(kind, "tables of distinct keys") + ".* take .* raise it to"
    columns, query = {"path": str(path), "left": "u", "right": right}, {"min_left": 3, "min_right": 3}

    def read(budget: int) -> EdgeData | MemoryBudgetExceeded:
        try:
            return within.ingest_within(Config(input=columns, query=query, execution={"memory_budget": budget}))
        except MemoryBudgetExceeded as error:
            return error

    found, messages = read(MIB), []
    while isinstance(found, MemoryBudgetExceeded):
        messages.append(str(found))
        found = read(found.needed_bytes + MIB)
    assert re.search(message, messages[0])
    # Further refusals concern what comes after these keys.
    assert len(messages) < 4
    assert not any("tables of distinct keys" in each for each in messages[1:])
    assert found.facts.fingerprint == ingest(InputConfig(**columns)).facts.fingerprint


@pytest.mark.parametrize("n", [1, 300, 9_000, 40_000, 300_000])
def test_distinct_keys_are_counted_within_five_percent(n: int) -> None:
    values = np.random.default_rng(n).integers(-(2**63), 2**63 - 1, n)
    for kind in (pa.int64(), pa.string()):
        encoder = SpooledEncoder(False, lambda _: None)
        encoder._begin_to_count()
        for part in (values, values[: n // 2]):
            encoder.add(pa.array(part).cast(kind))
        assert 0.95 * n <= encoder._n_counted() <= 1.05 * n


def test_keys_are_counted_where_integers_become_texts() -> None:
    """The budget ends while they are numbered as texts: each key counts once, whether that table has it or not."""
    integers = np.random.default_rng(1).integers(0, 10**15, 10_000)
    for budget in (400 << 10, 512 << 10, 700 << 10):
        encoder = Spools(budget).column("left", pa.string(), finds_integers=True)
        assert isinstance(encoder, SpooledEncoder)
        encoder.add(pa.array(integers).cast(pa.string()))
        assert not encoder.is_beyond
        encoder.add(pa.array(["a", "b", str(integers[0])]))
        assert encoder.is_beyond
        assert encoder._n_counted() == 10_002


@pytest.mark.usefixtures("larger_pieces")
def test_keys_of_several_files_beyond_the_budget_are_counted_in_all_of_them(tmp_path: Path) -> None:
    random, paths = np.random.default_rng(6), [tmp_path / f"{number}.csv" for number in range(3)]
    for path in paths:
        csv.write_csv(pa.table({"u": random.integers(0, 1 << 62, 60_000), "v": np.arange(60_000) % 7}), path)

    def read(budget: int) -> EdgeData:
        return within.ingest_within(Config(execution={"memory_budget": budget}), paths)

    with pytest.raises(MemoryBudgetExceeded, match="tables of distinct keys") as refused:
        read(MIB)
    assert refused.value.needed_bytes is not None
    assert read(refused.value.needed_bytes + MIB).facts.n_edges == 180_000


def test_degrees_of_all_edges_are_saved_between_steps(tmp_path: Path) -> None:
    pq.write_table(made(6), tmp_path / "e.parquet")
    config = InputConfig(path=str(tmp_path / "e.parquet"), nulls="drop")
    expected = ingest(config)
    edges = read_within(config, None, size_of(expected, len(in_core(expected, (4, 4)))), (4, 4))
    assert edges.degrees is not None
    restored = load_edges(save_edges(edges, tmp_path / "edges"))
    assert restored.degrees is not None
    assert [each.tolist() for each in restored.degrees] == [each.tolist() for each in edges.degrees]
    assert load_edges(save_edges(expected, tmp_path / "others")).degrees is None


def test_spooled_files_have_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    numbers = Spooled()
    numbers.write(0, np.arange(3, dtype=np.int32))
    assert list(tmp_path.iterdir()) == []
    assert numbers.whole().tolist() == [0, 1, 2]


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InputError, match=r"No space left.*TMPDIR"):
        Spooled().write(0, np.arange(3, dtype=np.int32))


_MEASURED = """
import json, sys
from pathlib import Path
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.execution.ingest_within import ingest_within

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

def read(path, budget):
    query = {"min_left": 20, "min_right": 20}
    section = {"path": path, **json.loads(sys.argv[3])}
    try:
        edges = ingest_within(Config(input=section, query=query, execution={"memory_budget": budget}))
    except MemoryBudgetExceeded as refused:
        return [refused.needed_bytes]
    edges.graph()
    return [edges.facts.n_edges, edges.facts.n_edges_held, edges.facts.fingerprint]

read(sys.argv[1], "1MiB")
base = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
found = read(sys.argv[2], "256MiB")
print(json.dumps([status("VmHWM") - base, *found]))
"""


def read_in_256_mebibytes(directory: Path, case: str, **settings: str) -> tuple[Path, list[Any]]:
    """Read 20 million edges in a process that grows by at most 256 MiB; return the file and the results."""
    paths = [write_edges(case, n, directory) for n in (40_000, 20_000_000)]
    ended = completed([sys.executable, "-c", _MEASURED, *map(str, paths), json.dumps(settings)], check=True)
    peak, *found = json.loads(ended.stdout)
    assert peak < 256 * MIB
    return paths[1], found


@pytest.mark.slow
@pytest.mark.parametrize("case", ["int", "csv"])
def test_twenty_million_edges_are_read_within_256_mebibytes(tmp_path: Path, case: str) -> None:
    path, (n_edges, n_held, fingerprint) = read_in_256_mebibytes(tmp_path, case)
    assert n_held < n_edges / 4
    facts = ingest(InputConfig(path=str(path))).facts
    assert (n_edges, fingerprint) == (facts.n_edges, facts.fingerprint)


@pytest.mark.slow
def test_buckets_of_an_hour_are_refused_within_256_mebibytes(tmp_path: Path) -> None:
    _, found = read_in_256_mebibytes(tmp_path, "bucket", timestamp="ts", time_bucket="1h")
    assert len(found) == 1
    assert found[0] > 1 << 30
