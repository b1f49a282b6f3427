"""Run the pipeline with the CUDA engine on the emulator. As a script, prints a JSON line per engine.

Takes the folder with the toys' entry points, and an output directory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from tests.mbe_stage.emulated_device import use_the_emulator


def main(installed: str, out: str) -> None:
    sys.path.insert(0, installed)
    use_the_emulator()
    from mbe_stage.pipeline import Config, run
    from mbe_stage.pipeline.execution.ingest import ingest
    from mbe_stage.pipeline.verify import verify_run
    from tests.mbe_stage import graphs
    from tests.toys.butterflies import engine_cuda

    # The emulator is not a device and compiles nothing.
    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.compile_steps = lambda *_: ()
    left, right = graphs.from_matrix(graphs.random_matrix(3, 20, 30, 0.4)).edges()
    edges = pa.table({"l": left, "r": right})
    for engine in ("reference", "cuda"):
        values = {
            "problem": "butterflies",
            "butterflies": {"min_butterflies": 3, "degrees": True},
            "execution": {"engine": engine},
            "output": {"directory": str(Path(out) / engine)},
        }
        result = run(Config.from_mapping(values), edges)
        checked = verify_run(result.run_dir, ingest(Config().input, edges))
        manifest = result.manifest
        print(json.dumps([manifest.engine, manifest.content_fingerprint, manifest.n_found, checked.n_against_input]))


if __name__ == "__main__":
    main(*sys.argv[1:])
