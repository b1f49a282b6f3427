"""Sizes of what the CUDA engine works in, each too small somewhere for the graphs that the emulator searches.

They stand here for tests without the emulator, which importing `emulated_cuda` needs.
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
