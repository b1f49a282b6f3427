"""Groups, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.problems.base import DerivedPublication, deferred
from mbe_stage.pipeline.problems.groups.section import GroupsSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.runtime.compile_ahead import CompileStep


class GroupsPublication(DerivedPublication):
    """See `pipeline.problems.base.DerivedPublication`."""

    name = "groups"
    problem = "bicliques"
    about = "Significant groups, ranked, and scores of vertices."
    section = GroupsSection
    frames = ("arrow", "cudf")
    events = True
    input_keys = ("labels", "allow", "verdicts")
    late_keys = ("verdicts",)
    next_command = "mbe show {}"

    collector = deferred(f"{__package__}.collector:GroupsCollector")
    page = deferred("mbe_stage.pipeline.report.groups:page")
    graph_frames = deferred("mbe_stage.pipeline.cases.run_graph:graph_frames")
    check = deferred("mbe_stage.pipeline.verify.groups:check")
    news = deferred("mbe_stage.pipeline.cases.news:news")
    complete = deferred(f"{__package__}.completing:complete")
    device_bytes = deferred(f"{__package__}.cudf:pool_bytes")

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.both_sides import key_type
        from mbe_stage.pipeline.problems.groups import schemas as of

        keys, section = key_type(key_types), config.section("groups")
        has_lists = section.labels is not None or section.allow is not None
        has_buckets = config.input.time_bucket is not None
        return {
            **({"group_times.parquet": of.GROUP_TIMES} if config.input.timestamp is not None else {}),
            **({"half_later_vertices.parquet": of.HALF_LATER_VERTICES} if has_buckets else {}),
            **({"known_keys.parquet": of.KNOWN_KEYS} if has_lists else {}),
            **({"group_keys.parquet": of.GROUP_KEYS} if self.tries_keys(config) else {}),
            "groups.parquet": of.GROUPS,
            "group_edges.parquet": of.GROUP_EDGES,
            "group_halo.parquet": of.group_halo(keys),
            "group_members.parquet": of.group_members(keys),
            "vertex_scores.parquet": of.vertex_scores(keys),
            "verdicts.parquet": of.VERDICTS,
        }

    def tries_keys(self, config: Config) -> bool:
        from mbe_stage.pipeline.problems.groups.tried_keys import are_tried

        return are_tried(config)

    def inputs(self, config: Config) -> Mapping[str, str]:
        from mbe_stage.pipeline.problems.groups.decided import DECIDED, fingerprint_of_decisions, read_decisions
        from mbe_stage.pipeline.problems.groups.known_keys import read_lists

        found = {name: each.fingerprint for name, each in read_lists(config.section("groups")).items()}
        decisions = read_decisions(config)
        # A file without verdicts changes nothing.
        return {**found, **({DECIDED: fingerprint_of_decisions(decisions)} if decisions.num_rows else {})}

    def largest(self, run_path: Path, limit: int) -> list[dict[str, Any]]:
        """Return groups with their members' own keys: those of new cases first, then new and changed ones, by rank.

        A case is new if all its groups are. Without a run to compare with, the order is the rank. Muted groups are left
        out. `group_key` is text because a browser would round an int64.
        """
        from mbe_stage.pipeline.report.markdown import first_keys
        from mbe_stage.pipeline.views.listed_groups import group_rows, with_members

        groups = [group for group in group_rows(run_path) if not group["is_muted"]]
        known_cases = {group["case"] for group in groups if group["since"] not in ("new", None)}

        def order(group: dict[str, Any]) -> tuple[bool, bool, int]:
            is_compared = group["since"] is not None
            return (is_compared and group["case"] in known_cases, group["since"] == "same", group["rank"])

        return [
            {
                "rank": group["rank"],
                "since": group["since"] or "",
                "case": group["case"],
                "explanation": group["explanation"],
                "left": first_keys(group["left"]),
                "right": first_keys(group["right"]),
                "surprise": round(group["surprise"], 1),
                "group_key": str(group["group_key"]),
            }
            for group in with_members(run_path, sorted(groups, key=order)[:limit])
        ]

    def nothing(self, run_path: Path, manifest: Manifest) -> str:
        from mbe_stage.pipeline.views.listed_groups import nothing_significant

        return f"no group is listed: {nothing_significant(run_path, manifest)}"

    def compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.groups import candidates, near_copies, selection, vertex_scores

        modules = candidates, vertex_scores, near_copies, selection
        return tuple(step for module in modules for step in module.compile_steps())

    def device_compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.bicliques import keys
        from mbe_stage.pipeline.problems.groups.cudf import compile_steps

        # Grown groups are not bicliques of the stream, so the host computes their keys.
        return (*compile_steps(), *keys.compile_steps())


PUBLICATION = GroupsPublication()
