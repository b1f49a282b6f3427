"""Problems and derived outputs of other packages, for tests of configuration and command line.

`Installed` puts entry points on Python's path; the objects that they name are defined here.
"""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field, field_validator

from mbe_stage import BicliqueQuery, CountSink
from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.problems.base import DerivedPublication, Publication
from mbe_stage.pipeline.problems.installed import forget_publications
from mbe_stage.problem import DerivedOutput, Problem, forget

__all__ = ["Installed", "PathsSection", "RankedSection", "StarsSection", "WedgesSection", "changed"]


class PathsSection(Section):
    """One field of each kind that becomes an option."""

    length: int = Field(3, ge=1, le=9, description="Edges of a path.", json_schema_extra={"metavar": "L"})
    weight_at_least: float | None = Field(None, description="Least weight of a path.")
    name: str = Field("path", description="Of the paths.")
    closed: bool = Field(False, description="Also closed ones.")
    ends: bool = Field(True, description="Whether ends are told.")
    loops: bool | None = Field(None, description="Whether there may be loops.")
    kind: Literal["simple", "induced"] = Field("simple", description="Which paths.")
    through: tuple[int | str, ...] = Field((), description="Must lead through this key.")
    steps: tuple[int, int] = Field((1, 2), description="From so many steps to so many.")
    shares: dict[str, float] = Field({}, description="Of each kind.")
    seed: int = 0


class WedgesSection(BaseModel):
    """A plain pydantic model, neither frozen nor strict about keys."""

    fewest: int = Field(1, description="Fewest wedges.")

    @field_validator("fewest")
    @classmethod
    def _is_plausible(cls, value: int) -> int:
        assert value < 1000, "so many are nowhere"
        if value < 0:
            raise ValueError("expected 0 or more")
        return value


class RankedSection(Section):
    at_least: int = Field(2, ge=1, description="Smallest side.")
    by: Literal["left", "right"] | None = Field(None, description="Ranked by.")


def _not_asked_for(*_: Any) -> Any:
    raise AssertionError("a test of options enumerates nothing")


def _problem(name: str, limit: str | None = None, about: str = "") -> Problem:
    engines = {"reference": "mbe_stage.bicliques.reference"}
    return Problem(name, engines, _not_asked_for, limit, f"{__name__}:{name.upper()}_PUBLICATION", about)


T = TypeVar("T", Publication, DerivedPublication)


def changed(publication: T, **members: Any) -> T:
    """A copy of a publication with other members; functions are called without `self`."""
    copied = copy(publication)
    vars(copied).update(members)
    return copied


class _NeverRun(Publication):
    query = schemas = compile_steps = collector = detail = count_sink = page = check = staticmethod(_not_asked_for)


class _Ranked(DerivedPublication):
    schemas = compile_steps = collector = page = check = staticmethod(_not_asked_for)


def _publication(name: str, section: type[BaseModel], unit: tuple[str, str]) -> Publication:
    facts = {"problem": name, "section_name": name, "section": section, "unit": unit, "counted": unit[1]}
    return changed(_NeverRun(), about=f"Find {unit[1]}.", **facts)


PATHS = _problem("paths", "max_bicliques", "Every path of a length.")
PATHS_PUBLICATION = _publication("paths", PathsSection, ("path", "paths"))
WEDGES = _problem("wedges", about="Two edges that meet.")
WEDGES_PUBLICATION = _publication("wedges", WedgesSection, ("wedge", "wedges"))
RANKED = DerivedOutput("ranked_groups", "bicliques", f"{__name__}:RANKED_PUBLICATION")
RANKED_PUBLICATION = changed(
    _Ranked(), name="ranked_groups", problem="bicliques", about="The groups by rank.", section=RankedSection
)


class StarsSection(Section):
    """Section of a problem that can be run: bicliques under another name."""

    points: int = Field(1, ge=1, description="Fewest points of a star.")


STARS = Problem(
    "stars",
    {"reference": "mbe_stage.bicliques.reference"},
    check=lambda _graph, _query: None,
    limit=None,
    publication=f"{__name__}:STARS_PUBLICATION",
    about="Groups by another name.",
)
STARS_PUBLICATION = changed(
    _publication("stars", StarsSection, ("star", "stars")),
    query=lambda asked, _edges: BicliqueQuery(min_left=asked.points),
    schemas=lambda _config, key_types: {"stars.parquet": pa.schema({"who": key_types[0], "n": pa.int32()})},
    count_sink=CountSink,
)


class Installed:
    """Installs packages with entry points for the duration of a test."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        directory.mkdir()
        monkeypatch.syspath_prepend(str(directory))

    def add(self, package: str, *entries: str) -> None:
        """Add a package; an entry is ``name = module:attribute`` or the name of one defined here."""
        folder = self.directory / f"{package}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        lines = [entry if "=" in entry else _OURS[entry] for entry in entries]
        (folder / "entry_points.txt").write_text("\n".join(["[mbe_stage.problems]", *lines, ""]))
        self.forget()

    def forget(self) -> None:
        """Discard cached entry points."""
        forget()
        forget_publications()


_OURS = {
    "paths": f"paths = {__name__}:PATHS",
    "wedges": f"wedges = {__name__}:WEDGES",
    "stars": f"stars = {__name__}:STARS",
    "ranked_groups": f"ranked_groups = {__name__}:RANKED",
}
