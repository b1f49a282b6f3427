"""Names of a package that are imported from its modules on first use (PEP 562)."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which the command line has no time for before it hears signals
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, names: Mapping[str, Sequence[str]], public: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    names : mapping of str to sequence of str
        The names that come from each module of the package.
    public : sequence of str
        Its ``__all__``.
    """

    def get(name: str) -> Any:
        for module, of_module in names.items():
            if name in of_module:
                value = getattr(import_module(f"{package}.{module}"), name)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return get, listed
