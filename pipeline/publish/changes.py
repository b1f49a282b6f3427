"""What the manifest and the report say of a run beside the one before it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["ComparedGroup", "Comparison"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparedGroup(_Frozen):
    """One of the largest bicliques that only one of the two runs has; lists hold the first few keys, as text.

    Attributes
    ----------
    status : str
        As `mbe_stage.pipeline.views.diff.Status`.
    left, right, came, went : tuple of str
        Members, and those that its partner had not and those that only its partner had.
    jaccard : float or None
        None without a partner.
    """

    status: str
    biclique_key: int
    n_left: int
    n_right: int
    left: tuple[str, ...]
    right: tuple[str, ...]
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    jaccard: float | None = None


class Comparison(_Frozen):
    """A run beside the last complete one that was asked the same.

    Attributes
    ----------
    run_id : str or None
        The run before; None where there is none.
    remarks : tuple of str
        What should be known first, a sentence each.
    counts : dict
        Bicliques by status; empty where the runs were not compared.
    """

    run_id: str | None
    remarks: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    n_same: int | None = None
    largest: tuple[ComparedGroup, ...] = ()
