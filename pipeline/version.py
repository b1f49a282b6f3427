"""Versions of installed packages."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["version_of"]


def version_of(package: str) -> str:
    """The version of an installed package, or ``not installed``: so run from a source tree that never was."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
