"""A busy store is asked again for minutes, and one that hangs is given up soon."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from planned_store import PlannedStore, Said, options

from lakelatch.backends.adls import ADLS_ANSWERS
from lakelatch.backends.files import object_store
from lakelatch.backends.gcs import GCS_ANSWERS, _refusal
from lakelatch.backends.requests.answers import facts_of
from lakelatch.backends.requests.patience import BUSY_SECONDS, HUNG, LONGEST_TOLD_S, Patience
from lakelatch.core.errors import StoreUnavailable

LONG = Patience(30.0, 3, 0.001, 0.001, busy_seconds=100.0)


class Busy(Exception):
    pass


def ends(patience: Patience, errors: list[type[Exception]], at_s: float, within: float = float("inf")) -> bool:
    """Whether a request is given up after these errors, the last of them at this time."""
    retrying = patience.retrying(
        lambda error: True,
        within,
        busy=lambda error: isinstance(error, Busy),
        silent=lambda error: isinstance(error, TimeoutError),
    )
    over = False
    for number, error in enumerate(errors, 1):
        state: Any = type("State", (), {"attempt_number": number, "seconds_since_start": at_s, "upcoming_sleep": 0.0})()
        state.outcome = type("Outcome", (), {"exception": lambda self, error=error: error()})()
        over = retrying.stop(state)
    return over


@pytest.mark.parametrize(
    ("errors", "at_s", "over"),
    [
        ([Busy] * 50, 99.0, False),
        ([Busy] * 50, 101.0, True),
        ([Busy] * 50 + [OSError] * 2, 99.0, False),
        ([Busy] * 50 + [OSError] * 3, 99.0, True),
        ([OSError] * 3, 0.1, True),
        ([TimeoutError], 30.0 * HUNG - 1, False),
        ([TimeoutError], 30.0 * HUNG, True),
    ],
)
def test_what_ends_a_request(errors: list[type[Exception]], at_s: float, over: bool) -> None:
    """Sends count where the store answers something else, and time where it is busy or silent."""
    assert ends(LONG, errors, at_s) is over


def test_the_deadline_of_the_operation_ends_all() -> None:
    assert ends(LONG, [Busy], 9.0, within=9.0) and not ends(LONG, [Busy], 8.9, within=9.0)


@pytest.mark.parametrize(
    ("told_s", "least", "most"), [(0.0, 0.0, 0.001), (5.0, 5.0, 5.001), (600.0, LONGEST_TOLD_S, 20.001)]
)
def test_a_store_says_when_to_come_back(told_s: float, least: float, most: float) -> None:
    state: Any = type("State", (), {"attempt_number": 1})()
    state.outcome = type("Outcome", (), {"exception": lambda self: Busy()})()
    assert least <= LONG.retrying(lambda error: True, told_s=lambda error: told_s).wait(state) <= most


class OfAzure(Exception):
    status_code, error_code = 503, "ServerBusy"

    class response:
        headers: Mapping[str, str] = {"Retry-After": "7"}


class OfBotocore(Exception):
    response: Mapping[str, Any] = {"ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": {"retry-after": "7"}}}


def of_gcs(said: str) -> Exception:
    made = _refusal(429, b"{}", is_about_bucket=False)
    made.headers = {"Retry-After": said}
    return made


@pytest.mark.parametrize(
    ("error", "told_s"),
    [
        (OfAzure(), 7.0),
        (OfBotocore(), 7.0),
        (of_gcs("7"), 7.0),
        (of_gcs("Wed, 21 Oct 2026 07:28:00 GMT"), 0.0),
        (of_gcs("-3"), 0.0),
        (ValueError(), 0.0),
    ],
)
def test_where_each_client_shows_it(error: Exception, told_s: float) -> None:
    assert facts_of(error, {**ADLS_ANSWERS.carriers, **GCS_ANSWERS.carriers}).retry_after_s == told_s


def test_a_store_is_patient_unless_it_is_told_otherwise() -> None:
    store = PlannedStore("planned://b/t", options())
    assert store._patience.busy_seconds == BUSY_SECONDS
    quick = PlannedStore("planned://b/t", options(), Patience(7.0, 3, 0.001, 0.001, busy_seconds=0.2))
    quick.fs.planned = [Said("busy")] * 20
    quick.put("k", b"1")
    assert quick.get("k") == b"1", "twenty times busy, for less than its patience"
    quick.fs.planned = [Said("busy")] * 10_000
    with pytest.raises(StoreUnavailable):
        quick.get("k")


@pytest.mark.parametrize(
    ("said", "took_s", "told"),
    [
        ("busy", 61.0, True),
        ("silence", 61.0, True),
        ("cut", 61.0, True),
        ("busy", 1.0, True),
        ("busy", 0.75, False),
        ("denied", 61.0, False),
        ("no bucket", 61.0, False),
    ],
)
def test_who_gave_up_waiting_says_after_how_long(
    monkeypatch: pytest.MonkeyPatch, said: str, took_s: float, told: bool
) -> None:
    """A second or more; an answer that comes at once says nothing of time."""
    monkeypatch.setattr(object_store, "time", SimpleNamespace(monotonic=itertools.count(500.0, took_s).__next__))
    store = PlannedStore("planned://b/t", options(), Patience(7.0, 3, 0.001, 0.001))
    store.fs.planned = [Said(said)] * 10
    with pytest.raises(StoreUnavailable, match="cannot list a/") as error:
        list(store.list("a/"))
    assert (f", after {took_s:.0f} s" in error.value.message) is told
    assert (", after " in error.value.message) is told
