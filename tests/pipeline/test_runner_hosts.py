"""Realistic clusters: workers on hosts with disks of their own, behind TLS."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.errors import ClusterLost
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.job import RunResult, run
from mbe_stage.runners.clusters import dask_cluster
from tests.mbe_stage import graphs
from tests.patience import PATIENCE, begun, completed

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
QUIET = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def settings(out: Path, edges: Path, *, problem: str = "bicliques", **execution: Any) -> Config:
    return Config.model_validate(
        {
            "problem": problem,
            "input": {"path": str(edges)},
            "execution": {"engine": "cpu", "threads": 1, **execution},
            "output": {"directory": str(out), "sort": True},
        }
    )


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    left, right = graphs.from_matrix(graphs.random_matrix(0, 90, 400, 0.25)).edges()
    path = tmp_path / "edges.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in zip(left.tolist(), right.tolist(), strict=True)))
    return path


def tables(found: RunResult) -> dict[str, str]:
    return {file.path: file.sha256 for file in found.manifest.files if file.path.endswith(".parquet")}


class Host:
    """A network namespace with an address of its own, and a local address at which it reaches this machine."""

    def __init__(self, number: int) -> None:
        self.name = f"mbe{os.getpid() % 100_000}-{number}"
        self.link = f"mbe{os.getpid() % 100_000}v{number}"
        self.here, self.there = f"10.231.{77 + number}.1", f"10.231.{77 + number}.2"

    def make(self) -> None:
        for line in (
            f"ip netns add {self.name}",
            f"ip link add {self.link} type veth peer name inside netns {self.name}",
            f"ip addr add {self.here}/24 dev {self.link}",
            f"ip link set {self.link} up",
            f"ip -n {self.name} addr add {self.there}/24 dev inside",
            f"ip -n {self.name} link set inside up",
            f"ip -n {self.name} link set lo up",
        ):
            done = completed(line.split())
            if done.returncode:
                pytest.skip(f"no network namespaces can be made here: {line}: {done.stderr.strip()}")

    def remove(self) -> None:
        completed(["ip", "link", "delete", self.link])
        completed(["ip", "netns", "delete", self.name])

    def start_worker(self, port: int, room: Path, own_disk: Path | None) -> None:
        """Start a worker with its own home, temporary directory and cache of machine code.

        The host replaces the directory `own_disk` by an empty one of its own.
        """
        room.mkdir()
        mount = "" if own_disk is None else f"mount -t tmpfs none {own_disk} && "
        worker = f"{sys.executable} -m distributed.cli.dask_worker tcp://{self.here}:{port} --nthreads 1 --no-dashboard"
        command = f"{mount}exec {worker} --local-directory {room} --name {self.name}"
        environment = {**os.environ, "HOME": str(room), "TMPDIR": str(room), "PYTHONPATH": str(ROOT)}
        with (room / "log").open("wb") as said:
            begun(
                ["ip", "netns", "exec", self.name, "sh", "-c", command],
                env=environment,
                cwd=room,
                stdout=said,
                stderr=said,
            )


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    if not sys.platform.startswith("linux") or os.geteuid() or shutil.which("ip") is None:
        pytest.skip("hosts in network namespaces take Linux, root and iproute2: apt-get install iproute2")
    made = [Host(number) for number in range(2)]
    try:
        for host in made:
            host.make()
        yield made
    finally:
        for host in made:
            host.remove()


def test_hosts_that_share_the_directory_write_and_others_send(hosts: list[Host], tmp_path: Path, edges: Path) -> None:
    """Both problems whose results are rows, on the same workers."""
    out, port = tmp_path / "out", free_port()
    out.mkdir()
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "0.0.0.0", "--no-dashboard"]
    with (tmp_path / "scheduler.log").open("wb") as said:
        begun([*scheduler, "--port", port], stdout=said, stderr=said)
    hosts[0].start_worker(port, tmp_path / "shares", None)
    hosts[1].start_worker(port, tmp_path / "has-its-own", out)
    with distributed.Client(f"tcp://127.0.0.1:{port}", timeout=PATIENCE) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        names = {f"{worker['host']}": worker["name"] for worker in client.scheduler_info()["workers"].values()}
    assert names == {host.there: host.name for host in hosts}
    for problem in ("bicliques", "cliques"):
        shared = run(settings(out, edges, problem=problem, runner="dask", cluster=f"tcp://127.0.0.1:{port}"))
        alone = run(settings(tmp_path / "alone", edges, problem=problem))
        assert tables(shared) == tables(alone)
        assert shared.manifest.content_fingerprint == alone.manifest.content_fingerprint
        assert shared.manifest.ranks is not None
        writes = {rank.name.partition("//")[2].partition(":")[0]: rank.writes for rank in shared.manifest.ranks.each}
        assert writes == {hosts[0].there: True, hosts[1].there: False}


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, Any]:
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl, which is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=mbe-test"]
    completed(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *made], check=True)
    told: dict[str, Any] = {
        "distributed.comm.tls.ca-file": str(certificate),
        "distributed.comm.require-encryption": True,
    }
    for role in ("scheduler", "worker", "client"):
        told |= {f"distributed.comm.tls.{role}.cert": str(certificate), f"distributed.comm.tls.{role}.key": str(key)}
    return told


def test_tls_settings_of_dask_apply(tmp_path: Path, edges: Path, certificates: dict[str, Any]) -> None:
    alone = run(settings(tmp_path / "alone", edges))
    with (
        dask.config.set(certificates),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, protocol="tls://", host="127.0.0.1", **QUIET
        ) as made,
    ):
        address = made.scheduler_address
        assert address.startswith("tls://")
        shared = run(settings(tmp_path / "out", edges, runner="dask", cluster=address))
        # A client without a certificate is refused.
        without = dict.fromkeys(certificates) | {"distributed.comm.timeouts.connect": "2s"}
        with dask.config.set(without), pytest.raises(ClusterLost, match="no scheduler answers there"):
            run(settings(tmp_path / "no", edges, runner="dask", cluster=address))
    assert tables(shared) == tables(alone)
    assert shared.manifest.ranks is not None
    assert all(rank.name.startswith("tls://") for rank in shared.manifest.ranks.each)


def test_processes_of_this_machine_end_with_the_context(tmp_path: Path, edges: Path) -> None:
    with dask_cluster(workers=2, threads=1) as runner:
        pids = runner._client.run(os.getpid)
        assert len(pids) == 2
    found = run(settings(tmp_path / "out", edges, runner="dask", workers=1))
    assert found.manifest.ranks is not None
    assert len(found.manifest.ranks.each) == 1
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
