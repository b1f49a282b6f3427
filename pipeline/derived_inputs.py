"""The files that sections of derived outputs name: looked at before anything is read, and again for `--if-changed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from pipeline.config import Config

__all__ = ["DerivedInput", "inputs_of"]


class DerivedInput(BaseModel):
    """A list of keys that a run was given beside its edges.

    Attributes
    ----------
    source : str
        The path as given.
    rows : int
        Distinct ones.
    fingerprint : str
        Of what it says, whatever its format.
    n_not_in_graph : int
        Keys that are no vertex.
    not_in_graph : tuple of str
        The first few of these, with their side: ``left 'ann'``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    rows: int
    fingerprint: str
    n_not_in_graph: int = 0
    not_in_graph: tuple[str, ...] = ()


def inputs_of(config: Config) -> dict[str, dict[str, str]]:
    """Fingerprints of the files that derived outputs are given, by output and key of its section.

    Raises
    ------
    InputError
        One of them cannot be used.
    ConfigError
        Two outputs would write the same table.
    """
    from pipeline.installed_publications import derived_of

    found = {each.name: dict(each.inputs(config)) for each in derived_of(config)}
    return {name: inputs for name, inputs in found.items() if inputs}
