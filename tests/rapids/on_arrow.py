"""Cleaning of the cuDF backend with a small cuDF stand-in over Arrow and NumPy.

It runs the backend's column code and the shared rules without a GPU. libcudf's own work (parsing, buffers, hashing on
the device) is replaced here and tested on a GPU.
"""

from __future__ import annotations

import enum
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mbe_stage.bicliques import keys as host_keys

PACKAGE = "mbe_stage.pipeline.backends.cudf"
_NAMES = "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT32 FLOAT64 STRING BOOL8 TIMESTAMP_DAYS"
_NAMES += " TIMESTAMP_SECONDS TIMESTAMP_MILLISECONDS TIMESTAMP_MICROSECONDS TIMESTAMP_NANOSECONDS"
TypeId = enum.Enum("TypeId", _NAMES)  # type: ignore[misc]
_UNITS = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}


class Series:
    """A column with the few methods that cleaning uses."""

    def __init__(self, values: Any) -> None:
        self.array = values if isinstance(values, pa.Array) else pa.array(np.asarray(values))

    @property
    def iloc(self) -> Any:
        """Positional access by slices."""
        array = self.array

        class Rows:
            def __getitem__(self, rows: slice) -> Series:
                return Series(array[rows])

        return Rows()

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Series:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return cls(array.cast(pa.large_string()) if pa.types.is_string(array.type) else array)

    def to_arrow(self) -> pa.Array:
        return self.array

    def reset_index(self, drop: bool) -> Series:
        assert drop
        return self

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, mask: Series) -> Series:
        return Series(self.array.filter(mask.array))

    @property
    def dtype(self) -> pa.DataType:
        return self.array.type

    @property
    def values(self) -> np.ndarray:
        return self.array.to_numpy(zero_copy_only=False)

    @property
    def str(self) -> Series:
        return self

    @property
    def list(self) -> Series:
        return self

    @property
    def leaves(self) -> Series:
        return Series(self.array.flatten())

    def contains(self, pattern: str) -> np.ndarray:
        return np.array([re.search(pattern, text) is not None for text in self.array.to_pylist()], bool)

    def replace(self, text: str, by: str, regex: bool) -> Series:
        assert not regex
        return Series(pc.replace_substring(self.array, text, by))

    def __add__(self, other: Series | str) -> Series:
        return Series(pc.binary_join_element_wise(self.array, _operand(other), pa.scalar("", pa.large_string())))

    def __radd__(self, other: str) -> Series:
        return Series(pc.binary_join_element_wise(_operand(other), self.array, pa.scalar("", pa.large_string())))

    def byte_count(self) -> np.ndarray:
        return pc.binary_length(self.array).to_numpy()

    def notnull(self) -> Series:
        return Series(self.array.is_valid())

    def astype(self, kind: str) -> Series:
        return Series(self.array.cast(kind))

    def take(self, positions: np.ndarray) -> Series:
        return Series(self.array.take(pa.array(positions)))


def _operand(other: Series | str) -> pa.Array | pa.Scalar:
    return other.array if isinstance(other, Series) else pa.scalar(other, pa.large_string())


class Frame:
    """A type that no source of these tests has."""


def kind_of(column: Series) -> Any:
    kind = column.array.type
    if pa.types.is_large_string(kind):
        return TypeId.STRING
    if pa.types.is_timestamp(kind):
        return TypeId[f"TIMESTAMP_{_UNITS[kind.unit]}"]
    names = {"float": "FLOAT32", "double": "FLOAT64", "date32[day]": "TIMESTAMP_DAYS", "bool": "BOOL8"}
    return TypeId[names.get(str(kind), str(kind).upper())]


def values_of(column: Series) -> np.ndarray:
    numbers = column.array.cast(pa.int64()) if pa.types.is_timestamp(column.array.type) else column.array
    return numbers.fill_null(0).to_numpy(zero_copy_only=False)


def text_buffers(texts: Series) -> tuple[np.ndarray, np.ndarray]:
    encoded = [b"" if text is None else text.encode() for text in texts.array.to_pylist()]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def non_empty(texts: Series) -> np.ndarray:
    return np.array([bool(text) for text in texts.array.to_pylist()], bool)


def _integer(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"-?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def written_integers(texts: Series) -> tuple[np.ndarray, np.ndarray]:
    found = [(number, text) for text in texts.array.to_pylist() for number in [_integer(text)]]
    return (
        np.array([number or 0 for number, _ in found], np.int64),
        np.array([number is not None and str(number) == text for number, text in found], bool),
    )


def integer_values(texts: Series) -> np.ndarray | None:
    numbers = [_integer(text) for text in texts.array.to_pylist()]
    return None if None in numbers else np.array(numbers, np.int64)


def ranks_of_texts(texts: Series) -> tuple[np.ndarray, Series]:
    distinct = texts.array.drop_null().unique()
    distinct = distinct.take(pc.sort_indices(distinct))
    return pc.index_in(texts.array, distinct).fill_null(-1).to_numpy(), Series(distinct)


def texts_of_integers(numbers: Series) -> Series:
    return Series(numbers.array.cast(pa.large_string()))


def module_of(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(contents)
    return module


def _numpy_as_cupy() -> ModuleType:
    functions = {name: getattr(np, name) for name in dir(np) if not name.startswith("__")}
    return module_of("cupy", **functions, asnumpy=np.asarray)


def _concatenated(columns: list[Series], ignore_index: bool) -> Series:
    assert ignore_index
    return Series(pa.concat_arrays([column.array for column in columns]))


def _stand_ins() -> dict[str, Any]:
    integers = frozenset(TypeId[name] for name in ("INT8", "INT16", "INT32", "INT64"))
    unsigned = frozenset(TypeId[name] for name in ("UINT8", "UINT16", "UINT32", "UINT64"))
    mocks = ("rmm", "rmm.pylibrmm", "rmm.pylibrmm.stream", "pylibcugraph", "mbe_stage.device.two_hop")
    return {name: MagicMock() for name in mocks} | {
        "cupy": _numpy_as_cupy(),
        "cudf": module_of("cudf", Series=Series, DataFrame=Frame, concat=_concatenated),
        "pylibcudf": MagicMock(TypeId=TypeId),
        "mbe_stage.bicliques.cuda.keys": host_keys,
        f"{PACKAGE}.buffers": module_of(
            "buffers",
            INTEGERS=integers | unsigned,
            SIGNED_INTEGERS=integers,
            is_text=lambda column: kind_of(column) == TypeId.STRING,
            kind_of=kind_of,
            values_of=values_of,
            text_buffers=text_buffers,
        ),
        f"{PACKAGE}.text": module_of(
            "text",
            non_empty=non_empty,
            ranks_of_texts=ranks_of_texts,
            written_integers=written_integers,
            integer_values=integer_values,
            texts_of_integers=texts_of_integers,
        ),
    }


@contextmanager
def cudf_backend() -> Iterator[Any]:
    """Return a `CudfBackend` that cleans with the stand-ins; modules that imported them are dropped afterwards."""
    package = importlib.import_module(PACKAGE)
    attributes = dict(vars(package))
    with pytest.MonkeyPatch.context() as patch:
        for name in _met():
            patch.delitem(sys.modules, name)
        for name in [name for name in attributes if not name.startswith("__")]:
            delattr(package, name)
        for name, module in _stand_ins().items():
            patch.setitem(sys.modules, name, module)
        try:
            yield importlib.import_module(f"{PACKAGE}.backend").CudfBackend()
        finally:
            vars(package).clear()
            vars(package).update(attributes)
            for name in _met():
                del sys.modules[name]


def _met() -> list[str]:
    return [name for name in sys.modules if name.startswith((f"{PACKAGE}.", "mbe_stage.device.graph"))]
