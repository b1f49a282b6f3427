"""List the runs of an output directory with time, query, results, duration and state, including damaged ones."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.config.registry import problem_facts
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import Manifest, lost_file, read_manifest
from mbe_stage.pipeline.publish.staging import Store
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import store_at

# Configuration keys that select edges and limit results; columns are part of the input's facts. The rest of a query is
# in the sections of the problem and of derived outputs.
_ASKED = {
    "input": ("min_weight", "time_from", "time_until", "time_bucket", "time_offset", "by"),
    "execution": ("max_bicliques", "max_cliques", "max_output_bytes", "time_limit_seconds"),
}


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A directory of published runs.

    Attributes
    ----------
    run_dir : Path
        For a store at an address only the name counts; local copies are gone.
    address : str
        The user's name of the run.
    manifest : Manifest or None
        The manifest; None if it cannot be read.
    damage : str or None
        The damage visible in names and sizes of files; None without any.
    """

    run_dir: Path
    address: str
    manifest: Manifest | None
    damage: str | None
    is_latest: bool


def list_runs(directory: str | Path) -> list[ListedRun]:
    """List the runs of an output directory in the order of publication, newest last.

    Raises
    ------
    PublishError
        There is no such directory, or it is a run itself.
    """
    with closing(store_at(directory)) as store:
        store.check_listed()
        latest = store.latest()
        found = [_listed(store, run, run == latest) for run in store.directories()]
    return [run for run in found if run is not None]


def query_settings(config: Config) -> dict[str, Any]:
    """Return a configuration's settings of the query that differ from the defaults.

    A requested derived output is listed by its name, with its settings that differ from the defaults.
    """
    given = config.model_dump(mode="json", exclude_defaults=True)
    of_input, of_execution = (
        {key: value for key, value in given.get(section, {}).items() if key in keys} for section, keys in _ASKED.items()
    )
    own = problem_facts(config.problem).section_name if is_here(config.problem) else config.problem
    derived = {name: given.get(name, {}) for name in config.model_extra or {} if name != own}
    return {**of_input, **given.get(own, {}), **of_execution, **derived}


def _listed(store: Store, run_dir: Path, is_latest: bool) -> ListedRun | None:
    try:
        manifest = read_manifest(run_dir)
        damage = lost_file(run_dir, manifest, store.sizes(run_dir))
    except (PublishError, OSError) as error:
        manifest, damage = None, str(error).removeprefix(f"{run_dir}/")
    # Another writer may have removed it in the meantime.
    return ListedRun(run_dir, address_of(run_dir), manifest, damage, is_latest) if run_dir.exists() else None
