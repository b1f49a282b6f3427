"""The import graph of a Python environment: modules x imported names, read with `ast`.

Every machine has one, and its bicliques have a meaning: groups of modules that import the same names.
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

# Test suites would double the time to parse.
_SKIPPED_FOLDERS = {"__pycache__", "site-packages", "dist-packages", "lib-dynload", "test", "tests", "idle_test"}


@dataclass(frozen=True, slots=True, order=True)
class Module:
    """A module: its dotted name and its source file."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        """Return the package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """Distinct ``(module, imported name)`` pairs in ascending order.

    Attributes
    ----------
    edges : list of (str, str)
    n_modules : int
        Modules found, including those without imports.
    n_unparsed : int
        Modules that this version of Python cannot parse: templates, Python 2.
    """

    edges: list[tuple[str, str]]
    n_modules: int
    n_unparsed: int


def environment_roots() -> list[Path]:
    """List the folders that this process imports from: the standard library and site-packages."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys(Path(paths[name]).resolve() for name in ("stdlib", "purelib", "platlib")))


def modules(root: Path) -> Iterator[Module]:
    """Yield every importable source file below a folder, except test suites."""
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
    """Return the dotted names that a source imports; relative ones are resolved against its package.

    ``from __future__`` is left out: it is a switch of the compiler.
    """
    with warnings.catch_warnings():
        # Invalid escapes in other packages.
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
    """Yield every statement, including nested ones, but no expressions: these hold no imports."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending += getattr(node, field, ())


def _base(node: ast.ImportFrom, package: str) -> str | None:
    """Return the absolute name of the imported module; None if a relative import leaves the top-level package."""
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
        If several have a module of one name, the first counts, as in imports.
    workers : int, optional
        Number of processes; all cores by default, only this process if 1.
    """
    found: dict[str, Module] = {}
    for root in roots:
        for module in modules(root):
            found.setdefault(module.name, module)
    ordered = sorted(found.values())
    if workers == 1:
        imports = [_imports(module) for module in ordered]
    else:
        # Not forked: Numba and Arrow may have started threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            imports = list(pool.map(_imports, ordered, chunksize=64))
    edges = [
        (module.name, name) for module, names in zip(ordered, imports, strict=True) if names for name in sorted(names)
    ]
    return ImportGraph(edges, n_modules=len(ordered), n_unparsed=sum(names is None for names in imports))


def _imports(module: Module) -> set[str] | None:
    """Return the names that a module imports; None if it cannot be parsed."""
    try:
        return imported_names(module.path.read_bytes(), module.package)
    except (SyntaxError, ValueError, RecursionError):
        return None
