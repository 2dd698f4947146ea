"""The shape of the coordinator: small classes, and calls that go down."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

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
