"""What is said when device memory runs out, and how the way out cuts its share. Needs no GPU."""

import sys
import types
import weakref

import pytest

from pipeline.errors import DeviceMemoryExhausted, exit_code
from pipeline.rapids.memory import DevicePool, out_of_device_memory
from pipeline.rapids.plan import WritingPlan

LIMIT_REACHED = (
    "std::bad_alloc: out_of_memory: RMM failure at:limiting_resource_adaptor.hpp:152: Exceeded memory limit "
    "(failed to allocate 1.000 GiB)"
)
GPU_FULL = "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8 bytes) at: cuda_async: out of memory"
POOL = DevicePool(3 << 30, None)


@pytest.fixture(autouse=True)
def rmm(monkeypatch):
    """A GPU with 1 of 8 GiB free, as RMM would say."""
    package, module = types.ModuleType("rmm"), types.ModuleType("rmm.mr")
    module.available_device_memory = lambda: (1 << 30, 8 << 30)
    package.mr = module
    monkeypatch.setitem(sys.modules, "rmm", package)
    monkeypatch.setitem(sys.modules, "rmm.mr", module)


def fail_in(error: BaseException) -> None:
    with out_of_device_memory(POOL):
        raise error


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_a_limit_that_is_reached_is_to_be_raised(kind):
    with pytest.raises(DeviceMemoryExhausted) as refusal:
        fail_in(kind(LIMIT_REACHED))
    message = str(refusal.value)
    assert message.startswith("device memory: the limit of 3,072 MiB (execution.device_memory) is reached in ")
    assert "raise it (the GPU has 1,024 of 8,192 MiB free)" in message
    assert (refusal.value.may_pass, exit_code(refusal.value)) == (False, 4)


def test_a_full_gpu_asks_for_a_lower_limit():
    with pytest.raises(DeviceMemoryExhausted, match=r"lower execution\.device_memory to what is free") as refusal:
        fail_in(MemoryError(GPU_FULL))
    assert "with 1,024 of 8,192 MiB free, before the limit of 3,072 MiB" in str(refusal.value)
    assert refusal.value.may_pass


def test_the_place_is_named():
    module = {"__name__": "mbe_stage.device.keys", "text": LIMIT_REACHED}
    exec("def work():\n    raise MemoryError(text)", module)
    with pytest.raises(DeviceMemoryExhausted, match=r"is reached in mbe_stage\.device\.keys\.work;"):
        call(module["work"])


def call(work) -> None:
    with out_of_device_memory(POOL):
        work()


@pytest.mark.parametrize(
    "error", [MemoryError("cannot allocate an array"), RuntimeError("a defect"), ValueError("odd")]
)
def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as caught:
        fail_in(error)
    assert caught.value is error


class Array:
    """Stands for an array in device memory."""


def test_the_error_keeps_nothing_of_the_failed_call_alive():
    kept: list[weakref.ref] = []

    def work() -> None:
        array = Array()
        kept.append(weakref.ref(array))
        raise MemoryError(LIMIT_REACHED)

    with pytest.raises(DeviceMemoryExhausted) as refusal:
        call(work)
    assert refusal.value.__traceback__ is not None
    assert kept[0]() is None


@pytest.mark.parametrize("members", [False, True])
@pytest.mark.parametrize("budget", [1 << 28, 1 << 30, 1 << 33, 1 << 37])
def test_what_is_under_way_at_once_fits_the_budget(budget, members):
    plan = WritingPlan.of(budget, members)
    row_bytes = 7 if members else 1
    in_works = plan.piece_bytes * row_bytes * (2 + plan.n_writers)
    assert in_works + plan.sort_bytes <= budget
    assert plan.piece_bytes <= 512 << 20
    assert plan.piece_bytes >= 1 << 16


def test_more_memory_makes_larger_parts_up_to_a_limit():
    sizes = [WritingPlan.of(1 << bits, members=False).piece_bytes for bits in range(20, 40)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1 << 16
    assert sizes[-1] == 512 << 20
