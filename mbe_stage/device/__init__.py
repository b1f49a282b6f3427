"""Code for a GPU that knows no problem: warps, grids, launches, compiling, and graphs in its memory."""

__all__ = ["WARP_SIZE"]

WARP_SIZE = 32
