"""Visited nodes, arenas, tables and machine code of ten small graphs match the record."""

from __future__ import annotations

import json
import warnings
from typing import Any

from tests.guarding_figures import EMITTED, RECORD, changes
from tests.mbe_stage.processes import run_module_alone

_RECORDS = "python -m tests.guarding_figures record"


def _without_bytes_of_files(figures: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {
        graph: {name: value for name, value in of_graph.items() if EMITTED not in name}
        for graph, of_graph in figures.items()
    }


def test_figures_are_those_of_the_record() -> None:
    now: dict[str, Any] = json.loads(run_module_alone("tests.guarding_figures"))
    if now["cold"]:
        now = json.loads(run_module_alone("tests.guarding_figures"))
    record = json.loads(RECORD.read_text())
    figures = record["figures"], now["figures"]
    if record["pyarrow"] != now["pyarrow"]:
        warnings.warn(f"bytes of files were recorded with pyarrow {record['pyarrow']}: not compared", stacklevel=1)
        figures = _without_bytes_of_files(figures[0]), _without_bytes_of_files(figures[1])
    table = changes(*figures)
    assert not table, f"figures have changed; if this is meant, {_RECORDS}\n{table}"


def test_a_table_shows_what_changed() -> None:
    record = {"a path": {"nodes": 2000, "bytes": 7, "lost": 1}, "a star": {"nodes": 0}}
    now = {"a path": {"nodes": 1500, "bytes": 7}, "a star": {"nodes": 3, "came": 4}}
    assert changes(record, now).splitlines() == [
        "graph   figure  record    now         change",
        "a path  nodes    2,000  1,500  -500 (-25.0%)",
        "a path  lost         1   none           gone",
        "a star  nodes        0      3             +3",
        "a star  came      none      4            new",
    ]
    assert changes(record, record) == ""
