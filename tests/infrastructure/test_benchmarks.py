"""`make bench`: it runs every program of benchmarks/, and writes a page with what each told."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def run_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The program, imported as it imports the others. Tests before and after these know other modules by some of their names."""
    monkeypatch.syspath_prepend(str(FOLDER))
    others = {path.stem: sys.modules.pop(path.stem) for path in FOLDER.glob("*.py") if path.stem in sys.modules}
    yield importlib.import_module("run_all")
    ours = [
        name for name, module in sys.modules.items() if Path(getattr(module, "__file__", None) or "/").parent == FOLDER
    ]
    for name in ours:
        del sys.modules[name]
    sys.modules.update(others)


def test_every_benchmark_is_run(run_all: Any) -> None:
    programs = {path.stem for path in FOLDER.glob("*.py") if re.search(r"^def main\(", path.read_text(), re.MULTILINE)}
    children = {"contended_child", "merge_readers", "pypaimon_child", "run_all"}
    given_data = {"tpcds"}
    assert [b.name for b in run_all.BENCHMARKS] == list(dict.fromkeys(b.name for b in run_all.BENCHMARKS))
    assert {b.name for b in run_all.BENCHMARKS} == programs - children - given_data


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_sizes_are_arguments_that_the_benchmarks_take(
    run_all: Any, size: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each parser sees the arguments of both sizes, and stops there."""

    class Parsed(Exception):
        pass

    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self: argparse.ArgumentParser, *given: Any) -> None:
        raise Parsed(str(parse(self, *given).json))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    for benchmark in run_all.BENCHMARKS:
        words = [*getattr(benchmark, size).split(), "--json", "told.jsonl"]
        monkeypatch.setattr(sys, "argv", [benchmark.name, *words])
        with pytest.raises(Parsed, match=r"told\.jsonl"):
            importlib.import_module(benchmark.name).main()


def test_a_benchmark_that_runs_is_on_the_page(run_all: Any) -> None:
    """The real program, with the real file between it and the page."""
    plan = next(b for b in run_all.BENCHMARKS if b.name == "plan")
    section = run_all.run(plan, "--files 300 --times 1".split(), 120)
    assert section.failure == ""
    assert [len(table["rows"]) for table in section.tables] == [10, 6]
    text = run_all.page.page([section], "full", datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc), {"CPU": "a fast one"})
    assert "`make bench` with `SIZE=full`" in text
    assert "* date: 2026-01-02 03:04 UTC\n* CPU: a fast one\n" in text
    assert f"## {plan.title}\n\n{plan.limit}\n\n`python benchmarks/plan.py --files 300 --times 1`\n" in text
    assert (
        "| plan | CPU s | wall s | files planned | peak MiB | then MiB |\n|---|---|---|---|---|---|\n| one day, columns | "
        in text
    )
    assert len(re.findall(r"^\| ", text, re.MULTILINE)) == 10 + 6 + 2


def test_a_benchmark_that_cannot_run_is_left_out_with_its_last_words(run_all: Any) -> None:
    plan = next(b for b in run_all.BENCHMARKS if b.name == "plan")
    refused = run_all.run(plan, ["--files", "none_of_them"], 120)
    assert refused.tables == []
    text = run_all.page.page([refused], "small", datetime.now(timezone.utc), {})
    assert re.search(
        r"^Left out: it ended with 2: .*argument --files: invalid int value: 'none\\_of\\_them'$", text, re.MULTILINE
    )
    late = run_all.run(plan, ["--files", "100000"], 0.2)
    assert late.failure.startswith("it was stopped after 0 s")


def test_the_machine_is_told_of(run_all: Any) -> None:
    told = run_all.page.machine()
    assert list(told)[:3] == ["CPU", "cores", "memory"]
    assert all(told.values())
