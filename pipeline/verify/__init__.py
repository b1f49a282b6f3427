"""A check of a published run that shares no code with the engines and with what wrote the run.

It does share the reading of the input: the edges, and how many rows were dropped or were duplicates, come from
`pipeline.execution.ingest`, which the run used too (on the tier `rapids` a run is read by other code). A mistake
there is not found. The models of configuration and manifest are shared as well.

What a run of any problem has to hold, `job` checks: `files` is about what is on the disk, `limits` and `fields` about
what the manifest says, `vertices` about ids and keys; `recipe` computes keys and fingerprints from their written
definition. The problem's own tables are checked by its publication. Ours is `bicliques`: `rows` and `tables` look at
what is written, `closure` asks the input graph whether a pair of sides is complete and maximal, `missing` what else
must be there, `two_hop` recounts. `groups` checks the derived output of that name by the specification: `scored` scores
bicliques and vertices, `group_tables` checks members and vertices, `grown_groups` groups with missing edges, and
`group_graphs` reads the groups of one graph, or of two if the input has buckets of time. If a run was published without
its bicliques, `elsewhere` finds them in the run that it was made of, or enumerates them again.
`pq_counts` checks the problem of that name: `pq_tables` reads its tables, `pq_recount` counts anew; and `cliques` that
of cliques, by the graph that `clique_graph` makes again.
"""

from mbe_stage.pipeline.problems.installed import derived_of, derived_publications, every_publication, publication_of
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.verify import recipe
from mbe_stage.pipeline.verify.job import DEFAULT_SAMPLE, Check, Job, VerifyReport, publications_of_run, verify_run
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["DEFAULT_SAMPLE", "Check", "Job", "VerifyReport", "compile_steps", "publications_of_run", "verify_run"]


def compile_steps(manifest: Manifest | None = None) -> tuple[CompileStep, ...]:
    """What checking a run needs compiled: that run, or any."""
    if manifest is None:
        publications = every_publication()
        outputs = tuple(output for each in publications for output in derived_publications(each.problem))
    else:
        publications, outputs = (publication_of(manifest.problem),), derived_of(manifest.config)
    own = (step for each in publications for step in each.check_steps())
    return (*recipe.compile_steps(), *own, *(step for output in outputs for step in output.check_steps()))
