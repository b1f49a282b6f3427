"""The private API of numba-cuda that this package needs; no other file uses any of it.

numba-cuda has no public way to do four things:

- Keep a kernel's machine code under a name that depends on all of our sources (`_KernelCache`). Its own cache looks at
  the kernel's file only, so after an update old device code would run inside new code.
- Say without compiling that a kernel is loaded or kept (`is_loaded`, `is_kept`).
- Launch with arguments whose types are known (`resident`, `typed_kind`). numba-cuda works the type of a named tuple out
  at every launch, and makes a new view of every array.
- Name the errors of a driver that does not start (`driver_errors`).

docs/decisions/numba-cuda.md lists the names. Importing this module imports nothing of numba-cuda.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mbe_stage.runtime import code_cache

Signature = tuple[Any, ...]
_loaded: set[Any] = set()


class _KernelCache:
    """The machine code of one kernel, as numba-cuda asks for it.

    Parameters
    ----------
    name : str
        Finds the kernel in another process (`jit.KernelCall`).
    launch_bounds : tuple of int, or None
    sources : Path, optional
        As `code_cache` takes it.
    """

    def __init__(self, name: str, launch_bounds: tuple[int, int] | None, sources: Path | None = None) -> None:
        self._name, self._launch_bounds, self._sources = name, launch_bounds, sources

    @property
    def cache_path(self) -> str:
        return str(code_cache.cache_directories(self._sources)[0])

    def holds(self, signature: Signature, target_context: Any) -> bool:
        """True if there is code for these types and this device."""
        return code_cache.is_kept(self._file_name(signature, target_context.codegen()), self._sources)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        from numba.cuda.dispatcher import _Kernel
        from numba.cuda.utils import numba_target_override

        with numba_target_override():
            target_context.refresh()
            code = code_cache.kept(self._file_name(sig, target_context.codegen()), self._sources)
            return None if code is None else _Kernel._rebuild(**pickle.loads(code))

    def save_overload(self, sig: Any, data: Any) -> None:
        from numba.cuda.serialize import dumps

        # Code that depends on the number of blocks would need more in its name: no kernel of ours is such code.
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
    """Have the machine code of a kernel kept. The emulator of the tests runs the plain function: nothing to keep."""
    if kernel is not function:
        kernel._cache = _KernelCache(name, launch_bounds, code_cache.sources_of(function))


def is_loaded(kernel: Any, signature: Signature) -> bool:
    """True if this process has the code of a kernel for its types; once it has, they are not hashed again."""
    if kernel not in _loaded and signature in kernel.overloads:
        _loaded.add(kernel)
    return kernel in _loaded


def is_kept(kernel: Any, signature: Signature) -> bool:
    """True if the cache has the code of a kernel for these types and the current device."""
    return bool(kernel._cache.holds(signature, kernel.targetctx))


def typed_kind(kernel: Any, example: Any) -> type:
    """Make a class of named tuples that numba-cuda knows the type of: the type of the example.

    A value with the attribute `_numba_type_` is asked for its type. When a kernel is compiled, or looked for on disk,
    the type is that of the original class, which pickles by its name: a process finds what another one compiled.
    """
    from numba.cuda.typing.typeof import typeof_impl

    numba_type = kernel.typeof_pyval(example)
    kind = type(type(example).__name__, (type(example),), {"_numba_type_": numba_type})
    # Code that looks at tuples would else find a class that differs in every process.
    typeof_impl.register(kind, lambda _value, _context: numba_type)
    return kind


def resident(array: Any) -> Any:
    """An argument for an array that is on the device; a launch finds everything worked out."""
    return _resident_kind()(array)


@functools.cache
def _resident_kind() -> type:
    from numba import cuda

    class Resident(cuda.In):  # type: ignore[misc]  # Numba's, without types
        def __init__(self, array: Any) -> None:
            super().__init__(array)
            self._known = super().to_device([])

        def to_device(self, retr: list[Any], stream: int = 0) -> Any:  # noqa: ARG002 - the signature is Numba's
            return self._known

    return Resident


def driver_errors() -> tuple[type[Exception], ...]:
    """The errors of numba-cuda, and of cuda.core below it, when the driver does not start.

    Raises
    ------
    ImportError
        numba-cuda is not whole. A missing name of cuda.core is left out: another version may have it elsewhere.
    """
    from numba.cuda.cudadrv.error import CudaDriverError

    try:
        from cuda.core._utils.cuda_utils import CUDAError
    except ImportError:
        return (CudaDriverError,)
    return CudaDriverError, CUDAError
