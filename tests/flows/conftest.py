"""Prefect settings for tests: silent, with a temporary home.

Prefect reads its settings at the first import, so they are set here, before any test module of this folder.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from flow_toys import EDGES
from processes import migrated

from tests.patience import PATIENCE

PREFECT_HOME = tempfile.mkdtemp(prefix="mbe-prefect-")
atexit.register(shutil.rmtree, PREFECT_HOME, ignore_errors=True)
os.environ.update(
    DO_NOT_TRACK="1",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    PREFECT_HOME=PREFECT_HOME,
    # Runs wait for their last logs; a test need not batch for long.
    PREFECT_LOGGING_TO_API_BATCH_INTERVAL="0.2",
)
os.environ.pop("PREFECT_API_URL", None)


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    """Return a small edge list with four maximal bicliques."""
    path = tmp_path / "edges.csv"
    path.write_text("left,right\n" + "".join(f"{left},{right}\n" for left, right in EDGES))
    return path


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    from prefect.settings import (
        PREFECT_API_BLOCKS_REGISTER_ON_START,
        PREFECT_API_DATABASE_MIGRATE_ON_START,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )
    from prefect.testing import utilities

    home = tmp_path_factory.mktemp("server")
    migrated(home / "prefect-test.db")
    # Ending the heartbeat thread would take most of a second per run.
    no_heartbeat = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})
    # The database is migrated, and no flow uses a block.
    quick_start = temporary_settings(
        {PREFECT_API_DATABASE_MIGRATE_ON_START: False, PREFECT_API_BLOCKS_REGISTER_ON_START: False}
    )
    with pytest.MonkeyPatch.context() as patch, quick_start:
        patch.setattr(utilities, "mkdtemp", lambda: str(home))
        with utilities.prefect_test_harness(server_startup_timeout=int(PATIENCE)), no_heartbeat:
            yield
