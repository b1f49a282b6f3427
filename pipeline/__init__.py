"""The data pipeline around maximal biclique enumeration: keys, tables, files, reports and the command line."""

from pipeline.config import Config, ExecutionConfig, InputConfig, OutputConfig, QueryConfig, load_config
from pipeline.edges import EdgeData, InputFacts
from pipeline.errors import ConfigError, InputError, PipelineError, PublishError, VerificationError
from pipeline.manifest import Manifest, read_manifest
from pipeline.publish import RunStore, resolve_run
from pipeline.run import CountResult, RunResult, count, run

__all__ = [
    "Config",
    "ConfigError",
    "CountResult",
    "EdgeData",
    "ExecutionConfig",
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
    "read_manifest",
    "resolve_run",
    "run",
]
