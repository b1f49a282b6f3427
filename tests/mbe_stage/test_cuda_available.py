"""If the CUDA engine cannot run, one sentence with the remedy says so. No GPU is needed here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mbe_stage import choose_engine
from mbe_stage.bicliques import engine_cpu, engine_cuda
from mbe_stage.device import available, early_context


class CudaSupportError(ImportError):
    """As numba-cuda's."""


class CudaDriverError(Exception):
    """As numba-cuda's."""


class CudaAPIError(CudaDriverError):
    """As numba-cuda's, which takes code and message apart."""

    def __str__(self) -> str:
        code, message = self.args
        return f"[{code}] {message}"


class CUDAError(Exception):
    """As cuda.core's."""


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


@dataclass
class Machine:
    """The answers of the GPU libraries; an error as an answer is raised."""

    n_gpus: Any = 1
    capability: Any = (9, 0)
    driver: Any = 13_000
    runtime: int = 13_000
    n_for_cupy: Any = 1


def answer(of: Any) -> Any:
    if isinstance(of, BaseException):
        raise of
    return of


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace numba-cuda and CuPy by libraries that find such a machine."""

    class Gpus:
        def __len__(self) -> int:
            return answer(asked.n_gpus)

    asked = Machine()
    cuda = SimpleNamespace(
        gpus=Gpus(),
        get_current_device=lambda: SimpleNamespace(compute_capability=answer(asked.capability)),
        CudaSupportError=CudaSupportError,
    )
    runtime = SimpleNamespace(
        driverGetVersion=lambda: answer(asked.driver),
        runtimeGetVersion=lambda: asked.runtime,
        getDeviceCount=lambda: answer(asked.n_for_cupy),
        getDevice=lambda: 0,
        CUDARuntimeError=CUDARuntimeError,
    )
    fakes = {
        "numba": SimpleNamespace(cuda=cuda),
        "numba.cuda.cudadrv.error": SimpleNamespace(CudaDriverError=CudaDriverError),
        "cuda.core._utils.cuda_utils": SimpleNamespace(CUDAError=CUDAError),
        "cupy": SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)),
        "cupy.cuda": SimpleNamespace(runtime=runtime),
    }

    monkeypatch.setattr(available, "_working", set())

    def be(**found: Any) -> None:
        available._working.clear()
        for name, module in fakes.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(available, "_is_installed", lambda _name: True)
        for name, value in found.items():
            setattr(asked, name, value)

    return be


def test_nothing_is_missing(machine: Callable[..., None]) -> None:
    machine()
    assert engine_cuda.unavailable_reason() is None
    machine(capability=(7, 5), driver=13_020)
    assert engine_cuda.unavailable_reason() is None


def test_a_working_device_is_checked_once(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine()
    assert engine_cuda.unavailable_reason() is None
    runtime = sys.modules["cupy"].cuda.runtime
    runtime.getDeviceCount = lambda: 0
    assert engine_cuda.unavailable_reason() is None
    monkeypatch.setattr(runtime, "getDevice", lambda: 1)
    assert engine_cuda.unavailable_reason() == NO_GPU


NO_GPU = "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"n_gpus": 0}, NO_GPU),
        ({"n_gpus": CudaSupportError("Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE")}, NO_GPU),
        ({"n_for_cupy": 0}, NO_GPU),
        (
            {"n_gpus": CudaSupportError("Error at driver init: \n\nlibrary cannot be found.\n")},
            "the NVIDIA driver cannot be used (Error at driver init: library cannot be found.): install a driver, or "
            "one new enough for CUDA 13",
        ),
        ({"capability": (7, 0)}, "the GPU has compute capability 7.0: 7.5 or newer is needed"),
        (
            {"driver": 12_090},
            "the NVIDIA driver is one of CUDA 12, CuPy is built for CUDA 13: install a driver that is new enough for "
            "CUDA 13",
        ),
    ],
)
def test_the_machine_is_named(machine: Callable[..., None], found: dict[str, Any], said: str) -> None:
    machine(**found)
    assert engine_cuda.unavailable_reason() == said


@pytest.mark.parametrize(
    "found",
    [
        {"n_gpus": CudaAPIError(2, "out of memory")},
        {"n_gpus": CudaDriverError("CUDA initialized before forking")},
        {"n_gpus": RuntimeError("Function cuDevSmResourceSplit not found")},
        {"capability": CudaAPIError(46, "the device is\nunavailable")},
        {"capability": CUDAError("CUDA_ERROR_DEVICE_UNAVAILABLE")},
        {"driver": CUDARuntimeError("cudaErrorUnknown")},
        {"n_for_cupy": CUDARuntimeError("cudaErrorDevicesUnavailable")},
    ],
    ids=lambda found: "-".join(f"{name}-{type(error).__name__}" for name, error in found.items()),
)
def test_all_library_errors_become_one_sentence(machine: Callable[..., None], found: dict[str, Any]) -> None:
    machine(**found)
    reason = engine_cuda.unavailable_reason()
    assert reason is not None
    (error,) = found.values()
    assert reason.startswith(f"CUDA does not start on the GPU ({' '.join(str(error).split())}): check with nvidia-smi")
    assert choose_engine("bicliques") == ("cpu", engine_cpu)


def test_a_newer_cuda_core_may_name_its_errors_otherwise(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(capability=CudaAPIError(46, "unavailable"))
    monkeypatch.setitem(sys.modules, "cuda.core._utils.cuda_utils", SimpleNamespace())
    assert str(engine_cuda.unavailable_reason()).startswith("CUDA does not start on the GPU ([46] unavailable)")


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("raise ImportError('libcudart.so.13:\\n cannot open')", "libcudart.so.13: cannot open"),
        (
            "try:\n    import cupy._core\nexcept ImportError as e:\n    raise ImportError('advice') from e",
            "No module named 'cupy._core'",
        ),
        ("import numpy; numpy.taken_away", "module 'numpy' has no attribute 'taken_away'"),
        ("raise OSError('invalid ELF header')", "invalid ELF header"),
        ("raise ValueError('numpy.dtype size changed')", "numpy.dtype size changed"),
        ("raise TypeError('C function has wrong signature')", "C function has wrong signature"),
        # Files that remain after an incomplete removal.
        (None, "No module named 'cupy.cuda'"),
    ],
    ids=["library", "wrapped", "numpy", "elf", "dtype", "signature", "rest"],
)
def test_a_broken_cupy(
    machine: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    source: str | None,
    detail: str,
) -> None:
    machine()
    (tmp_path / "cupy").mkdir()
    if source is not None:
        (tmp_path / "cupy" / "__init__.py").write_text(source)
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "cupy.cuda")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if "site-packages" not in path)])
    said = f"CuPy cannot be imported ({detail}): pip install --force-reinstall 'mbe-stage[cuda]'"
    assert engine_cuda.unavailable_reason() == said


def test_a_broken_numba_cuda(machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine()
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace())
    reason = str(engine_cuda.unavailable_reason())
    assert reason.startswith("numba-cuda cannot be imported (cannot import name 'cuda'")
    assert reason.endswith("pip install --force-reinstall 'mbe-stage[cuda]'")


def test_cupy_is_not_imported_where_there_is_no_gpu(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(n_gpus=0)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert engine_cuda.unavailable_reason() == NO_GPU


@pytest.mark.parametrize("found", ["a GPU", "no GPU", "no driver"])
def test_a_context_is_created_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    retained: list[int] = []

    def library(_name: str) -> Any:
        if found == "no driver":
            raise OSError
        return SimpleNamespace(
            cuInit=lambda _flags: 0 if found == "a GPU" else 100,
            cuDevicePrimaryCtxRetain=lambda _context, device: retained.append(device),
        )

    monkeypatch.setattr(early_context.ctypes, "CDLL", library)
    early_context.begin_context()
    for thread in threading.enumerate():
        if thread.name == "gpu-context":
            thread.join()
    assert retained == ([0] if found == "a GPU" else [])
