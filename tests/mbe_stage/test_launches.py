"""Launches lay out arguments as numba-cuda does, and refuse others than the compiled code's."""

from __future__ import annotations

import ast
import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import types

from mbe_stage.device.numba_private import LoadedKernel, kinds_of, words_of

PACKAGE = Path(__file__).parents[2] / "mbe_stage"


def on_device(address: int, host: np.ndarray) -> Any:
    """An array at this address, as CuPy describes it."""
    names = ("dtype", "ndim", "size", "itemsize", "shape", "strides", "flags")
    return SimpleNamespace(data=SimpleNamespace(ptr=address), **{name: getattr(host, name) for name in names})


@pytest.fixture
def jit():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda: pip install 'mbe-stage[cuda]'")
    from mbe_stage.device import jit

    return jit


@pytest.fixture
def call(jit):
    """Return argument types and matching arguments."""
    lists = jit.Lists(on_device(1 << 40, np.empty(5, np.int64)), on_device(4096, np.empty(9, np.int32)))
    table = on_device(8192, np.empty((3, 4), np.uint32))
    # Numbers within a tuple, too.
    numbered = jit.bundle(jit.Lists, jit.I64, types.UniTuple(jit.INT, 2))
    signature = jit.CSR, jit.INT, jit.U32_2D, jit.I32, numbered
    return signature, (lists, -7, table, lists.members, jit.Lists(lists.offsets, (3, -4)))


def of_numba(signature: Any, arguments: Any) -> list[int]:
    """Return the words that numba-cuda makes of them."""
    from numba.cuda import In
    from numba.cuda.dispatcher import _Kernel

    class Known(In):
        def to_device(self, *_: Any) -> Any:
            array = self.value
            layout = SimpleNamespace(strides_in_bytes=None, is_contiguous_c=True, is_contiguous_f=array.ndim == 1)
            return SimpleNamespace(
                size=array.size, dtype=array.dtype, ptr=array.data.ptr, shape=array.shape, _layout=layout
            )

    def wrapped(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return [wrapped(each) for each in argument]
        return argument if isinstance(argument, int) else Known(argument)

    words: list[Any] = []
    for numba_type, argument in zip(signature, arguments, strict=True):
        _Kernel._prepare_args(_Numba(), numba_type, wrapped(argument), 0, [], words)
    return [getattr(word, "value", word) for word in words]


class _Numba:
    """The argument layout of a compiled kernel."""

    extensions = ()

    def _prepare_args(self, *arguments: Any) -> None:
        from numba.cuda.dispatcher import _Kernel

        _Kernel._prepare_args(self, *arguments)


def test_argument_words_equal_numba_s(call) -> None:
    signature, arguments = call
    words = words_of("kernel", kinds_of(signature), arguments)
    assert words == of_numba(signature, arguments)
    assert words[4] == 1 << 40


def test_the_driver_gets_an_address_for_each_word(call, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver

    seen: list[Any] = []

    def launch(function: Any, *configuration: int) -> tuple[int]:
        addresses = ctypes.cast(configuration[8], ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
        seen.append((int(function), configuration[:8], [addresses[k].contents.value for k in range(n)]))
        return (0,)

    monkeypatch.setattr(driver, "cuLaunchKernel", launch)
    signature, arguments = call
    words = words_of("kernel", kinds_of(signature), arguments)
    n = len(words)
    library = SimpleNamespace(get_cufunc=lambda: SimpleNamespace(kernel=SimpleNamespace(handle=77)))
    compiled = SimpleNamespace(_codelibrary=library)
    kernel = SimpleNamespace(
        py_func=on_device,
        compile=lambda wanted: compiled if wanted == signature else None,
        _cache=SimpleNamespace(shipped=lambda: None),
    )
    LoadedKernel(kernel, signature)(5, 256, arguments)
    assert seen == [(77, (5, 1, 1, 256, 1, 1, 0, 0), words)]
    monkeypatch.setattr(driver, "cuLaunchKernel", lambda *_: (driver.CUresult.CUDA_ERROR_INVALID_VALUE,))
    with pytest.raises(Exception, match=r"on_device does not start with 5 blocks of 256 threads.*INVALID_VALUE"):
        LoadedKernel(kernel, signature)(5, 256, arguments)


@pytest.mark.parametrize(
    "other", [np.empty(3, np.int64), np.empty((3, 1), np.int32), np.empty(6, np.int32)[::2], np.int32(1)]
)
def test_other_arrays_are_refused(jit, other) -> None:
    with pytest.raises(TypeError, match=r"a_kernel got an array .*: expected a contiguous one of int32 with 1"):
        words_of("a_kernel", kinds_of((jit.I32,)), (on_device(0, other),))


def test_a_missing_argument_is_refused(jit) -> None:
    with pytest.raises(ValueError, match="longer"):
        words_of("a_kernel", kinds_of((jit.I32, jit.INT)), (on_device(0, np.empty(3, np.int32)),))


def test_every_launch_uses_this_function() -> None:
    # Parsing every file takes seconds.
    suspects = [path for path in PACKAGE.rglob("*.py") if re.search(r",[^\]]*\]\s*\(", path.read_text())]
    direct = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in suspects
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and isinstance(node.func.slice, ast.Tuple)
    ]
    assert direct == []
