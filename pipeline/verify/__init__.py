"""A check of a published run that shares no code with the engines and writers.

It does share the reader: edges and the counts of dropped rows come from `pipeline.execution.ingest`, which the run used
too, except on the tier `rapids`. Errors in the reader are not found. `pipeline.problems.groups.tried_keys`, which makes
graphs of rows, belongs to it. The models of configuration and manifest are shared too.

- `job` checks a run of any problem: `files` the files, `fields` the manifest and the vertex tables;
- `recipe` computes keys and fingerprints from their written definition;
- `bicliques` checks that problem: `rows` each row, `closure` rows against the graph, `two_hop` the two-hop degrees;
- `cliques` and `pq_counts` check theirs, the latter with other counting methods (`pq_recount`);
- `groups` checks that derived output: `group_graphs` reads the groups of one graph or of two, `group_tables` checks
  members and vertices, `group_times` times, `group_known` known keys and cases.
"""

from mbe_stage.pipeline.problems.installed import derived_of, derived_publications, every_publication, publication_of
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.verify import recipe
from mbe_stage.pipeline.verify.job import DEFAULT_SAMPLE, Check, Job, VerifyReport, publications_of_run, verify_run
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["DEFAULT_SAMPLE", "Check", "Job", "VerifyReport", "compile_steps", "publications_of_run", "verify_run"]


def compile_steps(manifest: Manifest | None = None) -> tuple[CompileStep, ...]:
    """List the compile steps of a check, for one run or for any."""
    if manifest is None:
        publications = every_publication()
        outputs = tuple(output for each in publications for output in derived_publications(each.problem))
    else:
        publications, outputs = (publication_of(manifest.problem),), derived_of(manifest.config)
    own = (step for each in publications for step in each.check_steps())
    return (*recipe.compile_steps(), *own, *(step for output in outputs for step in output.check_steps()))
