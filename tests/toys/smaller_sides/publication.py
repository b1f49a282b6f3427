"""The derived output for the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.problems.base import Collecting, DerivedPublication, Page, PageSection, deferred

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.publish.manifest import Manifest
    from tests.toys.smaller_sides.collector import SidesCollector

__all__ = ["PUBLICATION", "SmallerSidesSection"]


class SmallerSidesSection(Section):
    """Selection of sizes."""

    at_least: int = Field(1, ge=1, description="Least size of a smaller side.")
    largest_key: bool = Field(True, description="Write the largest key of each size too.")


class SmallerSides(DerivedPublication):
    name = "smaller_sides"
    problem = "bicliques"
    about = "How many bicliques there are of each size of the smaller side."
    section = SmallerSidesSection
    frames = ("arrow", "cudf")

    check = deferred(f"{__package__}.check:check")

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:  # noqa: ARG002 - the seam's
        import pyarrow as pa

        columns = [("size", pa.int32()), ("n_bicliques", pa.int64())]
        if config.section("smaller_sides").largest_key:
            columns.append(("largest_key", pa.int64()))
        return {"smaller_sides.parquet": pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])}

    def collector(self, collecting: Collecting) -> SidesCollector:
        from tests.toys.smaller_sides.collector import SidesCollector

        return SidesCollector(collecting, self.schemas(collecting.config, (None, None))["smaller_sides.parquet"])

    def page(self, run_path: Path, manifest: Manifest, top: int) -> Page:  # noqa: ARG002 - the seam's signature
        import pyarrow.parquet as pq

        from mbe_stage.pipeline.report.wording import count

        rows = "".join(
            f"<tr><th>{count(row['size'])}</th><td>{count(row['n_bicliques'])}</td></tr>"
            for row in pq.read_table(run_path / "smaller_sides.parquet").to_pylist()
        )
        return Page(sections=[PageSection("smaller-sides", "How many of each smaller side", f"<table>{rows}</table>")])


PUBLICATION = SmallerSides()
