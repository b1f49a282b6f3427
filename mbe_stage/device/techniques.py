"""Techniques of a search that can be switched off to measure their effect. The results stay the same."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class TechniqueSwitches:
    """One switch per technique; all are on by default."""

    @classmethod
    def without(cls, name: str) -> Self:
        """Return all techniques but one.

        Raises
        ------
        ValueError
            No technique has that name.
        """
        names = [field.name for field in fields(cls)]
        if name not in names:
            raise ValueError(f"technique is {name!r}: expected one of {', '.join(names)}")
        return cls(**{name: False})

    @functools.cache  # noqa: B019 - there are few of them
    def _mask_of(self, *names: str) -> int:
        """Return one bit for each active technique, in the order of the names."""
        return sum(1 << bit for bit, name in enumerate(names) if getattr(self, name))
