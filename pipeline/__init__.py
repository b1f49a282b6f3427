"""The data pipeline around maximal biclique enumeration: keys, tables, files, reports and the command line.

Names are imported from their modules on first use, because `mbe --help` needs none of them.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than everything here
if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import (
        Config,
        ExecutionConfig,
        InputConfig,
        OutputConfig,
        QueryConfig,
        load_config,
    )
    from mbe_stage.pipeline.edges import EdgeData, InputColumn, InputFacts
    from mbe_stage.pipeline.errors import ConfigError, InputError, PipelineError, PublishError, VerificationError
    from mbe_stage.pipeline.execution.job import CountResult, RunResult, count, run
    from mbe_stage.pipeline.io.cxt import Context, read_cxt, write_cxt
    from mbe_stage.pipeline.itemsets.closed import closed_itemset_lists, closed_itemsets, fpclose
    from mbe_stage.pipeline.itemsets.lattice import ConceptLattice, concept_lattice
    from mbe_stage.pipeline.itemsets.rules import association_rules
    from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
    from mbe_stage.pipeline.publish.run_store import RunStore, resolve_run
    from mbe_stage.pipeline.stores.open_store import opened_run, store_at
    from mbe_stage.pipeline.views.regroup import regroup

__all__ = [
    "ConceptLattice",
    "Config",
    "ConfigError",
    "Context",
    "CountResult",
    "EdgeData",
    "ExecutionConfig",
    "InputColumn",
    "InputConfig",
    "InputError",
    "InputFacts",
    "Manifest",
    "OutputConfig",
    "PipelineError",
    "PublishError",
    "QueryConfig",
    "RunResult",
    "RunStore",
    "VerificationError",
    "association_rules",
    "closed_itemset_lists",
    "closed_itemsets",
    "concept_lattice",
    "count",
    "fpclose",
    "load_config",
    "opened_run",
    "read_cxt",
    "read_manifest",
    "regroup",
    "resolve_run",
    "run",
    "store_at",
    "write_cxt",
]

# No module has the name of an exported object: importing it would replace the object.
_NAMES = {
    "config.model": ("Config", "ExecutionConfig", "InputConfig", "OutputConfig", "QueryConfig", "load_config"),
    "edges": ("EdgeData", "InputColumn", "InputFacts"),
    "errors": ("ConfigError", "InputError", "PipelineError", "PublishError", "VerificationError"),
    "views.regroup": ("regroup",),
    "execution.job": ("CountResult", "RunResult", "count", "run"),
    "itemsets.closed": ("closed_itemset_lists", "closed_itemsets", "fpclose"),
    "io.cxt": ("Context", "read_cxt", "write_cxt"),
    "itemsets.lattice": ("ConceptLattice", "concept_lattice"),
    "itemsets.rules": ("association_rules",),
    "publish.manifest": ("Manifest", "read_manifest"),
    "publish.run_store": ("RunStore", "resolve_run"),
    "stores.open_store": ("opened_run", "store_at"),
}

if __name__ == "pipeline":  # a checkout, by its old name
    from tools.old_names import forward

    forward("pipeline")
elif not TYPE_CHECKING:
    from mbe_stage.lazy_names import lazy

    __getattr__, __dir__ = lazy(__name__, _NAMES, __all__)
