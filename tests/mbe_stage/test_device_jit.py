"""Declared types of kernels, and the cache of their machine code. Needs numba-cuda, but no GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from mbe_stage.runtime import code_cache
from mbe_stage.runtime.compile_ahead import CompileStep

pytest.importorskip("numba_cuda", reason="needs numba-cuda: pip install 'mbe-stage[cuda]'")

from mbe_stage.device import jit
from mbe_stage.device.numba_private import _KernelCache

HOPPER, AMPERE = (SimpleNamespace(magic_tuple=lambda cc=cc: ((13, 0), cc)) for cc in ((9, 0), (8, 0)))
CALL = jit.KernelCall("tests.somewhere:double", (jit.I32, jit.INT), None, 1.0)


def double(_values, _times):
    """A kernel that is never compiled."""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


class Two(NamedTuple):
    first: Any
    second: Any


def test_declared_bundle_types_equal_those_of_a_launch() -> None:
    longs, ints = np.zeros(2, np.int64), np.zeros(2, np.int32)
    assert jit.bundle(Two, jit.I64, jit.I32) == numba.typeof(Two(longs, ints))
    assert jit.bundle(Two, jit.I32, jit.I32) == numba.typeof(Two(ints, ints))


def context(codegen: object) -> SimpleNamespace:
    return SimpleNamespace(codegen=lambda: codegen, refresh=lambda: None)


def compiled(codegen: object, code: str) -> SimpleNamespace:
    return SimpleNamespace(codegen=codegen, launch_config_sensitive=False, _reduce_states=lambda: {"code": code})


def test_cached_code_is_found_for_the_same_types_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.cuda.dispatcher import _Kernel

    monkeypatch.setattr(_Kernel, "_rebuild", classmethod(lambda _kind, code: code))
    cache = _KernelCache(CALL.name, CALL.launch_bounds)
    assert not cache.holds(CALL.signature, context(HOPPER))
    assert cache.load_overload(CALL.signature, context(HOPPER)) is None
    cache.save_overload(CALL.signature, compiled(HOPPER, "machine code"))
    assert cache.holds(CALL.signature, context(HOPPER))
    assert _KernelCache(CALL.name, CALL.launch_bounds).load_overload(CALL.signature, context(HOPPER)) == "machine code"
    others = [
        (CALL, CALL.signature, AMPERE),
        (CALL, (jit.I64, jit.INT), HOPPER),
        (replace(CALL, launch_bounds=(128, 4)), CALL.signature, HOPPER),
        (replace(CALL, name="tests.somewhere:double(2)"), CALL.signature, HOPPER),
    ]
    for call, signature, codegen in others:
        assert not _KernelCache(call.name, call.launch_bounds).holds(signature, context(codegen))


def test_code_that_depends_on_the_grid_is_not_kept() -> None:
    data = compiled(HOPPER, "")
    data.launch_config_sensitive = True
    with pytest.raises(AssertionError):
        _KernelCache(CALL.name, CALL.launch_bounds).save_overload(CALL.signature, data)


def test_kernels_are_found_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jit._found(f"{__name__}:double") is double
    made = []
    monkeypatch.setitem(globals(), "maker", lambda *arguments: made.append(arguments) or double)
    assert jit._found(f"{__name__}:maker(3, 31, (9, 0))") is double
    assert made == [(3, 31, (9, 0))]


@pytest.mark.parametrize(
    ("loaded", "kept", "said"),
    [
        ((True, True), (False, False), "needed"),
        ((False, True), (True, False), "needed"),
        ((False, True), (False, True), "all"),
    ],
)
def test_if_code_is_missing_everything_is_compiled(loaded, kept, said) -> None:
    needed = [
        CompileStep(str(i), is_loaded=lambda i=i: loaded[i], is_kept=lambda i=i: kept[i], compile=double)
        for i in range(2)
    ]
    everything = [*needed, CompileStep("2", is_loaded=bool, is_kept=bool, compile=double)]
    assert jit.all_at_once(needed, lambda: everything) == (needed if said == "needed" else everything)


def test_a_kernel_states_its_types_and_bounds() -> None:
    made = jit.kernel(jit.I32, jit.INT, launch_bounds=(256, 2), seconds=3.0)(double)
    try:
        (call,) = [call for kernel, call in jit.known_kernels().items() if kernel is made]
        assert call == jit.KernelCall(f"{__name__}:double", (jit.I32, jit.INT), (256, 2), 3.0)
        (step,) = jit.compile_steps_of(made)
        assert (step.what, step.seconds, step.is_loaded()) == (call.name, 3.0, False)
        assert made.targetoptions["launch_bounds"] == (256, 2)
    finally:
        del jit._calls[made]


def test_a_kernel_from_elsewhere_is_kept_by_its_own_sources_too() -> None:
    ours, theirs = (
        Path(_KernelCache(CALL.name, None, code_cache.sources_of(each)).cache_path) for each in (jit.kernel, double)
    )
    assert theirs.parent == ours.parent
    assert theirs != ours
