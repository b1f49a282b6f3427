"""UTF-8 is recognised as Python does; runs on NumPy without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rapids.on_numpy import imported


def is_utf8(texts: list[bytes], piece_bytes: int = 1 << 20) -> bool:
    offsets = np.cumsum([0, *map(len, texts)])
    with pytest.MonkeyPatch.context() as patch:
        module = imported("mbe_stage.pipeline.backends.cudf.byte_checks", patch)
        return module.is_utf8(offsets, np.frombuffer(b"".join(texts), np.uint8), piece_bytes)


def each_is_utf8(texts: list[bytes]) -> bool:
    try:
        for text in texts:
            text.decode()
    except UnicodeDecodeError:
        return False
    return True


# Bytes at the limits of UTF-8.
_EDGES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEE, 0xEF]
_EDGES += [0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
_sequences = st.lists(st.sampled_from(_EDGES), max_size=6).map(bytes)


@given(st.lists(_sequences | st.text(max_size=3).map(str.encode), max_size=5), st.sampled_from([1, 2, 3, 4, 1 << 20]))
def test_utf8_equals_python_s_decoder(texts: list[bytes], piece_bytes: int) -> None:
    assert is_utf8(texts, piece_bytes) == each_is_utf8(texts)


@pytest.mark.parametrize("lead", range(0xC0, 0x100))
def test_every_lead_byte_with_the_second_bytes_at_its_edges(lead: int) -> None:
    for second in _EDGES:
        for rest in (b"", b"\x80", b"\x80\x80"):
            text = bytes([lead, second]) + rest
            assert is_utf8([b"ok", text, b"ok"]) == each_is_utf8([text]), text.hex()


def test_a_character_split_between_two_texts_is_invalid() -> None:
    assert is_utf8(["é".encode()])
    assert not is_utf8([b"\xc3", b"\xa9"])
    assert not is_utf8([b"a", b"\xc3", b"", b"\xa9b"])
    assert is_utf8([])
    assert is_utf8([b"", b""])


def test_offsets_may_begin_inside_the_bytes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        module = imported("mbe_stage.pipeline.backends.cudf.byte_checks", patch)
        data = np.frombuffer(b"\xffabc\xff", np.uint8)
        assert module.is_utf8(np.array([1, 2, 4]), data)
        assert not module.is_utf8(np.array([1, 5]), data)
