"""Whether the address space that a process may use (``ulimit -v``) is too small for anything but help."""

from __future__ import annotations

import resource

__all__ = ["refusal"]

# Libraries and their threads reserve more than they use: with less, importing them fails, or never ends (OpenBLAS asks
# again and again for what it does not get, and hears no signal meanwhile).
_LEAST_BYTES = 1 << 30


def refusal() -> str | None:
    """What to say, or None where there is enough."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= _LEAST_BYTES:
        return None
    return (
        f"error: out of memory: the address space is limited to {limit:,} bytes (ulimit -v); expected "
        f"{_LEAST_BYTES:,} at least; raise the limit"
    )
