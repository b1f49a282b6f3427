"""Functions that the plain Python engines `reference` of all problems share."""

from __future__ import annotations

from mbe_stage.options import Execution


def unavailable_reason() -> str | None:
    """Return None: plain Python runs everywhere."""
    return None


def compile_steps(query: object = None, detail: object = None) -> tuple[()]:  # noqa: ARG001 - the seam's signature
    """Return no steps: there is no compiled code."""
    return ()


def device(execution: Execution) -> str:  # noqa: ARG001 - the same question is put to every engine
    """Return the name of the device."""
    return "cpu, plain Python"
