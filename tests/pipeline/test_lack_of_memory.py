"""Arrow's errors about lack of memory, whatever their type, are raised as MemoryError."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mbe_stage.pipeline.execution import lack_of_memory


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("realloc of size 64 failed"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
        OSError("Failed to launch worker thread: Resource temporarily unavailable"),
    ],
)
def test_a_lack_of_memory_is_passed_on_as_one(error: Exception) -> None:
    with pytest.raises(MemoryError) as raised:
        lack_of_memory.pass_on(error)
    assert error in (raised.value, raised.value.__cause__)


def test_other_errors_are_left_to_the_caller() -> None:
    lack_of_memory.pass_on(pa.ArrowInvalid("CSV parse error: row #3"))
