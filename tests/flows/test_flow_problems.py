"""A problem and a derived output of another package in the flow, with their state and artifacts."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from flow_toys import EDGES, N_BICLIQUES
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from mbe_stage.flows.artifacts import artifact_key
from mbe_stage.flows.enumerate import enumerate_bicliques_flow
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.verify import verify_run
from tests.toys.butterflies import reference

pytestmark = pytest.mark.usefixtures("prefect_server", "installed")

ENGINE = "execution.engine=reference"


def run(edges: Path, out: Path, *overrides: str):
    return enumerate_bicliques_flow(
        input_path=str(edges), output_directory=str(out), overrides=[ENGINE, *overrides], return_state=True
    )


def artifacts(state) -> dict:
    only = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {artifact.key: artifact for artifact in client.read_artifacts(flow_run_filter=only)}


def butterflies(edges_file: Path) -> dict:
    edges = ingest(Config.from_mapping({"input": {"path": str(edges_file)}}).input)
    return {
        (edges.left_keys[u].as_py(), edges.right_keys[v].as_py()): n
        for (u, v), n in reference.butterflies(edges.graph()).items()
    }


def test_another_problem(edges_file, tmp_path):
    out = tmp_path / "out"
    state = run(edges_file, out, "problem=butterflies", "butterflies.order=butterflies")
    assert (state.name, state.message) == ("Completed", f"{len(EDGES)} edges counted published")
    result = state.result()
    assert result["counted"] == len(EDGES)
    assert "bicliques" not in result
    run_dir = Path(result["run"])
    assert run_dir == RunStore(out).latest()
    table = pq.read_table(run_dir / "edges.parquet").to_pylist()
    assert {(row["left"], row["right"]): row["butterflies"] for row in table} == butterflies(edges_file)
    assert verify_run(run_dir, ingest(read_manifest(run_dir).config.input)).n_against_input == len(EDGES)

    shown = artifacts(state)
    assert {key: artifact.type for key, artifact in shown.items()} == {
        "enumeration-progress": "progress",
        "butterflies-summary": "markdown",
        "largest-butterflies": "table",
        "butterflies-report": "markdown",
    }
    assert not any("iclique" in str(artifact.data) + str(artifact.description) for artifact in shown.values())
    assert f"**{len(EDGES)}**" in shown["butterflies-summary"].data
    assert f"# {len(EDGES)} edges counted" in shown["butterflies-report"].data
    assert (
        f"| most butterflies of an edge | {max(butterflies(edges_file).values())} |" in shown["butterflies-report"].data
    )
    assert json.loads(shown["largest-butterflies"].data)[0]["butterflies"] == max(butterflies(edges_file).values())

    again = run(edges_file, out, "problem=butterflies", "butterflies.order=butterflies")
    assert again.name == "Unchanged"
    assert again.result() == result | {"unchanged": True}
    assert f"{len(EDGES)} edges counted." in artifacts(again)["butterflies-summary"].data


def test_a_derived_output(edges_file, tmp_path):
    state = run(edges_file, tmp_path / "out", "smaller_sides.at_least=1")
    run_dir = Path(state.result()["run"])
    manifest = read_manifest(run_dir)
    assert manifest.derived == {"smaller_sides": {"sizes": 2, "bicliques": N_BICLIQUES}}
    table = pq.read_table(run_dir / "smaller_sides.parquet").to_pylist()
    assert [(row["size"], row["n_bicliques"]) for row in table] == [(1, 2), (2, 2)]
    assert f"smaller_sides: 2 sizes, {N_BICLIQUES} bicliques." in artifacts(state)["bicliques-report"].data.replace(
        "&#95;", "_"
    )
    assert artifact_key(manifest, "largest") == "largest-bicliques"


def test_bad_input_fails_the_flow_in_one_line(edges_file, tmp_path):
    for overrides, words in (
        (
            ["problem=paths"],
            "expected one of bicliques, cliques, pq_counts, shared_neighbours, itemsets, best, butterflies",
        ),
        (["problem=butterflies", "smaller_sides.at_least=1"], "of the problem bicliques"),
        (["problem=butterflies", "execution.engine=rapids"], "cannot write tables in device memory"),
    ):
        state = run(edges_file, tmp_path / "out", *overrides)
        assert state.is_failed()
        assert words in state.message
        assert "\n" not in state.message
    assert RunStore(tmp_path / "out").runs() == []
