"""Groups, as the pipeline sees them; see `pipeline.publication.DerivedPublication`.

What is heavy is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outputs.groups.section import GroupsSection
from pipeline.publication import Collecting, DerivedPublication, Page

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.compile_ahead import CompileStep
    from pipeline.config import Config
    from pipeline.manifest import Manifest
    from pipeline.outputs.groups.collector import GroupsCollector

__all__ = ["PUBLICATION"]


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:  # noqa: ARG001 - the seam's
    from pipeline.outputs.groups.schemas import GROUPS, group_members, key_type, vertex_scores

    keys = key_type(key_types)
    return {
        "groups.parquet": GROUPS,
        "group_members.parquet": group_members(keys),
        "vertex_scores.parquet": vertex_scores(keys),
    }


def _collector(collecting: Collecting) -> GroupsCollector:
    from pipeline.outputs.groups.collector import GroupsCollector

    return GroupsCollector(collecting)


def _page(run_path: Path, manifest: Manifest, top: int) -> Page:
    from pipeline.report.groups import page

    return page(run_path, manifest, top)


def _check(job: Any) -> None:
    from pipeline.verify.groups import check

    check(job)


def _compile_steps(config: Config | None) -> Sequence[CompileStep]:  # noqa: ARG001 - the seam's signature
    from mbe_stage.groups import candidates, short_list

    return (*candidates.compile_steps(), *short_list.compile_steps())


PUBLICATION = DerivedPublication(
    name="groups",
    problem="bicliques",
    about="Groups that are no chance, ranked, and scores of vertices.",
    section=GroupsSection,
    schemas=_schemas,
    collector=_collector,
    page=_page,
    check=_check,
    compile_steps=_compile_steps,
    # Results in device memory are not taken yet: `auto` passes the tier `rapids` over.
    frames=("arrow",),
)
