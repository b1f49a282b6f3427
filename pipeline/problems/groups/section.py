"""The section `groups`; `pipeline.cli.options` has its options ``--groups-...``."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


# Class names with a clear meaning, as `GroupsSection.word` returns them. Not -1: some data sets mark fakes with it.
_POSITIVE = _words(
    "1,1.0,true,t,yes,y,positive,pos,fraud,fraudulent,fraudster,fake,bot,spam,spammer,scam,scammer,bad,malicious,malware,"
    "abuse,abuser,abusive,illicit,criminal,sybil,mule,money mule,anomaly,anomalous,phishing,attacker"
)
_NEGATIVE = _words(
    "0,0.0,false,f,no,n,negative,neg,normal,good,benign,trusted,trustworthy,honest,legit,legitimate,licit,genuine,clean,"
    "human,real,authentic,safe,valid,innocent,ham"
)


class GroupsSection(Section):
    """Groups to publish; they are made if the section is present."""

    POSITIVE_WORDS: ClassVar = _POSITIVE
    NEGATIVE_WORDS: ClassVar = _NEGATIVE | {
        f"{no}{word}" for no in ("no ", "not ", "non ", "non") for word in _POSITIVE
    }
    UNLABELLED_WORDS: ClassVar = _words("unknown,unlabelled,unlabeled,unclassified,undefined,null,nan,na,n/a,?")

    BEFORE: ClassVar = {"try_keys": "plain", "chance_copies": None}

    limit: int = Field(100, ge=1, le=1_000_000, description="Maximum number of groups.")
    kind: Literal["both", "short_list", "grown_cover"] = Field(
        "both", description="The best bicliques, larger groups grown from them, or both in one list."
    )
    rank_by: Literal["surprise", "surprise_per_vertex", "surprise_per_edge", "evidence"] = Field(
        "surprise", description="Ranking; per vertex or edge suits communities, evidence puts large groups first."
    )
    max_overlap: float = Field(
        0.6,
        gt=0,
        le=1,
        description="Skip a group if its left members have this Jaccard index with a better group's.",
    )
    # Not `keys`: with an attribute of this name, `dict` takes an object for a mapping.
    try_keys: Literal["auto", "plain"] = Field(
        "auto",
        description="Also try right keys narrowed by further columns and times, or only the plain key.",
    )
    chance_copies: int | None = Field(
        None, ge=0, le=99, description="Random copies to search beside the list; 5 by default."
    )
    labels: str | None = Field(
        None,
        description="A table of known cases: key, optionally side and class.",
        json_schema_extra={"metavar": "FILE"},
    )
    negative: tuple[int | str, ...] = Field(
        ("0", "false", "no", "negative", "normal", "good", "benign"),
        description="A class of other cases; if it is given alone, all other classes are known cases.",
        json_schema_extra={"metavar": "CLASS"},
    )
    positive: tuple[int | str, ...] = Field(
        (),
        description="A class of known cases; if it is given alone, all others are other cases.",
        json_schema_extra={"metavar": "CLASS"},
    )
    allow: str | None = Field(
        None,
        description="A table of known good keys; a group is muted if all members of a side are listed.",
        json_schema_extra={"metavar": "FILE"},
    )

    verdicts: str | None = Field(
        None,
        description="The file of verdicts on cases; by default verdicts.sqlite in the output directory, if it exists.",
        json_schema_extra={"metavar": "FILE"},
    )

    @property
    def names_classes(self) -> dict[str, tuple[int | str, ...]]:
        """Return the classes that the user named, by ``positive`` and ``negative``."""
        is_default = self.negative == type(self).model_fields["negative"].default
        return {"positive": self.positive, "negative": () if is_default else self.negative}

    @model_serializer(mode="wrap")
    def _as_before_there_was_positive(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Runs without it keep the fingerprint of earlier versions.
        return {key: value for key, value in dump(self).items() if key != "positive" or value}

    @model_validator(mode="after")
    def _no_class_is_both(self) -> GroupsSection:
        both = set.intersection(*({self.word(name) for name in given} for given in self.names_classes.values()))
        if both:
            raise ValueError(
                f"{setting('groups.negative')} and {setting('groups.positive')} both name {min(both)!r}: "
                "leave it out of one of them"
            )
        return self

    @staticmethod
    def word(name: object) -> str:
        """Return a class name in comparable form: lower case, with spaces for ``_`` and ``-`` between words."""
        return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", str(name).strip().casefold())
