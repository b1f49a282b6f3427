"""Arrays on the device to the published tables, as cuDF frames of the schemas in `pipeline.schemas`."""

from __future__ import annotations

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.participation import long_form
from mbe_stage.bicliques.participation import Participation
from pipeline.rapids.columns import list_column

__all__ = ["biclique_frame", "histogram_frame", "members_frame", "vertex_frame"]


def biclique_frame(block: DeviceBlock, keys: cp.ndarray) -> cudf.DataFrame:
    """A block as rows of `bicliques/`; the members are not copied.

    Parameters
    ----------
    block : DeviceBlock
        With fewer than 2**31 members on each side; `columns.pieces` cuts a larger one.
    keys : (n_bicliques,) int64
    """
    return cudf.DataFrame(
        {
            "biclique_key": keys,
            "left": list_column(block.left_offsets, block.left_members),
            "right": list_column(block.right_offsets, block.right_members),
            "n_left": block.left_sizes,
            "n_right": block.right_sizes,
            "n_edges": block.n_edges,
        }
    )


def members_frame(bicliques: cudf.DataFrame) -> cudf.DataFrame:
    """Rows of `bicliques/` in long form, one row per member, in the same order."""
    block = DeviceBlock(*_ragged(bicliques, "left"), *_ragged(bicliques, "right"))
    keys, sides, members = long_form(block, bicliques["biclique_key"].values)
    names = cudf.Series(["left", "right"])
    return cudf.DataFrame({"biclique_key": keys, "side": names.take(sides).reset_index(drop=True), "vertex": members})


def histogram_frame(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> cudf.DataFrame:
    """`size_histogram`, ascending by size, from `DeviceSizeCounts.sorted_rows`."""
    return cudf.DataFrame(dict(zip(("n_left", "n_right", "n_bicliques"), rows, strict=True)))


def vertex_frame(
    keys: cudf.Series, degrees: cp.ndarray, two_hop_degrees: cp.ndarray | None, participation: Participation
) -> cudf.DataFrame:
    """`left_vertices` or `right_vertices`, by dense id.

    Parameters
    ----------
    keys : cudf.Series
        The user's keys; position is the dense id.
    degrees : (n,) int64
    two_hop_degrees : (n,) int64 or None
        None where they were too many to count.
    participation : Participation
    """
    n_bicliques = cp.asarray(participation.n_bicliques)
    none = cp.zeros(len(keys), cp.int64)
    two_hop = none if two_hop_degrees is None else cp.asarray(two_hop_degrees, cp.int64)
    return cudf.DataFrame(
        {
            "vertex": cp.arange(len(keys), dtype=cp.int32),
            "key": keys.reset_index(drop=True),
            "degree": cp.asarray(degrees, cp.int64),
            "two_hop_degree": _where(two_hop, cp.full(len(keys), two_hop_degrees is not None)),
            "n_bicliques": n_bicliques,
            "largest_biclique_key": _where(cp.asarray(participation.largest_keys), n_bicliques > 0),
            "largest_biclique_edges": cp.asarray(participation.largest_edges),
        }
    )


def _ragged(bicliques: cudf.DataFrame, side: str) -> tuple[cp.ndarray, cp.ndarray]:
    offsets = cp.zeros(len(bicliques) + 1, cp.int64)
    cp.cumsum(bicliques[f"n_{side}"].values, out=offsets[1:])
    return offsets, bicliques[side].list.leaves.values


def _where(values: cp.ndarray, is_valid: cp.ndarray) -> cudf.Series:
    """The values, null where they are not valid."""
    column, valid = (plc.Column.from_cuda_array_interface(array) for array in (values, is_valid))
    cp.cuda.get_current_stream().synchronize()
    return cudf.Series.from_pylibcudf(column.with_mask(*plc.transform.bools_to_mask(valid)))
