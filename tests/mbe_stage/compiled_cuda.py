"""Compiles every kernel to PTX and through ptxas, without a GPU. Run as a script: prints a JSON object.

numba-cuda asks the current device for its capability while it compiles device functions; there is none here, so this
process gives it one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numba.cuda.dispatcher
from numba import cuda, types

from mbe_stage.bicliques.cuda import kernels
from mbe_stage.bicliques.cuda import layout as at

CAPABILITIES = ((8, 0), (9, 0))
_THREADS = at.WARPS_PER_BLOCK * at.WARP_SIZE


def _array(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C")


_I32, _I64 = _array(types.int32), _array(types.int64)
POOL = types.NamedTuple((_I32, _array(types.int64, 2), _I32, _I32, _I32, _I32, _I64), at.Pool)
WARPS = types.NamedTuple(
    (
        _array(types.uint64, 2),
        _array(types.int32, 2),
        _array(types.int64, 3),
        _array(types.int64, 2),
        _array(types.int32, 2),
        _array(types.uint64, 2),
        _array(types.int32, 2),
        _array(types.int32, 2),
        _array(types.int32, 2),
        _array(types.uint32),
        _I32,
    ),
    at.Warps,
)
OUTPUT = types.NamedTuple((_I32, _I64, _I32, _I32), at.Output)
SIGNATURE = (POOL, WARPS, OUTPUT, _I32, _I64)


def find_ptxas() -> str | None:
    """The assembler of the installed wheel, else of the machine's CUDA toolkit."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "ptxas"
    return str(wheel) if wheel.is_file() else shutil.which("ptxas")


def resources(kernel: Any, capability: tuple[int, int], ptxas: str) -> dict[str, int]:
    """Registers, stack and spills that ptxas reports for a kernel."""

    class Device:
        compute_capability = capability

    numba.cuda.dispatcher.get_current_device = lambda: Device
    ptx, _ = cuda.compile_ptx(
        kernel.py_func, SIGNATURE, cc=capability, launch_bounds=(_THREADS, kernels.BLOCKS_PER_MULTIPROCESSOR)
    )
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "kernel.ptx"
        source.write_text(ptx)
        target = f"sm_{capability[0]}{capability[1]}"
        done = subprocess.run(
            [ptxas, "-v", f"-arch={target}", str(source), "-o", str(source.with_suffix(".cubin"))],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"ptxas refuses {kernel.py_func.__name__} for {target}: {done.stderr}")
    found = {
        "registers": r"Used (\d+) registers",
        "stack_bytes": r"(\d+) bytes stack frame",
        "spill_store_bytes": r"(\d+) bytes spill stores",
        "spill_load_bytes": r"(\d+) bytes spill loads",
        "shared_bytes": r"(\d+) bytes smem",
    }
    return {name: sum(map(int, re.findall(pattern, done.stderr))) for name, pattern in found.items()}


def main() -> None:
    ptxas = find_ptxas()
    if ptxas is None:
        sys.exit("no ptxas")
    report = {
        f"{kernel.py_func.__name__} sm_{capability[0]}{capability[1]}": resources(kernel, capability, ptxas)
        for capability in CAPABILITIES
        for kernel in kernels.KERNELS
    }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
