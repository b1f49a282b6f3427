"""A real S3 server (moto) in its own process on loopback, and buckets that do not use the code under test."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.patience import PATIENCE, begun
from tests.pipeline.stores.ports import SILENT, free_port, wait_for

__all__ = ["KEY_ID", "SECRET", "Bucket", "Server"]

KEY_ID, SECRET = "AKIDOFTHETESTS", "the-secret-that-nobody-may-read"


class Server:
    """moto's server; killed with the tests, or by `kill`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the server; after `kill` it starts empty."""
        self.process = begun([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self.port], **SILENT)
        wait_for(self.process, self.port)

    def kill(self) -> None:
        """Stop like a machine that is switched off."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def ask_for_credentials(self, *, anybodys: bool) -> None:
        """Serve requests with any key (the default), or none."""
        self.post("/moto-api/reset-auth", b"inf" if anybodys else b"0")

    def post(self, path: str, content: bytes = b"", method: str = "POST") -> bytes:
        request = urllib.request.Request(
            self.url + path, data=content, method=method, headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request) as answer:
            return answer.read()


class Bucket:
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
