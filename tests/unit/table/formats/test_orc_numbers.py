"""Numbers of ORC streams, against what Arrow's writer encodes; times before 1970 as ORC's Java readers expect them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from lakelatch.core.orc.blocks import plain
from lakelatch.core.orc.numbers import decoded, encoded
from lakelatch.core.orc.protobuf import decode_message, message_of, number_of
from lakelatch.core.orc.tail import parse_tail, postscript_of
from lakelatch.core.orc.times import split_times, with_plain_fractions

_rng = np.random.default_rng(7)
RUNS = {
    "wide": _rng.integers(-(2**63), 2**63 - 1, 2000),
    "direct": _rng.integers(-1000, 1000, 2000),
    "repeated": np.repeat(_rng.integers(-(2**60), 2**60, 40), 7),
    "steady": np.arange(-5000, 5000) * 77,
    "falling": np.arange(5000, -5000, -3),
    "uneven steps": np.cumsum(_rng.integers(0, 900, 3000)),
    "uneven steps down": -np.cumsum(_rng.integers(0, 900, 3000)),
    "outliers": np.where(_rng.random(3000) < 0.02, 2**40, _rng.integers(-50, 50, 3000)),
    "one": np.array([-3]),
}


def streams_of(data: bytes, kind: int) -> Iterator[bytes]:
    """The streams of the first column, decompressed."""
    tail = parse_tail(data, len(data))
    for stripe in tail.stripes:
        at = stripe.offset
        footer = plain(data[stripe.footer_start : stripe.end], tail.compression, tail.block_size)
        for message in map(message_of, decode_message(footer)[1]):
            found, column, size = (number_of(message, field) for field in (1, 2, 3))
            if (found, column) == (kind, 1):
                yield plain(data[at : at + size], tail.compression, tail.block_size)
            at += size


def file_of(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.table({"c": column}), sink, compression="zlib")
    return sink.getvalue()


@pytest.mark.parametrize("name", RUNS)
def test_every_form_of_run_is_decoded(name: str) -> None:
    found = np.concatenate([decoded(stream, signed=True) for stream in streams_of(file_of(pa.array(RUNS[name])), 1)])
    assert found.tolist() == RUNS[name].tolist()


@pytest.mark.parametrize("name", RUNS)
def test_what_is_encoded_is_decoded_again(name: str) -> None:
    for values in (RUNS[name], np.abs(RUNS[name] // 3), RUNS[name][:0]):
        assert decoded(encoded(values)).tolist() == values.tolist()


def test_a_damaged_stream_is_refused() -> None:
    for data in ("5e03", "0a27", "5e035ca1ab1edeadbe", "8e092b21", "c609"):
        with pytest.raises(ValueError, match="cut off"):
            decoded(bytes.fromhex(data))


def test_times_before_1970_have_java_s_seconds_and_nanoseconds() -> None:
    """Second and fraction by rounding down; the second is one more where the fraction is a millisecond or more."""
    nanos = np.sort(np.concatenate([_rng.integers(-(2**62), -(10**9), 3000), np.arange(-40, 5) * 250_000_000]))
    data = with_plain_fractions(file_of(pa.array(split_times(nanos)).cast(pa.timestamp("ns"))))
    seconds = np.concatenate([decoded(s, signed=True) for s in streams_of(data, 1)]) + 1_420_070_400
    fractions = np.concatenate([decoded(s) for s in streams_of(data, 5)])
    told = (fractions >> 3) * np.array([1, *(10**n for n in range(2, 9))])[fractions & 7]
    last = (nanos < 0) & (nanos > -(10**9))  # stays as Arrow writes it
    floors, parts = np.divmod(nanos, 10**9)
    assert (seconds == np.where(last, 0, floors + ((nanos < 0) & (parts > 999_999)))).all()
    assert (told == np.where(last, nanos, parts)).all()
    assert orc.ORCFile(io.BytesIO(data)).read()["c"].cast(pa.int64()).to_pylist() == nanos.tolist()


def test_a_changed_column_has_no_statistics_and_its_file_no_row_index() -> None:
    """They describe the times that Arrow was given, which are others. In the last second before 1970 nothing is changed."""
    for nanos, has_times in (([-1_876_543_211, 5], False), ([-1_000_000, 5], True)):
        data = with_plain_fractions(file_of(pa.array(split_times(np.array(nanos))).cast(pa.timestamp("ns"))))
        script, end, tail = postscript_of(data), len(data) - 1 - data[-1], parse_tail(data, len(data))
        footer_start = end - number_of(script, 1)
        footer, metadata = (
            decode_message(plain(part, tail.compression, tail.block_size))
            for part in (data[footer_start:end], data[footer_start - number_of(script, 5) : footer_start])
        )
        (stripe,) = metadata[1]
        for statistics in (footer[7], message_of(stripe)[1]):
            assert (9 in message_of(statistics[1])) == has_times
            assert number_of(message_of(statistics[1]), 1) == 2
        assert footer[8] == [0]
