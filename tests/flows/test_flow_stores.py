"""A flow between object stores: tasks, artifacts and skips as on disk; the loser of a race retries."""

from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")
pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")

from flow_toys import N_BICLIQUES
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from mbe_stage.flows import enumerate as flow_module
from mbe_stage.flows.enumerate import enumerate_bicliques_flow
from mbe_stage.pipeline.stores.remote_staging import RemoteStaging
from tests.pipeline.stores.conftest import bucket, server, temporary  # noqa: F401 - fixtures
from tests.pipeline.stores.server import SECRET, Bucket
from tests.pipeline.stores.writers import published

pytestmark = pytest.mark.usefixtures("prefect_server")


def run(edges: str, out: str):
    return enumerate_bicliques_flow(
        input_path=edges, output_directory=out, overrides=["execution.engine=reference"], return_state=True
    )


def artifacts(state) -> str:
    selected = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return " ".join(str(each.data) for each in client.read_artifacts(flow_run_filter=selected))


def test_a_flow_reads_and_publishes_by_addresses(bucket: Bucket, edges_file: Path) -> None:  # noqa: F811
    edges, out = bucket.put("edges.csv", edges_file), f"{bucket.url}/out"
    state = run(edges, out)
    assert (state.name, state.message) == ("Completed", f"{N_BICLIQUES} maximal bicliques published")
    (run_id,) = published(bucket)
    assert state.result()["run"] == f"{out}/runs/{run_id}"
    shown = artifacts(state)
    assert f"{out}/runs/{run_id}" in shown
    assert edges in shown
    assert "temporary" not in shown
    assert SECRET not in shown
    again = run(edges, out)
    assert (again.name, again.result()["run"]) == ("Unchanged", f"{out}/runs/{run_id}")
    assert published(bucket) == [run_id]


def test_the_loser_of_a_race_retries_after_the_winner(
    bucket: Bucket,  # noqa: F811
    edges_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, send, attempts = f"{bucket.url}/out", RemoteStaging._send, []
    monkeypatch.setattr(flow_module, "publish_task", flow_module.publish_task.with_options(retry_delay_seconds=0))

    def meanwhile(self: RemoteStaging, before: object) -> None:
        attempts.append(before)
        if len(attempts) == 1:
            run(str(edges_file), out)
        send(self, before)

    monkeypatch.setattr(RemoteStaging, "_send", meanwhile)
    state = run(str(edges_file), out)
    assert state.is_completed(), state.message
    first, second = published(bucket)
    assert state.result()["run"] == f"{out}/runs/{second}"
    assert len(attempts) == 3
    assert first < second


def test_a_missing_bucket_fails_the_flow(bucket: Bucket, edges_file: Path) -> None:  # noqa: F811
    state = run(str(edges_file), "s3://no-bucket/out")
    assert state.is_failed()
    assert "no such bucket; nothing was published" in state.message
    assert bucket.listed() == []
