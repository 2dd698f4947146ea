"""H16: tables whose own files are hostile, at random: options, journals, external paths, links, codecs that swell, deep nesting.

Each table is made by an attacker, and then used as any other table by somebody who can do more. Nothing outside of it is changed
or asked for, no text that the attacker chose gets into a file outside, every refusal is one of lakelatch's errors, and the memory
stays small. A seed gives the same table again; `LAKELATCH_NIGHTLY=1` makes a thousand.
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import random
import resource
import socket
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from planted import Planted

import lakelatch as ll
from lakelatch.backends import trust
from lakelatch.core.avro.blocks import schema_of
from lakelatch.core.option_names import KNOWN

SEEDS = range(1000 if NIGHTLY else 30)
ROWS = pa.table({"part": ["a", "b"], "v": pa.array([1, 2], pa.int64())})
MOST_BYTES = 1 << 30
"""By how much a process may grow."""


class Attack:
    """A table beside private files, and what an attacker who may write to the table does to it."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice, self.private, self.url = dice, folder / "private", folder / "lake" / "t"
        self.private.mkdir()
        (self.private / "bucket-0").mkdir()
        for name in ("profile", "bucket-0/data-1.parquet"):
            (self.private / name).write_text("private")
        table = ll.create_table(str(self.url), ROWS.schema, partition_by=["part"])
        for _ in range(3):
            table.append(ROWS)
        table.committer.settle()
        self.table = Planted(table)

    def options(self) -> None:
        """Options of all names, with values that lead elsewhere, or that no parser expects."""
        path = self.url / "schema" / "schema-0"
        told = json.loads(path.read_text())
        values = [
            f"file://{self.private}", f"{self.private}/profile", "../../private", f"file:{self.private}/../private", "[" * 9999,
            "{" * 5000 + "}" * 5000, "9" * 400, "-1", "0", "", "object", "round-robin", "true", "\u0000", "a,b,,c", "1 tb",
            "http://127.0.0.1:9/private", "memory://elsewhere/x", "s3://nobody/x",
        ]  # fmt: skip
        for name in self.dice.sample(sorted(KNOWN), self.dice.randint(1, 6)):
            told["options"][name] = self.dice.choice(values)
        if self.dice.random() < 0.5:
            told["options"]["data-file.external-paths"] = f"file://{self.private},memory://elsewhere/x"
            told["options"]["data-file.external-paths.strategy"] = self.dice.choice(["round-robin", "entropy-inject"])
        if self.dice.random() < 0.5:
            told["options"]["commit.journal"] = self.dice.choice([f"{self.private}/profile", f"{self.private}/new"])
        if self.dice.random() < 0.5:
            told["options"] |= {
                "partition.mark-done-action": "http-report",
                "partition.mark-done-action.http.url": f"http://127.0.0.1:{self.dice.choice([1, 80, 9200])}/private",
            }
        path.write_text(json.dumps(told))

    def external(self) -> None:
        """Entries that name private files, in a location that the table's option names."""
        path = self.url / "schema" / "schema-0"
        told = json.loads(path.read_text())
        option = self.dice.choice(["data-file.external-paths", "lakelatch.referenced-paths"])
        told["options"][option] = f"file://{self.private}"
        path.write_text(json.dumps(told))
        where = f"file:{self.private}/bucket-0/data-1.parquet"
        number = self.dice.randint(1, 3)
        entries = [e._replace(file=e.file._replace(external_path=where)) for e in self.table.entries(number)]
        self.table.put_entries(number, entries)

    def links(self) -> None:
        """Folders of the table that are links."""
        for folder in self.dice.sample(["part=a/bucket-0", "part=b/bucket-0", "manifest", "lakelatch", "part=c"], 2):
            place = self.url / folder
            if place.exists():
                place.rename(place.with_name(f"{place.name}-was"))
            place.parent.mkdir(exist_ok=True)
            place.symlink_to(self.private)

    def journals(self) -> None:
        """Lines about other tables, and lines that are none."""
        folder = self.url / "lakelatch" / "journal"
        folder.mkdir(parents=True, exist_ok=True)
        head = {"branch": "main", "at_ms": 1, "commit": "c", "event": "CommitRequested"}
        lines = [{**head, "table": table} for table in (str(self.private), "http://127.0.0.1:9/x", "", "../private")]
        texts = [json.dumps(self.dice.choice(lines)), "[" * 9999, "\u0000", "{}", '{"commit": 1}']
        (folder / "c-1.jsonl").write_text("\n".join(self.dice.sample(texts, 3)))

    def bomb(self) -> None:
        """A manifest list or manifest whose few bytes hold gigabytes."""
        snapshot = self.table.snapshot(3)
        name = self.dice.choice(
            [snapshot.delta_manifest_list, snapshot.base_manifest_list, self.table.delta(3)[0].file_name]
        )
        path = self.url / "manifest" / name
        schema = schema_of(path.read_bytes())
        codec = self.dice.choice(list(BOMBS))
        sync, count = b"0123456789abcdef", self.dice.choice([1, 1 << 40])
        made = b"Obj\x01" + _long(2) + _text(b"avro.schema") + _text(schema) + _text(b"avro.codec") + _text(codec)
        path.write_bytes(made + _long(0) + sync + _long(count) + _text(swollen(codec)) + sync)

    def nesting(self) -> None:
        """JSON that is nested more deeply than any reader's stack."""
        path = self.url / self.dice.choice(["schema/schema-0", "snapshot/snapshot-3", "snapshot/snapshot-1"])
        text = path.read_text()
        deep = self.dice.choice(["[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, "[" * 100_000])
        path.write_text(self.dice.choice([deep, text.rstrip().removesuffix("}") + f', "fields": {deep}}}']))


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


@cache
def swollen(codec: bytes) -> bytes:
    """A block of few bytes that holds many."""
    from lakelatch.core.avro.zstandard import zstd

    if codec == b"snappy":
        return b"\xff\xff\xff\xff\x0f" + b"\0" * 64
    makers: dict[bytes, Any] = {
        b"zstandard": lambda: zstd.ZstdCompressor(),
        b"deflate": lambda: zlib.compressobj(1, zlib.DEFLATED, -15),
        b"bzip2": lambda: bz2.BZ2Compressor(1),
        b"xz": lambda: lzma.LZMACompressor(preset=0),
    }
    made, piece = makers[codec](), b"\0" * (1 << 24)
    return b"".join(made.compress(piece) for _ in range(BOMBS[codec] >> 24)) + made.flush()


BOMBS = {b"zstandard": 4 << 30, b"deflate": 1 << 30, b"bzip2": 256 << 20, b"xz": 256 << 20, b"snappy": 4 << 30}
"""How many bytes come out of a block."""
ATTACKS = ("options", "external", "journals", "bomb", "links", "nesting")
"""In an order in which each finds the files that it changes."""


def used(url: str) -> dict[str, Callable[[], Any]]:
    """What a victim does with a table."""
    table = ll.open_table(url)
    return {
        "read": lambda: table.to_arrow(),
        "append": lambda: table.append(ROWS),
        "compact": lambda: table.compact(min_files=2),
        "mark": lambda: table.mark_done(["part=a"]),
        "verify": lambda: table.verify("all", data=True),
        "recover": lambda: ll.recover(url, writers_are_gone=True),
        "truncate": lambda: table.truncate(),
        "expire": lambda: table.expire(retain_max=1, retain_min=1, older_than=1 << 60),
        "clean": lambda: table.clean(older_than="1 d", external=True),
        "drop": lambda: ll.drop_table(url),
    }


WATCHED: list[str] = []
REACHED: list[str] = []


def _watch(action: str, told: tuple[Any, ...]) -> None:
    if WATCHED and action in (
        "os.remove",
        "os.rename",
        "os.link",
        "os.truncate",
        "os.rmdir",
        "shutil.rmtree",
        "socket.connect",
    ):
        if action == "socket.connect":
            REACHED.append(f"{action} {told[1]}")
        paths = [os.fsdecode(path) for path in told[:2] if isinstance(path, (str, bytes, os.PathLike))]
        REACHED.extend(f"{action} {path}" for path in paths if os.path.realpath(path).startswith(f"{WATCHED[0]}/"))


@pytest.fixture(scope="module", autouse=True)
def hooked() -> None:
    sys.addaudithook(_watch)


def test_the_watch_sees_connections(tmp_path: Path) -> None:
    WATCHED.append(str(tmp_path))
    try:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", 1), 1):
            pass
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen("http://127.0.0.1:1/", timeout=1)
    finally:
        WATCHED.clear()
    assert len(REACHED) == 2
    REACHED.clear()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hostile_table_reaches_nothing_outside(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_KNOWN", trust._Known())
    monkeypatch.setenv(trust.SETTINGS, str(tmp_path / "settings.json"))
    dice = random.Random(seed)
    attack = Attack(tmp_path, dice)
    chosen = [ATTACKS[seed % len(ATTACKS)], *dice.sample(ATTACKS, dice.randint(0, 2))]
    for name in sorted(set(chosen), key=ATTACKS.index):
        getattr(attack, name)()
    before = {path: path.read_bytes() for path in attack.private.rglob("*") if path.is_file()}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    WATCHED.append(str(attack.private.resolve()))
    try:
        acts = used(str(attack.url))
    except ll.LakelatchError:
        acts = {}
    try:
        for name, act in acts.items():
            try:
                act()
            except ll.LakelatchError as error:
                assert len(str(error)) < 40_000, (chosen, name)
    finally:
        WATCHED.clear()
    reached, REACHED[:] = list(REACHED), []
    assert reached == [], chosen
    assert {path: path.read_bytes() for path in attack.private.rglob("*") if path.is_file()} == before, chosen
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown) << 10 < MOST_BYTES, chosen
