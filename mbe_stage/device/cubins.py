"""Machine code of kernels from the distribution `mbe-stage-cubins`, so that a first run need not compile them.

Code is used if it was built from the same sources and fits the device. CUDA runs code for the same major compute
capability and the same or a lower minor one; on Tegra, only code for exactly that chip. Otherwise the kernel is
compiled, and one log line gives the reason.

Machine code contains launch bounds, shared memory and constants. The layout of arguments is defined in `numba_private`,
which is one of the sources. So code from the same sources is launched like a compiled kernel.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_DISTRIBUTION = "mbe-stage-cubins"
_SOURCES = Path(__file__).resolve().parents[1]
# The upper layers, linked into a checkout; no kernel depends on them.
_ABOVE = ("pipeline", "flows")
_TEGRA = ((8, 7), (10, 1), (11, 0))

Capability = tuple[int, int]
Index = Mapping[str, Mapping[str, Sequence[str]]]
"""SHA-256 and symbol of each kernel's code, by capability (``"9.0"``) and name (`jit.KernelCall`)."""


@functools.cache
def handle_of(name: str, capability: Capability) -> int | None:
    """Load the code of a kernel; return its handle for the driver, or None if the kernel must be compiled.

    If the distribution is damaged, or the driver refuses the code, a warning is logged.
    """
    try:
        folder = _folder()
        index = None if folder is None else _index(folder)
        if folder is None or index is None:
            return None
        built_for = fitting(index, name, capability)
        if built_for is None:
            _report(logging.DEBUG, f"has no code for compute capability {capability[0]}.{capability[1]}")
            return None
        checksum, symbol = index[built_for][name]
        code = (folder / f"{checksum}.cubin").read_bytes()
        if hashlib.sha256(code).hexdigest() != checksum:
            raise ValueError(f"{checksum}.cubin has another checksum")
        return _load(code, symbol)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as damage:
        _report(logging.WARNING, f"is damaged ({damage}): install it again")
        return None
    except RuntimeError as refusal:
        _report(logging.WARNING, f"cannot be used with this driver ({refusal}): update the driver")
        return None


def fitting(index: Index, name: str, capability: Capability) -> str | None:
    """Return the highest capability whose code for a kernel runs on the device, or None."""
    built = [tuple(map(int, each.split("."))) for each, kernels in index.items() if name in kernels]
    major, minor = capability
    usable = [each for each in built if each[0] == major and each[1] <= minor]
    if capability in _TEGRA:
        usable = [each for each in usable if each == capability]
    return ".".join(map(str, max(usable))) if usable else None


@functools.cache
def digest_of_sources() -> str:
    """Return the checksum of all sources of kernels."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        name = path.relative_to(_SOURCES)
        if name.parts[0] not in _ABOVE:
            digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _folder() -> Path | None:
    found = importlib.util.find_spec(_DISTRIBUTION.replace("-", "_"))
    if found is None or found.origin is None:
        _report(logging.DEBUG, "is not installed")
        return None
    return Path(found.origin).parent


@functools.cache
def _index(folder: Path) -> Index | None:
    index = json.loads((folder / "index.json").read_bytes())
    if index["sources"] != digest_of_sources():
        _report(logging.DEBUG, "was built from other sources")
        return None
    return index["kernels"]


def _load(code: bytes, symbol: str) -> int:
    """Load code into the driver, which keeps it until the process ends."""
    from cuda.bindings import driver

    error, library = driver.cuLibraryLoadData(code, [], [], 0, [], [], 0)
    if not error:
        error, kernel = driver.cuLibraryGetKernel(library, symbol.encode())
    if not error:
        # The driver may delay loading until a function of the current context is requested.
        error, _ = driver.cuKernelGetFunction(kernel)
    if error:
        raise RuntimeError(error.name)
    return int(kernel)


@functools.cache
def _report(level: int, reason: str) -> None:
    log.log(level, "kernels are compiled here: %s %s", _DISTRIBUTION, reason)
