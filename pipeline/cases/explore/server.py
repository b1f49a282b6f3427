"""The server of the page: on the loopback address only, until the command ends."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn

from mbe_stage.pipeline.cases.explore.gate import LOOPBACK, Gate
from mbe_stage.pipeline.cases.explore.pages import Explorer
from mbe_stage.pipeline.errors import ConfigError

_QUEUE = 100


class Server:
    """A page that answers from a thread of its own, so that a signal ends the process at once.

    Parameters
    ----------
    explorer : Explorer
    port : int
        0 takes a free one.

    Attributes
    ----------
    address : str
        The address to open; it works once.
    """

    def __init__(self, explorer: Explorer, port: int) -> None:
        self._socket = _listening(port)
        gate = Gate(explorer.app(), self._socket.getsockname()[1])
        self.address = gate.address
        asked: dict[str, Any] = {"http": "h11", "loop": "asyncio", "ws": "none", "lifespan": "off", "log_config": None}
        asked |= {"access_log": False, "proxy_headers": False, "server_header": False}
        self._server = uvicorn.Server(uvicorn.Config(gate, **asked))
        # Not joined when the process ends: a search may still be running.
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="explore", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the server ends; a signal ends the wait."""
        self._thread.join()

    def stop(self) -> None:
        """End the server, and wait for it."""
        self._server.should_exit = True
        self._thread.join()


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(_QUEUE)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"port {port}: cannot be used ({error.strerror}); expected a free port; name another with --port, or none"
        ) from None
    return listener
