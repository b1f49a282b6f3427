"""Import the names of a package from its modules on first use (PEP 562); in a checkout, support old module names."""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` is slow to import, and the command line must handle signals early
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["lazy"]

# Only a checkout has this file.
_OLD_NAMES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tools", "old_names.py")


def lazy(
    package: str, names: Mapping[str, Sequence[str]], public: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    names : mapping of str to sequence of str
        The names to import from each module of the package.
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


class _OldNames:
    """A finder of modules by their old names, after all other finders."""

    tool: Any = None

    @classmethod
    def find_spec(cls, name: str, *_: object) -> Any:
        if name.partition(".")[0] not in ("mbe_stage", "pipeline", "flows"):
            return None
        from importlib import util

        if cls.tool is None:
            spec: Any = util.spec_from_file_location("old_names", _OLD_NAMES)
            cls.tool = util.module_from_spec(spec)
            spec.loader.exec_module(cls.tool)
        return cls.tool.find_spec(name)


if os.path.exists(_OLD_NAMES):
    sys.meta_path.append(_OldNames)
