"""Mutants that change nothing, or nothing that anybody is promised, each with its reason.

An entry is written as a run reports the mutant: file, function, `before → after`. One that fits no mutant any more is an
error of the run. Before something is added here, ask whether the code that makes no difference could go instead.
"""

from __future__ import annotations

from .mutants import Equivalent

EQUIVALENTS: tuple[Equivalent, ...] = ()
