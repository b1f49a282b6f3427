"""The flow of groups: published files, state and artifacts, with groups and without."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from typer.testing import CliRunner

from mbe_stage.flows import notify
from mbe_stage.flows.command import app_of
from mbe_stage.flows.groups import configure, find_groups_flow
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.report.markdown import text
from mbe_stage.pipeline.verify import verify_run

REFERENCE = "execution.engine=reference"
RING = [(f"ring {account}", f"page {page}") for account in range(5) for page in range(6)]


def edges(directory: Path, ring: list[tuple[str, str]] = RING) -> Path:
    """Return some random accounts and a ring that visits the same pages."""
    rng = np.random.default_rng(3)
    others = {(f"account {rng.integers(60)}", f"page {rng.integers(6, 60)}") for _ in range(150)}
    path = directory / "edges.csv"
    path.write_text("account,page\n" + "".join(f"{left},{right}\n" for left, right in sorted(others | set(ring))))
    return path


def run(path: Path, out: Path, *overrides: str, **told):
    asked = [REFERENCE, "query.min_left=2", "query.min_right=2", *overrides]
    return find_groups_flow(input_path=str(path), output_directory=str(out), overrides=asked, **told, return_state=True)


def artifacts(state) -> dict:
    only = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return {artifact.key: artifact for artifact in client.read_artifacts(flow_run_filter=only)}


@pytest.mark.usefixtures("prefect_server")
def test_groups_are_published_and_shown(tmp_path: Path) -> None:
    path, out = edges(tmp_path), tmp_path / "out"
    state = run(path, out)
    assert (state.name, state.message) == ("Completed", "1 group published")
    result = state.result()
    assert result["groups"] == 1
    run_dir = Path(result["run"])
    assert run_dir == RunStore(out).latest()
    assert not (run_dir / "bicliques").exists()
    (group,) = pq.read_table(run_dir / "groups.parquet").to_pylist()
    assert (group["n_left"], group["n_right"]) == (5, 6)
    verify_run(run_dir, ingest(read_manifest(run_dir).config.input))

    shown = artifacts(state)
    assert {"bicliques-summary", "bicliques-report", "groups"} <= set(shown)
    assert "largest-bicliques" not in shown
    assert group["explanation"] in str(shown["groups"].data)

    again = run(path, out)
    assert again.name == "Unchanged"
    assert again.result()["groups"] == 1


@pytest.mark.usefixtures("prefect_server")
def test_nothing_significant_is_a_state_of_its_own(tmp_path: Path) -> None:
    state = run(edges(tmp_path, ring=[]), tmp_path / "out")
    assert state.is_completed()
    assert state.name == "NothingSignificant"
    assert re.fullmatch(
        r"no group is significant: vertex degrees explain all groups that were examined; \d+ bicliques "
        "examined, "
        r"the best [\d.]+ nats short of significance; not examined: bicliques outside query\.min_left 2, "
        r"query\.min_right 2",
        state.message,
    )
    assert state.result()["groups"] == 0
    why = state.message.removeprefix("no group is significant: ")
    assert artifacts(state)["groups"].data == text(f"no group is listed: {why}", 1000)


def test_group_settings_of_the_configuration_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "fraud.yaml"
    path.write_text("groups: {limit: 7}\noutput: {bicliques: true}\n")
    asked = configure(str(path), overrides=["groups.kind=grown_cover"])
    assert (asked.section("groups").limit, asked.section("groups").kind) == (7, "grown_cover")
    assert asked.output.bicliques
    assert configure(overrides=["output.sort=true"]).output.bicliques
    assert not configure().output.bicliques
    assert configure().section("groups") is not None


def test_the_command_is_of_this_flow() -> None:
    refused = CliRunner().invoke(app_of("groups"), ["--set", "groups.limit=0"])
    assert refused.exit_code == 2
    assert "groups.limit is 0" in refused.stderr


@pytest.mark.usefixtures("prefect_server")
def test_new_groups_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A larger ring stays and a smaller one appears: the flow lists the new one first."""
    out = tmp_path / "out"
    assert run(edges(tmp_path), out).result()["new_groups"] is None
    newcomers = [(f"newcomer {account}", f"shop {shop}") for account in range(4) for shop in range(5)]
    requests = []
    monkeypatch.setattr(notify, "_status", lambda *request: requests.append(request) or 200)
    monkeypatch.setattr(notify, "emit_event", lambda *event, **_: requests.append(event))
    monkeypatch.setenv(notify.SECRET, "s3cret")
    state = run(edges(tmp_path, RING + newcomers), out, notify={"url": "https://example.org/hook", "with_keys": True})
    event, (url, body, *_) = requests
    assert (event[0], url) == ("mbe.case.new", "https://example.org/hook")
    data = json.loads(body)["data"]
    assert data["left_keys"] == [f"newcomer {account}" for account in range(4)]
    assert state.message == "2 groups published, 1 of them new"
    assert (state.result()["groups"], state.result()["new_groups"]) == (2, 1)
    shown = artifacts(state)
    assert shown["new-cases"].created < shown["bicliques-summary"].created
    assert "act together in 2 cases; 1 is new since " in shown["new-cases"].data
    assert f"| {data['case']} | 4 | 5 | newcomer 0, newcomer 1, newcomer 2, newcomer 3 |" in shown["new-cases"].data
    first, second = json.loads(shown["groups"].data)
    assert [first["rank"], first["since"], second["rank"], second["since"]] == [2, "new", 1, "same"]
    assert first["left"] == "newcomer 0, newcomer 1, newcomer 2, newcomer 3"
    assert first["case"] != second["case"]
    since = artifacts(state)["since-last-run"].data
    assert since.startswith("# Since the last run, groups\n")
    assert "**1** new; 1 unchanged." in since
    # The larger ring is gone: reported with its accounts.
    gone = artifacts(run(edges(tmp_path, newcomers), out))["since-last-run"].data
    assert "**1** gone; 1 unchanged." in gone
    assert "| gone | 5 × 6 | " in gone
    # Without a secret there is a warning, and the run is published.
    monkeypatch.delenv(notify.SECRET)
    state = run(edges(tmp_path, RING + newcomers), out, notify={"url": "https://example.org/hook"})
    assert state.message == "2 groups published, 1 of them new"
    assert (len(requests), "new results could not be reported: --notify: no secret" in caplog.text) == (3, True)


@pytest.mark.usefixtures("prefect_server")
def test_a_truncated_search_reports_no_groups_so_far(tmp_path: Path) -> None:
    state = run(edges(tmp_path, ring=[]), tmp_path / "out", "execution.max_bicliques=1")
    assert (state.name, state.result()["groups"]) == ("Completed", 0)
    assert state.message.startswith("no group is significant so far; incomplete: ")
    assert "explain all groups that were examined; 1 biclique examined" in state.message
    assert "explain all groups;" not in artifacts(state)["groups"].data
