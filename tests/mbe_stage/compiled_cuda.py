"""Compiles every kernel to PTX and through ptxas, without a GPU. Run as a script: prints a JSON object.

With ``each`` as argument it compiles each kernel for each capability. With ``changed`` it compiles only a sample of the
small kernels, and each kernel whose code is not that of the record `cuda_resources.json`: of the others the outcome is
the same. Changed large kernels are compiled for the newest capability, without variants whose code others have.

The PTX of one capability is that of another under its name: of small kernels this is looked at, with ``each`` of all.

numba-cuda asks the current device for its capability while it compiles device functions; there is none here, so this
process gives it one. Kernels that stand beside what calls them come with CuPy, which is not needed to compile them.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Colours for errors that nobody sees: a fortieth of the time.
os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"

import numba.cuda.dispatcher
import numpy as np
from numba.cuda import compiler

from mbe_stage.bicliques.cuda import kernels, layout
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.device import jit
from tests.mbe_stage import cupy_stand_in
from tests.patience import completed

CAPABILITIES = ((8, 0), (9, 0))
# Characters of PTX that take NVVM part of a second.
_SMALL = 130_000
# Kernels that take most of the time, and those that do where the code is that of the record. Of the others one in this
# many is compiled then.
_LARGE_SECONDS = 8.0
_LARGE_SECONDS_AS_RECORDED = 1.0
_ONE_AS_RECORDED_IN = 4
_COMPILERS = ("numba", "llvmlite", "numba-cuda", "nvidia-cuda-nvcc", "nvidia-cuda-nvrtc", "nvidia-nvvm")
# Each has all of its code in another kernel, which is compiled.
_BETWEEN = (
    "add_vertices_warp_per_task",
    "bicliques_warp_per_task_sizes",
    "cliques_warp_per_task_sizes",
    "count_bicliques_in_windows_warp_per_task",
)

# Arguments and launch bounds.
Call = tuple[tuple[Any, ...], Any]


def calls(capability: tuple[int, int]) -> dict[Any, Call]:
    """Every kernel, and what it is called with."""
    cupy_stand_in.install()
    # Kernels enter the list of all when their modules are imported.
    from mbe_stage.bicliques.cuda import (  # noqa: F401
        collapse_twins,
        column_order,
        keys,
        twin_expansion,
        vertex_statistics,
        whole_graph,
    )
    from mbe_stage.cliques.cuda import kernels as searching
    from mbe_stage.cliques.cuda import prepare as parting  # noqa: F401
    from mbe_stage.cliques.cuda.techniques import ALL_TECHNIQUES as ALL_OF_SEARCHING
    from mbe_stage.device import copying, core, two_hop  # noqa: F401
    from mbe_stage.groups.cuda import block_scores  # noqa: F401
    from mbe_stage.pq_counts.cuda import kernels as counting
    from mbe_stage.pq_counts.cuda import leaf_table, low_memory_prepare, wedges  # noqa: F401
    from mbe_stage.pq_counts.cuda.local import kernels as adding
    from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES as ALL_OF_COUNTING
    from mbe_stage.pq_counts.cuda.techniques import WINDOWS
    from mbe_stage.pq_counts.cuda.triples import kernels as comparing  # noqa: F401

    counting.kernel_for(ALL_OF_COUNTING)
    counting.kernel_for(ALL_OF_COUNTING | WINDOWS)
    for with_edges in (False, True):
        adding.local_kernel_for(with_edges)
    for mode in (0, 1, 2):
        searching.kernel_for(mode, ALL_OF_SEARCHING)
    modes = (layout.COUNT, layout.WITHIN, layout.SIZES, layout.MEMBERS, layout.CONSTRAINED)
    resident = {mode: kernels.blocks_per_multiprocessor(mode, capability) for mode in modes}
    walking = {kernels.kernel_for(mode, ALL_TECHNIQUES, resident[mode]) for mode in modes}
    return {
        kernel: (call.signature, call.launch_bounds)
        for kernel, call in jit.known_kernels().items()
        if "bicliques.cuda.kernels:kernel_for" not in call.name or kernel in walking
    }


def find_ptxas() -> str | None:
    """The assembler of the installed wheel, else of the machine's CUDA toolkit."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "ptxas"
    return str(wheel) if wheel.is_file() else shutil.which("ptxas")


class Device:
    """What numba-cuda takes for the current device while it types and lowers."""

    compute_capability = CAPABILITIES[0]


def use_device() -> None:
    """Let numba-cuda take it."""
    numba.cuda.dispatcher.get_current_device = lambda: Device


def compilers() -> dict[str, str]:
    """The versions of what makes machine code of kernels."""
    return {package: importlib.metadata.version(package) for package in _COMPILERS}


@functools.cache
def lowered(function: Any, signature: tuple[Any, ...], launch_bounds: Any) -> Any:
    """A kernel as numba-cuda's code library, of which PTX for any capability is made.

    Only our own code looks at the capability, where it makes a kernel (`kernel_for`); lowering does not.
    """
    library, _ = compiler._compile_pyfunc_with_fixup(
        function, signature, device=False, abi="numba", cc=CAPABILITIES[0], launch_bounds=launch_bounds
    )
    return library


def ptx_for(kernel: Any, call: Call, capability: tuple[int, int], *, each: bool) -> str:
    """A kernel as PTX, which NVVM makes for the first capability; the names of the others are put into that.

    What NVVM makes for another is the same: held against it for small kernels, or for each.
    """
    library = lowered(kernel.py_func, *call)
    (first,) = library.get_asm_strs(cc=CAPABILITIES[0])
    ours = f".target {_name(capability)}".join(first.split(f".target {_name(CAPABILITIES[0])}"))
    if each or len(first) < _SMALL:
        (wanted,) = library.get_asm_strs(cc=capability)
        if ours != wanted:
            sys.exit(f"{kernel.py_func.__name__}: more than the name {_name(capability)} is its own in its PTX")
    return ours


def _name(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"


def is_due(kernel: Any, number: int, capability: tuple[int, int], *, is_changed: bool) -> bool:
    """Whether a kernel is compiled for a capability where not each is."""
    seconds = jit.known_kernels()[kernel].seconds
    if not is_changed:
        return seconds < _LARGE_SECONDS_AS_RECORDED and number % _ONE_AS_RECORDED_IN == 0
    is_due = capability == CAPABILITIES[-1] and kernel.py_func.__name__ not in _BETWEEN
    return is_due or seconds < _LARGE_SECONDS


def code_of(kernel: Any, call: Call) -> str:
    """A digest of the functions and constants that a kernel is made of, without docstrings, and of what compiles it."""
    digest = hashlib.sha256(repr((sys.version_info[:2], compilers(), call)).encode())
    seen: set[int] = set()
    values = [kernel.py_func]
    while values:
        value = values.pop()
        digest.update(repr(getattr(value, "targetoptions", None)).encode())
        # Intrinsics have their function in `_defn`, device functions in `py_func`.
        value = getattr(value, "_defn", getattr(value, "py_func", value))
        if isinstance(value, types.FunctionType):
            if id(value) not in seen and value.__module__.startswith("mbe_stage"):
                seen.add(id(value))
                values += [cell.cell_contents for cell in value.__closure__ or ()]
                for code in _nested(value.__code__):
                    constants = [each for each in code.co_consts if not isinstance(each, types.CodeType)]
                    digest.update(repr((code.co_name, code.co_code, constants[code is value.__code__ :])).encode())
                    values += _named(code.co_names, value.__globals__)
        elif isinstance(value, type) and hasattr(value, "_fields"):
            digest.update(repr(value._fields).encode())
        elif isinstance(value, int | float | str | tuple | np.generic):
            digest.update(repr(value).encode())
    return digest.hexdigest()[:16]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _nested(each)


def _named(names: Sequence[str], found_in: dict[str, Any]) -> list[Any]:
    """The values of names, and of what is named in modules of this package."""
    values = [found_in[name] for name in names if name in found_in]
    modules = [
        value for value in values if isinstance(value, types.ModuleType) and value.__name__.startswith("mbe_stage")
    ]
    return values + [vars(module)[name] for module in modules for name in names if name in vars(module)]


def resources(kernel: Any, ptx: str, target: str, ptxas: str) -> dict[str, int]:
    """Registers, stack and spills that ptxas reports for a kernel."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "kernel.ptx"
        source.write_text(ptx)
        done = completed([ptxas, "-v", f"-arch={target}", source, "-o", source.with_suffix(".cubin")])
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


def main(*, each: bool, recorded: dict[str, str]) -> None:
    """Compile.

    Parameters
    ----------
    each : bool
        For each capability.
    recorded : dict of str to str
        Digests of the code for which `cuda_resources.json` has the resources.
    """
    # Compiling makes millions of objects, of which few are garbage: looking for it takes an eighth of the time.
    gc.disable()
    ptxas = find_ptxas()
    if ptxas is None:
        sys.exit("no ptxas")
    use_device()
    every = {capability: calls(capability) for capability in CAPABILITIES}
    report: dict[str, Any] = {"code": {}}
    for capability in CAPABILITIES:
        for number, (kernel, call) in enumerate(every[capability].items()):
            name = f"{kernel.py_func.__name__} {_name(capability)}"
            report["code"][name] = code_of(kernel, call)
            is_changed = report["code"][name] != recorded.get(name)
            if each or is_due(kernel, number, capability, is_changed=is_changed):
                ptx = ptx_for(kernel, call, capability, each=each)
                report[name] = resources(kernel, ptx, _name(capability), ptxas)
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    if sys.argv[1:] == ["changed"]:
        main(each=False, recorded=json.loads(Path(__file__).with_name("cuda_resources.json").read_text())["code"])
    else:
        main(each=sys.argv[1:] == ["each"], recorded={})
