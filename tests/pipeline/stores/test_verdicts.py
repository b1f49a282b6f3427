"""Verdicts in a local file, on cases of runs in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")

from tests.pipeline.groups_support import EDGES
from tests.pipeline.stores.server import Bucket
from tests.pipeline.test_cli import mbe as command
from tests.pipeline.test_problem_seam import mbe, refusal, said


def test_label_run_again_and_verify(bucket: Bucket, tmp_path: Path) -> None:
    edges, verdicts, out = tmp_path / "edges.parquet", tmp_path / "verdicts.sqlite", f"{bucket.url}/out"
    pq.write_table(EDGES, edges)
    asked = ["groups", edges, "--left", "l", "--right", "r", "--out", out]
    asked += ["--keys", "plain", "--chance-copies", 0, "--no-report", "--quiet"]
    mbe(*asked)
    first, second, *_ = (row["case"] for row in said("cases", "list", out)["cases"])

    label = ["cases", "label", out, first, "fine", "--note", "staff", "--who", "ann"]
    assert "name the file: --verdicts FILE" in refusal(*label, code=2)
    mbe(*label, "--verdicts", verdicts)
    mbe("cases", "label", out, second, "fraud", "--verdicts", verdicts)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [edges.name, verdicts.name]
    assert "sqlite" not in "".join(bucket.listed())

    def decided(*options: Any) -> dict[str, tuple[Any, bool]]:
        rows = said("cases", "list", out, *options)["cases"]
        return {row["case"]: (row["verdict"], row["is_muted"]) for row in rows if row["verdict"] is not None}

    wanted = {first: ("fine", True), second: ("fraud", False)}
    assert (decided(), decided("--verdicts", verdicts)) == ({}, wanted)
    mbe(*asked, "--verdicts", verdicts)
    assert decided("--verdicts", verdicts) == wanted
    assert command(*asked, "--verdicts", verdicts, "--if-changed").exit_code == 5
    checked = mbe("verify", out, "--input", edges).stdout
    assert "2 of 2 apply to a case" in checked
