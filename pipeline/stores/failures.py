"""Errors of stores in this project's own words: a store's messages quote requests with signatures and tokens."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from mbe_stage.pipeline.errors import InputError, PublishError

_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
# The library's message for an object whose key has an empty part, `.` or `..`.
_KEY = re.compile(r'Error parsing Path ("(?:[^"\\\n]|\\.){1,1100}")')
_HOST = re.compile(r"https?://(?:[^/\s@]*@)?([\w.:\[\]-]+)")
# Metadata services of cloud machines, where object stores look for credentials if none are given.
_METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "token request", "Account must be")

_CREDENTIALS = (
    "give credentials as environment variables: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of "
    "docs/how-to/object-stores.md"
)
_ALLOW = "check the credentials, and allow this user to list, read, write and delete there"
_AGAIN = "check the network and the endpoint, and try again"


class StoreFailure(OSError):
    """A store refused a request or could not be reached; the errno says whether another attempt may succeed.

    Attributes
    ----------
    reason : str
    place : str
        Address of the object or prefix.
    remedy : str
    """

    def __init__(self, number: int, reason: str, place: str, remedy: str) -> None:
        super().__init__(number, reason)
        self.reason = reason
        self.place = place
        self.remedy = remedy


class NoSuchObject(StoreFailure):
    """There is no object of that name."""


class StoreConflict(StoreFailure):
    """A conditional write failed because another writer has replaced the object."""

    def __init__(self, place: str) -> None:
        super().__init__(errno.EAGAIN, "another writer has replaced it in the meantime", place, "run it again")


@contextmanager
def translated(place: object) -> Iterator[None]:
    """Turn an error of obstore into a `StoreFailure` about a place."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        failure = _failure(error, str(place))
    else:
        return
    # From None, so that no traceback shows obstore's message.
    raise failure from None


@contextmanager
def as_input_errors() -> Iterator[None]:
    """Turn the failure of a store into an `InputError`."""
    try:
        yield
    except StoreFailure as failure:
        expected = "an object or a prefix of edges"
        raise InputError.at(failure.place, found=failure.reason, expected=expected, remedy=failure.remedy) from failure


@contextmanager
def as_store_publish_errors(outcome: str = "nothing was published") -> Iterator[None]:
    """Turn the failure of a store into a `PublishError`."""
    try:
        yield
    except StoreFailure as failure:
        raise PublishError(f"{failure.place}: {failure.reason}; {outcome}; {failure.remedy}") from failure


def _failure(error: Exception, place: str) -> StoreFailure:
    text = str(error)
    kind = type(error).__name__
    status = found[1] if (found := _STATUS.search(text)) else ""
    code = found[1] if (found := _CODE.search(text)) else ""
    if kind == "InvalidPathError":
        key = f" {found[1]}" if (found := _KEY.search(text)) else ""
        reason = f"the key{key} is not a valid path, and its prefix cannot be listed"
        return StoreFailure(errno.EINVAL, reason, place, "remove that object, or copy it to another key")
    said = f" ({' '.join(filter(None, (status, code)))})" if status or code else ""
    if code in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in text:
        return StoreFailure(errno.ENOENT, "no such bucket", place, "correct the address, or create the bucket")
    if kind == "NotSupportedError" or status == "501":
        reason = f"the store does not support the request{said}"
        return StoreFailure(errno.EOPNOTSUPP, reason, place, "choose a store with conditional writes")
    if kind in ("AlreadyExistsError", "PreconditionError") or status in ("409", "412"):
        return StoreConflict(place)
    if any(sign in text for sign in _METADATA):
        return StoreFailure(errno.EACCES, "no credentials", place, _CREDENTIALS)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
        return StoreFailure(errno.EACCES, f"access denied{said}", place, _ALLOW)
    if isinstance(error, FileNotFoundError) or status == "404":
        return NoSuchObject(errno.ENOENT, "no such object", place, "correct the address")
    if status in ("301", "307", "400"):
        remedy = "check the region (AWS_REGION) and the endpoint (AWS_ENDPOINT_URL)"
        return StoreFailure(errno.EINVAL, f"the store refuses the request{said}", place, remedy)
    at = f" at {found[1]}" if (found := _HOST.search(text)) else ""
    return StoreFailure(errno.EIO, f"the store{at} does not answer{said}", place, _AGAIN)
