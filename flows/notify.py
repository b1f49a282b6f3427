"""Report new cases to others: a Prefect event for each, and a signed request to a webhook.

Requests follow the `Standard Webhooks <https://www.standardwebhooks.com>`_ specification: the headers ``webhook-id``,
``webhook-timestamp`` and ``webhook-signature``. The signature is ``v1,`` and, in base64, the HMAC-SHA256 of
``{id}.{timestamp}.{body}``. An event has one id in Prefect and in all tries of its request.

Failures are logged as warnings and never fail a run.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

import httpx
from prefect.blocks.system import Secret
from prefect.events import emit_event

from mbe_stage.pipeline.cli.terminal import visible
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import News
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.wording import plural

SECRET = "MBE_NOTIFY_SECRET"
"""The environment variable with the secret that signs requests."""
SECONDS, TRIES = 5.0, 3
"""Seconds to wait for an answer, and the number of tries."""

_PAUSE = 1.0
# Status codes after which another try may succeed.
_PASSING = {408, 425, 429}


@dataclass(frozen=True, slots=True)
class Notify:
    """Recipients of new results: a webhook, or only Prefect events; with or without the keys of members.

    The secret is in a Prefect block of type Secret, by default in the environment.
    """

    url: str | None = None
    with_keys: bool = False
    block: str | None = None

    def check(self) -> None:
        """Refuse an unusable webhook; the secret's block is only read when there is something to send."""
        if self.url is None:
            return
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(httpx.URL(self.url).host) and (parts.port or 1) > 0
        except (ValueError, httpx.InvalidURL):
            is_address = False
        if not is_address or self.url != "".join(self.url.split()):
            # The address may contain a secret, so the message does not repeat it.
            raise ConfigError("--notify: is no address of a webhook; expected https://HOST/PATH; correct it")
        if self.with_keys and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ConfigError(
                "--notify-keys: would send keys unencrypted; expected a webhook at https://, or on this machine"
            )
        if self.block is None:
            self.secret()

    def secret(self) -> bytes:
        """Return the bytes of the secret: base64 after ``whsec_``, else the text itself; refuse an empty one."""
        try:
            text = os.environ.get(SECRET, "") if self.block is None else str(cast(Any, Secret.load(self.block)).get())
            encoded = text.removeprefix("whsec_")
            found = text.encode() if text == encoded else base64.b64decode(encoded, validate=True)
        except (ValueError, AttributeError):
            found = b""
        if not found:
            place = SECRET if self.block is None else f"the Prefect block {self.block!r}"
            raise ConfigError(
                f"--notify: no secret to sign requests with in {place}; expected a text, or base64 after whsec_; set "
                "it, or name a Prefect block of type Secret with --notify-secret"
            )
        return found


PREFECT_ONLY = Notify()
"""Events without keys, and no webhook."""


def send_news(news: News, manifest: Manifest, notify: Notify, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
    """Report each new result; failures are logged as warnings."""
    events = list(_events(news, manifest, notify.with_keys))
    for result_id, event in events:
        emit_event(
            event["type"],
            {"prefect.resource.id": f"mbe.{news.kind}.{result_id}", "prefect.resource.name": result_id},
            payload=event["data"],
            id=UUID(event["id"]),
        )
    if notify.url is None or not events:
        return
    notify.check()
    secret = notify.secret()
    for n_sent, (_, event) in enumerate(events):
        failure = _delivered(notify.url, secret, event)
        if failure is not None:
            rest = plural(len(events) - n_sent, f"new {news.kind}")
            parts = urlsplit(notify.url)
            log.warning("the webhook at %s://%s: %s; %s not sent", parts.scheme, visible(parts.hostname), failure, rest)
            return
    log.info("%s sent to the webhook", plural(len(events), f"new {news.kind}"))


def _events(news: News, manifest: Manifest, with_keys: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    what = f"mbe.{news.kind}.new"
    for result_id, values, keys in news.new:
        data = {"run": manifest.run_id, **values}
        if with_keys:
            data |= {f"{side}_keys": keys[side] for side in keys}
        event_id = uuid5(NAMESPACE_URL, f"{what}:{manifest.run_id}:{result_id}")
        yield result_id, {"type": what, "id": str(event_id), "timestamp": manifest.created_at, "data": data}


def _delivered(url: str, secret: bytes, event: Mapping[str, Any]) -> str | None:
    """Send an event, up to three times; return why it failed, or None."""
    body, failure = json.dumps(event, allow_nan=False).encode(), ""
    for number in range(TRIES):
        time.sleep(_PAUSE * number)
        try:
            status = _status(url, body, secret, str(event["id"]))
        except TimeoutError:
            failure = f"no answer within {SECONDS:g} s"
            continue
        except (httpx.HTTPError, UnicodeError) as error:
            # The error's text may contain the address.
            failure = type(error).__name__
            continue
        if 200 <= status < 300:
            return None
        failure = f"answered {status}" + ("; redirects are not followed" if 300 <= status < 400 else "")
        if status < 500 and status not in _PASSING:
            return failure
    return f"{failure}, {TRIES} times"


def _status(url: str, body: bytes, secret: bytes, event_id: str) -> int:
    """Send a signed request; return the status of the answer, or raise `TimeoutError` after `SECONDS`."""
    answer: Future[int] = Future()
    now = str(int(time.time()))
    signature = base64.b64encode(hmac.digest(secret, f"{event_id}.{now}.".encode() + body, "sha256")).decode()
    headers = {"webhook-id": event_id, "webhook-timestamp": now, "webhook-signature": f"v1,{signature}"}
    headers["content-type"] = "application/json"

    def post() -> None:
        try:
            with (
                httpx.Client(timeout=SECONDS, follow_redirects=False) as client,
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                answer.set_result(response.status_code)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            if not answer.done():
                answer.set_exception(error)

    # In its own thread, because httpx limits each step but not the time to look up a name.
    Thread(target=post, name="webhook", daemon=True).start()
    return answer.result(SECONDS)
