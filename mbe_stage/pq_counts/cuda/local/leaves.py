"""Number of a leaf's bicliques for each of its vertices (as in `cpu.local.leaves`).

A leaf of h held and o optional rows, g held and r optional columns is C(o, p - h) C(r, q - g) bicliques. A held row and
a held column are in all of them. An optional row is in C(o - 1, p - h - 1) C(r, q - g), and so on. So the number for a
row and a column depends on their kinds alone.

No number or sum exceeds the number of all bicliques. If that is below 2^63, nothing overflows. Otherwise all numbers
are computed modulo several primes below 2^31, in a search for each (`digits`).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import sum_all
from mbe_stage.pq_counts.cuda.local.layout import HELD, MODULUS, Values

_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def reduced(number, sums):
    """Reduce a number by the modulus, if there is one; int64, not below 0."""
    modulus = sums.constants[MODULUS]
    if modulus != 0:
        return _L(number % modulus)
    return _L(number)


@cuda.jit(device=True, forceinline=True)
def values_of(is_leaf, chosen, work):
    """Return the numbers of bicliques of a lane's leaf; zeros without a leaf."""
    sums, launch = work.sums, work.launch
    whole_whole, whole_with, with_whole, with_with = _L(0), _L(0), _L(0), _L(0)
    bounds = launch.bounds
    k, m = _I(bounds.most_rows - chosen.held_rows), _I(bounds.most_columns - chosen.held_columns)
    if is_leaf and chosen.optional_rows >= k and chosen.optional_columns >= m:
        n_rows, n_columns = _L(bounds.most_rows + 1), _L(bounds.most_columns + 1)
        rows, columns = _L(_L(chosen.optional_rows) * n_rows + k), _L(_L(chosen.optional_columns) * n_columns + m)
        of_rows, of_columns = sums.row_ways[rows], sums.column_ways[columns]
        with_row, with_column = _L(0), _L(0)
        if k > 0:
            with_row = sums.row_ways[rows - n_rows - 1]
        if m > 0:
            with_column = sums.column_ways[columns - n_columns - 1]
        whole_whole = reduced(of_rows * of_columns, sums)
        whole_with = reduced(of_rows * with_column, sums)
        with_whole = reduced(with_row * of_columns, sums)
        with_with = reduced(with_row * with_column, sums)
    return Values(whole_whole, whole_with, with_whole, with_with)


@cuda.jit(device=True, forceinline=True)
def of_kinds(values, row_kind, column_kind):
    """Return the number for a row and a column of given kinds."""
    if row_kind == HELD:
        return values.held_held if column_kind == HELD else values.held_optional
    return values.optional_held if column_kind == HELD else values.optional_optional


@cuda.jit(device=True, forceinline=True)
def added(one, other):
    """Add the values of two leaves."""
    return Values(
        one.held_held + other.held_held,
        one.held_optional + other.held_optional,
        one.optional_held + other.optional_held,
        one.optional_optional + other.optional_optional,
    )


@cuda.jit(device=True, forceinline=True)
def sum_of_lanes(values, launch):
    """Return the sum of all lanes' values to all lanes; the number of two optional vertices only with edges."""
    both = sum_all(values.optional_optional) if launch.with_edges else _L(0)
    return Values(sum_all(values.held_held), sum_all(values.held_optional), sum_all(values.optional_held), both)
