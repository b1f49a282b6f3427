"""One small graph, written in every format and every compression."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import scipy.io
import scipy.sparse
from pyarrow import parquet as pq

# Keys start at 1, as formats with row and line numbers need; left 4 is missing, right 10 sorts after 9.
LEFT = np.array([1, 1, 2, 3, 3, 3, 5])
RIGHT = np.array([9, 10, 10, 1, 9, 12, 2])


def to_parquet(left: np.ndarray, right: np.ndarray) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"user": left, "item": right}), sink)
    return sink.getvalue()


def to_text(left: np.ndarray, right: np.ndarray, separator: str = ",", header: str = "") -> bytes:
    rows = [f"{u}{separator}{v}\n" for u, v in zip(left, right, strict=True)]
    return (header + "".join(rows)).encode()


def to_konect(left: np.ndarray, right: np.ndarray) -> bytes:
    return to_text(left, right, " ", "% bip unweighted\n% 7 5 6\n")


def to_snap(left: np.ndarray, right: np.ndarray) -> bytes:
    return to_text(left, right, "\t", "# Directed graph\n# FromNodeId\tToNodeId\n")


def to_matrix_market(left: np.ndarray, right: np.ndarray) -> bytes:
    sink = io.BytesIO()
    ones = np.ones(len(left), np.int64)
    scipy.io.mmwrite(sink, scipy.sparse.coo_array((ones, (left - 1, right - 1))), field="pattern")
    return sink.getvalue()


def to_npz(left: np.ndarray, right: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.savez_compressed(sink, n_left=np.int64(7), u=left, v=right)
    return sink.getvalue()


def to_sparse_npz(left: np.ndarray, right: np.ndarray) -> bytes:
    sink = io.BytesIO()
    scipy.sparse.save_npz(sink, scipy.sparse.csr_array((np.ones(len(left)), (left, right))))
    return sink.getvalue()


def to_fimi(left: np.ndarray, right: np.ndarray) -> bytes:
    lines = [" ".join(map(str, right[left == line])) for line in range(1, left.max() + 1)]
    return "".join(f"{line} \n" for line in lines).encode()


# Name of the case: (file name, detected format, writer).
FORMATS: dict[str, tuple[str, str, Callable[[np.ndarray, np.ndarray], bytes]]] = {
    "parquet": ("edges.parquet", "parquet", to_parquet),
    "csv": ("edges.csv", "csv", to_text),
    "csv_header": ("edges.csv", "csv", lambda u, v: to_text(u, v, ";", "user;item\n")),
    "tsv": ("edges.tsv", "csv", lambda u, v: to_text(u, v, "\t")),
    "konect": ("out.graph", "konect", to_konect),
    "snap": ("graph.txt", "snap", to_snap),
    "matrix_market": ("graph.mtx", "matrix_market", to_matrix_market),
    "npz": ("graph.npz", "npz", to_npz),
    "sparse_npz": ("matrix.npz", "npz", to_sparse_npz),
    "fimi": ("baskets.fimi", "fimi", to_fimi),
}

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def tar(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return sink.getvalue()
