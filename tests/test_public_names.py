"""Names of the packages: imported lazily, and complete."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.patience import completed

ROOT = Path(__file__).parent.parent
PACKAGES = ["mbe_stage", "mbe_stage.groups", "mbe_stage.pipeline"]


def in_a_new_process(code: str) -> str:
    """Return the output of the code in a process that has not imported the packages."""
    return completed([sys.executable, "-c", code], cwd=ROOT, check=True).stdout.strip()


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_exists(name: str) -> None:
    package = importlib.import_module(name)
    assert sorted(package.__all__) == sorted(name for names in package._NAMES.values() for name in names)
    assert set(package.__all__) <= set(dir(package))
    for public in package.__all__:
        # Constants have no `__name__`.
        assert getattr(getattr(package, public), "__name__", public) == public
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - looked up


@pytest.mark.parametrize("name", PACKAGES)
def test_star_import(name: str) -> None:
    package = importlib.import_module(name)
    assert in_a_new_process(f"from {name} import *; print(sorted(vars()))").count("'") // 2 >= len(package.__all__)


@pytest.mark.parametrize("problem", ["bicliques.enumerate", "cliques.enumerate", "pq_counts.count"])
def test_problems_add_their_names_to_the_package(problem: str) -> None:
    package, module = (importlib.import_module(name) for name in ("mbe_stage", f"mbe_stage.{problem}"))
    given = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    assert given
    assert given.keys() <= set(package.__all__)
    assert all(getattr(package, name) is value for name, value in given.items())


def test_no_public_name_is_that_of_a_module() -> None:
    """Importing a submodule sets an attribute of the package, so no public name may equal a module's."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        modules = {path.stem for path in ROOT.joinpath(*name.split(".")).iterdir()}
        assert not modules & set(package.__all__)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_alone_imports_nothing_heavy(name: str) -> None:
    heavy = "{'numpy', 'numba', 'pyarrow', 'pydantic', 'scipy'}"
    assert in_a_new_process(f"import sys, {name}; print({heavy} & set(sys.modules))") == "set()"
