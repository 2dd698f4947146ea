"""Files and names that are kept in little memory: what comes out is what went in, and only much goes to disk."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest

from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.deletion import BATCH
from lakelatch.coordinator.maintenance.reach import names as module
from lakelatch.coordinator.maintenance.reach.names import FileSpool, NameSet, fingerprints


def files(count: int, first: int = 0) -> list[ObjectInfo]:
    return [ObjectInfo(f"f{i}", i, i + 1) for i in range(first, first + count)]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The temporary files that are made."""
    made: list[Any] = []
    make = tempfile.TemporaryFile

    def noted(*args: Any, **more: Any) -> Any:
        made.append(make(*args, **more))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    return made


def test_files_are_handed_out_in_groups_that_one_request_can_delete(opened: list[Any]) -> None:
    assert [len(chunk) for chunk in FileSpool(files(2_001)).chunks()] == [BATCH, BATCH, 1]
    assert [len(chunk) for chunk in FileSpool(files(1_000)).chunks()] == [BATCH]
    assert list(FileSpool().chunks()) == []
    assert opened == []


def test_ten_thousand_files_stay_in_memory_and_more_share_one_file_on_disk(opened: list[Any]) -> None:
    spool = FileSpool(files(10_999))
    assert opened == []
    spool.extend(files(11_002, 10_999))
    assert len(opened) == 1
    assert len(spool) == 22_001
    assert list(spool) == files(22_001)
    assert spool[10_998:11_001] == files(3, 10_998)
    assert (spool[22_000], spool[-22_001]) == (files(1, 22_000)[0], files(1)[0])


def test_a_spool_is_read_like_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a file is on disk, in a full group, or in the last one."""
    monkeypatch.setattr(module, "CHUNK", 2)
    monkeypatch.setattr(module, "HELD", 4)
    wanted = files(9)
    spool = FileSpool(wanted)
    assert [spool[i] for i in range(9)] == [spool[i - 9] for i in range(9)] == wanted
    assert spool[1:8:3] == wanted[1:8:3]
    assert spool[-2:] == wanted[-2:]
    for outside in (9, -10, 100):
        with pytest.raises(IndexError):
            spool[outside]
    assert (len(spool), spool.size) == (9, sum(range(9)))


def test_a_spool_equals_another_sequence_of_the_same_files() -> None:
    spool = FileSpool(files(3))
    assert spool == files(3)
    assert spool == tuple(files(3))
    assert spool == FileSpool(files(3))
    assert FileSpool() == ()
    for other in (files(2), files(4), [*files(2), ObjectInfo("f2", 2, 9)], files(3)[::-1], (), set(files(3)), 3, None):
        assert spool != other


def test_a_set_of_names_tells_which_it_holds() -> None:
    names = NameSet()
    assert names.holds(["a"]).tolist() == [False]
    names.add(["a", "b", "a"])
    names.add([])
    names.add(["é\n"])
    assert names.holds(["a", "z", "é\n", "b"]).tolist() == [True, False, True, True]
    assert names.holds([]).tolist() == []
    names.add_fingerprints(fingerprints(["c"]))
    assert names.holds(["c", "d"]).tolist() == [True, False]


def test_few_names_stay_in_memory(opened: list[Any]) -> None:
    names = NameSet()
    for i in range(100):
        names.add([f"n{i}"])
        assert names.holds([f"n{i}", f"m{i}"]).tolist() == [True, False]
    assert opened == []


def test_names_that_no_longer_fit_into_one_run_go_to_disk(monkeypatch: pytest.MonkeyPatch, opened: list[Any]) -> None:
    monkeypatch.setattr(module, "RUN", 4)
    names, on_disk = NameSet(), []
    for number in range(9):
        names.add([f"n{number}"])
        asked = [f"n{i}" for i in range(10)]
        assert names.holds(asked).tolist() == [i <= number for i in range(10)]
        on_disk.append(len(opened))
    assert on_disk[:5] == [0, 0, 0, 0, 1], "four fit"
    names.add([f"m{i}" for i in range(11)])
    assert names.holds([f"m{i}" for i in range(12)]).tolist() == [True] * 11 + [False]


def test_names_leave_memory_as_soon_as_they_are_as_many_as_a_run(
    monkeypatch: pytest.MonkeyPatch, opened: list[Any]
) -> None:
    """Not only when somebody asks; and not before."""
    monkeypatch.setattr(module, "RUN", 4)
    names = NameSet()
    for number, added in enumerate((4, 3, 1)):
        assert len(opened) == 0
        names.add([f"{number}.{i}" for i in range(added)])
    assert len(opened) == 1


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """Spark's workers make them, too."""
    assert fingerprints(["a", "b"]).tolist() == [fingerprints(["a"])[0], fingerprints(["b"])[0]]
    assert fingerprints(["a"]).dtype.itemsize == 8
    assert fingerprints([]).tolist() == []
