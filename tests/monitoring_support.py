"""Strict readers of monitoring output: JSON lines and Prometheus text exposition format."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

Sample = tuple[str, dict[str, str], float]
_NAME = r"mbe_[a-z_]+"
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{((?:{_LABEL.pattern},?)*)\}})? (\S+)")


def objects_in(stderr: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines; fail on a malformed line or one without time, level, step, run and message."""
    found = [json.loads(line) for line in stderr.splitlines()]
    for each in found:
        assert list(each)[:5] == ["time", "level", "step", "run", "message"], each
        assert datetime.fromisoformat(each["time"]).utcoffset() is not None
    return found


def metrics_in(text: str, *, of_a_writer: bool = True) -> list[Sample]:
    """Return the samples of a file; fail unless each metric has help and type before it and no sample occurs twice."""
    assert text.endswith("\n")
    found: list[Sample] = []
    declared: list[tuple[str, str]] = []
    for line in text.splitlines():
        comment = re.fullmatch(rf"# (HELP|TYPE) ({_NAME}) (.+)", line)
        if comment is not None:
            assert comment[1] == "HELP" or comment[3] == "gauge"
            declared.append((comment[2], comment[1]))
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample is not None, line
        if of_a_writer:
            assert declared[-2:] == [(sample[1], "HELP"), (sample[1], "TYPE")], line
        found.append((sample[1], dict(_LABEL.findall(sample[2] or "")), float(sample[5])))
    assert len(declared) == len(set(declared))
    assert len(found) == len({(name, *sorted(labels.items())) for name, labels, _ in found})
    return found
