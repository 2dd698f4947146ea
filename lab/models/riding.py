"""A model of commits by key that share a snapshot: who may ride with whom, and how a rider gives up at once (decision 120).

Owns: `Model`: the moves of jobs under some rules, and the judgement of what they lead to. Must not know: the shipped code. It
takes for granted what was shown for plain appends before (decision 71): requests without an answer, the lineage of a snapshot,
the journal. New here is what depends on the base: the numbers by which rows of one key are ordered, buckets, row ids, watermarks,
and the end of a window.

Invariants: nobody is in two snapshots; who was told *not committed* is in none; of two rows of one key readers know the newer
one; a row id is given once; a watermark never goes ahead of what is in the table; and there is a serial order of all that
landed, which respects the time and explains each snapshot and what each UPDATE has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations

from .riding_table import (
    EMPTY,
    NOBODY,
    SAFE,
    WINDOW,
    Intent,
    Job,
    Part,
    Process,
    Row,
    Rules,
    Snapshot,
    Span,
    State,
    Step,
    apart,
    landed,
    name,
    parsed,
    view,
)


@dataclass(frozen=True)
class Model:
    """The moves of some jobs under some rules, and the judgement of what they lead to."""

    jobs: tuple[Job, ...]
    rules: Rules = SAFE

    def first(self) -> State:
        return State((EMPTY,), frozenset(), (Process(),) * len(self.jobs))

    # ------------------------------------------------------------------------------------------------------------ moves

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Every next step of every process: what it does, and the state that follows."""
        for who, process in enumerate(state.processes):
            for said, history, intents, after in self._steps(state, who, process):
                processes = (*state.processes[:who], after, *state.processes[who + 1 :])
                yield f"{name(who)} {said}", State(history, intents, processes)

    def _steps(self, state: State, who: int, process: Process) -> Iterator[Step]:
        job, same = self.jobs[who], (state.history, state.intents)
        if process.at == "idle" and all(state.processes[other].told for other in job.after):
            seen = frozenset(n for n, other in enumerate(state.processes) if other.told == "committed")
            begun = process._replace(seen=seen)
            for jump in job.jumps:
                yield (
                    f"begins on snapshot {len(state.history)}" + (f", its clock is {jump} ahead" if jump else ""),
                    *same,
                    self._built(state, who, begun, jump),
                )
        elif process.at == "ready":
            yield from self._ready(state, who, process)
        elif process.at == "sends":
            yield from self._sent(state, who, process)
        elif process.at == "lost":
            yield self._looked(state, who, process, "looks")
        elif process.at == "rides":
            yield from self._riding(state, who, process)
        elif process.at == "closes":
            yield from self._closing(state, who, process)

    def _built(self, state: State, who: int, process: Process, jump: int = 0) -> Process:
        """The process with what it is to publish on the newest snapshot."""
        base, job = state.history[-1], self.jobs[who]
        at = "ready" if job.does == "write" else "sends"
        found = (
            tuple((bucket, view(base.live).get(bucket, NOBODY)) for bucket, _, _ in parsed(job.rows))
            if job.does == "update"
            else ()
        )
        part = self._part(base, who, base.top + 1 + jump)
        return process._replace(
            at=at, base=len(state.history), begun=len(state.history), part=part, riders=(), found=found
        )

    def _part(self, base: Snapshot, who: int, number: int) -> Part:
        job, spans, rows = self.jobs[who], list[Span](), list[Row]()
        for bucket, put, count in parsed(job.rows):
            held = [row.number for row in base.live if row.bucket == bucket]
            first = number if self.rules.one_number else max(held, default=0) + number - base.top
            spans.append(Span(bucket, first, first + count - 1))
            rows.append(Row(bucket, first + count - 1, put, who))
        return Part(who, tuple(spans), tuple(rows), base.buckets, job.mark, (base.next_id, base.next_id + job.ids))

    def _ready(self, state: State, who: int, process: Process) -> Iterator[Step]:
        job, part = self.jobs[who], process.part
        assert part is not None
        lost = process.base != process.begun or process.asked < 0 or job.first
        if job.rides and lost and process.asked <= 0:
            asks = Intent(part, process.base)
            yield (
                f"registers on {process.base}",
                state.history,
                state.intents | {asks},
                process._replace(at="rides", asked=process.base),
            )
        if process.riders and not self.rules.chosen_anew:
            riders = process.riders
        else:
            riders = self._chosen(state, process) if job.leads else ()
        whom = f" with {' and '.join(name(r.who) for r in riders)}" if riders else ""
        yield (
            f"builds on {process.base}{whom}",
            state.history,
            state.intents,
            process._replace(at="sends", riders=riders),
        )

    def _chosen(self, state: State, process: Process) -> tuple[Part, ...]:
        """The riders that a leader takes on its base."""
        base, own, rules = state.history[process.base - 1], process.part, self.rules
        assert own is not None
        taken: list[Part] = []
        for intent in sorted(state.intents):
            part, below = intent.part, process.base - intent.base
            closed = frozenset[int]() if self.jobs[own.who].old else base.closed
            known = {p.who for p in base.parts} | closed | {own.who} | {p.who for p in taken}
            if not 0 <= below < WINDOW or part.who in known:
                continue
            if rules.same_buckets and part.buckets != base.buckets:
                continue
            if below and not self._may_follow(part, base):
                continue
            if rules.apart and not all(apart(part, other) for other in (own, *taken)):
                continue
            taken.append(part)
        return tuple(taken)

    def _may_follow(self, part: Part, since: Snapshot) -> bool:
        """Whether a rider may be taken although a snapshot has come since it registered."""
        rules = self.rules
        if rules.onto_appends and since.kind != "APPEND":
            return False
        if rules.after_reads and since.reads and min(s.first for s in part.spans) <= since.top:
            return False
        return not rules.apart_from_base or all(apart(part, other) for other in since.parts)

    def _sent(self, state: State, who: int, process: Process) -> Iterator[Step]:
        if len(state.history) != process.base:
            yield f"loses the race for {process.base + 1}", state.history, state.intents, process._replace(at="lost")
            return
        made = self._snapshot(state, who, process)
        if made is None:
            yield (
                "finds other buckets, and gives up",
                state.history,
                state.intents,
                process._replace(at="done", told="not committed"),
            )
            return
        yield (
            f"publishes {process.base + 1}: committed",
            (*state.history, made),
            state.intents,
            process._replace(at="done", told="committed"),
        )

    def _snapshot(self, state: State, who: int, process: Process) -> Snapshot | None:
        base, job, own = state.history[process.base - 1], self.jobs[who], process.part
        assert own is not None
        if job.does == "compact":
            winners = view(base.live)
            left = frozenset(
                max((r for r in base.live if r.bucket == bucket), key=lambda row: row.number) for bucket in winners
            )
            return base._replace(kind="COMPACT", reads=False, parts=(), closed=frozenset(), live=left)
        if job.does == "rescale":
            return base._replace(kind="OVERWRITE", reads=False, parts=(), closed=frozenset(), buckets=base.buckets + 1)
        if own.buckets != base.buckets:
            return None
        parts, next_id = [own, *process.riders], base.next_id
        if self.rules.ids_by_leader:
            for place, part in enumerate(parts):
                count = part.ids[1] - part.ids[0]
                parts[place], next_id = part._replace(ids=(next_id, next_id + count)), next_id + count
        next_id = max(next_id, *(part.ids[1] for part in parts))
        listed = [i.part for i in state.intents] if job.leads and not self.rules.marks_of_carried else []
        rows = base.live.union(row for part in parts for row in part.rows)
        top = max(base.top, *(span.last for part in parts for span in part.spans))
        mark = max(base.mark, *(part.mark for part in (*parts, *listed)))
        return Snapshot(
            "APPEND", job.does == "update", tuple(parts), frozenset(), rows, top, base.buckets, mark, next_id
        )

    def _looked(self, state: State, who: int, process: Process, said: str) -> Step:
        """It looks for itself, and builds on the newest snapshot otherwise, with new numbers where its own do not fit."""
        if landed(state, who):
            return (
                f"{said}, and was carried",
                state.history,
                state.intents,
                process._replace(at="done", told="committed"),
            )
        job, base = self.jobs[who], len(state.history)
        if job.does != "write":
            return f"{said}, and plans again on {base}", state.history, state.intents, self._built(state, who, process)
        kept = process.riders if not self.rules.chosen_anew else ()
        asked = -1 if process.asked and base >= process.asked + WINDOW else process.asked
        if self._fits(state, process):
            after = process._replace(at="ready", base=base, riders=kept, asked=asked)
            return f"{said}, and its numbers fit on {base}", state.history, state.intents, after
        after = self._built(state, who, process)._replace(riders=kept, asked=asked)
        return f"{said}, and is numbered again on {base}", state.history, state.intents, after

    def _fits(self, state: State, process: Process) -> bool:
        """Decisions 47 and 82: whether a commit may keep its numbers on the newest snapshot."""
        part = process.part
        assert part is not None
        above = min(span.first for span in part.spans)
        for since in state.history[process.begun :]:
            if (since.kind != "APPEND" or since.reads) and above <= since.top:
                return False
            if not all(apart(part, other) for other in since.parts):
                return False
        return True

    def _riding(self, state: State, who: int, process: Process) -> Iterator[Step]:
        if landed(state, who) or len(state.history) > process.asked:
            yield self._looked(state, who, process, "looks")
        else:
            yield "steps in", state.history, state.intents, process._replace(at="ready", base=len(state.history))
        if self.jobs[who].gives_up:
            if self.rules.closing == "withdraws":
                left = frozenset(i for i in state.intents if i.part.who != who)
                yield (
                    "deletes its intent: not committed",
                    state.history,
                    left,
                    process._replace(at="done", told="not committed"),
                )
            else:
                yield "gives up", state.history, state.intents, process._replace(at="closes", base=0)

    def _closing(self, state: State, who: int, process: Process) -> Iterator[Step]:
        history, ended = state.history, process._replace(at="done", told="not committed")
        if not process.base:
            if landed(state, who):
                yield "was carried", history, state.intents, process._replace(at="done", told="committed")
            elif len(history) >= process.asked + WINDOW:
                yield "finds its window closed: not committed", history, state.intents, ended
            else:
                yield (
                    f"is to close its window on {len(history)}",
                    history,
                    state.intents,
                    process._replace(base=len(history)),
                )
        elif len(history) != process.base:
            after = process._replace(base=0) if self.rules.looks_before_closing else ended
            yield f"loses the race for {process.base + 1}", history, state.intents, after
        else:
            named = frozenset({who}) if self.rules.closing == "named" else frozenset[int]()
            made = history[-1]._replace(kind="APPEND", reads=False, parts=(), closed=named)
            after = process._replace(base=0) if self.rules.closing == "each id" else ended
            yield f"publishes {process.base + 1} without rows", (*history, made), state.intents, after

    # ------------------------------------------------------------------------------------------------------- judgement

    def broken(self, state: State) -> str:
        """What is wrong in a state; empty if nothing is."""
        newest, parts = state.history[-1], [part for snapshot in state.history for part in snapshot.parts]
        if len({part.who for part in parts}) < len(parts):
            return "a commit is in two snapshots"
        if len({(row.bucket, row.number) for row in newest.live}) < len(newest.live):
            return "two rows of one key have one number: readers may disagree"
        if any(part.buckets != snapshot.buckets for snapshot in state.history for part in snapshot.parts):
            return "files of another number of buckets are in the table"
        if newest.mark != max((part.mark for part in parts), default=0):
            return "the watermark is not that of what is in the table"
        given = sorted(part.ids for part in parts if part.ids[0] < part.ids[1])
        if any(one[1] > other[0] for one, other in pairwise(given)):
            return "a row id is given twice"
        there = {part.who for part in parts}
        for who, process in enumerate(state.processes):
            if process.told == "not committed" and who in there:
                return f"{name(who)} was told not committed, and its rows are there"
        return ""

    def broken_end(self, state: State) -> str:
        """What is wrong where nobody moves any more."""
        for who, process in enumerate(state.processes):
            if not process.told:
                return f"{name(who)} waits for ever"
        return "" if self._has_order(state) else "no serial order explains what landed"

    def _has_order(self, state: State) -> bool:
        there = [part.who for snapshot in state.history for part in snapshot.parts]
        before = {who: state.processes[who].seen & {*there} for who in there}
        return any(self._explains(order, before, state) for order in permutations(there))

    def _explains(self, order: tuple[int, ...], before: dict[int, frozenset[int]], state: State) -> bool:
        place = {who: number for number, who in enumerate(order)}
        if any(place[earlier] > place[who] for who in order for earlier in before[who]):
            return False
        known: set[int] = set()
        for snapshot in state.history:
            known.update(part.who for part in snapshot.parts)
            held: dict[str, int] = {}
            for who in order:
                if who not in known:
                    continue
                if any(held.get(bucket, NOBODY) != value for bucket, value in state.processes[who].found):
                    return False
                for bucket, put, _ in parsed(self.jobs[who].rows):
                    held[bucket] = who
                    if not put:
                        del held[bucket]
            if held != view(snapshot.live):
                return False
        return True
