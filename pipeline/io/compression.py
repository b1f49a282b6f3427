"""Open files, decompress them by their bytes rather than their names, and read members of archives."""

from __future__ import annotations

import difflib
import io
import lzma
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.text.whitespace import IteratorStream

_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zstd")

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_TAR_MAGIC = slice(257, 262)
_PIECE_BYTES = 1 << 20


def check_path(path: Path) -> None:
    """Check that the path is a file or directory."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise _missing(path) from None
    except ValueError as error:
        raise unreadable(path, error) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        remedy = "save the data to a file, or send it to standard input (-)"
        raise InputError.at(path, found="a pipe, socket or device", expected="a file or directory", remedy=remedy)


def plain_name(path: Path) -> str:
    """Return the file's name without compression suffix, in lower case.

    Examples
    --------
    >>> plain_name(Path("data/Baskets.DAT.gz"))
    'baskets.dat'
    """
    name = path.name.lower()
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def open_bytes(path: Path) -> io.BufferedReader:
    """Open the decompressed content of a file; consecutive members or frames count as one."""
    # The returned stream closes it.
    kind, plain = kind_of(path), path.open("rb")
    if kind is None:
        return plain
    # pyarrow reads all but xz, including several members or frames, and detects truncation.
    opened = lzma.LZMAFile if kind == "xz" else lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), kind)
    return _checked(opened(plain), plain, explain=lambda error: _damaged(path, f"{kind} data", error))


def kind_of(path: Path) -> str | None:
    """Return the compression of a file, from its bytes; None if it is not compressed."""
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def open_konect(path: Path) -> io.BufferedReader:
    """Open a file as `open_bytes` does; for a tar archive (compressed or not), open its `out.*` member."""
    stream = open_bytes(path)
    if not is_tar(stream):
        return stream

    def explain(error: Exception) -> InputError:
        return _damaged(path, "tar archive", error)

    seen = []
    try:
        # Streaming mode reads the archive once, forwards, whatever its compression.
        archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - closed with the stream that is returned
        for member in archive:
            if member.isfile() and Path(member.name).name.startswith("out."):
                content = archive.extractfile(member)
                return _checked(content, archive, stream, explain=explain)
            seen.append(member.name)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise explain(error) from None
    found, remedy = ", ".join(map(repr, seen[:10])) or "nothing", "unpack it and give the file with the edges"
    raise InputError.at(
        path, found=f"an archive of {found}", expected="a KONECT archive with a file out.*", remedy=remedy
    )


def is_tar(stream: io.BufferedReader) -> bool:
    """Return whether the content is a tar archive, without consuming any of it."""
    return stream.peek(512)[_TAR_MAGIC] == b"ustar"


def read_all(path: Path) -> pa.Buffer | None:
    """Return the decompressed content of a compressed file; None if the file is plain and can be read in place."""
    if kind_of(path) is None:
        return None
    with open_bytes(path) as stream:
        return pa.py_buffer(stream.read())


def _checked(inner: Any, *owned: Any, explain: Callable[[Exception], InputError]) -> io.BufferedReader:
    """Return a stream that reports every reading error as the same refusal, and closes the others."""

    def pieces() -> Iterator[bytes]:
        try:
            yield from iter(lambda: inner.read(_PIECE_BYTES), b"")
        except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
            raise explain(error) from None

    return io.BufferedReader(IteratorStream(pieces(), inner, *owned), _PIECE_BYTES)


def _missing(path: Path) -> InputError:
    folder, found, remedy = path.parent, "no such file", f"correct {setting('input.path')}"
    if folder.is_dir():
        with suppress(OSError):
            for near in difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=1):
                remedy = f"did you mean {str(folder / near)!r}?"
    else:
        found += f", and no directory {str(folder)!r}"
        remedy = "download remote data first" if ":/" in str(path) else remedy
    return InputError.at(path, found=found, expected="a file or directory of edges", remedy=remedy)


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the refusal of a path that the system cannot read."""
    cause = getattr(error, "strerror", None) or str(error)
    found, expected, remedy = f"cannot be read ({cause})", "a readable file", "check the path and the disk"
    if isinstance(error, PermissionError):
        found, remedy = "permission denied", f"allow it: chmod a+r {path.name}"
    elif isinstance(error, IsADirectoryError):
        found, expected, remedy = "a directory", "a file", "give one of the files in it"
    return InputError.at(path, found=found, expected=expected, remedy=remedy)


def no_space(source: object, found: str, expected: str, error: OSError) -> InputError:
    """Return the refusal of an input that needs more space for temporary files."""
    remedy = "free some space, or set TMPDIR to a larger disk"
    return InputError.at(source, found=f"{found} ({error.strerror or error})", expected=expected, remedy=remedy)


def _damaged(path: Path, what: str, error: Exception) -> InputError:
    cause = " ".join(str(error).split()) or type(error).__name__
    found, remedy = f"truncated or damaged {what} ({cause})", "download or copy the file again"
    return InputError.at(path, found=found, expected=f"complete {what}", remedy=remedy)
