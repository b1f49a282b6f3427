"""A server of SFTP as a process: ``python sftp_child.py PORT USER PASSWORD [PROGRAM]``; it serves this machine's paths.

PROGRAM is OpenSSH's `sftp-server`, which then answers in the place of paramiko's. Without it, `RENAME` refuses to
replace, as OpenSSH's does; whatever lies below a directory called ``denied`` is, and one called ``full`` takes no byte.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import PurePosixPath

import paramiko

from tests.patience import begun

PIECE = 1 << 15


class Users(paramiko.ServerInterface):
    """One user with a password, who may do nothing but SFTP."""

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password

    def check_auth_password(self, username: str, password: str) -> int:
        is_right = (username, password) == (self.user, self.password)
        return paramiko.AUTH_SUCCESSFUL if is_right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        del chanid
        return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED


class Handle(paramiko.SFTPHandle):
    def __init__(self, flags: int, path: str, file: object) -> None:
        super().__init__(flags)
        self.path, self.readfile, self.writefile = path, file, file

    def stat(self) -> paramiko.SFTPAttributes:
        return paramiko.SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))

    def write(self, offset: int, data: bytes) -> int:
        return paramiko.SFTP_FAILURE if "full" in PurePosixPath(self.path).parts else super().write(offset, data)


class Files(paramiko.SFTPServerInterface):
    """Requests as calls of the operating system."""

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        return answered(path, lambda: [described(os.path.join(path, name), name) for name in os.listdir(path)])

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        return answered(path, lambda: paramiko.SFTPAttributes.from_stat(os.stat(path)))

    def lstat(self, path: str) -> paramiko.SFTPAttributes | int:
        return answered(path, lambda: paramiko.SFTPAttributes.from_stat(os.lstat(path)))

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> Handle | int:
        del attr
        mode = "rb" if not flags & (os.O_WRONLY | os.O_RDWR) else "wb"
        return answered(path, lambda: Handle(flags, path, os.fdopen(os.open(path, flags, 0o666), mode)))

    def remove(self, path: str) -> int:
        return answered(path, lambda: os.remove(path))

    def rename(self, oldpath: str, newpath: str) -> int:
        def link_and_remove() -> None:
            os.link(oldpath, newpath)
            os.remove(oldpath)

        return answered(newpath, link_and_remove)

    def posix_rename(self, oldpath: str, newpath: str) -> int:
        return answered(newpath, lambda: os.replace(oldpath, newpath))

    def mkdir(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        del attr
        return answered(path, lambda: os.mkdir(path))

    def rmdir(self, path: str) -> int:
        return answered(path, lambda: os.rmdir(path))


def answered(path: str, done):
    if "denied" in PurePosixPath(path).parts[:-1]:
        return paramiko.SFTP_PERMISSION_DENIED
    try:
        found = done()
    except OSError as error:
        return paramiko.SFTPServer.convert_errno(error.errno)
    return paramiko.SFTP_OK if found is None else found


def described(path: str, name: str) -> paramiko.SFTPAttributes:
    return paramiko.SFTPAttributes.from_stat(os.lstat(path), name)


class Program(paramiko.SubsystemHandler):
    """OpenSSH's own server of SFTP, which speaks to whoever has started it."""

    def start_subsystem(self, name: str, transport: paramiko.Transport, channel: paramiko.Channel) -> None:
        del name, transport
        program = begun([sys.argv[4]], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def requests() -> None:
            while data := channel.recv(PIECE):
                program.stdin.write(data)
                program.stdin.flush()
            program.stdin.close()

        threading.Thread(target=requests, daemon=True).start()
        while data := os.read(program.stdout.fileno(), PIECE):
            channel.sendall(data)


def main() -> None:
    port, user, password = sys.argv[1:4]
    key = paramiko.ECDSAKey.generate()
    listening = socket.create_server(("127.0.0.1", int(port)))
    while True:
        connection, _ = listening.accept()
        # As sshd does: or each piece of 32 KB waits 40 ms for an acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        if len(sys.argv) > 4:
            transport.set_subsystem_handler("sftp", Program)
        else:
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
        # With an event it returns at once, and the next connection is served meanwhile.
        transport.start_server(threading.Event(), Users(user, password))


if __name__ == "__main__":
    main()
