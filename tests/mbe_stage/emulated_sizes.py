"""Sizes of the CUDA engine's work areas, each too small for some of the emulator's graphs.

They are here for tests without the emulator, which `emulated_cuda` imports.
"""

from __future__ import annotations

from typing import Any

TINY: list[dict[str, Any]] = [
    {},
    {"words": 64},
    {"nodes": 2},
    {"words": 640},
    {"pool_extra": 64},
    {"quantum_seconds": 0.05},
    {"members": 64, "descriptors": 64, "chunk_members": 16},
]
