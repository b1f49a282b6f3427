"""Errors when device memory runs out, and the shares of each user of it. Needs no GPU."""

import re
import sys
import types
import weakref

import pytest

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline.backends.cudf.memory import DevicePool, naming_the_limit, out_of_device_memory
from mbe_stage.pipeline.backends.cudf.plan import MemoryShares, with_set_aside
from mbe_stage.pipeline.errors import DeviceMemoryExhausted, exit_code

LIMIT_REACHED = (
    "std::bad_alloc: out_of_memory: RMM failure at:limiting_resource_adaptor.hpp:152: Exceeded memory limit "
    "(failed to allocate 1.000 GiB)"
)
GPU_FULL = "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8 bytes) at: cuda_async: out of memory"
IN_USE = types.SimpleNamespace(allocation_counts=types.SimpleNamespace(current_bytes=5 << 29))
POOL = DevicePool(3 << 30, IN_USE)


@pytest.fixture(autouse=True)
def rmm(monkeypatch):
    """A fake RMM on a GPU with 1 of 8 GiB free."""
    package, module = types.ModuleType("rmm"), types.ModuleType("rmm.mr")
    module.available_device_memory = lambda: (1 << 30, 8 << 30)
    package.mr = module
    monkeypatch.setitem(sys.modules, "rmm", package)
    monkeypatch.setitem(sys.modules, "rmm.mr", module)


def fail_in(error: BaseException) -> None:
    with out_of_device_memory(POOL):
        raise error


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_an_exhausted_limit_asks_for_a_higher_one(kind):
    with pytest.raises(DeviceMemoryExhausted) as refusal:
        fail_in(kind(LIMIT_REACHED))
    message = str(refusal.value)
    assert message.startswith("device memory: the limit of 3,072 MiB (execution.device_memory) is reached in ")
    assert "which needs at least 3,584 MiB; raise it (the GPU has 1,024 of 8,192 MiB free)" in message
    assert (refusal.value.may_pass, exit_code(refusal.value)) == (False, 4)


@pytest.mark.parametrize(
    ("said", "needs"),
    [
        (
            "Exceeded memory limit 3.000000 GiB; Allocated bytes 2.500000 GiB; Requested bytes 600.000000 MiB",
            "3,160 MiB",
        ),
        ("Exceeded memory limit 3221225472; Allocated bytes 2684354560; Requested bytes 1073741824", "3,584 MiB"),
        ("Exceeded memory limit (failed to allocate 8 bytes)", None),
        ("Exceeded memory limit", None),
    ],
)
def test_the_error_names_the_missing_memory(said, needs):
    with pytest.raises(DeviceMemoryExhausted, match=f"which needs at least {needs}" if needs else "which needs more;"):
        fail_in(MemoryError(f"std::bad_alloc: out_of_memory: {said}"))


def test_a_full_gpu_asks_for_a_lower_limit():
    with pytest.raises(DeviceMemoryExhausted, match=r"lower execution\.device_memory to what is free") as refusal:
        fail_in(MemoryError(GPU_FULL))
    assert "with 1,024 of 8,192 MiB free, before the limit of 3,072 MiB" in str(refusal.value)
    assert refusal.value.may_pass


def test_the_place_is_named():
    module = {"__name__": "mbe_stage.bicliques.cuda.keys", "text": LIMIT_REACHED}
    exec("def work():\n    raise MemoryError(text)", module)
    with pytest.raises(DeviceMemoryExhausted, match=r"is reached in mbe_stage\.bicliques\.cuda\.keys\.work,"):
        call(module["work"])


def call(work) -> None:
    with out_of_device_memory(POOL):
        work()


@pytest.mark.parametrize(
    "error", [MemoryError("cannot allocate an array"), RuntimeError("a defect"), ValueError("odd")]
)
def test_other_errors_are_unchanged(error):
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


GRAPH = 25 << 20
# nvCOMP's zstd and snappy, and the host.
ENCODERS = [540 << 20, 8 << 20, 0]
outputs = pytest.mark.parametrize(("members", "sort"), [(False, False), (False, True), (True, False), (True, True)])


def alive_at_once(shares: MemoryShares, encoder_bytes: int, members: bool, sort: bool) -> list[int]:
    """Return the bytes alive during the search and during writing, part by part."""
    plan = shares.writing
    part = plan.piece_bytes * (7 if members else 1)
    # Each file takes its frame, four times that and the encoder; as many frames wait, and four are in transit.
    writing = plan.n_writers * (encoder_bytes + 5 * part + part) + 4 * part
    if sort:
        return [shares.engine_bytes + plan.sort_bytes + 4 * plan.piece_bytes, plan.sort_bytes + writing]
    return [shares.engine_bytes + writing]


@outputs
@pytest.mark.parametrize("encoder_bytes", ENCODERS)
@pytest.mark.parametrize("limit", [1 << 30, 3 << 29, 1 << 32, 1 << 34, 1 << 37])
def test_live_memory_leaves_an_eighth_free(limit, encoder_bytes, members, sort):
    shares = MemoryShares.of(limit, GRAPH, encoder_bytes, members=members, sort=sort)
    left = limit - GRAPH
    assert max(alive_at_once(shares, encoder_bytes, members, sort)) <= left - left // 8
    assert shares.engine_bytes >= left // 8 - 8
    assert 1 << 20 <= shares.writing.piece_bytes <= 512 << 20
    assert (shares.writing.sort_bytes > 0) == sort


@outputs
@pytest.mark.parametrize("encoder_bytes", ENCODERS)
def test_the_limit_that_an_error_names_is_the_smallest(encoder_bytes, members, sort):
    def shares(limit: int) -> MemoryShares:
        return MemoryShares.of(limit, GRAPH, encoder_bytes, members=members, sort=sort)

    with pytest.raises(DeviceMemoryExhausted, match=r"the limit of 30 MiB .*too small to write the output") as refusal:
        shares(30 << 20)
    assert not refusal.value.may_pass
    named = int(re.search(r"raise it to ([\d,]+) MiB", str(refusal.value))[1].replace(",", ""))
    assert max(alive_at_once(shares(named << 20), encoder_bytes, members, sort)) < (named << 20) - GRAPH
    with pytest.raises(DeviceMemoryExhausted):
        shares(named - 1 << 20)


@outputs
@pytest.mark.parametrize("encoder_bytes", ENCODERS)
@pytest.mark.parametrize("engine_bytes", [1 << 20, 400 << 20, 20 << 30])
def test_the_smallest_limit_for_what_the_engine_needs(engine_bytes, encoder_bytes, members, sort):
    known = {"used_bytes": GRAPH, "encoder_bytes": encoder_bytes, "members": members, "sort": sort}
    limit = MemoryShares.smallest_limit(engine_bytes, **known)
    assert MemoryShares.of(limit, **known).engine_bytes >= engine_bytes
    try:
        less = MemoryShares.of(limit - (1 << 20), **known).engine_bytes
    except DeviceMemoryExhausted:
        less = 0
    assert less < engine_bytes


def test_a_large_limit_is_halved_and_written_by_four():
    shares = MemoryShares.of(126 << 30, GRAPH, ENCODERS[0], members=False, sort=False)
    assert shares.engine_bytes == ((126 << 30) - GRAPH) // 8 * 4
    assert (shares.writing.n_writers, shares.writing.piece_bytes) == (4, 512 << 20)


def test_a_small_limit_is_written_by_one_and_sorting_waits_for_the_engine():
    plain, sorts = (MemoryShares.of(1 << 30, GRAPH, ENCODERS[0], members=False, sort=sort) for sort in (False, True))
    assert plain.writing.n_writers == sorts.writing.n_writers == 1
    assert sorts.engine_bytes > 2 * plain.engine_bytes


def test_the_reserve_is_at_most_an_eighth():
    assert with_set_aside(800, 0, 30) == 30
    assert with_set_aside(800, 0, 300) == 100
    assert with_set_aside(800, 400, 300) == 450
    assert with_set_aside(800, 900, 300) == 900


def test_more_memory_never_reduces_a_share():
    for sort in (False, True):
        limits = range(800 << 20, 40 << 30, 97 << 20)
        shares = [MemoryShares.of(limit, GRAPH, ENCODERS[0], members=False, sort=sort) for limit in limits]
        for figures in ([each.engine_bytes for each in shares], [each.writing.n_writers for each in shares]):
            assert figures == sorted(figures)


class Counters:
    """Stand-in for RMM's counters."""

    def __init__(self) -> None:
        self.depth = 0

    def push_counters(self) -> None:
        self.depth += 1

    def pop_counters(self) -> types.SimpleNamespace:
        self.depth -= 1
        return types.SimpleNamespace(peak_bytes=77)


def test_memory_of_a_piece_of_work():
    counters = Counters()
    pool = DevicePool(1, counters)
    done = []
    assert pool.bytes_for(lambda: done.append(counters.depth)) == 77
    assert (done, counters.depth) == ([1], 0)
    with pytest.raises(ZeroDivisionError):
        pool.bytes_for(lambda: 1 // 0)
    assert counters.depth == 0


def test_a_share_too_small_for_the_engine_names_the_limit():
    with (
        pytest.raises(
            MemoryBudgetExceeded, match=r"^needs 3 bytes; .* execution\.device_memory, for which 7 MiB would do$"
        ),
        naming_the_limit(lambda needed: (2 * needed << 20) + 1),
    ):
        raise MemoryBudgetExceeded("needs 3 bytes", needed_bytes=3)
    unknown = MemoryBudgetExceeded("the GPU has less")
    with pytest.raises(MemoryBudgetExceeded) as refusal, naming_the_limit(lambda needed: needed):
        raise unknown
    assert refusal.value is unknown
