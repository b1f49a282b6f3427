"""Rows that workers read and join are those that this process reads. `test_runner` has real clusters."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import queue
import re
import threading
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.clean import facts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import settings_called
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import ingest_by_workers
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.ingest_by_workers import held_by_workers
from mbe_stage.pipeline.io import parquet
from mbe_stage.pipeline.problems.installed import publication_of, reading_of
from mbe_stage.runners import lease_work
from mbe_stage.runners.lease_work import HELD
from tests.patience import PATIENCE

HANGS = object()
LOOP = asyncio.new_event_loop()
# The worker at work: empty in the main process.
WORKER: ContextVar[str] = ContextVar("worker", default="")


class OfWorkers(UserDict[Any, Any]):
    """Stands for a dictionary that each worker has of its own."""

    def __getitem__(self, key: str) -> Any:
        return self.data[WORKER.get(), key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[WORKER.get(), key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[WORKER.get(), key]

    def __contains__(self, key: object) -> bool:
        return (WORKER.get(), key) in self.data

    def __iter__(self) -> Iterator[str]:
        return iter([key for worker, key in self.data if worker == WORKER.get()])


class Workers:
    """Stands for a `DaskRunner`: workers of this process, whose messages are pickled.

    `faults` has functions that take the place of a worker's by the name of the latter, or what these answer.
    """

    def __init__(self, n: int, faults: dict[str, Any] | None = None) -> None:
        self.addresses = [f"tcp://10.0.0.{i}:1" for i in range(n)]
        self.faults, self.asked_for = faults or {}, list[tuple[str, str]]()

    def awaited_workers(self) -> dict[str, int]:
        return dict.fromkeys(self.addresses, 1)

    def asked(self, function: Any, *given: Any, workers: Any, seconds: float) -> dict[str, Any]:
        assert seconds > 0
        answers = {worker: self.answer(worker, function, given) for worker in workers}
        return {worker: answer for worker, answer in answers.items() if answer is not HANGS}

    def answer(self, worker: str, function: Any, given: tuple[Any, ...]) -> Any:
        self.asked_for.append((function.__name__, worker))
        fault, token = self.faults.get(function.__name__), WORKER.set(worker)
        try:
            answer = None if fault is None else fault(worker)
            if answer is None:
                function, given = pickle.loads(pickle.dumps((function, given)))
                beside = {"dask_worker": self} if function.__name__ in ("_read", "_give") else {}
                answer = function(*given, **beside)
                answer = LOOP.run_until_complete(answer) if asyncio.iscoroutine(answer) else answer
        except Exception as error:  # noqa: BLE001 - as Dask returns it
            answer = error
        WORKER.reset(token)
        return answer if answer is HANGS else pickle.loads(pickle.dumps(answer))

    @property
    def contact_address(self) -> str:
        return WORKER.get()

    def rpc(self, giver: str) -> Any:
        class Connected:
            @staticmethod
            async def run(function: bytes, args: bytes) -> dict[str, Any]:
                if "rpc" in self.faults:
                    raise OSError(f"no route to {giver}")
                if "silent rpc" in self.faults:
                    await asyncio.sleep(60)
                token = WORKER.set(giver)
                try:
                    return {"result": await pickle.loads(function)(*pickle.loads(args), dask_worker=self)}
                finally:
                    WORKER.reset(token)

        return Connected


def settings(path: Path | str, **sections: Any) -> Config:
    output = {"two_hop_steps": 0, **sections.pop("output", {})}
    given = {"path": str(path), **sections.pop("input", {})}
    execution = {"runner": "dask", "cluster": "tcp://10.0.0.9:8786", **sections.pop("execution", {})}
    return Config.model_validate({"input": given, "output": output, "execution": execution, **sections})


@pytest.fixture(autouse=True)
def readings(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    monkeypatch.setattr(ingest_by_workers, "_READINGS", found := OfWorkers())
    return found.data


@pytest.fixture
def reading(readings: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a context of `held_by_workers`, with workers of this process; afterwards these hold nothing."""

    @contextmanager
    def held(config: Config, workers: Workers) -> Iterator[Any]:
        @contextmanager
        def cluster(_: str) -> Iterator[Workers]:
            yield workers

        monkeypatch.setattr(ingest_by_workers, "dask_cluster", cluster)
        monkeypatch.setattr(ingest_by_workers, "QUICK_TWO_HOP_EDGES", 0)
        with held_by_workers(config) as edges:
            yield edges
        assert not readings
        assert not HELD

    return held


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
    columns = {"a": keys(30), "b": keys(20), "c": keys(4), "w": pa.array(rng.random(n).round(1)), "t": pa.array(times)}
    asked: dict[str, Any] = {"left": "a", "right": "b"}
    if rng.random() < 0.3:
        columns["t"] = pc.strftime(columns["t"], "%d.%m.%Y %H:%M:%S")
        asked["date_format"] = "%d.%m.%Y %H:%M:%S"
    if rng.random() < 0.4:
        columns = {name: pc.if_else(rng.random(n) < 0.97, column, None) for name, column in columns.items()}
        asked["nulls"] = rng.choice(["drop", "error"], p=[0.8, 0.2])
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


def test_shares_of_random_inputs_are_joined_to_the_whole(
    tmp_path: Path, reading: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    n_held = n_refused = 0
    for seed in range(30):
        further = {"problem": "pq_counts"} if seed % 3 == 0 else {}
        rng = np.random.default_rng(seed)
        path, n_workers = tmp_path / f"{seed}.parquet", int(rng.integers(1, 6))
        config = settings(path, **random_input(rng, path), **further)
        caplog.clear()
        with settings_called(str.upper), reading(config, Workers(n_workers)) as found:
            warnings = [text for text in caplog.messages if text.startswith(str(path))]
            try:
                whole = ingest(reading_of(config))
            except InputError:
                # This process reads, so the refusal is its own.
                assert found is None
                n_refused += 1
                continue
            assert found is not None
            assert found.facts == whole.facts
            assert set(warnings) >= set(whole.facts.warnings)
            assert_equal((found.left_keys, found.right_keys), (whole.left_keys, whole.right_keys))
            assert_equal(found.key_hashes(), whole.key_hashes())
            graph, expected = found.graph(), publication_of(config.problem).graph(config, whole)
            assert_equal(pickle.loads(HELD[graph.key]), expected)
            assert_equal(graph.read_here("a test"), expected)
            assert (graph.n_left, graph.n_right) == (expected.n_left, expected.n_right)
            assert_equal([graph.left_degrees, graph.right_degrees], [expected.left_degrees, expected.right_degrees])
            n_held += 1
    assert n_held > 20
    assert n_refused > 0


def assert_equal(found: Any, expected: Any) -> None:
    for ours, theirs in zip(parts(found), parts(expected), strict=True):
        if isinstance(theirs, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours.equals(theirs) if isinstance(theirs, pa.Array) else ours == theirs


def parts(value: Any) -> Iterator[Any]:
    several = [getattr(value, each.name) for each in fields(value)] if is_dataclass(value) else value
    for each in several if isinstance(several, list | tuple) else [several]:
        yield from [each] if each is value else parts(each)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"left": range(9), "right": range(9)}), tmp_path / "edges.parquet", row_group_size=2)
    return tmp_path / "edges.parquet"


def refused(_: str) -> None:
    raise OSError("disk")


def hung(worker: str) -> object:
    return HANGS if worker.endswith("1:1") else None


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"_read": refused}, r"worker tcp://10.0.0.0:1: OSError\('disk'\)"),
        # The second is asked, too, while the first joins.
        ({"_read": hung}, "worker tcp://10.0.0.1:1: 'no answer'"),
        ({"_give": lambda _: HANGS}, "worker tcp://10.0.0.0:1 does not give what it has joined: TypeError"),
        ({"_give": lambda _: b"damaged"}, "worker tcp://10.0.0.0:1 does not give .*: UnpicklingError"),
        ({"_give": lambda _: pickle.dumps(MemoryError())}, "worker tcp://10.0.0.0:1 does not give .*: TypeError"),
        ({"one process": None}, "ValueError.*tcp://10.0.0.0:1 is a worker in the same process"),
        ({"rpc": None}, r"worker tcp://10.0.0.0:1: OSError\('no route to tcp://10.0.0.1:1'\)"),
        ({"_seen": None}, "ValueError.*other files or software than the main process has, in "),
        ({"_cleaned": None}, r"worker tcp://10.0.0.0:1: OSError\('disk'\)"),
    ],
)
def test_any_failure_leaves_the_input_to_this_process(
    path: Path,
    faults: dict[str, Any],
    reason: str,
    reading: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if "_seen" in faults:
        monkeypatch.setattr(ingest_by_workers, "_seen", lambda _: "1:1" in WORKER.get())
    if "one process" in faults:
        monkeypatch.setattr(ingest_by_workers, "_READINGS", {})
    if "_cleaned" in faults:
        monkeypatch.setattr(ingest_by_workers, "_cleaned", lambda *_: refused(""))
    run_state.begin("start")
    with reading(settings(path), Workers(2, faults)) as found:
        assert found is None
    (warning,) = (each for each in caplog.records if each.levelno >= logging.WARNING and "compil" not in each.message)
    assert re.search(f"this process reads the input, and not the workers: .*{reason}", warning.message)
    assert run_state.state.step == "start"


@pytest.mark.parametrize("error", [OSError("disk"), InputError("no")])
def test_the_error_of_a_share_is_told(
    path: Path, error: Exception, reading: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = ingest_by_workers._share

    def failing(*given: Any) -> Any:
        if WORKER.get().endswith("1:1"):
            raise error
        return read(*given)

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(ingest_by_workers, "_share", failing)
    with reading(settings(path), Workers(2)) as found:
        assert found is None
    (line,) = (record for record in caplog.records if "not the workers" in record.message)
    assert str(error) in line.message
    assert line.levelno == (logging.INFO if isinstance(error, InputError) else logging.WARNING)


def test_a_reader_that_hangs_is_given_up(
    path: Path, reading: Any, readings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ingest_by_workers, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(ingest_by_workers, "_NO_ROW_SECONDS", 0.01)
    over, read, ends = threading.Event(), ingest_by_workers._share, queue.SimpleQueue[Any]()

    def held_up(*given: Any) -> Any:
        over.wait(60)
        try:
            ends.put(read(*given))
        except KeyError as error:
            ends.put(error.args[0][1:])

    monkeypatch.setattr(ingest_by_workers, "_share", held_up)
    monkeypatch.setattr(ingest_by_workers, "seconds_for", lambda _: 0.01)
    workers = Workers(2)
    with reading(settings(path), workers) as found:
        assert found is None
    assert "no worker has got further for 0.02 s" in caplog.text
    over.set()
    # Readers end at their next rows, and a message that comes late begins nothing.
    key = lease_work.ENDED[-1]
    assert [ends.get(timeout=PATIENCE) for _ in workers.addresses] == [(key,), (key,)]
    late = workers.answer(workers.addresses[0], ingest_by_workers._read, (key, None, path, [], workers.addresses))
    assert str(late) == "this reading is over"
    assert not readings


def test_readings_whose_process_is_gone_are_dropped(path: Path, readings: dict[Any, Any]) -> None:
    workers, keys = Workers(1), [f"killed client {i}" for i in range(4)]
    given = settings(path), path, ingest_by_workers._seen(path), workers.addresses
    for key in keys:
        while workers.answer(workers.addresses[0], ingest_by_workers._read, (key, *given))[1] is not True:
            pass
        assert list(HELD) == [known for _, known in readings] == keys[: keys.index(key) + 1][-2:]
    for key in keys[2:]:
        HELD.pop(key)


def test_a_join_that_is_dropped_keeps_no_share(path: Path, reading: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_by_workers, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(ingest_by_workers, "_NO_ROW_SECONDS", 0.0)
    monkeypatch.setattr(ingest_by_workers, "seconds_for", lambda _: 0.1)
    read, shares = ingest_by_workers._share, list[Any]()

    def noted(*given: Any) -> Any:
        rows = read(*given)
        shares.append(weakref.ref(rows.table))
        return rows

    monkeypatch.setattr(ingest_by_workers, "_share", noted)
    with reading(settings(path), Workers(2, {"silent rpc": None})) as found:
        assert found is None
    LOOP.run_until_complete(asyncio.sleep(0.01))
    gc.collect()
    assert [share() for share in shares] == [None, None]


def test_files_of_the_same_size_and_time_are_told_apart(path: Path) -> None:
    seen, times = ingest_by_workers._seen(path), path.stat().st_mtime_ns
    pq.write_table(pa.table({"left": range(1, 10), "right": range(9)}), path, row_group_size=2)
    os.utime(path, ns=(times, times))
    (*ours, (*before, digest)), (*theirs, (*after, other)) = seen, ingest_by_workers._seen(path)
    assert (ours, before) == (theirs, after)
    assert digest != other


@pytest.mark.parametrize("n_edges", [9, 8])
def test_usual_reasons_are_no_warnings(
    path: Path, n_edges: int, reading: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(facts, "QUICK_TWO_HOP_EDGES", 9)
    lefts = [*range(8), None if n_edges == 9 else 7]
    pq.write_table(pa.table({"left": pa.array(lefts), "right": [*range(8), 7]}), path, row_group_size=2)
    with reading(settings(path, output={"two_hop_steps": None}), Workers(2)) as found:
        assert found is None
    (line,) = (record for record in caplog.records if "not the workers" in record.message)
    assert line.levelno == logging.INFO
    assert ("8 edges need two-hop degrees" if n_edges == 8 else "null") in line.message


def test_the_first_workers_get_row_groups(path: Path) -> None:
    shares = [parquet.read(path, reading_of(settings(path)), share=(k, 9)).n_rows for k in range(9)]
    assert shares[0] == 2
    assert sum(shares) == 9


def test_files_that_change_are_read_again_here(
    path: Path, reading: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = parquet.read

    def changed(*given: Any, **beside: Any) -> Any:
        pq.write_table(pa.table({"left": range(8), "right": range(8)}), path)
        return read(*given, **beside)

    monkeypatch.setattr(parquet, "read", changed)
    with reading(settings(path), Workers(1)) as found:
        assert found is None
    assert "ValueError('files have changed meanwhile')" in caplog.text


def test_edges_that_change_before_they_are_read_again_are_refused(
    path: Path, reading: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.chdir(path.parent)
    workers = Workers(2)
    with reading(settings("edges.parquet"), workers) as found:
        assert (found.facts.n_edges, found.facts.source) == (9, "edges.parquet")
        assert found.held.holder == workers.addresses[0]
        pq.write_table(pa.table({"left": range(8), "right": range(8)}), path)
        with pytest.raises(InputError, match="edges that have changed since workers read them; expected the same"):
            found.graph().read_here("no worker has it")
    line = "read edges.parquet (parquet; left = 0 'left', right = 1 'right' of 2 columns, by 2 workers of the cluster"
    assert line in caplog.text
    assert "this process reads the input, too: no worker has it" in caplog.messages


def test_what_workers_cannot_read_is_read_here_without_a_word(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(ingest_by_workers, "dask_cluster", None)
    with held_by_workers(settings(path)) as found:
        assert found is None
    monkeypatch.setattr(ingest_by_workers, "QUICK_TWO_HOP_EDGES", 0)
    (path.parent / "edges.csv").write_text("1,2\n")
    pq.write_table(pa.table({"left": [1], "right": [2]}), path.parent / "more.parquet")
    for given, sections in (
        ("edges.csv", {}),
        ("*.parquet", {}),
        ("edges.parquet", {"execution": {"memory_budget": "1GiB"}}),
        ("edges.parquet", {"execution": {"cluster": None, "workers": 2}}),
        ("edges.parquet", {"output": {"two_hop_steps": 9}}),
        ("edges.parquet", {"groups": {}}),
        ("edges.parquet", {"problem": "cliques"}),
        ("edges.parquet", {"problem": "pq_counts", "pq_counts": {"local": "edges"}}),
    ):
        with held_by_workers(settings(path.parent / given, **sections)) as found:
            assert found is None
    for source in (pa.table({"left": [1], "right": [2]}), [str(path)], "-", "s3://bucket/e.parquet"):
        with held_by_workers(settings(path), source) as found:
            assert found is None
    assert not caplog.messages
