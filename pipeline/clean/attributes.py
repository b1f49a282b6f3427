"""Further columns of the input that may narrow a right key: attributes of few values, and a time.

The decision uses all rows, so it does not depend on their order, on the first look (`pipeline.io.further`) or on the
backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.measures import as_times
from mbe_stage.pipeline.clean.events import Attribute
from mbe_stage.pipeline.clean.time_buckets import from_seconds, unit_of
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.further import ATTRIBUTE, MOST_VALUES, TIME


def moments_of(columns: Iterable[tuple[str, pa.Array]]) -> np.ndarray | None:
    """Return the recognised time of each row, in microseconds since 1970; None unless every row has one."""
    values = next((values for role, values in columns if role.partition(" ")[0] == TIME), None)
    if values is None:
        return None
    try:
        times = as_times(pa.chunked_array([values]), lambda _, **texts: InputError.at(TIME, **texts))
    except (InputError, pa.ArrowException):
        return None
    if times.null_count:
        return None
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.int64()).to_numpy()
    numbers = times.to_numpy()
    if not numbers.size or unit_of([numbers], float(np.abs(numbers).max())) != "seconds":
        return None
    return from_seconds(numbers, np)


def attributes_of(columns: Iterable[tuple[str, pa.Array]]) -> Iterator[Attribute]:
    """Yield the attributes among further columns, given by role with the values of the remaining rows."""
    for role, values in columns:
        kind, _, name = role.partition(" ")
        if kind != ATTRIBUTE:
            continue
        if pa.types.is_floating(values.type):
            # Ratings read as 4.0 are the same as 4.
            values = pc.if_else(pc.is_finite(values), values, None)
        coded = pc.dictionary_encode(pc.fill_null(values.cast(pa.large_string()), ""))
        n_values = len(coded.dictionary)
        # If more than half of the values are distinct, they are ids.
        if not 2 <= n_values <= min(MOST_VALUES, len(values) // 2):
            continue
        texts = coded.dictionary.to_pylist()
        order = sorted(range(n_values), key=lambda code: texts[code].encode())
        ranks = np.empty(n_values, np.uint8)
        ranks[order] = np.arange(n_values)
        yield Attribute(name, ranks[coded.indices.to_numpy()], tuple(texts[code] for code in order))
