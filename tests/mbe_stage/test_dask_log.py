"""Dask's errors about a lost scheduler are logged as details; all others as before."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from mbe_stage.runners.clusters import quiet_without_scheduler


def heard(caplog: pytest.LogCaptureFixture, status: str, error: Exception | None = None) -> list[tuple[str, int]]:
    """Return the logger and level of an error that Dask's client logs."""
    client, dask = SimpleNamespace(status="running"), logging.getLogger("distributed.client")
    caplog.clear()
    with quiet_without_scheduler(client) as same:
        assert same is client
        client.status = status
        dask.error("what is the matter", exc_info=error)
    return [(record.name, record.levelno) for record in caplog.records]


OURS, DASKS = ("mbe_stage.runners.clusters", logging.DEBUG), ("distributed.client", logging.ERROR)


def test_only_errors_of_a_lost_scheduler_are_details(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("distributed.client"), "propagate", True)
    assert heard(caplog, "running") == [DASKS]
    assert heard(caplog, "running", ZeroDivisionError("by nothing")) == [DASKS]
    assert heard(caplog, "running", ConnectionResetError("by peer")) == [OURS]
    assert heard(caplog, "connecting", ZeroDivisionError("by nothing")) == [OURS]
    assert heard(caplog, "closed") == [OURS]
    assert "what is the matter" in caplog.text
    monkeypatch.setattr(logging.getLogger("distributed.scheduler"), "propagate", True)
    scheduler = logging.getLogger("distributed.scheduler")
    caplog.clear()
    with quiet_without_scheduler(SimpleNamespace(status="closed")):
        scheduler.error("broadcast to tcp://a:1 failed: CommClosedError: gone")
        scheduler.error("of its own")
    assert [record.name for record in caplog.records] == [OURS[0], "distributed.scheduler"]
    logging.getLogger("distributed.client").error("afterwards")
    assert caplog.records[-1].name == "distributed.client"
