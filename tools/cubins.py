"""Build the wheel `mbe-stage-cubins`, every kernel as machine code: ``python -m tools.cubins [FOLDER [KERNELS]]``.

It needs the dependency groups dev and cuda-compile, but no GPU, and takes some minutes. The wheel fits only the sources
of this checkout. KERNELS is a regular expression: tests build a few kernels.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from mbe_stage.device import jit
from mbe_stage.device.cubins import digest_of_sources
from mbe_stage.device.numba_private import kinds_of
from tests.mbe_stage import compiled_cuda

ROOT = Path(__file__).resolve().parents[1]
# 10.0 is untested, because no such device was available.
CAPABILITIES = ((8, 0), (9, 0), (10, 0))
LICENCES = {"LICENSE": "LICENSE.numba-cuda", "LICENSE.numba": "LICENSE.numba"}
MOST_BYTES = 20_000_000
_ENTRY = re.compile(r"\.entry (\w+)\(([^)]*)\)")
_LIBRARIES = re.compile(r"@(__nv_\w+|cuda\w+|nrt_\w+)", re.IGNORECASE)


def main(folder: str = str(ROOT / "dist"), kernels: str = "") -> None:
    """Compile for each capability and build the wheel."""
    out = Path(folder).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary, "cubins")
        shutil.copytree(ROOT / "cubins", source, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "LICENSE", source)
        # Licences of numba-cuda and of Numba, whose code it includes.
        for licence in importlib.metadata.files("numba-cuda") or ():
            if licence.parent.name == "licenses":
                shutil.copy(licence.locate(), source / LICENCES[licence.name])
        write(source / "mbe_stage_cubins", kernels)
        wheel = build(source, out)
    n_bytes = wheel.stat().st_size
    if n_bytes > MOST_BYTES:
        sys.exit(f"{wheel.name} has {n_bytes:,} bytes: expected at most {MOST_BYTES:,}")
    print(f"{wheel}  {n_bytes:,} bytes")


def write(folder: Path, wanted: str) -> None:
    """Write the code of the kernels whose names match, and its index."""
    gc.disable()
    compiled_cuda.use_device()
    index = {"sources": digest_of_sources(), "compilers": compiled_cuda.compilers(), "kernels": {}}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        waiting = {}
        for capability in CAPABILITIES:
            for kernel, call in compiled_cuda.calls(capability).items():
                name = jit.known_kernels()[kernel].name
                if re.search(wanted, name):
                    if (capability, name) in waiting:
                        raise ValueError(f"two kernels have the name {name}: expected one each")
                    library = compiled_cuda.lowered(kernel.py_func, *call)
                    waiting[capability, name] = threads.submit(compiled, name, library, call[0], capability)
        for (capability, name), result in waiting.items():
            symbol, code = result.result()
            checksum = hashlib.sha256(code).hexdigest()
            (folder / f"{checksum}.cubin").write_bytes(code)
            index["kernels"].setdefault(".".join(map(str, capability)), {})[name] = checksum, symbol
    (folder / "index.json").write_text(json.dumps(index, indent=1))


def compiled(name: str, library: Any, signature: tuple[Any, ...], capability: tuple[int, int]) -> tuple[str, bytes]:
    """Return symbol and code of a kernel that is complete and takes the words of a launch.

    Raises
    ------
    ValueError
        It needs a library, whose licence README.md does not name; or it takes other arguments; or ptxas refuses it.
    """
    linked = {*_LIBRARIES.findall(library.get_llvm_str()), *map(str, library._linking_files)}
    if linked or library.needs_cudadevrt:
        raise ValueError(f"{name} needs {linked or 'cudadevrt'}: name its licence in cubins/README.md, and allow it")
    (ptx,) = library.get_asm_strs(cc=capability)
    ((symbol, parameters),) = _ENTRY.findall(ptx)
    n_words = sum(1 if kind is None else 5 + 2 * kind[1] for kind in kinds_of(signature))
    if parameters.count(".param .u64 ") != n_words or ".extern" in ptx:
        raise ValueError(f"{name} takes other arguments than the {n_words} words of a launch: {parameters}")
    with tempfile.TemporaryDirectory() as directory:
        source, code = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_text(ptx)
        arch = "sm_{}{}".format(*capability)
        command = [str(compiled_cuda.find_ptxas()), f"-arch={arch}", source, "-o", code]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"ptxas refuses {name} for {arch}: {done.stderr}")
        return symbol, code.read_bytes()


def build(source: Path, out: Path) -> Path:
    """Build the wheel of a folder. Setuptools builds in the current directory."""
    from setuptools import build_meta

    out.mkdir(parents=True, exist_ok=True)
    os.chdir(source)
    with redirect_stdout(io.StringIO()):
        return out / build_meta.build_wheel(str(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
