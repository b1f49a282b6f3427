"""Workers of a Dask cluster that read Parquet themselves give what a read by this process gives."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.errors import ClusterLost
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import settings_called
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import ingest_by_workers
from mbe_stage.pipeline.execution.job import count, run
from mbe_stage.pipeline.verify.job import verify_run
from tests.pipeline.test_runner import tables

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")

from tests.pipeline.forked_workers import workers_are_forked  # noqa: E402 - it needs Dask

KEPT, CAME, HERE = "edges, which stay there", "edges, which came here", "this process reads the input"
N_INPUTS = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with (
        workers_are_forked(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as made,
    ):
        yield made


def settings(out: Path, path: Path, cluster: Any = None, **sections: Any) -> Config:
    shared = {} if cluster is None else {"runner": "dask", "cluster": cluster.scheduler_address}
    execution = {"engine": "cpu", "threads": 1, **shared, **sections.pop("execution", {})}
    output = {"directory": str(out), "two_hop_steps": 0, "sort": True, **sections.pop("output", {})}
    given = {"path": str(path), **sections.pop("input", {})}
    return Config.model_validate({"input": given, "execution": execution, "output": output, **sections})


def random_input(rng: np.random.Generator, path: Path) -> dict[str, Any]:
    """Write a file or a directory of random rows; return sections of a configuration that read it."""
    n = int(rng.integers(1, 400))

    def keys(n_keys: int) -> pa.Array:
        numbers = rng.integers(0, n_keys, n)
        kinds: list[Callable[[], Any]] = [
            lambda: pa.array(numbers * 10**9 - 5),
            lambda: pa.array([f"k{number}" for number in numbers]),
            lambda: pa.array([str(number) for number in numbers]).dictionary_encode(),
            lambda: pa.array(numbers.astype("datetime64[s]")),
        ]
        return kinds[rng.integers(len(kinds))]()

    columns = {"a": keys(30), "b": keys(20), "c": keys(4), "w": pa.array(rng.random(n)), "day": pa.array(["x"] * n)}
    columns["t"] = pa.array(rng.integers(1_700_000_000, 1_700_900_000, n).astype("datetime64[s]"))
    asked: dict[str, Any] = {"left": "a", "right": "b"}
    if rng.random() < 0.5:
        columns = {name: pa.array(each, mask=rng.random(n) < 0.1) for name, each in ((k, v.to_pylist()) for k, v in columns.items())}
        asked["nulls"] = "drop"
    asked |= {"right": ["b", "c"]} if rng.random() < 0.3 else {}
    asked |= {"weight": "w", "min_weight": 0.3} if rng.random() < 0.4 else {}
    asked |= {"timestamp": "t", "time_bucket": "1d"} if rng.random() < 0.4 else {}
    asked |= {"timestamp": "t", "time_from": "2023-11-16"} if rng.random() < 0.3 else {}
    table, size = pa.table(columns), int(rng.choice([7, 50, 1000]))
    if rng.random() < 0.5:
        pq.write_table(table, path, row_group_size=size)
    else:
        for at in range(3):
            (path / f"day={at}").mkdir(parents=True)
            part = table.slice(at * (n // 3), n // 3 if at < 2 else None).drop_columns("day")
            pq.write_table(part, path / f"day={at}" / "part.parquet", row_group_size=size)
    return {"input": asked}


@pytest.mark.parametrize("seed", range(N_INPUTS))
def test_the_published_tables_are_the_same(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "edges.parquet"
    sections = random_input(rng, path)
    sections |= [{}, {"output": {"two_hop_steps": None}}, {"problem": "cliques"}, {"groups": {}}][seed % 4]
    caplog.set_level(logging.INFO)
    found: list[Any] = []
    for name, workers in (("cluster", cluster), ("alone", None)):
        try:
            found.append(run(settings(tmp_path / name, path, workers, **sections)))
        except InputError as error:
            found.append(str(error))
    shared, alone = found
    if isinstance(alone, str):
        assert shared == alone
        return
    assert (KEPT if seed % 4 == 0 else CAME) in caplog.text
    assert shared.manifest.input == alone.manifest.input
    assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert tables(shared.run_dir) == tables(alone.run_dir)
