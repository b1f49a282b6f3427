"""Functions that Numba compiles, with machine code that later processes load (`code_cache`).

Numba's own cache checks the file of a function, but not the files of the functions it calls, so after an update old
code would run inside new code. It numbers its files, so if two processes fill it at once, a function may get the code
of another. And it reads only writable directories. Therefore this package has its own cache behind Numba's interface.

To add a function, decorate it by `compiled` with the types of its calls from Python, and add it to the compile steps of
its caller (`engine_cpu.compile_steps`, `pipeline.execution.compiling`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import boolean, int32, int64, types, uint8, uint64
from numba.core import caching, compiler, entrypoints, ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import NopythonTypeInference

from mbe_stage.runtime import code_cache
from mbe_stage.runtime.compile_ahead import CompileStep

log = logging.getLogger(__name__)

# Types of nearly all arguments: contiguous arrays.
BYTES, FLAGS, INTS, LONGS, WORDS = (kind[::1] for kind in (uint8, boolean, int32, int64, uint64))

Signature = tuple[Any, ...]
"""Numba types of the arguments."""

_known: dict[Any, tuple[Mapping[str, Signature], float]] = {}


def compiled(
    *signature: Any,
    variants: Mapping[str, Signature] | None = None,
    nrt: bool = True,
    inlined: bool = False,
    seconds: float = 0.5,
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function with Numba, without the interpreter's lock, and save its machine code.

    Parameters
    ----------
    *signature : numba types
        Types of the arguments in calls from Python, to compile it ahead (`steps_of`); none for functions that only
        compiled code calls. Calls with other types work too, and compile at that time.
    variants : mapping, optional
        Several signatures by name.
    nrt : bool
        True if the function may allocate arrays. If false, variable indices must not be negative either: without
        Numba's check at each index, a search is up to a third faster.
    inlined : bool
        True if LLVM must inline the function. Numba's own inlining copies the whole caller for each call.
    seconds : float
        Approximate time to compile one variant.
    """
    signatures = variants or ({"": signature} if signature else {})

    def decorate(function: Callable[..., Any]) -> Any:
        options: dict[str, Any] = {} if nrt else {"_nrt": False, "pipeline_class": _Compiler}
        dispatcher: Any = numba.njit(nogil=True, forceinline=inlined, **options)(function)
        # With NUMBA_DISABLE_JIT there is no code to save.
        if hasattr(dispatcher, "enable_caching"):
            dispatcher._cache = _FunctionCache(function)
            _known[dispatcher] = signatures, seconds
        return dispatcher

    return decorate


def readonly(array_type: Any) -> Any:
    """Return the read-only variant of an array type, for views of Arrow buffers."""
    return array_type.copy(readonly=True)


def readonly_view(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, so that compiled functions see one type for arrays of any origin."""
    view = array.view()
    view.flags.writeable = False
    return view


def steps_of(*functions: Any, variant: str | None = None) -> tuple[CompileStep, ...]:
    """Return the steps to compile functions with known signatures.

    Parameters
    ----------
    variant : str, optional
        Restrict the steps to the signature of that name.
    """
    return tuple(
        _step(function, name)
        for function in functions
        if function in _known
        for name in _known[function][0]
        if variant is None or name == variant
    )


def steps_in(module: str) -> Callable[[], tuple[CompileStep, ...]]:
    """Return a function that returns the steps of all functions of a module with known signatures."""
    return lambda: steps_of(*(function for function in list(_known) if function.py_func.__module__ == module))


@functools.cache
def _step(function: Any, name: str) -> CompileStep:
    signatures, seconds = _known[function]
    signature = signatures[name]
    module, qualname = function.py_func.__module__, function.py_func.__qualname__
    has_been_loaded = False

    def is_loaded() -> bool:
        # Cached, because Numba hashes all types at each look.
        nonlocal has_been_loaded
        has_been_loaded = has_been_loaded or signature in function.overloads
        return has_been_loaded

    return CompileStep(
        what=f"{module}.{qualname}{f' ({name})' if name else ''}",
        is_loaded=is_loaded,
        is_kept=lambda: function._cache.holds(signature, function.targetctx),
        compile=functools.partial(_compile, module, qualname, name),
        seconds=seconds,
    )


def _compile(module: str, qualname: str, name: str) -> None:
    """Compile or load from the cache; takes names, so that other processes can call it."""
    function = getattr(importlib.import_module(module), qualname)
    function.compile(_known[function][0][name])


@register_pass(mutates_CFG=False, analysis_only=False)
class _UnsignedIndices(FunctionPass):  # type: ignore[misc]  # Numba's, without types
    """Make array indices unsigned, so that Numba does not add the length to negative ones."""

    _name = "unsigned_indices"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        unsigned = {types.intp: types.uintp, types.UniTuple(types.intp, 2): types.UniTuple(types.uintp, 2)}
        for block in state.func_ir.blocks.values():
            for access in (*block.find_exprs("getitem"), *block.find_insts(ir.SetItem)):
                array, index, *value = state.calltypes[access].args
                if isinstance(array, types.Array) and index in unsigned:
                    changed = state.calltypes[access].replace(args=(array, unsigned[index], *value))
                    # The mapping refuses to replace existing entries.
                    del state.calltypes[access]
                    state.calltypes[access] = changed
        return True


class _Compiler(compiler.CompilerBase):  # type: ignore[misc]  # Numba's, without types
    """Numba's compiler, with unsigned indices."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_UnsignedIndices, NopythonTypeInference)
        passes.finalize()
        return [passes]


class _FunctionCache(caching._Cache):  # type: ignore[misc]  # Numba's, without types
    """The machine code of one function, behind Numba's cache interface."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._sources = code_cache.sources_of(function)
        self._is_enabled = True

    @property
    def cache_path(self) -> str:
        return str(code_cache.cache_directories(self._sources)[0])

    def enable(self) -> None:
        self._is_enabled = True

    def disable(self) -> None:
        self._is_enabled = False

    def flush(self) -> None:
        code_cache.drop(f"{self._name}-", self._sources)

    def holds(self, signature: Signature, target_context: Any) -> bool:
        """True if the cache has code for these types and this processor."""
        # Another thread may use the context at the same time.
        with global_compiler_lock:
            self._prepare(target_context)
        return code_cache.is_kept(self._file_name(signature, target_context.codegen()), self._sources)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not self._is_enabled:
            return None
        self._prepare(target_context)
        code = code_cache.kept(self._file_name(sig, target_context.codegen()), self._sources)
        return None if code is None else compiler.CompileResult._rebuild(target_context, *pickle.loads(code))

    def save_overload(self, sig: Any, data: Any) -> None:
        # Numba's own conditions: such code depends on this process.
        if not self._is_enabled or data.lifted or data.library.has_dynamic_globals:
            return
        code_cache.keep_or_warn(self._file_name(sig, data.codegen), dumps(data._reduce()), self._sources)

    def _prepare(self, target_context: Any) -> None:
        """Load what cached code calls: Numba's memory, hashes, and extensions used by other packages' code.

        A full refresh is needed for compiling only; it imports 200 modules, including SciPy's linear algebra.
        """
        rtsys.initialize(target_context)
        importlib.import_module("numba.cpython.hashing")
        if self._sources is not None:
            entrypoints.init_all()

    def _file_name(self, sig: Any, codegen: Any) -> str:
        versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__
        made_for = repr((tuple(sig), codegen.magic_tuple(), versions))
        return f"{self._name}-{hashlib.sha256(made_for.encode()).hexdigest()[:20]}.code"
