"""The server of the page, on the loopback address only, and its gate, which admits one browser of this machine.

Other pages in the browser, and other users of this machine, could send requests too. So the gate requires

- this address as `Host`, because another name may be made to point here (DNS rebinding);
- the session cookie, which the token in the address is exchanged for, once;
- requests from our own pages: other sites may link here, but their forms and scripts are refused.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from mbe_stage.pipeline.errors import ConfigError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

LOOPBACK = "127.0.0.1"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Not `no-referrer`: with it, browsers send forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""Headers of every response."""

# After a link on another page, a browser sends a strict cookie only with the next request, so this page has a link.
_UNKNOWN = """<!DOCTYPE html>
<html lang="en"><title>mbe explore</title>
<main>
<h1>This browser is not known yet</h1>
<p>If you just opened the address that mbe explore printed: <a href="/">go to the page</a>.</p>
<p>The address works once, in one browser. If it was used before, end mbe explore and start it again.</p>
</main>
</html>
"""
_METHODS = ("GET", "HEAD", "POST")
_STRANGERS = ("cross-site", "same-site")


class Gate:
    """An ASGI application that checks requests for another one; `address` has the token that opens it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        # Cookies do not distinguish ports, so two servers on this machine need two cookie names.
        self._cookie = f"mbe-explore-{port}"
        self._session = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)
        self.address = f"http://{LOOPBACK}:{port}/?token={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the application."""

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *ours]}
            await send(message)

        if scope["type"] == "http":
            await (self._answer(scope) or self._app)(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the gate's own answer, or None to let the request pass."""
        host, method = _only(scope, b"host"), scope["method"]
        if host not in self._hosts:
            return _refused("this page has another address: open the one that mbe explore printed")
        if method not in _METHODS:
            return _refused("only GET and POST are answered", 405)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0] if method == "GET" else ""
        if token and self._token and secrets.compare_digest(token.encode(), self._token.encode()):
            self._token = None
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
            return answer
        session = cookie_parser(_only(scope, b"cookie") or "").get(self._cookie, "")
        if not secrets.compare_digest(session.encode(), self._session.encode()):
            return HTMLResponse(_UNKNOWN, 403)
        if token:
            return RedirectResponse("/", 303)
        origin = _only(scope, b"origin")
        is_ours = origin == f"http://{host}" if method == "POST" or origin else True
        if not is_ours or _only(scope, b"sec-fetch-site") in _STRANGERS:
            return _refused("the request came from another page")
        return None


def _only(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header; None if it is missing or repeated."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _refused(why: str, status: int = 403) -> Response:
    return PlainTextResponse(f"Refused: {why}.\n", status)


class Server:
    """A server that answers from its own thread, so that a signal ends the process at once.

    `address` works once; port 0 takes a free one.
    """

    def __init__(self, app: Starlette, port: int) -> None:
        try:
            self._socket = socket.create_server((LOOPBACK, port))
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise ConfigError(
                f"port {port}: cannot be used ({why}); expected a free port; name another with --port, or none"
            ) from None
        gate = Gate(app, self._socket.getsockname()[1])
        self.address = gate.address
        asked: dict[str, Any] = {"http": "h11", "loop": "asyncio", "ws": "none", "lifespan": "off", "log_config": None}
        asked |= {"access_log": False, "log_level": "error", "proxy_headers": False, "server_header": False}
        self._server = uvicorn.Server(uvicorn.Config(gate, **asked))
        # A daemon, so that a running search does not delay the end of the process.
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="explore", daemon=True)

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the server ends; a signal ends the wait."""
        self._thread.join()

    def stop(self) -> None:
        """Stop the server, and wait for it."""
        self._server.should_exit = True
        self._thread.join()
