"""The graph of a Python environment: its modules x the names they import, read with the standard library's `ast`.

It exists on every machine, is real, and its bicliques mean something: groups of modules that import the same names.
"""

from __future__ import annotations

import ast
import os
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

__all__ = ["ImportGraph", "Module", "environment_roots", "import_graph", "imported_names", "modules"]

# Test suites are not part of what the environment runs, and would double the time to parse it.
_SKIPPED_FOLDERS = {"__pycache__", "site-packages", "dist-packages", "lib-dynload", "test", "tests", "idle_test"}


@dataclass(frozen=True, slots=True, order=True)
class Module:
    """A module by its dotted name, and where its source lies."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """Distinct ``(module, imported name)`` pairs in ascending order, and what they came from.

    Attributes
    ----------
    edges : list of (str, str)
    n_modules : int
        Modules found; those that import nothing have no edge.
    n_unparsed : int
        Of these, the ones that are no Python of this version (templates, Python 2).
    """

    edges: list[tuple[str, str]]
    n_modules: int
    n_unparsed: int


def environment_roots() -> list[Path]:
    """Folders of the running environment that modules are imported from: the standard library and site-packages."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys(Path(paths[name]).resolve() for name in ("stdlib", "purelib", "platlib")))


def modules(root: Path) -> Iterator[Module]:
    """Every importable source file below a folder, test suites left out."""
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if name.isidentifier() and name not in _SKIPPED_FOLDERS)
        parts = Path(folder).relative_to(root).parts
        for file in sorted(files):
            stem, extension = os.path.splitext(file)
            if extension != ".py" or not stem.isidentifier():
                continue
            name = ".".join(parts if stem == "__init__" else (*parts, stem))
            if name:
                yield Module(name, Path(folder, file))


def imported_names(source: bytes, package: str) -> set[str]:
    """The dotted names that a source imports, relative ones resolved against its package.

    ``from __future__`` is a switch of the compiler and left out.

    Raises
    ------
    SyntaxError, ValueError
        The source is no Python of this version.

    Examples
    --------
    >>> sorted(imported_names(b"import os.path\\nfrom . import codec\\nfrom .io.raw import *", "box"))
    ['box.codec', 'box.io.raw.*', 'os.path']
    """
    with warnings.catch_warnings():
        # Other people's invalid escapes are none of our business.
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    names: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            base = _base(node, package)
            if base is not None:
                names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement, however nested; expressions hold no imports, and are most of a tree."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending += getattr(node, field, ())


def _base(node: ast.ImportFrom, package: str) -> str | None:
    """The absolute name of the module imported from; None where a relative import leaves the top-level package."""
    if node.level == 0:
        return node.module
    above = package.split(".") if package else []
    kept = len(above) - (node.level - 1)
    if kept < 1:
        return None
    return ".".join([*above[:kept], *([node.module] if node.module else [])])


def import_graph(roots: Sequence[Path], workers: int | None = None) -> ImportGraph:
    """Parse every module below the roots, on all cores.

    Parameters
    ----------
    roots : sequence of Path
        Where several hold a module of the same name, the first root's counts, as when importing.
    workers : int, optional
        Processes; all cores by default, none beside this one at 1.
    """
    found: dict[str, Module] = {}
    for root in roots:
        for module in modules(root):
            found.setdefault(module.name, module)
    ordered = sorted(found.values())
    if workers == 1:
        imports = [_imports(module) for module in ordered]
    else:
        # Not forked: this process may hold threads of Numba and Arrow by now.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            imports = list(pool.map(_imports, ordered, chunksize=64))
    edges = [
        (module.name, name) for module, names in zip(ordered, imports, strict=True) if names for name in sorted(names)
    ]
    return ImportGraph(edges, n_modules=len(ordered), n_unparsed=sum(names is None for names in imports))


def _imports(module: Module) -> set[str] | None:
    """The names a module imports; None where it cannot be parsed, which the graph counts."""
    try:
        return imported_names(module.path.read_bytes(), module.package)
    except (SyntaxError, ValueError, RecursionError):
        return None
