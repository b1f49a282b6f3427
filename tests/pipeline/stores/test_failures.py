"""Translated errors of stores: reason, remedy, whether a retry may help, and nothing of the request."""

from __future__ import annotations

import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")

from obstore import exceptions

from mbe_stage.flows.retries import may_pass
from mbe_stage.pipeline import InputError, PublishError
from mbe_stage.pipeline.stores.failures import (
    NoSuchObject,
    StoreConflict,
    StoreFailure,
    as_input_errors,
    as_store_publish_errors,
    translated,
)

SECRET = "sig-of-a-request"
SERVED = f"Error performing PUT https://user:{SECRET}@host:9000/b/k?sig={SECRET} in 1ms - Server returned non-2xx "
BODY = f"<Error><Code>{{}}</Code><Message>{SECRET}</Message></Error>"


def said(status: str, code: str = "Code") -> str:
    return f"{SERVED}status code: {status}: {BODY.format(code)}"


GENERIC, DENIED = exceptions.GenericError, exceptions.PermissionDeniedError
METADATA = f"Error performing PUT http://169.254.169.254/latest/api/token?{SECRET}"
MEANWHILE = "another writer has replaced it in the meantime"
SILENT = "the store at host:9000 does not answer"


@pytest.mark.parametrize(
    ("error", "kind", "reason", "may_help"),
    [
        (FileNotFoundError(said("404", "NoSuchKey")), NoSuchObject, "no such object", False),
        (FileNotFoundError(said("404", "NoSuchBucket")), StoreFailure, "no such bucket", False),
        (GENERIC(said("404", "NoSuchBucket")), StoreFailure, "no such bucket", False),
        (exceptions.AlreadyExistsError(said("412")), StoreConflict, MEANWHILE, True),
        (exceptions.PreconditionError(said("412")), StoreConflict, MEANWHILE, True),
        (GENERIC(said("409 Conflict")), StoreConflict, MEANWHILE, True),
        (DENIED(said("403", "AccessDenied")), StoreFailure, "access denied (403 AccessDenied)", False),
        (GENERIC(said("403", "BadKey")), StoreFailure, "access denied (403 BadKey)", False),
        (exceptions.UnauthenticatedError(said("401")), StoreFailure, "access denied (401 Code)", False),
        (GENERIC(METADATA), StoreFailure, "no credentials", False),
        (GENERIC("Account must be specified"), StoreFailure, "no credentials", False),
        (GENERIC(said("501")), StoreFailure, "the store does not support the request (501 Code)", False),
        (GENERIC(said("301")), StoreFailure, "the store refuses the request (301 Code)", False),
        (GENERIC(said("503", "SlowDown")), StoreFailure, f"{SILENT} (503 SlowDown)", True),
        (GENERIC(f"{SERVED[:60]} error sending request"), StoreFailure, SILENT, True),
    ],
)
def test_each_answer(error: Exception, kind: type, reason: str, may_help: bool) -> None:
    with pytest.raises(kind) as failure, translated("s3://b/k"):
        raise error
    assert type(failure.value) is kind
    assert failure.value.reason == reason
    for refused, context in ((InputError, as_input_errors), (PublishError, as_store_publish_errors)):
        with pytest.raises(refused) as refusal, context(), translated("s3://b/k"):
            raise error
        assert str(refusal.value).startswith(f"s3://b/k: {reason}; ")
        assert may_pass(refusal.value) is may_help
        told: BaseException | None = refusal.value
        while told is not None:
            # The exceptions that a traceback would show.
            assert SECRET not in str(told)
            told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
