"""A local cluster talks only to its own processes and reports a failed start in one line."""

from __future__ import annotations

import functools
import os
import stat
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.errors import ClusterLost, EngineUnavailable
from mbe_stage.runners import lease_work
from mbe_stage.runners.clusters import dask_cluster

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")
psutil = pytest.importorskip("psutil", reason="a package that Dask needs")

from tests.pipeline.forked_workers import workers_are_forked  # noqa: E402 - it needs Dask


def listening(process: Any) -> list[tuple[str, int]]:
    return [tuple(each.laddr) for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]


def _listening_here() -> list[tuple[str, int]]:
    this = psutil.Process()
    return [each for process in (this, *this.children(recursive=True)) for each in listening(process)]


def test_a_local_cluster_refuses_other_clients() -> None:
    """Every port of scheduler, nannies and workers uses TLS and refuses a client without the certificate."""
    # An earlier test may have left a server in this process or a child.
    before = set(_listening_here())
    with workers_are_forked(), dask_cluster(workers=2, threads=1) as runner:
        ports = [each for each in _listening_here() if each not in before]
        # The scheduler, two nannies and two workers; no HTTP server.
        assert len(ports) == 5
        assert {host for host, _ in ports} == {"127.0.0.1"}
        for host, port in ports:
            for protocol, security in (("tcp", None), ("tls", distributed.Security.temporary())):
                with pytest.raises((OSError, RuntimeError)):
                    distributed.Client(f"{protocol}://{host}:{port}", security=security, timeout=5)
        assert len(runner._client.run(os.getpid)) == 2


def test_workers_use_a_private_directory(tmp_path: Path) -> None:
    """Dask's own directory is shared by all users, who could put modules there."""
    import dask

    with dask.config.set({"temporary-directory": str(tmp_path)}), dask_cluster(workers=1, threads=1) as runner:
        (room,) = tmp_path.iterdir()
        assert stat.S_IMODE(room.stat().st_mode) == 0o700
        (places,) = runner._client.run(lambda: list(__import__("sys").path)).values()
        assert [each for each in places if "dask-scratch-space" in each]
        assert all(Path(each).is_relative_to(room) for each in places if "dask-scratch-space" in each)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dies", ["at its start", "at its first task"])
def test_a_worker_death_at_the_cluster_s_start_is_one_line(dies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    preload: AbstractContextManager[object] = nullcontext()
    if dies == "at its start":
        # Dask's own setting for code that workers run first.
        preload = dask.config.set({"distributed.worker.preload": ["import os; os._exit(3)"]})
    else:
        monkeypatch.setattr(lease_work, "ignore_interrupts", functools.partial(os._exit, 3))
    with (
        workers_are_forked(),
        preload,
        pytest.raises(ClusterLost) as refusal,
        dask_cluster(workers=2, threads=1),
    ):
        pytest.fail("a cluster without its workers")
    assert str(refusal.value).startswith("a worker ended while the cluster of this machine started (")
    assert "\n" not in str(refusal.value)


def test_without_cryptography_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("Using `Security.temporary` requires `cryptography`")

    monkeypatch.setattr(distributed.Security, "temporary", missing)
    with pytest.raises(EngineUnavailable, match=r"cryptography.*pip install 'mbe-stage\[dask\]'"), dask_cluster():
        pytest.fail("a cluster without TLS")
