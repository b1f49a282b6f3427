"""Compiles every kernel to PTX and through ptxas, without a GPU. Run as a script: prints a JSON object.

numba-cuda asks the current device for its capability while it compiles device functions; there is none here, so this
process gives it one. Kernels that stand beside what calls them come with CuPy, which is not needed to compile them.
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
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from tests.mbe_stage import cupy_stand_in

CAPABILITIES = ((8, 0), (9, 0))


def _array(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C")


_I32, _I64 = _array(types.int32), _array(types.int64)
POOL = types.NamedTuple((_I32, _array(types.int64, 2), _I32, _I32, _I32, _I32, _I64), at.Pool)
WARPS = types.NamedTuple(
    (
        _array(types.uint32, 2),
        _array(types.int32, 2),
        _array(types.int32, 3),
        _array(types.int64, 2),
        _array(types.int32, 2),
        _array(types.uint32, 2),
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


_U8, _U32, _U64, _I8 = map(_array, (types.uint8, types.uint32, types.uint64, types.int8))
# Arguments and launch bounds.
Call = tuple[tuple[Any, ...], Any]


def calls(capability: tuple[int, int]) -> dict[Any, Call]:
    """Every kernel, and what it is called with."""
    cupy_stand_in.install()
    from mbe_stage.bicliques.cuda import collapse, core, expand_kernels, grid, groups, growth, whole_graph
    from mbe_stage.device import keys, participation, two_hop

    lists = (_I64, _I32)
    wide, ints = _array(types.int64, 2), _array(types.int32, 2)
    device_groups = types.NamedTuple((_I64, _I32, _I32), groups.DeviceGroups)
    lists_of_side = types.NamedTuple((_I64, _I32), expand_kernels.Lists)
    walking = {
        kernels.kernel_for(mode, ALL_TECHNIQUES, capability): (
            SIGNATURE,
            (kernels.THREADS, kernels.blocks_per_multiprocessor(mode, capability)),
        )
        for mode in (at.COUNTS, at.SIZES, at.MEMBERS, at.WITHIN)
    }
    resident = {
        collapse.collapse_twins_warp_per_tile: (*lists, *lists, _U64, _I32, _I32, _I32, _I32, _U32, _I64, _I32),
        whole_graph.write_whole_graph_warp_per_tile: (
            *(*lists, *lists, _I64, _U32, _I32, _I32, _I32, _I32, wide, _I32, _I64, _I32),
            *(types.int64,) * 6,
        ),
        core.peel_warp_per_vertex: (*lists, *lists, _I32, _I32, _I32, _I32, _I32, types.int64, types.int64),
    }
    beside_their_callers = {
        core.keep_alive_warp_per_tile: (*lists, _I32, _I32, *lists),
        growth.copy_pieces_block_per_piece: (wide, _I32, _I32),
        groups.weights_thread_per_vertex: (_I32, _I32, *(types.int64,) * 3, _I32),
        groups.groups_thread_per_vertex: (_I32, _I32, *(types.int64,) * 4, _I64, _I32, _I32, _I32),
        expand_kernels.full_sizes_warp_per_tile: (OUTPUT, _I64, device_groups, device_groups, ints, _I64),
        expand_kernels.expanded_lists_warp_per_tile: (
            *(OUTPUT, ints, _I64, device_groups, device_groups, lists_of_side, lists_of_side, _I64),
            *(types.int64, types.int64, types.UniTuple(types.int64, expand_kernels.SECTIONS)),
        ),
        expand_kernels.sort_long_lists_block_per_list: (lists_of_side, lists_of_side, _I64),
        keys.text_hash_thread_per_string: (_I64, _U8, _U64),
        keys.integer_hash_thread_per_value: (_I64, _U64),
        keys.hash_sum_warp_per_list: (_I64, _I32, _I64, _I64),
        participation.count_warp_per_list: (_I64, _I32, _I64, _I64, _I64),
        participation.smallest_key_warp_per_list: (_I64, _I32, _I64, _I64, _I64, _I64),
        participation.long_form_warp_per_biclique: (_I64, _I64, _I32, _I64, _I32, _I64, _I8, _I32),
        two_hop.base_warp_per_vertex: (_I64, _I32, _I64, _I32, _I64),
        two_hop.walk_warp_per_neighbour: (*(_I64,) * 4, _I32, _I64, _I32, _I64, _I32, _I32, _I64),
        two_hop.ask_warp_per_pair: (_I64, _I64, _I64, _I32, _I64),
    }
    bounds = (grid.THREADS, grid.BLOCKS_PER_MULTIPROCESSOR)
    return {
        **walking,
        **{kernel: (arguments, bounds) for kernel, arguments in resident.items()},
        **{kernel: (arguments, None) for kernel, arguments in beside_their_callers.items()},
    }


def find_ptxas() -> str | None:
    """The assembler of the installed wheel, else of the machine's CUDA toolkit."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "ptxas"
    return str(wheel) if wheel.is_file() else shutil.which("ptxas")


def resources(kernel: Any, call: Call, capability: tuple[int, int], ptxas: str) -> dict[str, int]:
    """Registers, stack and spills that ptxas reports for a kernel."""

    class Device:
        compute_capability = capability

    numba.cuda.dispatcher.get_current_device = lambda: Device
    ptx, _ = cuda.compile_ptx(kernel.py_func, call[0], cc=capability, launch_bounds=call[1])
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
        f"{kernel.py_func.__name__} sm_{capability[0]}{capability[1]}": resources(kernel, call, capability, ptxas)
        for capability in CAPABILITIES
        for kernel, call in calls(capability).items()
    }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
