"""The example flow runs unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from mbe_stage.flows.example import bicliques_of_url
from mbe_stage.pipeline import read_manifest


@pytest.mark.usefixtures("prefect_server")
def test_the_example_fetches_publishes_and_shows(tmp_path: Path, edges_file: Path) -> None:
    run_dir = bicliques_of_url(edges_file.as_uri(), tmp_path / "out")
    assert read_manifest(run_dir).counts.bicliques == 4
    with get_client(sync_client=True) as client:
        (shown,) = [each for each in client.read_artifacts() if each.description == str(run_dir)]
    assert shown.data.count('"edges"') == 4
