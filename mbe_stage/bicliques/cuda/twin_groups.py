"""The user's vertices behind those of the reduced graph, on the device: how many, and which.

Rows and columns are numbered together here, the rows first, so that one launch and one scan do for both sides.
"""

from __future__ import annotations

from typing import NamedTuple

import cupy as cp
from numba import cuda

from mbe_stage.device.jit import I32, I64, INT, bundle, kernel


class DeviceGroups(NamedTuple):
    """The vertices behind each row, or behind each column.

    Attributes
    ----------
    offsets : (n + 1,) int64
        Where each group begins in `members`. Groups are not empty.
    members : int32
        Of both sides' groups. Their order within a group is open.
    alone : (n,) int32
        The vertex that is alone in its group, -1 for a group of several: most are found without their offsets.
    """

    offsets: cp.ndarray
    members: cp.ndarray
    alone: cp.ndarray


GROUPS = bundle(DeviceGroups, I64, I32, I32)
"""The type in which kernels take them."""


@kernel(I32, I32, INT, INT, INT, I32)
def multiplicities_thread_per_vertex(numbers, multiplicities, rows_at, n_row_vertices, n_rows, result):
    """Weights by row and column from those by vertex; `numbers` are -1 where a vertex is neither.

    Parameters
    ----------
    numbers : (n_vertices,) int32, global
    multiplicities : (n_vertices,) int32, global
    rows_at : int
        Where the vertices of the rows' side begin in the common numbering.
    n_row_vertices : int
        How many that side has.
    result : (n_rows + n_columns,) int32, global
    """
    vertex = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if vertex >= numbers.size:
        return
    number = numbers[vertex]
    if number >= 0:
        is_row = rows_at <= vertex < rows_at + n_row_vertices
        result[number if is_row else n_rows + number] = multiplicities[vertex]


@kernel(I32, I32, INT, INT, INT, INT, I64, I32, I32, I32)
def groups_thread_per_vertex(
    numbers, twins, rows_at, n_row_vertices, columns_at, n_rows, offsets, n_others, members, alone
):
    """Each vertex into the group of its twin. `n_others` begins as zeros.

    A twin is the first of its group and stands there first; the others come in any order.

    Parameters
    ----------
    numbers : (n_vertices,) int32, global
    twins : (n_vertices,) int32, global
    rows_at : int
        Where the vertices of the rows' side begin in the common numbering.
    n_row_vertices : int
        How many that side has.
    columns_at : int
        Where the other side's begin.
    offsets : (n_groups + 1,) int64, global
    n_others : (n_groups,) int32, global
    members : int32, global
    alone : (n_groups,) int32, global
    """
    vertex = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if vertex >= numbers.size:
        return
    twin = twins[vertex]
    group = numbers[twin]
    if group < 0:
        return
    first_vertex = rows_at
    if not rows_at <= vertex < rows_at + n_row_vertices:
        first_vertex = columns_at
        group += n_rows
    begin = offsets[group]
    if twin == vertex:
        members[begin] = vertex - first_vertex
        alone[group] = vertex - first_vertex if offsets[group + 1] - begin == 1 else -1
    else:
        members[begin + 1 + cuda.atomic.add(n_others, group, 1)] = vertex - first_vertex
