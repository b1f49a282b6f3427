"""The flow of (p, q)-counts: published files, state and artifacts hold the counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from typer.testing import CliRunner

from mbe_stage.flows.command import app_of
from mbe_stage.flows.count_pq import configure, count_pq_flow
from mbe_stage.flows.enumerate import enumerate_bicliques_flow
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.verify import verify_run

# Two left vertices share three right ones; a third has one of these.
EDGES = [("ann", "x"), ("ann", "y"), ("ann", "z"), ("bob", "x"), ("bob", "y"), ("bob", "z"), ("cid", "z")]


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("left,right\n" + "".join(f"{left},{right}\n" for left, right in EDGES))
    return path


def run(edges_file: Path, out: Path, *overrides: str):
    asked = ["execution.engine=reference", *overrides]
    return count_pq_flow(input_path=str(edges_file), output_directory=str(out), overrides=asked, return_state=True)


def artifacts(state) -> dict:
    only = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {artifact.key: artifact for artifact in client.read_artifacts(flow_run_filter=only)}


@pytest.mark.usefixtures("prefect_server")
def test_counts_are_published_returned_and_shown(edges_file: Path, tmp_path: Path) -> None:
    state = run(edges_file, tmp_path / "out", "pq_counts.local=vertices")
    assert (state.name, state.message) == ("Completed", "3 (2, 2)-bicliques published")
    result = state.result()
    assert result["counts"] == [{"p": 2, "q": 2, "count": 3, "count_text": "3"}]
    assert result["lower_bounds"] is False
    run_dir = Path(result["run"])
    verify_run(run_dir, ingest(read_manifest(run_dir).config.input))
    shown = artifacts(state)
    assert {"pq-counts-summary", "pq-counts-report", "largest-pq-counts"} <= set(shown)
    assert "**3 (2, 2)-bicliques**" in shown["pq-counts-summary"].data
    assert "# 3 (2, 2)-bicliques" in shown["pq-counts-report"].data
    assert "| left | ann | 3 |" in shown["pq-counts-report"].data
    first = json.loads(shown["largest-pq-counts"].data)[0]
    assert first == {"side": "left", "key": "ann", "p": 2, "q": 2, "count": "3"}
    again = run(edges_file, tmp_path / "out", "pq_counts.local=vertices")
    assert again.name == "Unchanged"
    assert again.result() == result | {"unchanged": True}
    assert "3 (2, 2)-bicliques." in artifacts(again)["pq-counts-summary"].data


@pytest.mark.usefixtures("prefect_server")
def test_the_flow_of_bicliques_takes_the_problem_too(edges_file: Path, tmp_path: Path) -> None:
    asked = [
        "problem=pq_counts",
        "pq_counts.table=true",
        "pq_counts.p=2",
        "pq_counts.q=3",
        "execution.engine=reference",
    ]
    state = enumerate_bicliques_flow(
        input_path=str(edges_file), output_directory=str(tmp_path / "out"), overrides=asked, return_state=True
    )
    assert state.message == "6 numbers of (p, q)-bicliques up to (2, 3), the largest 7, of (1, 1), published"
    assert [row["count"] for row in state.result()["counts"]] == [7, 6, 2, 5, 3, 1]
    assert "| **2** | 5 | 3 | 1 |" in artifacts(state)["pq-counts-report"].data


def test_its_configuration_is_of_counts() -> None:
    config = configure(str(Path(__file__).parents[2] / "configs" / "pq_counts.yaml"), overrides=["pq_counts.p=3"])
    assert (config.problem, config.problem_section.p, config.problem_section.q, config.problem_section.local) == (
        "pq_counts",
        3,
        6,
        "vertices",
    )
    assert configure().problem == "pq_counts"
    with pytest.raises(ConfigError, match=r"query\.min_left: is for the problem bicliques.*only sizes"):
        configure(overrides=["query.min_left=2"])


def test_the_command_is_of_this_flow() -> None:
    refused = CliRunner().invoke(app_of("count_pq"), ["--set", "pq_counts.p=0"])
    assert refused.exit_code == 2
    assert "pq_counts.p is 0" in refused.stderr
