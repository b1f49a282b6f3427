"""How a complete file takes a name unless that is taken: what each kind of file system has for it.

That is all that publication needs of a file system (`pipeline.stores.conditional_write`), and fsspec has no function
for it on
which its drivers agree: its exclusive creation shows a file before its content is there, or is not exclusive, and its
`mv` replaces what is there with some drivers and refuses to with others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mbe_stage.pipeline.stores.drivers import is_missing

__all__ = ["Take", "take_of"]

Take = Callable[[Any, str, str], None]
"""Of a driver, the name under which a file was written, and the name that it is to have. What it raises where that is
taken differs: whoever calls it looks."""

_in_memory = threading.Lock()


def take_of(scheme: str) -> tuple[Take, bool]:
    """How names are taken at addresses of a scheme, and whether two that do it at the same time are kept apart."""
    return (_TAKES[scheme], True) if scheme in _TAKES else (_look_first, False)


def _rename_by_sftp(driver: Any, written: str, path: str) -> None:
    # SSH_FXP_RENAME, which must not replace: OpenSSH makes a second link, which the file system refuses where the name
    # is taken, and removes the first. What fsspec calls mv is OpenSSH's posix-rename, which replaces.
    driver.ftp.rename(written, path)


def _rename_by_webhdfs(driver: Any, written: str, path: str) -> None:
    # fsspec's mv does not look at the answer, which says whether it was done.
    if not driver._call("RENAME", method="put", path=written, destination=path).json()["boolean"]:
        raise FileExistsError


def _rename_by_smb(driver: Any, written: str, path: str) -> None:
    # smbclient.rename asks the server not to replace (ReplaceIfExists of FileRenameInformation).
    driver.mv(written, path)


def _move_in_memory(driver: Any, written: str, path: str) -> None:
    with _in_memory:
        _look_first(driver, written, path)


def _look_first(driver: Any, written: str, path: str) -> None:
    # Somebody else may take the name between the look and the move, which replaces: so it is with FTP, and with HDFS
    # by way of pyarrow, whose move removes the file that is there.
    try:
        driver.info(path)
    except OSError as error:
        if not is_missing(error):
            raise
    else:
        raise FileExistsError
    driver.mv(written, path)


_TAKES: dict[str, Take] = {
    "memory": _move_in_memory,
    "sftp": _rename_by_sftp,
    "ssh": _rename_by_sftp,
    "smb": _rename_by_smb,
    "webhdfs": _rename_by_webhdfs,
}
