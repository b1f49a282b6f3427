"""Versions of installed packages, and files of this one that messages name."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["default_configuration", "version_of"]

_NAME = "configs/default.yaml"


def default_configuration() -> Path:
    """Return the path of the default configuration, in the sources or in the installed wheel."""
    in_the_sources = Path(__file__).resolve().parents[1] / _NAME
    if in_the_sources.is_file():
        return in_the_sources
    installed = (file for file in metadata.files("mbe-stage") or () if str(file).endswith(_NAME))
    return next((Path(str(file.locate())).resolve() for file in installed), Path(_NAME))


def version_of(package: str) -> str:
    """Return the version of a package, or ``not installed``, as in a source tree without an installation."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
