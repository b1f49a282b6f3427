"""The flow on the RAPIDS tier, in Prefect's engine."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.patience import PATIENCE

# Read at Prefect's first import; tests must not send telemetry.
os.environ |= {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
pytest.importorskip("prefect")

pytestmark = pytest.mark.gpu

EDGES = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("c", 3), ("c", 4)]


@pytest.fixture(scope="module")
def prefect_server():
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=int(PATIENCE)):
        yield


@pytest.fixture
def edges(tmp_path) -> Path:
    left, right = zip(*EDGES, strict=True)
    pq.write_table(pa.table({"left": left, "right": right}), tmp_path / "edges.parquet")
    return tmp_path / "edges.parquet"


@pytest.mark.usefixtures("prefect_server")
def test_the_flow_publishes_from_the_device_and_shows_artifacts(edges, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    from mbe_stage.flows.enumerate import enumerate_bicliques_flow
    from mbe_stage.flows.gpu import device_limit_name
    from mbe_stage.pipeline.publish.manifest import read_manifest
    from mbe_stage.pipeline.publish.run_store import RunStore

    out = tmp_path / "out"
    asked = {"input_path": str(edges), "output_directory": str(out), "overrides": ["execution.engine=rapids"]}
    state = enumerate_bicliques_flow(**asked, return_state=True)
    assert (state.name, state.message) == ("Completed", "4 maximal bicliques published")
    manifest = read_manifest(RunStore(out).latest())
    assert (manifest.engine, manifest.counts.bicliques) == ("rapids", 4)
    with get_client(sync_client=True) as client:
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
        shown = {artifact.key: artifact for artifact in client.read_artifacts(flow_run_filter=of_run)}
        limit = client.read_global_concurrency_limit_by_name(device_limit_name())
    assert set(shown) == {
        "enumeration-progress",
        "bicliques-summary",
        "largest-bicliques",
        "bicliques-report",
        "since-last-run",
    }
    assert shown["enumeration-progress"].data == 100.0
    assert "peak device memory" in shown["bicliques-summary"].data
    assert (limit.limit, limit.active_slots) == (1, 0)
    assert enumerate_bicliques_flow(**asked, return_state=True).name == "Unchanged"


@pytest.mark.usefixtures("prefect_server")
def test_a_limit_that_is_too_low_fails_with_the_budget(edges, tmp_path):
    from mbe_stage.flows.enumerate import enumerate_bicliques_flow

    state = enumerate_bicliques_flow(
        input_path=str(edges),
        output_directory=str(tmp_path / "out"),
        overrides=["execution.engine=rapids", "execution.device_memory=1MiB"],
        return_state=True,
    )
    assert state.is_failed()
    assert "execution.device_memory" in state.message or "device memory" in state.message
