"""Files at addresses outside object stores, read through one fsspec driver per scheme; nothing is written.

Errors of the drivers are reported in this project's own words.
"""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import re
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.stores import transfers
from mbe_stage.pipeline.stores.address import SCHEMES, Address
from mbe_stage.pipeline.stores.failures import NoSuchObject, StoreFailure
from mbe_stage.pipeline.stores.remote_files import RemoteFiles
from mbe_stage.pipeline.stores.transfers import AT_ONCE, OnBytes, Stopped, StoredObject

# smbprotocol has one connection per process and server, and fails if several threads use it at once.
_ONE_AT_ONCE = {"smb": threading.Semaphore(1)}
# Blocks of 32 KB requested ahead: more than the 2 MB that paramiko keeps in flight.
_AHEAD = 256
_MOST_LOOKS, _PAUSE = 5, 0.05
OVER_SSH = ("sftp", "ssh")
_SETTINGS = "FSSPEC_<SCHEME>_<SETTING> (docs/how-to/object-stores.md)"
# Packages whose name differs from the module.
_PACKAGES = {"smbclient": "smbprotocol", "libarchive": "libarchive-c", "git": "gitpython"}
_DENIED, _MISSING = (401, 403, 407, 530, 532), (404, 410, 550)
# The last one is STATUS_ACCESS_DENIED of SMB, for which smbprotocol has no error number.
_NOT_ALLOWED, _NOT_THERE = (errno.EACCES, errno.EPERM, 0xC0000022), (errno.ENOENT, errno.ENOTDIR)
_FTP_STATUS = re.compile(r"(\d{3})[ -]")
# Unsupported requests or arguments: retrying does not help.
_LASTING = (TypeError, ValueError, LookupError, AttributeError, ImportError)
# Seconds without progress until a transfer fails; its total time is unlimited.
_CONNECT, _STILL = 10, 60
# The defaults wait forever for a host that does not answer, and lock open files of SMB against readers.
_ALWAYS: dict[str, dict[str, object]] = {
    "sftp": {"timeout": _CONNECT},
    "ssh": {"timeout": _CONNECT},
    "smb": {"share_access": "rwd"},
}


class FsspecFiles(RemoteFiles):
    """Files below an address.

    Raises
    ------
    ConfigError
        fsspec or its driver for this scheme is not installed, or the scheme is unknown.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._class = driver_class(address)
        self._slots = _ONE_AT_ONCE.get(address.scheme) or threading.Semaphore(AT_ONCE)
        # Idle drivers; append and pop of a list need no lock.
        self._idle: list[Any] = []
        weakref.finalize(self, _close_all, address, self._idle)

    def listed(self, below: str = "") -> list[StoredObject]:
        """See `RemoteFiles`; for HTTP, the links on directory pages are listed."""
        try:
            with self._asking(below) as driver:
                found = files_below(driver, self.address, self._path(below))
        except NoSuchObject:
            return []
        above = f"{self._path().rstrip('/')}/"
        objects = (
            StoredObject(self._named(path.removeprefix(above)), about.get("size") or 0)
            for path, about in found.items()
            if path.startswith(above)
        )
        return sorted(objects, key=lambda each: each.name)

    def size(self, name: str = "") -> int | None:
        """See `RemoteFiles`; a directory is not a file."""
        try:
            with self._asking(name) as driver:
                about = driver.info(self._path(name))
        except NoSuchObject:
            return None
        # An HTTP server has a page for a directory, and redirects there if the final slash is missing.
        is_directory = about["type"] == "directory" or (self.address.is_http and about.get("url", "").endswith("/"))
        return None if is_directory else about.get("size") or 0

    def read(self, name: str) -> bytes | None:
        """See `RemoteFiles`."""
        try:
            with self._asking(name) as driver:
                return bytes(driver.cat_file(self._path(name)))
        except NoSuchObject:
            return None

    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None:
        place, n_bytes = self._place(name), 0
        with path.open("wb") as file, self._unshared_driver() as driver:
            with driver_errors(place):
                source = _opened_file(driver, self.address, self._path(name))
            try:
                while data := _next_chunk(source, place):
                    if stop.is_set():
                        raise Stopped
                    file.write(data)
                    n_bytes += len(data)
                    on_bytes(len(data))
                size = getattr(source, "size", None)
            finally:
                with driver_errors(place):
                    source.close()
        # Some drivers do not notice a connection that ends early.
        if isinstance(size, int) and size != n_bytes:
            reason = f"ended after {n_bytes:,} of {size:,} bytes"
            raise StoreFailure(errno.EIO, reason, str(place), "check the network, and try again")

    @contextmanager
    def _unshared_driver(self) -> Iterator[Any]:
        """Yield a driver that no other thread uses; after a failure it is dropped."""
        with self._slots:
            driver = None
            with suppress(IndexError):
                driver = self._idle.pop()
            driver = driver or opened_driver(self.address)
            try:
                yield driver
            except NoSuchObject:
                # A missing file is an ordinary answer.
                self._idle.append(driver)
                raise
            except BaseException:
                close_driver(self.address, driver)
                raise
            self._idle.append(driver)

    @contextmanager
    def _asking(self, name: str) -> Iterator[Any]:
        """Yield a driver for requests about a file, without its cache of earlier answers."""
        with self._unshared_driver() as driver, driver_errors(self._place(name)):
            driver.invalidate_cache()
            yield driver

    def _path(self, name: str = "") -> str:
        """Return the driver's name for a file."""
        path = str(self._class._strip_protocol(str(self.address)))
        return f"{path.rstrip('/')}/{quote(name) if self.address.is_http else name}" if name else path

    def _named(self, relative: str) -> str:
        """Turn a path relative to the address into a name; for HTTP it is percent-decoded."""
        return unquote(relative) if self.address.is_http else relative


def files_below(driver: Any, address: Address, path: str) -> Mapping[str, Mapping[str, Any]]:
    """Yield each file below a directory: its path, and the driver's facts; nothing if there is no directory."""
    if address.is_http:
        # Links may lead to unrelated pages.
        return driver.find(path, detail=True)
    # Not the driver's `find`, which silently omits directories that it could not list.
    found, directories = {}, [path]
    while directories:
        directory = directories.pop()
        for about in _entries(driver, directory):
            name = about["name"].rstrip("/")
            if not {".", ".."}.isdisjoint(name.split("/")):
                # No file system has such names; the server tries to lead its reader out of the directory.
                continue
            if about["type"] != "directory":
                found[name] = about
            elif name != directory.rstrip("/"):
                directories.append(name)
    return found


def _entries(driver: Any, directory: str) -> Sequence[Mapping[str, Any]]:
    looks = 0
    while True:
        looks += 1
        try:
            return driver.ls(directory, detail=True)
        except OSError:
            # It is not a directory, or another process has removed it since it was listed.
            if not _is_directory(driver, directory):
                return ()
            if looks == _MOST_LOOKS:
                raise
        # The SMB driver requests each file by itself, and another process may remove one in the meantime.
        time.sleep(_PAUSE)


def _is_directory(driver: Any, path: str) -> bool:
    # Not the driver's `isdir`, which returns False if the server does not answer.
    try:
        return driver.info(path)["type"] == "directory"
    except OSError as error:
        if is_missing(error):
            return False
        raise


def _opened_file(driver: Any, address: Address, path: str) -> Any:
    """Open a file to read from beginning to end; its `size` is the driver's."""
    if address.scheme == "memory":
        # The driver gives every reader the same file with a shared position.
        return io.BytesIO(driver.cat_file(path))
    file = driver.open(path, "rb")
    if address.scheme in OVER_SSH:
        _read_ahead(file)
    return file


def _next_chunk(source: Any, place: Address) -> bytes:
    with driver_errors(place):
        return bytes(source.read(transfers.CHUNK))


def _read_ahead(file: Any) -> None:
    """Make an SFTP file request blocks ahead; otherwise each block takes a round trip."""
    size = None
    with suppress(OSError):
        size = file.stat().st_size
    if size is None:
        # The server does not report it. If the connection is lost, reading the first block fails.
        return
    file.size = size
    send = getattr(file, "_prefetch_thread", None)
    if send is not None:

        def send_quietly(*arguments: Any) -> None:
            # The reader raises the error of a lost connection; a thread would print it to stderr.
            with suppress(Exception):
                send(*arguments)

        file._prefetch_thread = send_quietly
    file.prefetch(size, max_concurrent_requests=_AHEAD)


def _close_all(address: Address, idle: list[Any]) -> None:
    while idle:
        close_driver(address, idle.pop())


def driver_class(address: Address) -> Any:
    """Return fsspec's class of file systems for the scheme of an address.

    Raises
    ------
    ConfigError
        fsspec or its driver for this scheme is not installed, or the scheme is unknown.
    """
    try:
        from fsspec.registry import available_protocols, get_filesystem_class
    except ModuleNotFoundError:
        raise ConfigError(
            f"{address}: {address.scheme}:// needs fsspec, which is not installed; expected a path, or an "
            f"address that begins with {_in_stores()}; install it: pip install 'mbe-stage[filesystems]'"
        ) from None
    if address.scheme not in available_protocols():
        raise ConfigError(
            f"{address}: unknown scheme; expected a path, or an address that begins with {_in_stores()} or "
            "one of fsspec's; correct it, install the package that adds it to fsspec, or copy the edges to the disk"
        )
    try:
        return get_filesystem_class(address.scheme)
    except ImportError as error:
        module = getattr(error.__cause__, "name", None) or ""
    raise ConfigError(
        f"{address}: fsspec's driver for {address.scheme}:// is not installed; expected a path, or an address that "
        f"begins with {_in_stores()}; install it: pip install {_package(module, address.scheme)}"
    )


def opened_driver(address: Address) -> Any:
    """Open a file system for the calling thread only, because not all drivers can be shared.

    Raises
    ------
    ConfigError
        See `driver_class`.
    StoreFailure
        The server cannot be reached.
    """
    of_scheme = driver_class(address)
    with driver_errors(address):
        if address.scheme in OVER_SSH:
            _keep_quiet("paramiko")
        settings = {**of_scheme._get_kwargs_from_urls(str(address)), **_ALWAYS.get(address.scheme, {})}
        driver = of_scheme(skip_instance_cache=True, **settings)
        if address.is_http:
            _as_stream(driver)
        elif address.scheme in OVER_SSH:
            driver.ftp.get_channel().settimeout(_STILL)
        return driver


def close_driver(address: Address, driver: Any) -> None:
    """Close a driver's connection in any state; most drivers do so when they are collected."""
    if address.scheme in OVER_SSH:
        with suppress(Exception):
            driver.client.close()


@contextmanager
def driver_errors(place: object) -> Iterator[None]:
    """Turn any error of a driver into a `StoreFailure` about a place."""
    try:
        yield
    except (StageError, StoreFailure):
        # Already translated, if a driver was opened within.
        raise
    except Exception as error:  # noqa: BLE001 - drivers raise what their libraries do
        failure = _failure(error, str(place))
    else:
        return
    # From None, so that no traceback shows the driver's message.
    raise failure from None


def _keep_quiet(library: str) -> None:
    """Keep a library's log of a lost connection from stderr if logging is not set up."""
    logger = logging.getLogger(library)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def _as_stream(driver: Any) -> None:
    """Read each HTTP object in one request, uncompressed, without a limit on the total time."""
    import aiohttp

    patience = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_STILL)
    driver.block_size = 0
    driver.client_kwargs = {"timeout": patience, **driver.client_kwargs}
    # A server may compress its answers; a file named .csv.gz would then not match its name.
    driver.kwargs["headers"] = {"Accept-Encoding": "identity", **driver.kwargs.get("headers", {})}


def _failure(error: BaseException, place: str) -> StoreFailure:
    # The HTTP driver reports every failure as a missing file, with the cause attached. The memory driver has only
    # searched a dictionary.
    while isinstance(error, FileNotFoundError) and not isinstance(error.__cause__, LookupError | None):
        error = error.__cause__
    if isinstance(error, ValueError) and isinstance(error.__cause__, OSError):
        # smbprotocol's message for denied access.
        error = error.__cause__
    kind, status = type(error).__name__, _status(error)
    said = f" ({status})" if status else ""
    if status in _DENIED or _is_denied(error) or _is_about_credentials(error):
        remedy = f"give credentials as environment variables of fsspec, {_SETTINGS}, and allow this user to do it there"
        return StoreFailure(errno.EACCES, f"access denied{said}", place, remedy)
    # The FTP driver lists the parent directory.
    if status in _MISSING or isinstance(error, StopIteration) or is_missing(error):
        return NoSuchObject(errno.ENOENT, "no such object", place, "correct the address")
    if isinstance(error, NotImplementedError):
        remedy = "choose another place, or copy it to the disk"
        return StoreFailure(errno.EOPNOTSUPP, "its fsspec driver does not support this", place, remedy)
    if isinstance(error, _LASTING) and not isinstance(error, OSError):
        reason = f"its fsspec driver does not accept it ({kind})"
        remedy = f"check the address and the settings of fsspec, {_SETTINGS}, or copy it to the disk"
        return StoreFailure(errno.EINVAL, reason, place, remedy)
    if re.match("Unable to load lib(hdfs|jvm)", str(error)):
        # Raised by pyarrow, which contacts no server without these.
        remedy = "install Hadoop's client, and set HADOOP_HOME and CLASSPATH for pyarrow, or use webhdfs://"
        return StoreFailure(errno.EINVAL, "Hadoop's libhdfs or its Java is not found here", place, remedy)
    if type(error) is OSError and error.errno is None and "closed" not in str(error):
        # SFTP servers report a full disk or a missing directory only as a failure. For a lost connection, paramiko says
        # that it is closed.
        remedy = "check the path and the server's disk, and try again"
        return StoreFailure(errno.EIO, "the server refuses it without a reason", place, remedy)
    if status is None and not isinstance(error, OSError | EOFError | asyncio.TimeoutError):
        said = f" ({kind})"
    remedy = "check the address and the network, and try again"
    return StoreFailure(errno.EIO, f"the server does not answer as expected{said}", place, remedy)


def is_missing(error: BaseException) -> bool:
    """Return whether an error means a missing file; not all drivers raise `FileNotFoundError`."""
    return isinstance(error, FileNotFoundError) or getattr(error, "errno", None) in _NOT_THERE


def _is_denied(error: BaseException) -> bool:
    said = getattr(error, "ntstatus", None) or getattr(error, "errno", None)
    return isinstance(error, PermissionError) or said in _NOT_ALLOWED


def _is_about_credentials(error: BaseException) -> bool:
    names = " ".join(each.__name__ for each in type(error).__mro__)
    # paramiko has no class for missing credentials.
    said = str(error) if type(error).__name__ == "SSHException" else ""
    return "authentication" in f"{names} {said}".lower() or "LogonFailure" in names


def _status(error: BaseException) -> int | None:
    """Return the status code of an HTTP or FTP answer."""
    status = getattr(error, "status", None)
    # Larger ones are SMB codes without a useful message.
    if isinstance(status, int) and status < 1000:
        return status
    found = _FTP_STATUS.match(str(error)) if type(error).__module__ == "ftplib" else None
    return None if found is None else int(found[1])


def _package(module: str, scheme: str) -> str:
    top = module.partition(".")[0]
    return _PACKAGES.get(top, top) or f"'fsspec[{scheme}]'"


def _in_stores() -> str:
    return ", ".join(f"{each}://" for each in SCHEMES)
