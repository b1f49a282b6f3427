"""New cases reported to others: payload, signature, and failures as warnings."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from mbe_stage.flows import notify as notifying
from mbe_stage.flows.command import app_of
from mbe_stage.flows.notify import SECRET, Notify, send_news
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import News

RUN = SimpleNamespace(run_id="20261127T060000Z-0a1b2c", created_at="2026-11-27T06:00:00+00:00")
CASES = [
    (case, {"case": case, "n_left": 3}, {"left": ["ann", "bob", "cid"], "right": ["p\u202e1"]})
    for case in ("4af939325101a33f", "643708ba13896361")
]
NEWS = News("case", "6 of 60 accounts act together in 2 cases; 2 are new.", ("case",), (), CASES)
log = logging.getLogger("told")


class Receiver:
    """A local webhook that answers as configured and keeps the requests."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda request: respond(request, 204)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                outer.answer(self)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        # The client gave up.
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook-of-the-team"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


def respond(request: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(SECRET, "s3cret")
    monkeypatch.setattr(notifying, "_PAUSE", 0.01)
    started = Receiver()
    yield started
    started.server.shutdown()
    started.server.server_close()


@pytest.fixture(autouse=True)
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the events that would go to Prefect."""
    found: list[dict[str, Any]] = []

    def emit(event: str, resource: dict[str, str], **rest: Any) -> None:
        found.append({"event": event, "resource": resource, **rest})

    monkeypatch.setattr(notifying, "emit_event", emit)
    return found


def send(notify: Notify) -> None:
    send_news(NEWS, RUN, notify, log)  # type: ignore[arg-type]


def test_each_new_case_is_one_event_and_one_signed_request(receiver: Receiver, emitted: list[dict[str, Any]]) -> None:
    send(Notify(receiver.url))
    assert [json.loads(body)["data"]["case"] for _, _, body in receiver.got] == [case for case, _, _ in CASES]
    for (_, headers, body), event, (case, values, _) in zip(receiver.got, emitted, CASES, strict=True):
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(b"s3cret", signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
        assert b"ann" not in body
        sent = json.loads(body)
        assert sent == {
            "type": "mbe.case.new",
            "id": headers["webhook-id"],
            "timestamp": RUN.created_at,
            "data": {"run": RUN.run_id, **values},
        }
        assert (event["event"], event["payload"], str(event["id"])) == (sent["type"], sent["data"], sent["id"])
        assert event["resource"]["prefect.resource.id"] == f"mbe.case.{case}"
    ids = {headers["webhook-id"] for _, headers, _ in receiver.got}
    send(Notify(receiver.url))
    # A receiver can recognise repeated cases.
    assert len(ids) == 2
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == ids


def test_keys_are_sent_only_on_request(receiver: Receiver, emitted: list[dict[str, Any]]) -> None:
    send(Notify(receiver.url, with_keys=True))
    data = json.loads(receiver.got[0][2])["data"]
    assert (data["left_keys"], data["right_keys"]) == (["ann", "bob", "cid"], ["p\u202e1"])
    assert emitted[0]["payload"] == data
    assert receiver.got[0][2].isascii()


def test_a_secret_in_base64(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, f"whsec_{base64.b64encode(b'bytes').decode()}")
    assert Notify(receiver.url).secret() == b"bytes"
    monkeypatch.setenv(SECRET, "whsec_?")
    with pytest.raises(ConfigError, match="or base64 after whsec_"):
        Notify(receiver.url).secret()


def test_a_failing_server_is_tried_three_times(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answer = lambda request: respond(request, 503)
    send(Notify(receiver.url))
    assert len(receiver.got) == 3
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1
    (warning,) = caplog.messages
    assert warning == "the webhook at http://127.0.0.1: answered 503, 3 times; 2 new cases not sent"


def test_a_server_that_recovers_gets_every_case(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answer = lambda request: respond(request, 200 if len(receiver.got) > 2 else 429)
    send(Notify(receiver.url))
    assert len(receiver.got) == 4
    assert not caplog.messages


@pytest.mark.parametrize(
    ("status", "words"), [(302, "answered 302; redirects are not followed"), (401, "answered 401")]
)
def test_redirects_and_refusals_are_not_repeated(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, status: int, words: str
) -> None:
    receiver.answer = lambda request: respond(request, status, Location="/elsewhere")
    send(Notify(receiver.url))
    assert [path for path, _, _ in receiver.got] == ["/hook-of-the-team"]
    assert words in caplog.messages[0]


def test_a_dripping_server_times_out(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time, but the whole answer does not."""
    monkeypatch.setattr(notifying, "SECONDS", 0.2)

    def drip(request: BaseHTTPRequestHandler) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" * 2:
            request.wfile.write(bytes([byte]))
            time.sleep(0.05)

    receiver.answer = drip
    send(Notify(receiver.url))
    assert "no answer within 0.2 s, 3 times" in caplog.messages[0]


def test_an_unreachable_server_is_a_warning(caplog: pytest.LogCaptureFixture, receiver: Receiver) -> None:
    receiver.server.shutdown()
    receiver.server.server_close()
    send(Notify(receiver.url))
    assert "ConnectError, 3 times" in caplog.messages[0]
    assert "hook-of-the-team" not in caplog.text


@pytest.mark.parametrize(
    ("notify", "words"),
    [
        (Notify("ftp://example.org/x"), "is no address of a webhook"),
        (Notify("https:///x"), "is no address of a webhook"),
        (Notify("https://xn--/x"), "is no address of a webhook"),
        (Notify(f"https://example.org/{'x' * 70_000}"), "is no address of a webhook"),
        (Notify("https://example.org:x/"), "is no address of a webhook"),
        (Notify("https://example.org/a b"), "is no address of a webhook"),
        (Notify("http://example.org/x", with_keys=True), "would send keys unencrypted"),
    ],
)
def test_an_address_that_cannot_be_used(notify: Notify, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "x")
    with pytest.raises(ConfigError, match=words):
        notify.check()


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_no base64"])
def test_an_empty_or_malformed_secret_is_refused(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, secret)
    with pytest.raises(ConfigError, match=f"no secret to sign requests with in {SECRET}"):
        Notify("https://example.org/x").check()


def test_the_command_refuses_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET, raising=False)

    def refused(module: Any, *options: str) -> str:
        result = CliRunner().invoke(app_of(module), ["--input", "edges.csv", *options])
        assert result.exit_code == 2
        return result.stderr

    assert "no secret to sign requests with" in refused("groups", "--notify", "https://example.org/x")
    assert "this run has no new cases to report" in refused("cliques", "--notify-keys")
