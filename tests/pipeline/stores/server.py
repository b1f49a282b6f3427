"""A real S3 server, of moto, as a process on loopback, and buckets without the code under test."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.patience import PATIENCE, begun, output_of

__all__ = ["KEY_ID", "SECRET", "Bucket", "Server"]

# Its log of requests would fill the pipes.
_SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
KEY_ID, SECRET = "AKIDOFTHETESTS", "the-secret-that-nobody-may-read"


class Server:
    """moto's server; killed with the tests, or by `kill`."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Begin, also again after `kill`: then without what it held."""
        self.process = begun([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self.port], **_SILENT)
        begin = time.monotonic()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    pytest.fail(f"moto's server ended: {output_of(self.process)}", pytrace=False)
                assert time.monotonic() - begin < PATIENCE
                time.sleep(0.05)

    def kill(self) -> None:
        """As a machine that is switched off."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def ask_for_credentials(self, *, anybodys: bool) -> None:
        """Whether requests with any key are served, as at first, or none."""
        self.post("/moto-api/reset-auth", b"inf" if anybodys else b"0")

    def post(self, path: str, content: bytes = b"", method: str = "POST") -> bytes:
        request = urllib.request.Request(
            self.url + path, data=content, method=method, headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request) as answer:
            return answer.read()


class Bucket:
    """A bucket of its own for a test."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name, self.url = server, name, f"s3://{name}"
        server.post(f"/{name}", method="PUT")
        self.store = S3Store(
            name,
            endpoint=server.url,
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def put(self, key: str, content: bytes | Path) -> str:
        obstore.put(self.store, key, content)
        return f"{self.url}/{key}"

    def get(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def listed(self, below: str | None = None) -> list[str]:
        return sorted(each["path"] for chunk in obstore.list(self.store, prefix=below) for each in chunk)

    def unfinished_uploads(self) -> int:
        with urllib.request.urlopen(f"{self.server.url}/{self.name}?uploads") as answer:
            return answer.read().count(b"<UploadId>")
