"""How a worker proves that what it writes will be found, and why it cannot."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mbe_stage.errors import StageError
from pipeline.stores.failures import StoreFailure
from pipeline.stores.parts_of_attempt import StoredParts

__all__ = ["Proof", "left_by_worker", "proven", "why_unproven"]

# A worker without credentials may look for those of its machine for minutes.
_PROVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What a worker has left to be found.

    Attributes
    ----------
    name : str
        Of a file, or in a store; no other worker has it.
    text : str
        What is in the file.
    is_stored : bool
        Whether it is in a store.
    why_not : str
        Why nothing was left; empty where something was.
    """

    name: str
    text: str
    is_stored: bool = False
    why_not: str = ""


def left_by_worker(directory: Path, store: StoredParts | None) -> Proof:
    """In a worker: write a file, or else make the worker known in the store."""
    proof, host = Proof(f"worker-{uuid.uuid4().hex}", uuid.uuid4().hex), socket.gethostname()
    try:
        (directory / proof.name).write_text(proof.text)
    except OSError as error:
        if store is None:
            why_not = f"{directory}: cannot be written on {host} ({os.strerror(error.errno or 0)})"
            return replace(proof, why_not=why_not)
    else:
        return proof
    reason = _why_not_known(store, proof.name)
    why_not = f"{store.address}: cannot be written from {host} ({reason})" if reason else ""
    return replace(proof, is_stored=True, why_not=why_not)


def proven(directory: Path, store: StoredParts | None, proofs: Mapping[str, Proof | None]) -> set[str]:
    """In the process that publishes: the workers of which the file is here, or the name in the store.

    The store is asked once for all of them.
    """
    left = {worker: proof for worker, proof in proofs.items() if proof is not None and not proof.why_not}
    of_store = {worker: proof for worker, proof in left.items() if proof.is_stored}
    known = store.known() if store is not None and of_store else set()
    return {
        worker
        for worker, proof in left.items()
        if (proof.name in known if worker in of_store else _is_here(directory, proof))
    }


def why_unproven(directory: Path, store: StoredParts | None, proof: Proof | None) -> str:
    """Why a worker may not write, and how it may, in two clauses."""
    unseen = f"{directory}: is another directory there, or what is written there cannot be read here"
    remedy = "share the output directory"
    if store is not None:
        unseen = f"{store.address}: what is written there cannot be read here"
        remedy = "give it the store's credentials and the extra that reads it"
    why = unseen if proof is None or not proof.why_not else proof.why_not
    return f"{why}; what it finds is sent here, and written here; {remedy} to spare that"


def _is_here(directory: Path, proof: Proof) -> bool:
    path = directory / proof.name
    try:
        return path.is_file() and path.read_text() == proof.text
    except (OSError, UnicodeError):
        return False


def _why_not_known(store: StoredParts, name: str) -> str:
    """Have a worker known in a store; why that cannot be done, empty where it is."""
    said: list[str] = []

    def write() -> None:
        try:
            store.make_known(name)
            said.append("")
        except StoreFailure as failure:
            said.append(failure.reason)
        except StageError as error:
            said.append(str(error))
        except BaseException as error:  # noqa: BLE001 - of what a library raises, its text may hold what it was given
            said.append(type(error).__name__)

    thread = threading.Thread(target=write, name="prove", daemon=True)
    thread.start()
    thread.join(_PROVE_SECONDS)
    return f"no answer within {_PROVE_SECONDS:.0f} s" if thread.is_alive() else said[0]
