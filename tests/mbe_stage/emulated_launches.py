"""Count a run's device requests on the emulator: launches, copies and waits. As a script, prints JSON."""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, CliqueQuery, Execution, UndirectedCSR
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import graphs
from tests.mbe_stage.cliques.undirected_graphs import random_graph

_ASKED: Counter[tuple[str, str]] = Counter()


def _note(kind: str) -> None:
    """Count one request at the package's line that makes it."""
    frame = sys._getframe(1)
    while frame is not None and "/mbe_stage/" not in frame.f_code.co_filename.replace("/tests/mbe_stage/", "/tests/"):
        frame = frame.f_back  # type: ignore[assignment]
    where = f"{frame.f_code.co_filename.rsplit('/mbe_stage/')[-1]}:{frame.f_lineno}" if frame else "outside"
    _ASKED[kind, where] += 1


def _plain(value: Any) -> Any:
    """Return a plain array: kernels on the emulator read single entries, which are free."""
    if isinstance(value, DeviceArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple):
        parts = [_plain(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return [_plain(part) for part in value] if isinstance(value, list) else value


class DeviceArray(np.ndarray):
    """An array that counts each operation that CuPy would turn into a launch, a copy or a wait."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        _note("launches")
        if out is not None:
            options["out"] = _plain(out)
        return _on_device(getattr(ufunc, method)(*map(_plain, inputs), **options))

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        _note("launches")
        if function in (np.flatnonzero, np.unique):
            _note("waits")
        named = {name: _plain(value) for name, value in options.items()}
        return _on_device(function(*map(_plain, arguments), **named))

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, (list, np.ndarray)) for part in parts):
            _note("launches")
            if any(isinstance(part, np.ndarray) and part.dtype == np.bool_ for part in parts):
                _note("waits")
        return _on_device(self.view(np.ndarray)[_plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        _note("launches")
        self.view(np.ndarray)[_plain(key)] = _plain(value)

    def fill(self, value: Any) -> None:
        _note("launches")
        self.view(np.ndarray).fill(value)

    def astype(self, *arguments: Any, **options: Any) -> Any:
        _note("launches")
        return _on_device(self.view(np.ndarray).astype(*arguments, **options))

    def copy(self, *arguments: Any) -> Any:
        _note("launches")
        return _on_device(self.view(np.ndarray).copy(*arguments))

    def _waited(self, kind: Callable[[Any], Any]) -> Any:
        _note("waits")
        return kind(self.view(np.ndarray))

    def __int__(self) -> int:
        return self._waited(int)

    def __float__(self) -> float:
        return self._waited(float)

    def __bool__(self) -> bool:
        return self._waited(bool)


def _on_device(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    return value.view(DeviceArray) if isinstance(value, np.ndarray) else value


def count_requests(launcher: Any) -> None:
    """Make arrays count; call it after the emulator is installed and before the engines are imported."""
    cupy: Any = sys.modules["cupy"]
    device_arrays: Any = sys.modules["mbe_stage.device.arrays"]

    def counted(name: str, kind: str | None) -> None:
        function = getattr(cupy, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if kind is not None and not (name == "asarray" and isinstance(arguments[0], DeviceArray)):
                _note(kind)
            named = {key: _plain(value) for key, value in options.items()}
            return _on_device(function(*map(_plain, arguments), **named))

        setattr(cupy, name, call)

    for name in ("zeros", "arange", "full", "ones", "concatenate", "stack", "where"):
        counted(name, "launches")
    counted("empty", None)
    counted("empty_like", None)
    counted("asarray", "copies")
    asnumpy, run = cupy.asnumpy, launcher.__getitem__
    upload = device_arrays.upload
    sent = device_arrays.sent

    def copied(array: Any, out: Any = None, *, blocking: bool = True) -> np.ndarray:
        if isinstance(array, DeviceArray):
            _note("copies")
            if blocking:
                _note("waits")
        return asnumpy(_plain(array), out)

    def uploaded(host: Any, array: Any) -> None:
        _note("copies")
        upload(host, _plain(array))

    def counted_sent(*arrays: Any) -> list[Any]:
        for _ in arrays:
            _note("copies")
        return [_on_device(array) for array in sent(*arrays)]

    def launched(self: Any, configuration: Any) -> Any:
        def call(*arguments: Any) -> None:
            _note("launches")
            run(self, configuration)(*_plain(arguments))

        return call

    cupy.asnumpy, launcher.__getitem__ = copied, launched
    for name, other in (
        ("upload", uploaded),
        ("sent", counted_sent),
        ("wait_for_device", lambda: _note("waits")),
    ):
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("mbe_stage.") and hasattr(module, name):
                setattr(module, name, other)


def _enumerations() -> Iterator[tuple[str, Callable[[], Any]]]:
    from tests.mbe_stage.cliques.emulated_cliques import use_the_emulator

    count_requests(use_the_emulator())
    from mbe_stage.bicliques import engine_cuda
    from mbe_stage.bicliques.cuda import prepare
    from mbe_stage.cliques import engine_cuda as engine_of_cliques
    from mbe_stage.cliques.cuda import prepare as prepare_cliques

    prepare.LONG_ROW, prepare_cliques.SMALL = 13, 1 << 12
    bipartite = graphs.from_matrix(graphs.random_matrix(1, 12, 12, 0.4))
    undirected: UndirectedCSR = random_graph(np.random.default_rng(1), 12, 0.4)
    sizes = {"n_blocks": 1, "quantum_seconds": 1000.0}
    for detail in (Detail.COUNT, Detail.SIZES, Detail.MEMBERS):
        for name, engine, graph, query in (
            ("bicliques", engine_cuda, bipartite, BicliqueQuery()),
            ("cliques", engine_of_cliques, undirected, CliqueQuery()),
        ):
            yield f"{name} {detail.name}", partial(engine.run, graph, query, Execution(), detail, sizes=sizes)


def _counts() -> Iterator[tuple[str, Callable[[], Any]]]:
    from tests.mbe_stage.pq_counts.emulated_counts import use_the_emulator

    count_requests(use_the_emulator())
    from mbe_stage.pq_counts import engine_cuda
    from mbe_stage.pq_counts.cuda import leaf_table, prepare
    from mbe_stage.pq_counts.query import PqQuery
    from mbe_stage.pq_counts.results import Detail as PqDetail

    prepare._FEW_EDGES, leaf_table.AT_ONCE = 1 << 14, 1024
    graph = graphs.from_matrix(graphs.random_matrix(1, 16, 16, 0.6))
    for p in (2, 3, 4):
        yield f"pq {p}", partial(engine_cuda.run, graph, PqQuery(p, p, p, p), Execution(), PqDetail.COUNTS)


def main() -> None:
    """Print the requests of each kind of run; with a second argument, also their source lines."""
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for name, run in {"enumerations": _enumerations, "counts": _counts}[sys.argv[1]]():
        _ASKED.clear()
        n_blocks = len(list(run()))
        kinds: Counter[str] = Counter()
        for (kind, _), n in _ASKED.items():
            kinds[kind] += n
        print(json.dumps({"run": name, "blocks": n_blocks} | kinds))
        if len(sys.argv) > 2:
            for (kind, where), n in sorted(_ASKED.items(), key=str):
                print(f"    {n} {kind} {where}")


if __name__ == "__main__":
    main()
