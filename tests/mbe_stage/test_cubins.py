"""Machine code from `mbe-stage-cubins`: built, found, checked, loaded by a stand-in driver; or compiled."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from mbe_stage.device import cubins
from tests.patience import completed

pytest.importorskip("numba_cuda", reason="needs numba-cuda: pip install 'mbe-stage[cuda]'")

from mbe_stage.device.jit import INT
from mbe_stage.device.numba_private import LoadedKernel, _KernelCache, is_kept, is_loaded
from tools.cubins import LICENCES, compiled

ROOT = Path(__file__).parents[2]
KERNEL = "mbe_stage.bicliques.cuda.collapse_twins:groups_thread_per_vertex"
CODE = b"machine code"
CHECKSUM = hashlib.sha256(CODE).hexdigest()


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    for function in (cubins.handle_of, cubins._folder, cubins._index, cubins._report):
        function.cache_clear()


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return code and symbols that the driver got; a kernel's handle is 77."""
    from cuda.bindings import driver

    seen: list[Any] = []
    monkeypatch.setattr(driver, "cuLibraryLoadData", lambda code, *_: (seen.append(code) or 0, "library"))
    monkeypatch.setattr(driver, "cuLibraryGetKernel", lambda library, symbol: (seen.append((library, symbol)) or 0, 77))
    monkeypatch.setattr(driver, "cuKernelGetFunction", lambda _: (0, 78))
    return seen


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the package, with code of one kernel."""
    folder = tmp_path / "mbe_stage_cubins"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / f"{CHECKSUM}.cubin").write_bytes(CODE)
    write_index(folder)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def write_index(folder: Path, **others: Any) -> None:
    index = {"sources": cubins.digest_of_sources(), "kernels": {"8.0": {KERNEL: [CHECKSUM, "entry"]}}, **others}
    (folder / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("capability", "fitting"),
    [
        ((7, 5), None),
        ((8, 0), "8.0"),
        ((8, 5), "8.0"),
        ((8, 9), "8.6"),
        ((9, 0), None),
        ((10, 3), "10.0"),
        ((8, 7), None),
    ],
)
def test_code_runs_on_its_major_capability_and_later_minor_ones(capability: tuple[int, int], fitting: str) -> None:
    index = {"8.0": {KERNEL: []}, "8.6": {KERNEL: []}, "9.0": {"another": []}, "10.0": {KERNEL: []}}
    assert cubins.fitting(index, KERNEL, capability) == fitting


@pytest.mark.usefixtures("installed")
def test_code_is_loaded_once(loaded: list[Any]) -> None:
    assert [cubins.handle_of(KERNEL, (8, 6)) for _ in range(2)] == [77, 77]
    assert loaded == [CODE, ("library", b"entry")]


def is_other(folder: Path) -> None:
    write_index(folder, sources="others")


def is_damaged(folder: Path) -> None:
    (folder / f"{CHECKSUM}.cubin").write_bytes(CODE[:-1])


def is_lost(folder: Path) -> None:
    (folder / f"{CHECKSUM}.cubin").unlink()


def is_cut(folder: Path) -> None:
    (folder / "index.json").write_text('{"sources"')


def has_lists(folder: Path) -> None:
    write_index(folder, kernels=[KERNEL])


def has_another_key(folder: Path) -> None:
    write_index(folder, kernels={"8": {KERNEL: [CHECKSUM, "entry"]}})


def is_away(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("capability", "change", "level", "reason"),
    [
        ((9, 0), None, "DEBUG", "has no code for compute capability 9.0"),
        ((8, 0), is_other, "DEBUG", "was built from other sources"),
        ((8, 0), is_away, "DEBUG", "is not installed"),
        ((8, 0), is_damaged, "WARNING", "is damaged (.* has another checksum): install it again"),
        ((8, 0), is_lost, "WARNING", "is damaged (.*No such file.*): install it again"),
        ((8, 0), is_cut, "WARNING", "is damaged (.*): install it again"),
        ((8, 0), has_lists, "WARNING", "is damaged (.*): install it again"),
        ((8, 0), has_another_key, "WARNING", "is damaged (.*): install it again"),
    ],
)
def test_other_code_is_not_loaded_and_the_log_says_why(
    installed: Path,
    loaded: list[Any],
    caplog: pytest.LogCaptureFixture,
    capability: tuple[int, int],
    change: Callable[[Path], None] | None,
    level: str,
    reason: str,
) -> None:
    if change is not None:
        change(installed)
    caplog.set_level(logging.DEBUG, cubins.log.name)
    assert [cubins.handle_of(name, capability) for name in (KERNEL, KERNEL)] == [None, None]
    ((_, found, line),) = [(each.name, each.levelname, each.getMessage()) for each in caplog.records]
    assert found == level
    pattern = reason.replace("(", r"\(").replace(")", r"\)")
    assert re.fullmatch(f"kernels are compiled here: mbe-stage-cubins {pattern}", line)
    assert loaded == []


@pytest.mark.usefixtures("installed", "loaded")
@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"])
def test_code_refused_by_the_driver_is_compiled(
    call: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.bindings import driver

    refusal = driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    monkeypatch.setattr(driver, call, lambda *_: (refusal, None))
    assert cubins.handle_of(KERNEL, (8, 0)) is None
    assert "cannot be used with this driver (CUDA_ERROR_NO_BINARY_FOR_GPU): update the driver" in caplog.text


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel with a single kernel, as an installation."""
    folder = tmp_path_factory.mktemp("cubins")
    completed([sys.executable, "-m", "tools.cubins", folder, "groups_thread_per_vertex$"], cwd=ROOT, check=True)
    (wheel,) = folder.glob("mbe_stage_cubins-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


class Kernel:
    """A kernel as numba-cuda makes it, never compiled."""

    overloads: ClassVar[dict[Any, Any]] = {}
    py_func = len

    def __init__(self) -> None:
        self._cache = _KernelCache(KERNEL, None)


def test_a_built_kernel_is_loaded_and_launched(built: Path, loaded: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from numba import cuda

    monkeypatch.syspath_prepend(built)
    monkeypatch.setattr(cuda, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    kernel: Any = Kernel()
    assert is_kept(kernel, (INT,))
    assert is_loaded(kernel, (INT,))
    assert int(LoadedKernel(kernel, (INT,))._function) == 77
    code, (_, symbol) = loaded
    # An ELF file for CUDA (machine 190), whose entry has that name.
    assert (code[:4], int.from_bytes(code[18:20], "little")) == (b"\x7fELF", 190)
    assert b"\0.text." + symbol + b"\0" in code


def test_the_wheel_lists_its_contents(built: Path) -> None:
    (about,) = built.glob("*.dist-info")
    assert {path.name for path in (about / "licenses").iterdir()} == {"LICENSE", *LICENCES.values()}
    index = json.loads((built / "mbe_stage_cubins" / "index.json").read_text())
    assert {capability: list(kernels) for capability, kernels in index["kernels"].items()} == {
        capability: [KERNEL] for capability in ("8.0", "9.0", "10.0")
    }
    assert index["compilers"].keys() >= {"numba-cuda", "nvidia-cuda-nvcc", "nvidia-nvvm"}


def test_a_kernel_that_needs_a_library_is_not_built() -> None:
    for text, files in (("call double @__nv_sqrt(double %x)", ()), ("", ("nrt.ltoir",))):
        library = SimpleNamespace(get_llvm_str=lambda text=text: text, _linking_files=files, needs_cudadevrt=False)
        with pytest.raises(ValueError, match=r"a_kernel needs .*: name its licence"):
            compiled("a_kernel", library, (), (9, 0))


def test_a_kernel_with_other_words_than_a_launch_is_not_built() -> None:
    ptx = ".visible .entry a_kernel(\n .param .u64 a_param_0,\n .param .u64 a_param_1\n)"
    library = SimpleNamespace(
        get_llvm_str=str, get_asm_strs=lambda **_: [ptx], _linking_files=(), needs_cudadevrt=False
    )
    with pytest.raises(ValueError, match="other arguments than the 3 words"):
        compiled("a_kernel", library, (INT, INT, INT), (9, 0))


def test_versions_are_equal() -> None:
    ours, theirs = (tomllib.loads((ROOT / path).read_text()) for path in ("pyproject.toml", "cubins/pyproject.toml"))
    version = ours["project"]["version"]
    assert theirs["project"]["version"] == version
    assert ours["project"]["optional-dependencies"]["cubins"] == [f"mbe-stage-cubins=={version}"]
