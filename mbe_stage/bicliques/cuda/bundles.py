"""The types of the bundles in which kernels take their arrays (`layout`)."""

from __future__ import annotations

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.jit import I32, I32_2D, I32_3D, I64, I64_2D, U32, U32_2D, bundle

__all__ = ["OUTPUT", "POOL", "WARPS"]

POOL = bundle(at.Pool, I32, I64_2D, I32, I32, I32, I32, I64)
WARPS = bundle(at.Warps, U32_2D, I32_2D, I32_3D, I64_2D, I32_2D, U32_2D, I32_2D, I32_2D, I32_2D, U32, I32)
OUTPUT = bundle(at.Output, I32, I64, I32, I32)
