"""What cases, labels and the allow list add to the tables of groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mbe_stage.groups.members import GroupMembers
from pipeline.outputs.groups.association import associations, known_shares
from pipeline.outputs.groups.cases import case_ids, case_numbers, members_of_cases
from pipeline.outputs.groups.known import Known

__all__ = ["KnownColumns", "of_known"]


@dataclass(frozen=True, slots=True, eq=False)
class KnownColumns:
    """Columns and counts.

    Attributes
    ----------
    columns : dict
        Of `groups`, by name.
    association : pa.Array or None
        Of `vertex_scores`; None without labels.
    counts : dict of str to int
    """

    columns: dict[str, pa.Array]
    association: pa.Array | None
    counts: dict[str, int]


def of_known(members: GroupMembers, known: Known, left_hashes: np.ndarray) -> KnownColumns:
    """Of chosen groups; the ids of their cases are new ones.

    Parameters
    ----------
    members : GroupMembers
        By rank.
    known : Known
    left_hashes : (n_left,) uint64
        Of the left vertices' keys.
    """
    is_muted = known.is_muted(members)
    numbers = case_numbers(members, is_muted)
    owners = np.repeat(np.arange(len(members)), members.left_sizes)
    ids = case_ids(members_of_cases(numbers, owners, left_hashes[members.left_members]))
    columns = {
        "case": pa.array([ids[case] for case in numbers.tolist()], pa.string()),
        "is_muted": pa.array(is_muted),
    }
    association = None
    if known.labels is not None:
        shares = known_shares(members, known.labels)
        columns |= shares.columns()
        association = associations(members, is_muted, shares, known.labels)
    return KnownColumns(
        columns=columns,
        association=association,
        counts={
            "cases": len(ids),
            **({} if known.allowed is None else {"muted": int(is_muted.sum())}),
        },
    )
