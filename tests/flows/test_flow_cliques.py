"""The flow of maximal cliques: its published files, state and artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from mbe_stage.flows.cliques import configure, enumerate_cliques_flow
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.verify import verify_run


def artifacts(state) -> dict:
    only = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {artifact.key: artifact for artifact in client.read_artifacts(flow_run_filter=only)}


@pytest.mark.usefixtures("prefect_server")
def test_cliques_are_published_returned_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst\nann,bob\nbob,cid\ncid,ann\ncid,dan\ndan,cid\neve,eve\n")

    def run():
        return enumerate_cliques_flow(
            input_path=str(path),
            output_directory=str(tmp_path / "out"),
            overrides=["execution.engine=reference"],
            return_state=True,
        )

    state = run()
    assert (state.name, state.message) == ("Completed", "3 maximal cliques published")
    result = state.result()
    assert result["cliques"] == 3
    run_dir = Path(result["run"])
    verify_run(run_dir, ingest(reading_of(read_manifest(run_dir).config)))
    shown = artifacts(state)
    assert {"cliques-summary", "cliques-report", "largest-cliques"} <= set(shown)
    assert "5 vertices, 4 edges" in shown["cliques-summary"].data
    assert "| 3 | ann, bob, cid |" in shown["cliques-report"].data
    assert json.loads(shown["largest-cliques"].data)[0]["vertices"] == "ann, bob, cid"
    again = run()
    assert again.name == "Unchanged"
    assert again.result() == result | {"unchanged": True}


def test_the_shipped_configuration_is_one() -> None:
    config = configure(str(Path(__file__).parents[2] / "configs" / "cliques.yaml"), overrides=["cliques.max_size=9"])
    assert (config.problem, config.problem_section.min_size, config.problem_section.max_size) == ("cliques", 3, 9)
