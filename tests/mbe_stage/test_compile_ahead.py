"""Code of a run is compiled before it: each piece once, reported, and in other processes if that pays."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mbe_stage.runtime.compile_ahead as ahead
import mbe_stage.runtime.compile_processes as processes
from mbe_stage import BicliqueQuery, BipartiteCSR, CountSink, engine_names, enumerate_into
from mbe_stage.bicliques import reference
from mbe_stage.bicliques.results import Detail
from mbe_stage.engines import _load
from mbe_stage.runtime.compile_ahead import CompileProgress, CompileStep, compile_ahead
from mbe_stage.runtime.compile_processes import compile_in_processes

TRIANGLE = BipartiteCSR.from_edges([0, 0, 1], [0, 1, 1])


class Pieces:
    """Made-up pieces of code, with a log of their events."""

    def __init__(self, *kept: str) -> None:
        self.kept, self.loaded, self.compiled = set(kept), set[str](), list[str]()

    def step(self, name: str, seconds: float = 0.1) -> CompileStep:
        return CompileStep(
            name, lambda: name in self.loaded, lambda: name in self.kept, partial(self._get, name), seconds
        )

    def _get(self, name: str) -> None:
        if name not in self.kept:
            self.compiled.append(name)
        self.kept.add(name)
        self.loaded.add(name)


def test_missing_code_is_compiled_and_all_code_is_loaded() -> None:
    pieces = Pieces("kept")
    notes: list[CompileProgress] = []
    steps = [pieces.step("short"), pieces.step("kept"), pieces.step("long", 0.5)]
    assert set(compile_ahead(steps, notes.append)) == {"compile", "load"}
    assert pieces.compiled == ["long", "short"]
    assert pieces.loaded == {"short", "kept", "long"}
    assert (notes[0].done, notes[0].total, notes[-1].is_over) == (0, 2, True)
    assert str(notes[0]) == "compiling the engine for this processor, once: 1 of 2"
    assert set(compile_ahead(steps, lambda _: pytest.fail("nothing is left to compile"))) == {"load"}
    assert len(pieces.compiled) == 2


def test_it_is_reported_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mbe_stage")
    compile_ahead([Pieces().step("one")])
    assert "compiling the engine for this processor, once: 1 of 1" in caplog.text


def test_long_compilation_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Under `--quiet` only warnings are shown."""
    report = ahead.log_lines()
    caplog.set_level("WARNING", "mbe_stage")
    for seconds in (0.0, 1.0, 2.0):
        report(CompileProgress(0, 9, seconds))
    assert caplog.messages == []
    for seconds in (5.0, 10.0, 100.0):
        report(CompileProgress(1, 9, seconds))
    report(CompileProgress(9, 9, 101.0))
    assert caplog.messages == ["compiling the engine for this processor, once: 2 of 9, 5 s"]


def test_slow_code_is_compiled_in_processes(tmp_path: Path) -> None:
    """They are loaded here too: in the end this process has them, whatever the others did."""
    made = [tmp_path / name for name in ("one", "two", "three")]
    loaded: list[Path] = []

    def step(path: Path) -> CompileStep:
        return CompileStep(
            path.name, lambda: path in loaded, path.is_dir, partial(os.makedirs, path, exist_ok=True), 9.0
        )

    done = compile_ahead([step(path) for path in made], lambda _: None, processes=2)
    assert all(path.is_dir() for path in made)
    assert set(done) == {"compile", "load"}


def test_without_a_cache_this_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "can_keep", lambda: False)
    pieces = Pieces()
    compile_ahead([pieces.step("one", 9.0), pieces.step("two", 9.0)], lambda _: None, processes=2)
    assert sorted(pieces.compiled) == ["one", "two"]


@pytest.mark.parametrize("fails", [partial(os._exit, 3), partial(os.rmdir, "/there is no such directory")])
def test_failed_tasks_of_a_process_are_left(
    fails: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    others = [partial(os.mkdir, tmp_path / str(number)) for number in range(4)]
    done: list[None] = []
    left = compile_in_processes([fails, *others], 2, lambda: done.append(None))
    assert left == [fails]
    assert len(done) == len(list(tmp_path.iterdir())) == 4
    assert "a process that compiled ended with code" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_that_cannot_be_sent_is_left(tmp_path: Path) -> None:
    """The caller does not wait for it."""
    made = partial(os.mkdir, tmp_path / "made")
    unsendable = partial(threading.Lock().acquire)
    assert compile_in_processes([unsendable, made], 1, lambda: None) == [unsendable, made]


def test_a_second_compilation_is_reported_at_once_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mbe_stage")
    report = ahead.log_lines()
    for standing in (CompileProgress(0, 9, 0.0), CompileProgress(8, 9, 60.0), CompileProgress(9, 9, 61.0)):
        report(standing)
    caplog.clear()
    report(CompileProgress(0, 5, 0.0))
    assert "1 of 5" in caplog.text


def test_code_that_is_not_cached_is_not_reported_as_cached(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mbe_stage")
    for is_kept in (True, False):
        monkeypatch.setattr(ahead, "can_keep", lambda is_kept=is_kept: is_kept)
        caplog.clear()
        compile_ahead([Pieces().step("one")])
        assert "compiled in" in caplog.text
        assert ("kept for later runs" in caplog.text) == is_kept


def test_without_processes_all_tasks_are_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(processes.subprocess, "Popen", refuse)
    task = partial(os.getpid)
    assert compile_in_processes([task], 2, lambda: pytest.fail("nothing was done")) == [task]
    assert "no more processes" in caplog.text


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[processes._Child] = []

    class Noted(processes._Child):
        def __init__(self) -> None:
            super().__init__()
            children.append(self)

    monkeypatch.setattr(processes, "_Child", Noted)
    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while len(children) < 2:
            time.sleep(0.01)
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_in_processes([partial(time.sleep, 3600)] * 2, 2, lambda: None)
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert [child._process.poll() for child in children] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize("name", engine_names("bicliques"))
def test_every_engine_lists_its_compile_steps(name: str) -> None:
    engine = _load("bicliques", name)
    if reason := engine.unavailable_reason():
        pytest.skip(reason)
    runs = itertools.product((BicliqueQuery(), BicliqueQuery(min_right=2)), Detail)
    for steps in (engine.compile_steps(), *itertools.starmap(engine.compile_steps, runs)):
        assert len({step.what for step in steps}) == len(steps)


def test_enumeration_time_excludes_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = CompileStep("slow", lambda: False, lambda: False, partial(time.sleep, 0.3))
    monkeypatch.setattr(reference, "compile_steps", lambda *_: (slow,))
    start = time.perf_counter()
    facts = enumerate_into(CountSink(), TRIANGLE, engine="reference")
    assert facts.compile_seconds >= 0.3
    assert facts.seconds + facts.compile_seconds <= time.perf_counter() - start
