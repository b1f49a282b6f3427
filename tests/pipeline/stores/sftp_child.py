"""An SFTP server: ``python sftp_child.py PORT USER PASSWORD`` serves the files of this machine read-only.

Files below a directory called ``denied`` cannot be read.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import PurePosixPath

import paramiko


class Users(paramiko.ServerInterface):
    """One user with a password, allowed only SFTP."""

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password

    def check_auth_password(self, username: str, password: str) -> int:
        is_right = (username, password) == (self.user, self.password)
        return paramiko.AUTH_SUCCESSFUL if is_right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        del chanid
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED


class Handle(paramiko.SFTPHandle):
    def __init__(self, file: object) -> None:
        super().__init__()
        self.readfile = file

    def stat(self) -> paramiko.SFTPAttributes:
        return paramiko.SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))


class Files(paramiko.SFTPServerInterface):
    """Answers requests with calls of the operating system."""

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        return answered(path, lambda: [described(os.path.join(path, name), name) for name in os.listdir(path)])

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        return answered(path, lambda: paramiko.SFTPAttributes.from_stat(os.stat(path)))

    def lstat(self, path: str) -> paramiko.SFTPAttributes | int:
        return answered(path, lambda: paramiko.SFTPAttributes.from_stat(os.lstat(path)))

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> Handle | int:
        del flags, attr
        return answered(path, lambda: Handle(open(path, "rb")))


def answered(path: str, done):
    if "denied" in PurePosixPath(path).parts[:-1]:
        return paramiko.SFTP_PERMISSION_DENIED
    try:
        return done()
    except OSError as error:
        return paramiko.SFTPServer.convert_errno(error.errno)


def described(path: str, name: str) -> paramiko.SFTPAttributes:
    return paramiko.SFTPAttributes.from_stat(os.lstat(path), name)


def main() -> None:
    port, user, password = sys.argv[1:4]
    key = paramiko.ECDSAKey.generate()
    listening = socket.create_server(("127.0.0.1", int(port)))
    while True:
        connection, _ = listening.accept()
        # As sshd does; otherwise each piece of 32 KB waits 40 ms for an acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
        # With an event it returns at once, so the next connection is served meanwhile.
        transport.start_server(threading.Event(), Users(user, password))


if __name__ == "__main__":
    main()
