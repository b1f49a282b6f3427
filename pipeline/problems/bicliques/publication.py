"""Maximal bicliques, as the pipeline sees them; see `pipeline.problems.base.Publication`.

What is heavy is imported when it is asked for: the command line reads this for its help.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.config.model import Config, QueryConfig
from mbe_stage.pipeline.problems.base import Collecting, Collector, Page, Publication
from mbe_stage.pipeline.problems.query import KeyedEdges, to_query

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.bicliques.enumerate import Progress
    from mbe_stage.bicliques.query import BicliqueQuery
    from mbe_stage.bicliques.results import CountSink, Detail
    from mbe_stage.pipeline.execution.forecast import Prospect, Trying
    from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
    from mbe_stage.pipeline.publish.staging import Store
    from mbe_stage.runtime.compile_ahead import CompileStep
    from mbe_stage.stream import Progress as StreamProgress

__all__ = ["PUBLICATION", "Counts"]


class Counts(BaseModel):
    """How many of what; `max_*` are the largest single biclique's figures, each by itself.

    Attributes
    ----------
    left_members, right_members : int
        Summed over all bicliques.
    sizes : int
        Distinct sizes ``(n_left, n_right)``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bicliques: int
    left_members: int
    right_members: int
    sizes: int
    max_left: int
    max_right: int
    max_edges: int


def _query(asked: QueryConfig, edges: KeyedEdges) -> BicliqueQuery:
    return to_query(asked, edges)


def _query_shape(config: Config) -> BicliqueQuery:
    """Whom the query wants as members makes no difference to compiling, only whether there are any."""
    from mbe_stage.bicliques.query import BicliqueQuery

    query = config.query
    return BicliqueQuery(
        *(query.min_left, query.min_right, query.max_left, query.max_right, query.min_edges),
        containing_left=(0,) if query.containing_left else (),
        containing_right=(0,) if query.containing_right else (),
    )


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
    from mbe_stage.pipeline.publish.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices

    schemas = {
        **({"bicliques": BICLIQUES} if config.output.bicliques else {}),
        "size_histogram.parquet": SIZE_HISTOGRAM,
        "left_vertices.parquet": vertices(key_types[0]),
        "right_vertices.parquet": vertices(key_types[1]),
    }
    return schemas | ({"members": MEMBERS} if config.output.members else {})


def _compile_steps(config: Config | None) -> Sequence[CompileStep]:
    from mbe_stage.bicliques import keys, vertex_statistics
    from mbe_stage.graphs import two_hop

    with_members = config is None or config.output.members
    with_two_hop = config is None or config.output.two_hop_steps > 0
    return (
        *keys.compile_steps(),
        *vertex_statistics.compile_steps(with_members),
        *(two_hop.compile_steps() if with_two_hop else ()),
    )


def _device_compile_steps(config: Config | None) -> Sequence[CompileStep]:
    from mbe_stage.pipeline.problems.bicliques.cudf.compiling import compile_steps

    return compile_steps(config)


def _detail(config: Config | None) -> Detail:  # noqa: ARG001 - the seam's signature
    from mbe_stage.bicliques.results import Detail

    return Detail.MEMBERS


def _count_sink() -> CountSink:
    from mbe_stage.bicliques.results import CountSink

    return CountSink()


def _collector(making: Collecting) -> Collector:
    return importlib.import_module("mbe_stage.pipeline.problems.bicliques.collector").collector(making)


def _page(run_path: Path, manifest: Manifest, top: int, seen: Any = None) -> Page:
    from mbe_stage.pipeline.report.bicliques import page

    return page(run_path, manifest, top, seen)


def _check(job: Any) -> None:
    from mbe_stage.pipeline.verify.bicliques import check

    check(job)


def _check_steps() -> Sequence[CompileStep]:
    from mbe_stage.pipeline.verify.bicliques import compile_steps

    return compile_steps()


def _beside_number(manifest: Manifest) -> str:
    return f", largest {manifest.counts.max_edges:,} edges"


def _markdown(run_path: Path, manifest: Manifest) -> list[str]:
    from mbe_stage.pipeline.report.markdown import essence

    return essence(run_path, manifest)


def _largest(run_path: Path, limit: int) -> list[dict[str, Any]] | None:
    from mbe_stage.pipeline.publish.reading import has_bicliques
    from mbe_stage.pipeline.report.markdown import groups_table

    return groups_table(run_path, limit) if has_bicliques(run_path) else None


def _progress(progress: StreamProgress) -> Progress:
    from mbe_stage.bicliques.enumerate import Progress

    return Progress.of(progress)


def _compare(store: Store, run_path: Path, manifest: Manifest) -> tuple[Comparison, Mapping[str, float]]:
    from mbe_stage.pipeline.views.comparison import compare_with_last
    from mbe_stage.pipeline.views.diff import compile_steps
    from mbe_stage.runtime.compile_ahead import compile_ahead

    prepared: dict[str, float] = {}

    def compile_first() -> None:
        prepared.update(compile_ahead(compile_steps()))

    return compare_with_last(store, run_path, manifest, compile_first), prepared


def _outlook(trying: Trying) -> Prospect:
    from mbe_stage.pipeline.problems.bicliques.trial import outlook

    return outlook(trying)


def _outlook_steps() -> Sequence[CompileStep]:
    from mbe_stage.bicliques.estimation import compile_steps

    return compile_steps()


PUBLICATION = Publication(
    problem="bicliques",
    about="Enumerate the maximal bicliques of one input, all in options.",
    section_name="query",
    section=QueryConfig,
    query=_query,
    schemas=_schemas,
    collector=_collector,
    detail=_detail,
    count_sink=_count_sink,
    page=_page,
    check=_check,
    unit=("maximal biclique", "maximal bicliques"),
    counted="bicliques",
    counts=Counts,
    query_shape=_query_shape,
    compile_steps=_compile_steps,
    device_compile_steps=_device_compile_steps,
    check_steps=_check_steps,
    frames=("arrow", "cudf"),
    markdown=_markdown,
    beside_number=_beside_number,
    largest=_largest,
    compare=_compare,
    progress=_progress,
    next_command="mbe top {}",
    outlook=_outlook,
    outlook_steps=_outlook_steps,
    is_resumable=True,
)
