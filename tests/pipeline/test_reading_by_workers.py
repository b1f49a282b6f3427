"""What workers read and join is what this process reads; the workers of a cluster are in `test_runner`."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.ingest_by_workers import HeldEdges, ingest_by_workers, path_for_workers
from mbe_stage.pipeline.problems.installed import publication_of, reading_of

N_INPUTS = 15


class Workers:
    """Stands for a `DaskRunner`: functions run at once, and arrays come from elsewhere, so they are read-only."""

    def __init__(self, *addresses: str, seeing: Callable[[str], object] | None = None) -> None:
        self.addresses, self.seeing = addresses, seeing
        self.hosts: list[str] | None = None
        self.shares: list[tuple[int, int]] = []

    def asked(self, function: Callable[..., Any], *given: Any, **_: float) -> dict[str, Any]:
        sees = self.seeing if function.__name__ == "_seen" else None
        return {each: function(*given) if sees is None else sees(each) for each in self.addresses}

    def submit(self, function: Callable[..., Any], *given: Any) -> Any:
        if function.__name__ == "_read":
            self.shares.append(given[2])
        buffers: list[pickle.PickleBuffer] = []
        sent = pickle.dumps(function(*given), protocol=5, buffer_callback=buffers.append)
        return pickle.loads(sent, buffers=[bytes(buffer) for buffer in buffers])

    def wait(self, _: Any, meanwhile: Callable[[], object] = lambda: None) -> None:
        meanwhile()

    def result(self, future: Any) -> Any:
        return future


def settings(path: Path | str, **sections: Any) -> Config:
    output = {"two_hop_steps": 0, **sections.pop("output", {})}
    given = {"path": str(path), **sections.pop("input", {})}
    execution = {"runner": "dask", **sections.pop("execution", {})}
    return Config.model_validate({"input": given, "output": output, "execution": execution, **sections})


def random_input(rng: np.random.Generator, path: Path) -> dict[str, Any]:
    """Write a file or a directory of random rows; return how to read it."""
    n = int(rng.integers(1, 200))

    def keys(n_keys: int) -> pa.Array:
        numbers = rng.integers(0, n_keys, n)
        kinds: list[Callable[[], Any]] = [
            lambda: pa.array(numbers * 10**9 - 5),
            lambda: pa.array([f"k{number}" for number in numbers]),
            lambda: pa.array([str(number) for number in numbers]).dictionary_encode(),
            lambda: pa.array(numbers).cast(pa.decimal128(30, 0)),
        ]
        return kinds[rng.integers(len(kinds))]()

    times = rng.integers(1_700_000_000, 1_700_900_000, n).astype("datetime64[s]")
    as_text = bool(rng.random() < 0.3)
    columns = {"a": keys(30), "b": keys(20), "c": keys(4), "w": pa.array(rng.random(n).round(1)), "t": pa.array(times)}
    asked: dict[str, Any] = {"left": "a", "right": "b"}
    if as_text:
        columns["t"] = pc.strftime(columns["t"], "%d.%m.%Y %H:%M:%S")
        asked["date_format"] = "%d.%m.%Y %H:%M:%S"
    if rng.random() < 0.4:
        columns = {name: pc.if_else(rng.random(n) < 0.97, column, None) for name, column in columns.items()}
        asked["nulls"] = rng.choice(["drop", "error"])
    asked |= {"right": ["b", "c"]} if rng.random() < 0.3 else {}
    asked |= {"weight": "w", "min_weight": 0.3} if rng.random() < 0.4 else {}
    asked |= {"timestamp": "t", "time_bucket": "1d"} if rng.random() < 0.4 else {}
    asked |= {"timestamp": "t", "time_from": "2023-11-16"} if rng.random() < 0.3 else {}
    table, size = pa.table(columns), int(rng.choice([3, 20, 1000]))
    if rng.random() < 0.5:
        pq.write_table(table, path, row_group_size=size)
        return {"input": asked}
    for at, start in enumerate(range(0, n, n // 3 + 1)):
        (path / f"day={at}").mkdir(parents=True)
        pq.write_table(table.slice(start, n // 3 + 1), path / f"day={at}" / "part.parquet", row_group_size=size)
    return {"input": asked | {"right": ["b", "day"]} if rng.random() < 0.3 else asked}


OF_EDGES = {"problem": "pq_counts", "pq_counts": {"local": "edges"}}
OF_ALL_EDGES = {"output": {"two_hop_steps": None}}, OF_EDGES, {"groups": {}}


@pytest.mark.parametrize("further", [{}, {"problem": "pq_counts"}, *OF_ALL_EDGES], ids=str)
def test_shares_of_random_inputs_are_joined_to_the_whole(tmp_path: Path, further: dict[str, Any]) -> None:
    n_held = n_refused = 0
    for seed in range(N_INPUTS):
        rng = np.random.default_rng(seed)
        path, n_workers = tmp_path / f"{seed}.parquet", int(rng.integers(1, 6))
        config = settings(path, **random_input(rng, path), **further)
        workers: Any = Workers(*(f"tcp://10.0.0.{at}:1" for at in range(n_workers)))
        assert path_for_workers(config, None) == path
        try:
            whole = ingest(reading_of(config))
        except InputError as error:
            refusal = error
        else:
            found = ingest_by_workers(config, path, workers)
            assert workers.shares == [(k, n_workers) for k in range(n_workers)]
            n_held += isinstance(found, HeldEdges)
            assert_same(found, whole, publication_of(config.problem).graph(config, whole))
            continue
        n_refused += 1
        with pytest.raises(InputError) as caught:
            ingest_by_workers(config, path, workers)
        assert (str(caught.value), caught.value.settings) == (str(refusal), refusal.settings)
    assert n_refused, "no input was refused"
    assert n_held == (0 if further in OF_ALL_EDGES else N_INPUTS - n_refused)


def assert_same(found: Any, whole: Any, graph: Any) -> None:
    assert (found.facts, found.left_keys, found.right_keys) == (whole.facts, whole.left_keys, whole.right_keys)
    if isinstance(found, HeldEdges):
        of_workers = pickle.loads(found.graph().pickled)
        np.testing.assert_equal([getattr(of_workers, each.name) for each in fields(graph)], list(parts_of(graph)))
        np.testing.assert_equal(found.graph().left_degrees, graph.left_degrees)
        np.testing.assert_equal(found.graph().right_degrees, graph.right_degrees)
    else:
        np.testing.assert_equal(list(parts_of(found)), list(parts_of(whole)))


def parts_of(edges: Any) -> Any:
    """Yield all arrays and values of edges, with those behind them."""
    values = edges if isinstance(edges, tuple) else [getattr(edges, each.name) for each in fields(edges)]
    for value in values:
        is_made_of_others = is_dataclass(value) or isinstance(value, tuple)
        yield from parts_of(value) if is_made_of_others else [value]


def test_only_hosts_on_which_all_workers_see_the_file_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"left": range(9), "right": range(9)}), path, row_group_size=2)
    facts = path.stat()
    here = [(str(path), facts.st_size, facts.st_mtime_ns)]
    at: dict[str, object] = {"tcp://a:1": here, "tcp://a:2": here, "tcp://b:1": here, "tls://b:2": "No such file"}
    at |= {"tcp://c:1": [(str(path), 1, 1)], "tcp://d:1": None}
    workers: Any = Workers(*at, seeing=at.__getitem__)
    found = ingest_by_workers(settings(path), path, workers)
    assert found is not None
    assert (found.facts.n_edges, workers.hosts, workers.shares) == (9, ["a"], [(0, 2), (1, 2)])
    named = [f"worker {worker} does not see {path} as this process does: " for worker in list(at)[3:]]
    ends = "No such file", "other sizes or times", "no answer"
    assert [text for text in caplog.messages if "worker " in text] == [a + b for a, b in zip(named, ends, strict=True)]
    workers = Workers("tcp://b:1", "tls://b:2", seeing=at.__getitem__)
    assert ingest_by_workers(settings(path), path, workers) is None
    assert "this process reads the input, and not the workers: on no host all workers see it" in caplog.messages


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"left": range(9), "right": range(9)}), path, row_group_size=2)

    class Changing(Workers):
        def submit(self, function: Callable[..., Any], *given: Any) -> Any:
            if self.shares:
                pq.write_table(pa.table({"left": range(8), "right": range(8)}), path)
            return super().submit(function, *given)

    workers: Any = Changing("tcp://a:1", "tcp://a:2")
    with pytest.raises(InputError, match="files that have changed, or differ on this worker; expected those"):
        ingest_by_workers(settings(path), path, workers)


def test_what_this_process_reads_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "edges.csv").write_text("1,2\n")
    for name in ("edges", "more"):
        pq.write_table(pa.table({"left": [1], "right": [2]}), tmp_path / f"{name}.parquet")
    for source, sections, reason in (
        ("edges.csv", {}, "it is no Parquet file or directory"),
        ("*.parquet", {}, "it is no Parquet file or directory"),
        ("edges.parquet", {"execution": {"memory_budget": "1GiB"}}, "execution.memory_budget is for reading"),
    ):
        caplog.clear()
        assert path_for_workers(settings(tmp_path / source, **sections), None) is None
        assert reason in caplog.text
    for given in (
        pa.table({"left": [1], "right": [2]}),
        [str(tmp_path / "edges.parquet")],
        "-",
        "s3://bucket/e.parquet",
    ):
        caplog.clear()
        assert path_for_workers(settings(tmp_path / "edges.csv"), given) is None
        assert "this process reads the input, and not the workers: it is no single path" in caplog.messages
    assert path_for_workers(settings(tmp_path / "edges.csv"), f"file://{tmp_path}/edges.parquet") is not None
