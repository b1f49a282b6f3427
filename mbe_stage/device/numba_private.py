"""The private API of numba-cuda that this package needs; no other file uses it.

numba-cuda has no public API for four tasks:

- Keep a kernel's machine code under a name that depends on all of our sources (`_KernelCache`). Its own cache checks
  the kernel's file only, so after an update old device code would run inside new code.
- Check without compiling whether a kernel is loaded or kept (`is_loaded`, `is_kept`).
- Launch with arguments of known types (`LoadedKernel`). numba-cuda determines the type of every argument at every
  launch, and makes an object for every word.
- Name the errors of a driver that does not start (`driver_errors`).

docs/decisions/numba-cuda.md lists the names used. Importing this module does not import numba-cuda.
"""

from __future__ import annotations

import hashlib
import operator
import pickle
import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mbe_stage.device import cubins
from mbe_stage.runtime import code_cache

Signature = tuple[Any, ...]
Kind = tuple[Any, int, int]
"""Dtype, dimensions and bytes per entry."""
_loaded: set[Any] = set()
_MOST_WORDS = 512


class _KernelCache:
    """The machine code of one kernel, behind numba-cuda's cache interface.

    Parameters
    ----------
    name : str
        Identifies the kernel in other processes (`jit.KernelCall`).
    launch_bounds : tuple of int, or None
    sources : Path, optional
        As `code_cache` takes it.
    """

    def __init__(self, name: str, launch_bounds: tuple[int, int] | None, sources: Path | None = None) -> None:
        self._name, self._launch_bounds, self._sources = name, launch_bounds, sources

    @property
    def cache_path(self) -> str:
        return str(code_cache.cache_directories(self._sources)[0])

    def shipped(self) -> int | None:
        """Return the handle of installed code for the current device, or None. Other packages' kernels have none."""
        from numba import cuda

        return None if self._sources else cubins.handle_of(self._name, cuda.get_current_device().compute_capability)

    def holds(self, signature: Signature, target_context: Any) -> bool:
        """True if the cache has code for these types and this device."""
        return code_cache.is_kept(self._file_name(signature, target_context.codegen()), self._sources)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        from numba.cuda.dispatcher import _Kernel
        from numba.cuda.utils import numba_target_override

        # Without refreshing the context: that imports modules for compiling only, in a quarter of a second.
        with numba_target_override():
            code = code_cache.kept(self._file_name(sig, target_context.codegen()), self._sources)
            return None if code is None else _Kernel._rebuild(**pickle.loads(code))

    def save_overload(self, sig: Any, data: Any) -> None:
        from numba.cuda.serialize import dumps

        # The name does not cover code that depends on the number of blocks; our kernels have no such code.
        assert not data.launch_config_sensitive
        code_cache.keep_or_warn(self._file_name(sig, data.codegen), dumps(data._reduce_states()), self._sources)

    def _file_name(self, sig: Any, codegen: Any) -> str:
        import numba
        import numba_cuda

        versions = sys.implementation.cache_tag, numba.__version__, numba_cuda.__version__
        made_for = repr((self._name, tuple(sig), self._launch_bounds, codegen.magic_tuple(), versions))
        readable = self._name.partition("(")[0].replace(":", ".")
        return f"{readable}-{hashlib.sha256(made_for.encode()).hexdigest()[:20]}.cubin"


def keep_code(kernel: Any, function: Callable[..., None], name: str, launch_bounds: tuple[int, int] | None) -> None:
    """Keep the machine code of a kernel. The tests' emulator runs the plain function, which has none."""
    if kernel is not function:
        kernel._cache = _KernelCache(name, launch_bounds, code_cache.sources_of(function))


def is_loaded(kernel: Any, signature: Signature) -> bool:
    """True if this process has loaded a kernel for its types; the result is cached, because hashing types is slow."""
    if kernel not in _loaded and (signature in kernel.overloads or kernel._cache.shipped() is not None):
        _loaded.add(kernel)
    return kernel in _loaded


def is_kept(kernel: Any, signature: Signature) -> bool:
    """True if the code of a kernel for these types and the current device is installed or in the cache."""
    return kernel._cache.shipped() is not None or kernel._cache.holds(signature, kernel.targetctx)


class LoadedKernel:
    """A kernel on the current device, with launches ten times cheaper than numba-cuda's.

    Parameters
    ----------
    kernel : CUDA kernel
    signature : tuple of numba types
        Arrays, named tuples of arrays, and integers of 64 bits.
    """

    def __init__(self, kernel: Any, signature: Signature) -> None:
        from cuda.bindings import driver

        self._name = kernel.py_func.__name__
        handle = kernel._cache.shipped()
        if handle is None:
            handle = int(kernel.compile(signature)._codelibrary.get_cufunc().kernel.handle)
        self._launch, self._function = driver.cuLaunchKernel, driver.CUfunction(handle)
        self._kinds = kinds_of(signature)
        n_words = sum(1 if kind is None else 5 + 2 * kind[1] for kind in self._kinds)
        self._pack = struct.Struct(f"{n_words}q").pack_into

    def __call__(self, n_blocks: int, n_threads: int, arguments: Iterable[Any]) -> None:
        """Launch on the default stream."""
        launching = _launching
        self._pack(launching.words, 0, *words_of(self._name, self._kinds, arguments))
        (error,) = self._launch(self._function, n_blocks, 1, 1, n_threads, 1, 1, 0, 0, launching.first, 0)
        if error:
            from numba.cuda.cudadrv.error import CudaDriverError

            raise CudaDriverError(f"{self._name} does not start with {n_blocks} blocks of {n_threads} threads: {error}")


def kinds_of(signature: Signature) -> tuple[Kind | None, ...]:
    """Return the kind of each array, and None for each integer; tuples are flattened."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    kinds: list[Kind | None] = []
    for each in signature:
        if isinstance(each, types.BaseTuple):
            kinds += kinds_of(tuple(each))
        else:
            assert each == types.int64 or each.layout == "C", each
            dtype = None if each == types.int64 else as_dtype(each.dtype)
            kinds.append(None if dtype is None else (dtype, each.ndim, dtype.itemsize))
    return tuple(kinds)


def words_of(name: str, kinds: Sequence[Kind | None], arguments: Iterable[Any]) -> list[int]:
    """Return the words that a kernel takes for these arguments.

    An array becomes two unused words, number of entries, bytes per entry, address, shape and strides.

    Raises
    ------
    TypeError
        The kernel was compiled for other arguments.
    """
    flat: list[Any] = []
    for argument in arguments:
        if isinstance(argument, tuple):
            flat += argument
        else:
            flat.append(argument)
    if len(flat) < len(kinds):
        # Numbers within a tuple of arrays.
        flat = [value for each in flat for value in (each if isinstance(each, tuple) else (each,))]
    words: list[int] = []
    for value, kind in zip(flat, kinds, strict=True):
        if kind is None:
            words.append(operator.index(value))
            continue
        # Each attribute access takes a tenth of a microsecond, and launches pass dozens of arrays.
        dtype, n_dimensions, itemsize = kind
        shape, strides, given = value.shape, value.strides, value.dtype
        if (given is dtype or given == dtype) and n_dimensions == 1 == len(shape) and strides == (itemsize,):
            (n,) = shape
            words += (0, 0, n, itemsize, value.data.ptr, n, itemsize)
        elif given == dtype and len(shape) == n_dimensions and value.flags.c_contiguous:
            words += (0, 0, value.size, itemsize, value.data.ptr, *shape, *strides)
        else:
            layout = "contiguous" if value.flags.c_contiguous else "not contiguous"
            raise TypeError(
                f"{name} got an array of {given} with {value.ndim} dimensions, {layout}: expected a contiguous one of "
                f"{dtype} with {n_dimensions}"
            )
    return words


class _Launching(threading.local):
    """Words of a launch, and their addresses. The driver copies the words before the launch returns."""

    def __init__(self) -> None:
        self.words = array("q", bytes(8 * _MOST_WORDS))
        first = self.words.buffer_info()[0]
        self._addresses = array("Q", range(first, first + 8 * _MOST_WORDS, 8))
        self.first = self._addresses.buffer_info()[0]


_launching = _Launching()


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the errors of numba-cuda and cuda.core when the driver does not start.

    Raises
    ------
    ImportError
        numba-cuda is incomplete. A missing name of cuda.core is left out, since its place differs between versions.
    """
    from numba.cuda.cudadrv.error import CudaDriverError

    try:
        from cuda.core._utils.cuda_utils import CUDAError
    except ImportError:
        return (CudaDriverError,)
    return CudaDriverError, CUDAError
