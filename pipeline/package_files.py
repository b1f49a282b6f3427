"""Files that come with the package and that messages name."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["default_configuration", "version_of"]

_NAME = "configs/default.yaml"


def default_configuration() -> Path:
    """The file that shows every key of a configuration: in the sources, or where the wheel has put it."""
    in_the_sources = Path(__file__).resolve().parents[1] / _NAME
    if in_the_sources.is_file():
        return in_the_sources
    installed = (file for file in metadata.files("mbe-stage") or () if str(file).endswith(_NAME))
    return next((Path(str(file.locate())).resolve() for file in installed), Path(_NAME))


def version_of(package: str) -> str:
    """The version of an installed package, or ``not installed``: so run from a source tree that never was."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
