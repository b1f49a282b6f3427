"""The tables of a published run by name, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from mbe_stage.pipeline.publish.reading import reading

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.publish.manifest import Manifest

__all__ = ["PublishedTables"]

_PARQUET = ".parquet"


class PublishedTables(Mapping[str, "pa.Table"]):
    """The tables of a run: ``tables["groups"]`` reads ``groups.parquet``, ``tables["bicliques"]`` all of its parts.

    Each look-up reads from the disk, and nothing is kept.

    Parameters
    ----------
    manifest : Manifest
        Its files say which tables there are.
    """

    def __init__(self, run_dir: Path, manifest: Manifest) -> None:
        self._run_dir = run_dir
        paths = (entry.path for entry in manifest.files if entry.path.endswith(_PARQUET))
        self._names = tuple(dict.fromkeys(path.partition("/")[0].removesuffix(_PARQUET) for path in paths))

    def __getitem__(self, name: str) -> pa.Table:
        """The whole table.

        Raises
        ------
        KeyError
            The run has no such table; the message names those that it has.
        PublishError
            It cannot be read any more.
        """
        if name not in self._names:
            raise KeyError(f"{name!r} is no table of {self._run_dir}; expected one of {', '.join(self._names)}")
        single = self._run_dir / f"{name}{_PARQUET}"
        with reading(self._run_dir):
            return pq.read_table(single if single.is_file() else self._run_dir / name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
