"""Errors on the command line: their exit codes, their form, and that they show no secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll
from lakelatch.cli.frame.exit_codes import exit_code_of
from lakelatch.core import errors
from lakelatch.table.writing.transaction import Transaction

EXPECTED = {
    "commit-conflict": 3, "retries-exhausted": 3, "fenced": 3, "outcome-unknown": 4, "store-unavailable": 5,
    "unsafe-backend": 1, "table-not-found": 2, "table-exists": 2, "table-corrupt": 1, "unsupported": 2,
    "invalid-argument": 2, "protocol-violation": 1, "lakelatch": 1,
}  # fmt: skip
KINDS = list(errors.ERRORS.values())


def test_every_error_is_in_the_table() -> None:
    """Under its own code: what the command line, journals and metrics say is what can be caught."""
    classes = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.LakelatchError)]
    assert sorted(classes, key=KINDS.index) == KINDS
    assert list(errors.ERRORS) == [kind.code for kind in KINDS]
    assert set(errors.ERRORS) == set(EXPECTED)


def made(kind: type[errors.LakelatchError]) -> errors.LakelatchError:
    if kind is errors.OutcomeUnknown:
        return errors.OutcomeUnknown("no answer", identity={"snapshot_id": 4, "commit_user": "u"})
    return kind("no answer")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_exit_code(
    kind: type[errors.LakelatchError], run: Any, tmp_path: Path, flights: ll.Table, monkeypatch: Any
) -> None:
    """Each class of error has a stable exit code; the output is one line and a next step."""
    error = made(kind)
    assert exit_code_of(error) == EXPECTED[kind.code]

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Transaction, "append", fail)
    (tmp_path / "x.csv").write_text("carrier,month\nAA,1\n")
    plain = run("write", flights.url, tmp_path / "x.csv")
    assert (plain.code, plain.out) == (EXPECTED[kind.code], "")
    assert plain.err.splitlines()[0] == "error: no answer"
    assert all(line.startswith("next: ") for line in plain.err.splitlines()[1:])
    told = run("write", flights.url, tmp_path / "x.csv", "--json")
    assert told.error["code"] == kind.code
    assert list(told.error)[:3] == ["code", "message", "next_step"]
    assert ("identity" in told.error) == (kind is errors.OutcomeUnknown)


def test_a_real_conflict(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """Of two overwrites of one partition, the later one fails with exit code 3 and leaves nothing in the table."""
    import pyarrow as pa

    (tmp_path / "x.csv").write_text("carrier,month\nAA,1\n")
    from lakelatch.cli.data import changes

    original = changes.CountedRows.__iter__

    def overtaken(self: Any) -> Any:
        flights.overwrite(pa.table({"carrier": ["ZZ"], "month": pa.array([1], pa.int32())}), partition={"month": 1})
        yield from original(self)

    changes.CountedRows.__iter__ = overtaken  # type: ignore[method-assign]
    try:
        lost = run("write", flights.url, tmp_path / "x.csv", "--mode", "overwrite", "--partition", "month=1", "--json")
    finally:
        changes.CountedRows.__iter__ = original  # type: ignore[method-assign]
    assert (lost.code, lost.error["code"]) == (3, "commit-conflict")
    assert flights.to_arrow(where="month = 1")["carrier"].to_pylist() == ["ZZ"]
    assert run("verify", flights.url, "--all", "--data").code == 0


def test_damage(run: Any, flights: ll.Table) -> None:
    """A damaged table leads to exit code 1, and the message says which command to run."""
    for path in (Path(flights.url) / "manifest").glob("manifest-list-*"):
        path.write_bytes(b"Obj\x01")
    read = run("read", flights.url)
    assert read.code == 1
    assert "lakelatch verify" in read.err


@pytest.mark.parametrize(
    "words",
    [
        (), ("nonsense",), ("read",), ("read", "URL", "--limit", "many"), ("read", "URL", "--limit", "-1"),
        ("write", "URL", "x.parquet", "--mode", "sideways"), ("create", "URL"), ("log", "URL", "--storage-option", "x"),
        ("read", "URL", "--json", "--format", "csv"), ("doctor", "URL", "--race", "2", "--rounds", "0"),
        ("create", "URL", "--column", "a"), ("create", "URL", "--column", "a:INT", "--option", "bucket"),
        ("log", "banana://x/y"),
    ],
)  # fmt: skip
def test_usage(words: tuple[str, ...], run: Any, flights: ll.Table) -> None:
    """Invalid arguments lead to exit code 2."""
    answer = run(*(flights.url if word == "URL" else word for word in words))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err


def test_help(run: Any) -> None:
    """Every command has a help text with an example, and the top level lists the exit codes."""
    top = run("--help")
    assert (top.code, "exit codes" in top.out) == (0, True)
    for command in ("create", "write", "read", "log", "show", "files", "schema", "plan", "explain", "verify", "doctor"):
        answer = run(command, "--help")
        assert answer.code == 0
        assert f"example:\n  lakelatch {command} " in answer.out


SECRET = "s3cr3t-of-the-day"


@pytest.mark.parametrize(
    "words",
    [
        ("log", "s3://nowhere/t", "--storage-option", f"secret={SECRET}", "--storage-option", "nope=1"),
        ("log", "s3://nowhere/t", "--storage-option", f"secret={SECRET}", "--storage-option", f"secret={SECRET}"),
        ("log", "s3://nowhere/t", "--storage-optoin", f"secret={SECRET}"),
        ("log", "URL", "--storage-option", f"secret={SECRET}"),
        ("log", "s3://nowhere/t", "--storage-option", f'client_kwargs={{"aws_secret_access_key": "{SECRET}"'),
        (
            "log", "s3://nowhere/t", "--storage-option", f"secret={SECRET}", "--storage-option", "key=abcd1234",
            "--storage-option", "endpoint_url=http://127.0.0.1:9", "--storage-option", "request_timeout=1",
        ),
    ],
)  # fmt: skip
def test_no_secret_is_printed(words: tuple[str, ...], run: Any, flights: ll.Table, monkeypatch: Any) -> None:
    """H19: no error shows the value of a secret option, not even with a traceback."""
    for debug in ("", "1"):
        monkeypatch.setenv("LAKELATCH_DEBUG", debug)
        for more in ((), ("--json",)):
            answer = run(*(flights.url if word == "URL" else word for word in words), *more)
            assert answer.code in (2, 5)
            assert SECRET not in answer.out + answer.err


def test_on_s3(run: Any, tmp_path: Path, s3: tuple[str, dict[str, Any]]) -> None:
    """The commands against a real S3 server, with explicit storage options."""
    import json

    base, options = s3
    url = f"{base}/flights"
    given: list[str] = []
    for name, value in options.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if name != "use_listings_cache":
            given += ["--storage-option", f"{name}={text}"]
    assert run("create", url, "--column", "a:INT", *given).code == 0
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    written = run("write", url, tmp_path / "x.csv", "--json", *given)
    assert (written.code, written.json["rows"]) == (0, 2)
    assert options["secret"] not in (tmp_path / "state" / "lakelatch" / "journal.jsonl").read_text()
    assert run("read", url, "--json", *given).lines == [{"a": 1}, {"a": 2}]
    assert run("verify", url, "--all", "--data", *given).code == 0
    doctor = run("doctor", url, "--json", "--race", 2, "--rounds", 4, *given)
    status = {check["check"]: check["status"] for check in doctor.json["checks"]}
    assert doctor.code == 0, doctor
    assert (status["atomic create"], status["race"], status["credentials"]) == ("ok", "ok", "warn")
    assert run("files", url, *given).out.count("parquet") == 1
    assert options["secret"] not in doctor.out
