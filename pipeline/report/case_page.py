"""A case as one page of HTML, drawn as in the report of its run."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.publish.manifest import Manifest


def case_page(run_path: Path, manifest: Manifest, case: Case) -> str:
    return ""
