"""The best bicliques, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import Publication, deferred
from mbe_stage.pipeline.problems.best.section import BestSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.publish.manifest import Manifest


class Counts(BaseModel):
    """Counts of a run.

    Attributes
    ----------
    best : int
        Rows of the table.
    highest : int, float or None
        The best value; None without rows.
    bound : int, float or None
        Upper bound on the value of any biclique that is not in the table, except for overlaps; None if unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    best: int
    highest: int | float | None
    bound: int | float | None

    @property
    def gap(self) -> str:
        """Return the best value and whether it is proven."""
        if self.highest is None:
            return "none"
        if self.bound is not None and self.bound <= self.highest:
            return f"{self.highest:,.10g}, proven"
        above = "not proven" if self.bound is None else f"nothing above {self.bound:,.10g} possible"
        return f"{self.highest:,.10g}, {above}"


class BestPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "best"
    about = "Find the best maximal bicliques by edges, vertices, balance, weight or surprise."
    section_name = "best"
    section = BestSection
    unit = ("best biclique", "best bicliques")
    counted = "best"
    counts = Counts
    instead = "by, k, min_left, min_right, overlap and missing are asked of best"
    next_command = "mbe top {}"

    query = deferred(f"{__package__}.collector:to_query")
    collector = deferred(f"{__package__}.collector:BestCollector")
    count_sink = deferred("mbe_stage.bicliques.best.results:BestSink")
    compile_steps = deferred("mbe_stage.bicliques.keys:compile_steps")
    page = deferred(f"{__package__}.rows:page")
    check = deferred("mbe_stage.pipeline.verify.best:check")
    check_steps = deferred("mbe_stage.pipeline.verify.closure:compile_steps")
    largest = deferred(f"{__package__}.rows:best_rows")
    top = deferred(f"{__package__}.rows:top")

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.best.rows import best_schema

        return {"best.parquet": best_schema(config.problem_section.by, key_types)}

    def weighs(self, config: Config) -> bool:
        if config.execution.runner != "local" or config.execution.devices is not None:
            others = ", ".join(setting(f"execution.{name}") for name in ("workers", "cluster", "devices"))
            raise ConfigError(f"the search for the best runs in one process, on one device; leave out {others}")
        is_weighed: bool = config.problem_section.by == "weight"
        if is_weighed and config.input.weight is None:
            raise ConfigError(f"{setting('best.by')} is weight: needs the weight column; set {setting('input.weight')}")
        return is_weighed

    def beside_number(self, manifest: Manifest) -> str:
        section, sizes = manifest.config.problem_section, self.further(manifest)["sizes"]
        return f" by {section.by}, {sizes}, the best {manifest.counts.gap}"

    def further(self, manifest: Manifest) -> Mapping[str, int | float | str | None]:
        section, counts = manifest.config.problem_section, manifest.counts
        sizes = f"at least {section.min_left:,} x {section.min_right:,}"
        return {"highest": counts.highest, "bound": counts.bound, "sizes": sizes}


PUBLICATION = BestPublication()
