"""Functions are short and take few arguments, or document them; exceptions are listed, and the lists only shrink."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 60  # lines without the docstring
MOST_ARGUMENTS = 10
MOST_UNEXPLAINED = 5  # arguments that need no Parameters section
LONGEST_FILE = 600
PACKAGES = ("mbe_stage", "mbe_stage.groups", "mbe_stage.pipeline")
# Limit of lines per folder, including unlisted subfolders. Raising one takes a comment with the reason.
CEILINGS = {
    # JSON lines and metrics of flows. New cases reported by events and a webhook: 230 lines. Saved steps of reading: 5.
    "flows": 2_245,
    # Saved work among tasks: 50 lines.
    # A search without a listener makes no progress, and checked numbers are not set again: 10 lines.
    # What all plain engines answer, and arrays that sinks keep: 40 lines.
    # One rule for the memory of samplers: 10. Other roots beside saved work, for bicliques and cliques: 20.
    "mbe_stage": 2_430,
    # Counting with sizes without lists, edges of no wanted biclique, and maxima that prune: 550 lines. Lists that are
    # read by half, and ahead: 100 lines. Many small graphs in one search: 210 lines. Sums that are merged: 10 lines.
    # First slots by edges: 20. Left members that are left out: 30. Vectors of rows, single columns apart, and words of
    # the last candidates: 400 lines. Twins with fewer cache misses: 15. The best ones, and their completions: 1,280.
    # Excluded rows inside the widest, and few candidates or columns that are counted at once: 80 lines. The graph of a
    # search arranged in one call, and small graphs counted without a pool: 210 lines. Words of the last roots: 20.
    # Columns sorted on a device, and roots of ranges of them: 710 lines. Rows too small for the wanted sizes: 80.
    # The best ones on CUDA: 80 lines. Open nodes and stacks saved, checked and loaded, on several devices, too: 660.
    # Weights read only where they decide, and cores that leave out little: 10 lines.
    # Completions that pause and stop, with tighter bounds: 100 lines. Counts within sizes on CUDA: 360 lines. Small
    # graphs prepared on the host: 120. Columns weighed with their lists at hand, and lists that tell of pairs: 40.
    # Hashes and degrees by running sums, and pairs of columns counted by their lists: 30 lines. Histograms that are
    # sent: 5.
    "mbe_stage/bicliques": 18_435,
    # Cliques on several devices: 60 lines. Open nodes saved, checked and loaded: 310. Small graphs prepared on the
    # host: 25.
    "mbe_stage/cliques": 6_510,
    # Small arrays copied and cleared together, and small results copied at once: 50 lines.
    # Graphs of either kind copied to another device: 10 lines. Long lists read four entries at a time: 30 lines.
    # Launches without numba-cuda's, and the context that is made early: 70 lines. Kernels that are installed as machine
    # code: 140 lines. Cores whose long lists are copied in pieces: 140 lines.
    # Packages looked for once: 10.
    "mbe_stage/device": 2_710,
    # Keys numbered, and edges ordered and merged, while they are read: 610 lines, with the place of a text in its slot.
    # Cores peeled in sweeps, one from the degrees of the other: 40 lines. Tables that ask before they grow, and passes
    # over edges on disk: 160 lines.
    "mbe_stage/graphs": 1_700,
    # The maximum-entropy null and naming by degree, in the specification too; the score by ranks, the eigenvector;
    # one list of all kinds and keys, partners as seeds, halos, and random copies. Ascents that end before their first
    # edge, and partners without unpredictable branches: 80 lines. Scores of covered edges alone: 5.
    "mbe_stage/groups": 4_895,
    "mbe_stage/itemsets": 180,
    # Counts on several devices: 100 lines. Leaves gathered by one kernel: 60 lines. Open nodes saved, checked and
    # loaded: 180.
    "mbe_stage/pq_counts": 13_660,
    # Workers that take the graph from each other: 50 lines.
    # Devices that save their work: 100 lines. Graphs that workers hold: 65.
    "mbe_stage/runners": 2_765,
    # Work that ends within a time: 10 lines. Functions that LLVM inlines: 10. Steps of whole modules, which their files
    # listed: 5.
    "mbe_stage/runtime": 825,
    # Cliques and counts on several devices: 500 lines. Blocks that mark saved work: 30. Open nodes saved: 60. What the
    # saved work of cliques and counts shares: 120, most of it from the folder of cliques.
    "mbe_stage/search": 2_510,
    # Projections, which were in the folder of graphs: 120 lines. The engine for CUDA: 120.
    "mbe_stage/shared_neighbours": 870,
    # The state of the run that log lines and metrics report. The estimator for scikit-learn: 90 lines.
    "pipeline": 900,
    # Columns of keys as dictionaries: 150 lines. Rows in temporary files: 210. Writers that scale, and the sink that
    # problems shared on the device: 70. Keys that are counted beyond a budget: 10. The sink of lists, which cliques and
    # itemsets had each: 50.
    # Numbers of blocks among the columns of rows: 10. First uses of libraries by two processes: 30. Parts of a large
    # file on a GPU: 95, and distinct pairs of them: 35.
    "pipeline/backends": 6_845,
    # From groups to cases: looking, exporting, deciding. Contexts written: 30 lines.
    # Systems of exports, and inputs in memory, once: 10.
    "pipeline/cases": 2_540,
    # Attributes and times among further columns. Cleaning within a memory budget, with filters, buckets, keys of
    # several columns, weights and times: 510 lines. What a resumed reading needs of them: 30.
    "pipeline/clean": 1_820,
    # Commands made when they are asked for, and a start with less work for those that only read: 50 lines. `mbe demo`,
    # and `mbe clean --cache`: 50. JSON lines and metrics: 300. Options of keys and copies: 20.
    # Looking at cases, and exports for other systems: 360 lines. `mbe cases`: 120.
    "pipeline/cli": 3_830,
    "pipeline/config": 1_300,
    # It was in examples/: an installation shows what a checkout does.
    "pipeline/demo": 300,
    # The graph of a run, `RunResult.graph`: 30 lines. Reading within a memory budget: 100 lines.
    # Saved work in the journal, and chains of records: 90 lines.
    # What needs all results is refused with limits: 20 lines. Reading by workers of a cluster: 260 lines.
    # Steps of reading that are saved for a resumed run: 170 lines.
    "pipeline/execution": 3_470,
    # Columns of keys encoded batch by batch, and a first look at further columns. All columns, for the rows
    # behind a case: 20 lines. Graphs of igraph: 50. Formal contexts, in part from the folder of itemsets: 100.
    # Repeated names of contexts and igraph refused, and encodings of contexts: 30. Shares of row groups: 15.
    "pipeline/io": 4_350,
    # Closed itemsets, rules and concept lattices in memory.
    "pipeline/itemsets": 700,
    "pipeline/networkx_backend": 250,
    # Overlaps of groups, for cases and changes: 50 lines. Keys that groups try, and random copies: 450 lines.
    # Verdicts on cases: 250 lines. A column of graphs: 50 lines. Pairs that share neighbours: 310 lines. Runs of
    # closed itemsets: 420 lines. Runs of the best bicliques: 340 lines. Maximal itemsets and rules: 40 lines.
    "pipeline/problems": 9_600,
    "pipeline/publish": 2_000,
    "pipeline/rapids": 100,
    # Cores, halos and bounds of groups: 20 lines.
    # Sections and lists of cases: 300 lines.
    "pipeline/report": 2_210,
    "pipeline/stores": 2_820,
    # Groups of all graphs in one list, and their halos. Verdicts: 110 lines. A column of graphs: 30 lines.
    # Pairs against products of matrices: 200 lines. Closed itemsets: 200 lines.
    # The best bicliques: 250 lines. Maximal itemsets and rules: 70 lines. Covers: 30.
    "pipeline/verify": 6_190,
    "pipeline/views": 4_150,
}
# Kernels, and commands whose arguments are their options.
MANY_ARGUMENTS = {
    "flows/command.py flow_command": 14,
    "mbe_stage/bicliques/cuda/subgraph_children.py _visit_list_child": 11,
    "mbe_stage/bicliques/cuda/twin_expansion.py expanded_lists_warp_per_tile": 11,
}


def test_folders_and_files_stay_small() -> None:
    lines = dict.fromkeys(CEILINGS, 0)
    for path, _ in trees():
        n = len((ROOT / path).read_text(encoding="utf-8").splitlines())
        assert n <= LONGEST_FILE, f"{path} has {n} lines: expected at most {LONGEST_FILE}; split it by what it is about"
        lines[next(str(folder) for folder in path.parents if str(folder) in CEILINGS)] += n
    above = {folder: n for folder, n in lines.items() if n > CEILINGS[folder]}
    assert not above, f"{above} exceed {CEILINGS=}: delete something, or raise the ceiling with the reason"


@functools.cache
def trees() -> list[tuple[Path, ast.Module]]:
    paths = (path for package in ("mbe_stage", "pipeline", "flows") for path in sorted((ROOT / package).rglob("*.py")))
    return [(path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{path} {node.name}", node


def public() -> set[str]:
    """Return paths and names of the functions and classes that the packages export."""
    return {
        f"{package}/{module}".replace(".", "/").replace("mbe_stage/pipeline", "pipeline") + f".py {name}"
        for package in PACKAGES
        for module, names in importlib.import_module(package)._NAMES.items()
        for name in names
    }


def bundles() -> set[str]:
    """Return class names, and their last words, as argument names: the class documents its fields."""
    classes = [node.name for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    words = [re.findall(r"[A-Z][a-z0-9]*", name) for name in classes]
    return {"_".join(parts[k:]).lower() for parts in words for k in range(len(parts))}


def unexplained() -> Iterator[str]:
    """Return public functions of many arguments without a Parameters section; the class may document its ``__init__``.

    Internal functions are included if many arguments have neither an annotation nor the name of a bundle.
    """
    exported, known = public(), bundles()
    for path, tree in trees():
        nodes = list(ast.walk(tree))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef) and has_parameters(node)]
        explained = {id(one) for node in classes for one in node.body if getattr(one, "name", "") == "__init__"}
        for node in nodes:
            if not isinstance(node, ast.FunctionDef) or id(node) in explained or has_parameters(node):
                continue
            n_unknown = sum(each.annotation is None and each.arg not in known for each in node.args.args)
            n = n_arguments(node) if f"{path} {node.name}" in exported else n_unknown
            if n > MOST_UNEXPLAINED:
                yield f"{path} {node.name}"


def has_parameters(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return "Parameters\n----------" in (ast.get_docstring(node) or "")


def n_lines(function: ast.FunctionDef) -> int:
    has_docstring = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    first, end = function.body[1 if has_docstring else 0].lineno, function.end_lineno
    assert end is not None
    return end - first + 1


def n_arguments(function: ast.FunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return len(arguments) - bool(arguments and arguments[0].arg in ("self", "cls"))


def test_functions_are_short() -> None:
    assert {name: n_lines(one) for name, one in functions() if n_lines(one) > LONGEST} == {}


def test_functions_take_few_arguments() -> None:
    """Keyword-only arguments do not count."""
    found = {name: n_arguments(one) for name, one in functions() if n_arguments(one) > MOST_ARGUMENTS}
    assert found == MANY_ARGUMENTS


def test_functions_of_many_arguments_document_them() -> None:
    """Keyword-only arguments do not count."""
    assert list(unexplained()) == []
