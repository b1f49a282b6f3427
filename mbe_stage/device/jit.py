"""Kernels with declared argument types, whose machine code is kept for later processes.

They share the cache of host code (`mbe_stage.runtime.code_cache`) behind numba-cuda's interface (`numba_private`).

With declared types, a kernel can be compiled ahead of its first launch (`compile_steps_of`), and tests can compile it
without a GPU. Importing this module needs numba-cuda, but no GPU.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numba import cuda, types

from mbe_stage.device.numba_private import is_kept, is_loaded, keep_code
from mbe_stage.runtime.compile_ahead import CompileStep


def _array(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C")


I8, U8, U32, U64 = map(_array, (types.int8, types.uint8, types.uint32, types.uint64))
I32, I32_2D, I32_3D = (_array(types.int32, dimensions) for dimensions in (1, 2, 3))
I64, I64_2D = (_array(types.int64, dimensions) for dimensions in (1, 2))
U32_2D = _array(types.uint32, 2)
INT = types.int64
"""Type of a Python integer."""


def bundle(kind: type, *members: Any) -> Any:
    """Return the type that Numba determines for a named tuple of arrays: a uniform one if all types are equal."""
    return types.BaseTuple.from_types(members, kind)


class Lists(NamedTuple):
    """Lists in CSR form as kernel arguments: offsets (n + 1,) int64, and members int32."""

    offsets: Any
    members: Any


CSR = bundle(Lists, I64, I32)
"""Type of `Lists`."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Settings for compiling a kernel.

    Attributes
    ----------
    name : str
        Identifies the kernel (`_found`), also in other processes.
    signature : tuple of numba types
    launch_bounds : tuple of int, or None
        Threads per block, and blocks that a multiprocessor should hold.
    seconds : float
        Approximate time to compile.
    """

    name: str
    signature: tuple[Any, ...]
    launch_bounds: tuple[int, int] | None
    seconds: float


_calls: dict[Any, KernelCall] = {}


def kernel(
    *signature: Any, launch_bounds: tuple[int, int] | None = None, name: str | None = None, seconds: float = 0.5
) -> Callable[[Callable[..., None]], Any]:
    """Apply `cuda.jit` to a kernel, and keep its machine code.

    Parameters
    ----------
    *signature : numba types
        Types of the arguments; a launch with other types is refused.
    launch_bounds : tuple of int, optional
    name : str, optional
        By default module and function. For a kernel made by a function, the module and the call that makes it, as
        ``"package.module:make(1, 2)"``.
    seconds : float
        Approximate time to compile; slow kernels are compiled first.
    """

    def decorate(function: Callable[..., None]) -> Any:
        call = KernelCall(name or f"{function.__module__}:{function.__name__}", signature, launch_bounds, seconds)
        dispatcher = cuda.jit(**({} if launch_bounds is None else {"launch_bounds": launch_bounds}))(function)
        keep_code(dispatcher, function, call.name, launch_bounds)
        _calls[dispatcher] = call
        return dispatcher

    return decorate


def known_kernels() -> dict[Any, KernelCall]:
    """Return every kernel of this process, with its settings for compiling."""
    return dict(_calls)


def signature_of(kernel: Any) -> tuple[Any, ...]:
    """Return the types of a kernel's arguments."""
    return _calls[kernel].signature


def compile_steps_of(*kernels: Any) -> tuple[CompileStep, ...]:
    """Return the steps that compile kernels for the current device ahead of their first launch."""
    return tuple(step_together(kernel) for kernel in kernels)


def all_at_once(
    needed: Sequence[CompileStep], everything: Callable[[], Sequence[CompileStep]]
) -> Sequence[CompileStep]:
    """Return the needed steps, or all steps if a needed one is not compiled yet.

    It is for small kernels, so that no later run has to compile.
    """
    return needed if all(step.is_loaded() or step.is_kept() for step in needed) else everything()


@functools.cache
def step_together(*kernels: Any) -> CompileStep:
    """Return one step for kernels that call the same functions, so that most of these compile once."""
    calls = [_calls[kernel] for kernel in kernels]
    each = sorted(call.seconds for call in calls)
    return CompileStep(
        what=", ".join(call.name for call in calls),
        is_loaded=lambda: all(is_loaded(kernel, _calls[kernel].signature) for kernel in kernels),
        is_kept=lambda: all(is_kept(kernel, _calls[kernel].signature) for kernel in kernels),
        compile=functools.partial(_compile, *(call.name for call in calls)),
        seconds=each[-1] + 0.15 * sum(each[:-1]),
    )


def _compile(*names: str) -> None:
    """Compile kernels or load them from the cache; takes names, so that other processes can call it."""
    for name in names:
        kernel = _found(name)
        if not is_loaded(kernel, _calls[kernel].signature):
            kernel.compile(_calls[kernel].signature)


def _found(name: str) -> Any:
    module, _, function = name.partition(":")
    maker, is_made, arguments = function.partition("(")
    found = getattr(importlib.import_module(module), maker)
    return found(*ast.literal_eval(f"({arguments[:-1]},)")) if is_made else found
