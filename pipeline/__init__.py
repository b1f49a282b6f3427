"""The data pipeline around maximal biclique enumeration: keys, tables, files, reports and the command line.

A name is imported from its module when it is first asked for: `mbe --help` needs none of them.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than everything here
if TYPE_CHECKING:
    from pipeline.config import Config, ExecutionConfig, InputConfig, OutputConfig, QueryConfig, load_config
    from pipeline.edges import EdgeData, InputColumn, InputFacts
    from pipeline.errors import ConfigError, InputError, PipelineError, PublishError, VerificationError
    from pipeline.groups.of_run import regroup
    from pipeline.job import CountResult, RunResult, count, run
    from pipeline.manifest import Manifest, read_manifest
    from pipeline.publish import RunStore, resolve_run
    from pipeline.stores.places import opened_run, store_at

__all__ = [
    "Config",
    "ConfigError",
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
    "count",
    "load_config",
    "opened_run",
    "read_manifest",
    "regroup",
    "resolve_run",
    "run",
    "store_at",
]

# No module has the name of one of its names: importing it would put the module in the name's place.
_NAMES = {
    "config": ("Config", "ExecutionConfig", "InputConfig", "OutputConfig", "QueryConfig", "load_config"),
    "edges": ("EdgeData", "InputColumn", "InputFacts"),
    "errors": ("ConfigError", "InputError", "PipelineError", "PublishError", "VerificationError"),
    "groups.of_run": ("regroup",),
    "job": ("CountResult", "RunResult", "count", "run"),
    "manifest": ("Manifest", "read_manifest"),
    "publish": ("RunStore", "resolve_run"),
    "stores.places": ("opened_run", "store_at"),
}

if not TYPE_CHECKING:
    from mbe_stage.lazy_names import lazy

    __getattr__, __dir__ = lazy(__name__, _NAMES, __all__)
