"""The shape of the product: small classes, and no module, function or folder that one cannot take in at once."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import lakelatch.coordinator
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import CommitRequest

MOST_FIELDS = 12


def test_no_class_of_the_coordinator_holds_more_than_a_dozen_fields() -> None:
    """What holds more follows several things at once, and two records of one thing drift apart (H20)."""
    found = {}
    for info in pkgutil.walk_packages(lakelatch.coordinator.__path__, "lakelatch.coordinator."):
        module = importlib.import_module(info.name)
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and kind.__module__ == info.name:
                fields = len(dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else 0
                assigned = _assigned(kind)
                found[f"{info.name}.{name}"] = max(fields, assigned)
            if inspect.isclass(kind) and issubclass(kind, CommitRequest):
                found.pop(f"{info.name}.{name}", None)  # the arguments of a caller, each for itself
            if inspect.isclass(kind) and issubclass(kind, Receipt):
                found.pop(f"{info.name}.{name}", None)  # and the facts that it gets
    too_many = {name: count for name, count in found.items() if count > MOST_FIELDS}
    assert len(found) > 100
    assert not too_many


def _assigned(kind: type) -> int:
    """How many attributes the constructor of a plain class assigns."""
    if dataclasses.is_dataclass(kind) or "__init__" not in vars(kind):
        return 0
    source = inspect.getsource(kind.__init__)
    return len({word.split("=")[0] for word in source.replace("self.", " self.").split() if word.startswith("self.")})


# ---------------------------------------------------------------------------------------------- sizes, of all rooms

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
HOME = Path(__file__).parents[2]
TOPS = ("core", "coordinator", "backends", "table", "spark", "cli", "lab")
LIMITS = {
    "modules in a folder": 15,
    "lines of a module": 400,
    "lines of a function": 60,
    "parameters": 8,
    "fields": MOST_FIELDS,
    "methods": 20,
}
"""Of a function its documentation is not counted, nor `self`. Fields are those that a class declares."""
ABOVE: dict[str, dict[str, int]] = {
    "modules in a folder": {
        "backends": 16,
        "table/methods": 16,
    },
    "lines of a module": {
        "backends/files/object_store.py": 525,
        "coordinator/commit/committer.py": 525,
        "coordinator/protocol/events.py": 462,
        "coordinator/protocol/machine.py": 687,
        "core/expressions/functions.py": 456,
        "core/metadata/schemas/changes.py": 427,
        "lab/contract.py": 427,
        "lab/exploring/explorer.py": 482,
        "table/table.py": 407,
    },
    "lines of a function": {
        "table/scan/plan.py:_plan_branch": 64,
    },
    "parameters": {
        "coordinator/commit/attempt.py:build_snapshot": 15,
        "spark/compaction.py:compact": 9,
        "spark/reading/change_scan.py:changes": 10,
        "spark/reading/scan.py:read": 11,
        "spark/streams/captured.py:apply_changes": 10,
        "spark/write_job.py:write": 19,
        "table/create.py:create_table": 11,
        "table/following/reader.py:Follower.__init__": 12,
        "table/methods/row_changes.py:RowChanges.merge": 9,
        "table/methods/streams.py:Streams.apply_changes": 9,
        "table/methods/streams.py:Streams.follow": 9,
        "table/migration/migrate.py:migrate": 9,
        "table/opened.py:OpenTable._begin": 9,
        "table/writing/files/key_files.py:KeyFileWriter.__init__": 9,
        "table/writing/transaction.py:Transaction.__init__": 15,
        "table/writing/writer.py:TableWriter.__init__": 10,
    },
    "fields": {
        "coordinator/commit/receipt.py:Receipt": 16,
        "coordinator/commit/request.py:CommitRequest": 19,
        "core/metadata/data_file.py:DataFile": 21,
        "core/metadata/manifest.py:ManifestFile": 13,
        "core/metadata/snapshot.py:Snapshot": 25,
        "lab/actors/jobs.py:Job": 13,
        "lab/scenarios/scenario.py:Scenario": 18,
        "lab/seeded/simulate.py:Forecast": 15,
        "lab/world/reading.py:View": 13,
        "lab/world/stage.py:Stage": 17,
        "spark/grammar/table_statements.py:CreateTable": 13,
        "spark/options/asked.py:Asked": 20,
        "table/scan/plan.py:ScanPlan": 13,
        "table/scan/split.py:Split": 13,
        "table/writing/files/data_writer.py:FileSettings": 13,
    },
    "methods": {
        "backends/adls.py:AdlsStore": 21,
        "backends/around/metered.py:MeteredStore": 21,
        "backends/files/object_store.py:FsspecStore": 47,
        "backends/local.py:LocalStore": 25,
        "coordinator/commit/committer.py:Committer": 29,
        "coordinator/history/timeline.py:Timeline": 29,
        "core/expressions/sql.py:_Parser": 28,
        "core/metadata/manifest_columns.py:EntryColumns": 21,
        "lab/contract.py:StoreContract": 27,
        "lab/exploring/explorer.py:Explorer": 23,
        "spark/grammar/reader.py:Reader": 26,
        "table/catalog/catalog.py:Catalog": 22,
        "table/dataset.py:TableDataset": 23,
        "table/opened.py:OpenTable": 21,
        "table/table.py:Table": 24,
        "table/writing/transaction.py:Transaction": 30,
    },
}
"""What is larger all the same, and how large. It may become smaller, here too; nothing is added.

Public functions (`create_table`, `read`, `write`, `merge`, …) have a parameter for each thing that a caller may say.
`Snapshot`, `DataFile` and `ManifestFile` have the fields that the format gives them; the machine's table stands in one place.
"""


@pytest.mark.parametrize("limit", LIMITS)
def test_nothing_becomes_larger_than_one_can_take_in(limit: str) -> None:
    found = sizes()[limit]
    assert len(found) > len(TOPS)
    assert {name: size for name, size in found.items() if size > LIMITS[limit]} == ABOVE[limit]


def sizes() -> dict[str, dict[str, int]]:
    """By limit: how large what it limits is, by its name."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path in sorted(path for top in TOPS for path in (HOME / top).rglob("*.py")):
        name, text = path.relative_to(HOME).as_posix(), path.read_text()
        found["modules in a folder"][name.rpartition("/")[0]] += 1
        found["lines of a module"][name] = len(text.splitlines())
        for owner, node in _within(ast.parse(text), name):
            if isinstance(node, ast.ClassDef):
                found["fields"][owner] = sum(isinstance(part, ast.AnnAssign) for part in node.body)
                found["methods"][owner] = sum(isinstance(part, _Function) for part in node.body)
            else:
                found["lines of a function"][owner] = _lines(node) - (
                    _lines(node.body[0]) if ast.get_docstring(node) is not None else 0
                )
                given = ast.walk(node.args)
                found["parameters"][owner] = sum(
                    isinstance(arg, ast.arg) and arg.arg not in ("self", "cls") for arg in given
                )
    return found


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _within(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.ClassDef | _Function]]:
    """The classes and functions inside of a node, with their names."""
    for part in ast.iter_child_nodes(node):
        name = owner
        if isinstance(part, ast.ClassDef | _Function):
            name = f"{owner}:{part.name}" if isinstance(node, ast.Module) else f"{owner}.{part.name}"
            yield name, part
        yield from _within(part, name)
