"""The entry point of the coordinator: one committer per open table, which turns requests into receipts.

Owns: the knowledge kept between commits, the journal, the safety probe, and turning outcomes into receipts and errors.
Must not know: rows, Arrow, Spark, the inner workings of the machine. Source: architecture §3, §4 (probe).
Invariants: every commit has one of three answers: a receipt, an error that says "not committed", or `OutcomeUnknown`. After
landing a commit, the committer knows the next base without reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property

from ...backends.around.metered import MeteredStore
from ...backends.elsewhere import fixed_url, place_of
from ...backends.probe import PROBED, probe
from ...backends.requests.deadline import answered_within
from ...backends.store import ObjectNotFound, Store
from ...core import options as opt
from ...core.errors import (
    ERRORS,
    CommitConflict,
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    StoreUnavailable,
    TableCorrupt,
    missing,
)
from ...core.metadata.data_file import DELETE
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot, replaced_by
from ...core.metadata.table_identity import identity_of
from ...core.paths import TablePaths
from ...core.places import FileKeys
from ...core.side_effects import check_side_effects
from ...core.typed import assert_never
from ..history.base import Base
from ..history.lineage import refuse_fork
from ..history.timeline import Timeline
from ..identities.memory import name_of
from ..identities.recall import recall
from ..intents import shelf
from ..intents.carried import carried_by
from ..intents.tickets import Ticket, waiting
from ..intents.window import Window
from ..journal.lines import BoundJournal, Journal, MemoryJournal, address_of
from ..outcome.carrier import carrier_of
from ..outcome.resolution import Case, Resolution, await_answer, resolved
from ..protocol import effects as do
from ..protocol.effects import Outcome
from ..protocol.machine import late
from ..protocol.snapshot_ref import SnapshotRef
from ..surroundings import MACHINE, Surroundings
from ..watching.observe import Watch, watch
from ..watching.watcher import About
from .aftercare import Aftercare
from .attempt import FileNames, MetadataWriter
from .base_numbers import BaseNumbers
from .checks.layout import follow_landed
from .driver import Driver
from .knowledge import Knowledge
from .receipt import Receipt
from .request import CommitRequest
from .retries import RetryPolicy
from .riding.group import Group, may_ride
from .riding.rider import Rider, read_rider
from .settling.hash_indexes import HashIndexes
from .side_by_side import UPLOAD_THREADS
from .steps.run import CommitRun
from .time_budget import TimeBudget
from .turns import Turns
from .upkeep import Upkeep

FOLLOWS_WITHIN_S = 20.0
"""Time for a look at the newest schema after first files. Then the answer is "unknown", and `resolve()` looks again."""


class Committer:
    """Commits to one branch of one table. Thread-safe.

    Args:
        store: bound to the table's root.
        schema: the one that the files of future commits are written with.
        first_schema: the bytes of schema 0 when the table was opened (see `Schemas`).
    """

    def __init__(
        self,
        store: Store,
        paths: TablePaths,
        schema: TableSchema,
        journal: Journal | None = None,
        around: Surroundings = MACHINE,
        first_schema: bytes | None = None,
    ) -> None:
        self.store, self.paths, self.schema, self._around = store, paths, schema, around
        self._first_schema = first_schema
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self._policy = RetryPolicy.from_options(schema.options)
        self._knows = Knowledge(around, schema)
        self._pool = around.executor(UPLOAD_THREADS, "lakelatch-upload")
        self._aside = around.executor(1, "lakelatch-hint")
        self._upkeep = Upkeep(around)

    def commit(self, request: CommitRequest) -> Receipt:
        """Commit, or raise an error with the reason.

        Returns:
            The receipt of this commit, or of the earlier one with the same identity (`replayed`).

        Raises:
            CommitConflict, RetriesExhausted, StoreUnavailable, Fenced, InvalidArgument, TableCorrupt: not committed.
            OutcomeUnknown: it may have landed; call `resolve()` on the error to find out.
        """
        try:
            request.check()
            check_side_effects(self.schema.option_texts)
            self._ensure_safe()
        except LakelatchError as error:
            error.sent = False
            raise
        getattr(self.store, "warm_up", _nothing)()
        began, rides = self._around.monotonic_s(), may_ride(request, self.schema)
        crowded = self._knows.crowd.is_near(began)
        name = str(self._around.new_uuid())
        with self._watch("commit", name, request) as seen:
            metered = MeteredStore(self.store, seen.heard)
            run = self._run(request, name, metered, rides=rides, crowded=crowded)
            driver = self._driver(run, name, self.journal, seen)
            with self._answering(driver):
                outcome = self._followed(driver.commit(), run.timeline, run.landed)
                elapsed_ms = (self._around.monotonic_s() - began) * 1000
                seen.ended(outcome, driver.state.attempt)
                self._learn(run, outcome)
                others, crowd = max(run.others_met, run.group.company), self._knows.crowd
                looks = not others and crowd.may_be_unseen(began, self._around.monotonic_s(), rides=rides)
                crowd.observe(others, driver.attempt_s, self._around.monotonic_s(), driver.lasted_s)
                answer = self._answer(driver, outcome, driver.state.attempt, metered, elapsed_ms)
        if isinstance(answer, LakelatchError):
            raise answer
        if not answer.replayed:
            self._upkeep.due()
        if looks:
            self._aside.submit(self._look_for_others, driver.attempt_s, rides)
        return answer

    def _look_for_others(self, attempt_s: float, rides: bool) -> None:
        """A writer that always wins would not find out that others wait: its commits take fewer requests in sequence."""
        base, timeline = self._knows.newest.get(), self._timeline(self.store)
        if base is not None and base.snapshot is not None:
            asking = shelf.asking(timeline, base.snapshot, self._around.wall_ms) if rides else waiting(timeline)
            self._knows.crowd.observe(asking, attempt_s, self._around.monotonic_s())

    def finish(self, rider: Rider) -> Resolution:
        """Land the append of a writer that is gone, or lose both snapshots that its intent is open for (decision 71).

        Other processes may do the same, and the writer may be alive after all: each of them names the commit in its snapshot,
        looks for it in every snapshot that it builds on, and sends nothing to any other name. So nothing has to be recorded.
        """
        check_side_effects(self.schema.option_texts)
        self._ensure_safe()
        name = str(self._around.new_uuid())
        with self._watch("resolve", rider.intent.commit, rider.request) as seen:
            run = self._run(rider.request, name, MeteredStore(self.store, seen.heard), rides=True, crowded=True)
            driver = self._driver(run, name, MemoryJournal(), seen)
            outcome = driver.finish(rider)
            seen.ended(outcome, driver.state.attempt)
        self.settle()
        itself = isinstance(outcome, do.Committed) and not outcome.replayed and run.group.aboard is None
        return Resolution(outcome, finished=itself)

    def afterwards(self, work: Sequence[Callable[[], object]]) -> None:
        """Do this work after each commit from now on, once the caller has its receipt. It can fail no commit."""
        self._upkeep.work = tuple(work)

    @contextmanager
    def _answering(self, driver: Driver) -> Iterator[None]:
        """Attach the identity and a way to find out the outcome to whatever ends a commit that may land (H23): after its snapshot
        was sent, or after it has asked others to carry it.

        An unexpected error becomes `OutcomeUnknown`. An interrupt is raised unchanged, with the unknown outcome as its cause.
        """
        try:
            yield
        except BaseException as error:
            run = driver.run
            if not run.tried and not run.group.asked:
                raise
            self._knows.newest.forget()
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            ours = run.tried[-1].snapshot if run.tried else driver.state.ours
            assert ours is not None  # an intent is above a base
            unknown = self._unknown(driver, do.Undecided(ours, f"interrupted by {what}"))
            if isinstance(error, Exception):
                raise unknown from error
            raise error from unknown

    def _watch(self, doing: str, name: str, request: CommitRequest) -> Watch:
        address, branch = address_of(fixed_url(self.store)), self.paths.branch
        about = About(
            doing=doing,
            commit=name,
            table=address,
            branch=branch,
            commit_user=request.commit_user,
            identifier=request.identifier,
            kind=request.kind,
        )
        return watch(about, self._around.monotonic_s)

    def _run(self, request: CommitRequest, name: str, store: Store, *, rides: bool, crowded: bool) -> CommitRun:
        writer, timeline = MetadataWriter(self.schema, self.paths, FileNames(name)), self._timeline(store)
        settler = self._knows.settler(request, timeline, writer, rides)
        return CommitRun(
            request=request,
            timeline=timeline,
            writer=writer,
            settler=settler,
            knows=self._knows,
            warm=self._knows.newest.get(),
            group=Group(request, name, self.schema, self._around, self._home, rides, crowded),
        )

    @cached_property
    def _table_id(self) -> str:
        return identity_of(self._first_schema)

    @property
    def _home(self) -> str:
        return f"{self._table_id} at {place_of(self.store)}"

    def _driver(self, run: CommitRun, name: str, journal: Journal, seen: Watch) -> Driver:
        address, branch = address_of(fixed_url(self.store)), self.paths.branch
        budget = TimeBudget(self._policy.timeout_ms, self._around)
        return Driver(
            run=run,
            journal=BoundJournal(journal, name, address, self._around, branch, self._table_id),
            turns=Turns(self._policy, Ticket(run.timeline, name), self._around, budget, self._knows.crowd),
            pool=self._pool,
            aside=self._aside,
            newest_id=self._knows.newest.id,
            budget=budget,
            seen=seen,
        )

    def _timeline(self, store: Store) -> Timeline:
        return Timeline(store, self.paths, self._around.executor, self._first_schema, self._knows.schemas)

    def _ensure_safe(self) -> None:
        """Probe once per process and store whether it refuses to create an object that exists (G9, H1)."""
        if self.store.url in PROBED:
            return
        timeline, key = self._timeline(self.store), self.paths.schema(self.schema.id)
        with TimeBudget(self._policy.timeout_ms, self._around).preparing():
            timeline.check_table()
            try:
                data = self.store.get(key)
            except ObjectNotFound:
                timeline.check_table()
                raise missing(key, what="the table's schema ") from None
            try:
                probe(self.store, key, data, made_again=lambda: timeline.take_back_schema(self.schema.id))
            except StoreUnavailable as error:  # who may write rows need not be allowed to write schemas
                self._probe_hint(error)

    def _probe_hint(self, refused: StoreUnavailable) -> None:
        """Probe with the hint LATEST, which every writer writes and nobody believes."""
        key = self.paths.hint("LATEST")
        try:
            probe(self.store, key, self.store.get(key))
        except (ObjectNotFound, StoreUnavailable):
            raise StoreUnavailable(
                f"the probe, which creates a file that exists to see whether the store refuses that: {refused.message}",
                next_step=refused.next_step,
            ) from refused

    def lookup(
        self, commit_user: str, identifier: int, *, commits_next: bool = False, in_order: bool = False, query: str = ""
    ) -> Receipt | None:
        """The receipt of an identity that landed before, or None. Reads the store.

        Args:
            commits_next: a commit of it follows at once on the snapshot that was found here, and looks the identity up again.

        Raises:
            InvalidArgument: a larger identifier has landed, though the identifiers come in order; or they are another query's.
            OutcomeUnknown: it may have landed, but only other writers, or an earlier version, could have remembered it.
        """
        timeline = self._timeline(self.store)
        with TimeBudget(self._policy.timeout_ms, self._around).preparing():
            base = self._looked_at(timeline, commits_next)
            latest = base.snapshot
            known = self._knows.identities
            recalled = recall(commit_user, latest, timeline, known, identifier=identifier)
            if stranger := recalled.stranger(query):
                raise InvalidArgument(stranger)
            if in_order and recalled.last is not None and identifier < recalled.last[0]:
                raise InvalidArgument(late(commit_user, identifier, recalled.last[0]))
            if doubt := recalled.doubt_of(identifier):
                raise self._forgotten(doubt, commit_user, identifier)
            if not recalled.says(identifier):
                if commits_next:
                    self._knows.newest.learn(base)
                return None
            refuse_fork(timeline, latest)
            carrier = carrier_of(commit_user, identifier, recalled, latest, timeline, known)
            landed = timeline.find(carrier.id)
            if landed is not None:
                follow_landed(timeline, carrier, self._around, landed)
            return self._replay_receipt(carrier, commit_user, identifier, landed)

    def _looked_at(self, timeline: Timeline, commits_next: bool) -> Base:
        """The newest snapshot; its manifests are not read, and the newest schema is looked for only if a commit follows."""
        now_ms = self._around.now_ms
        look, ids = timeline.both(timeline.look, timeline.schema_ids) if commits_next else (timeline.look(), [])
        named = look.snapshot.schema_id if look.snapshot is not None else 0
        schema_id = max(self.schema.id, named, *ids)
        return Base(look.snapshot, (), schema_id, now_ms, look.unhinted, unread=look.snapshot is not None)

    def hash_indexes(self) -> HashIndexes:
        """An older snapshot's will do: the commit compares its keys with the index that it lands on."""
        return HashIndexes(self._timeline(self.store), FileKeys(self.schema), self._knows.hashes)

    def base_numbers(self) -> BaseNumbers:
        """The sequence numbers of the newest snapshot, which is looked for from now on. The next commit builds on it."""
        return BaseNumbers(self._timeline(self.store), self._knows, self.schema, self._around, self._pool)

    def aftercare(self) -> Aftercare:
        return Aftercare(self._timeline(self.store), self.schema, self._around, self._knows, self._pool)

    def learn(self, base: Base) -> None:
        """Take note of a snapshot that was the newest a moment ago, so that the next commit need not look for it."""
        self._knows.newest.learn(base)

    def meet(self, others: int, attempt_s: float) -> None:
        """Note that other writers commit, as a lost race does. `attempt_s`: the seconds that an attempt takes on this store."""
        self._knows.crowd.observe(others, attempt_s, self._around.monotonic_s())

    def settle(self) -> None:
        """Wait for hint writes, clean-up and upkeep of commits that have already returned."""
        self._aside.submit(lambda: None).result()
        self._upkeep.settle()

    # ------------------------------------------------------------------------------------------------------- between

    def _learn(self, run: CommitRun, outcome: Outcome) -> None:
        if isinstance(outcome, do.Committed) and not outcome.replayed:
            self._knows.newest.learn(run.next_base())
        else:
            self._knows.newest.forget()

    def _followed(self, outcome: Outcome, timeline: Timeline, landed: Snapshot | None = None) -> Outcome:
        if not isinstance(outcome, do.Committed):
            return outcome
        try:
            with answered_within(FOLLOWS_WITHIN_S):
                follow_landed(timeline, outcome.snapshot, self._around, landed)
        except LakelatchError as error:
            return do.Undecided(outcome.snapshot, f"it landed, but what has to follow it did not: {error.message}")
        return outcome

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer(
        self,
        driver: Driver,
        outcome: Outcome,
        attempts: int,
        metered: MeteredStore,
        elapsed_ms: float,
    ) -> Receipt | LakelatchError:
        run, request = driver.run, driver.run.request
        match outcome:
            case do.Committed(snapshot=ref, replayed=True):
                assert request.identifier is not None
                snapshot = None
                with suppress(LakelatchError):
                    snapshot = run.timeline.find(ref.id)
                return self._replay_receipt(ref, request.commit_user, request.identifier, snapshot)
            case do.Committed(snapshot=ref):
                usage = metered.snapshot()
                return Receipt(
                    snapshot_id=ref.id,
                    snapshot_uuid=ref.identity,
                    commit_user=request.commit_user,
                    identifier=request.identifier,
                    kind=request.kind,
                    attempts=attempts,
                    retries=attempts - 1,
                    requests=usage.requests,
                    sequential_requests=usage.sequential_depth,
                    elapsed_ms=elapsed_ms,
                    replayed=False,
                    partitions_replaced=_partitions_replaced(run),
                    leader=run.group.leader,
                    riders=0 if run.group.aboard is not None else len(run.group.riders),
                )
            case do.NotCommitted(code=OutcomeUnknown.code, reason=reason):
                assert request.identifier is not None
                return self._forgotten(reason, request.commit_user, request.identifier)
            case do.NotCommitted(code=code, reason=reason, next_step=next_step):
                error = ERRORS[code](f"not committed to {self.store.url}: {reason}", next_step=next_step or None)
                error.sent = run.sent and driver.state.ledger.unsettled
                error.keys_changed = run.settler.keys_changed and code == CommitConflict.code
                error.moved_keys = run.settler.hash_join.moved if code == CommitConflict.code else ()
                error.newer_schema = run.settler.newest_schema.conflict is not None and code == CommitConflict.code
                return error
            case do.Undecided():
                return self._unknown(driver, outcome)
            case _:
                assert_never(outcome)

    def _unknown(self, driver: Driver, outcome: do.Undecided) -> OutcomeUnknown[Receipt]:
        ref, request = outcome.snapshot, driver.run.request
        return OutcomeUnknown(
            f"it is not known whether snapshot {ref.id} of {self.store.url} was committed: {outcome.reason}",
            identity={
                "snapshot_id": ref.id,
                "snapshot_uuid": ref.identity,
                "commit_user": request.commit_user,
                "identifier": request.identifier,
            },
            resolver=lambda timeout: self._resolve(driver, timeout),
        )

    def _forgotten(self, doubt: str, commit_user: str, identifier: int) -> OutcomeUnknown[Receipt]:
        error = OutcomeUnknown[Receipt](
            f"nothing was committed to {self.store.url} now: {doubt}",
            identity={
                "snapshot_id": None,
                "snapshot_uuid": None,
                "commit_user": commit_user,
                "identifier": identifier,
            },
            next_step="look for its rows in the table; if they are not there, commit them under another commit user",
        )
        error.sent = False
        return error

    def _resolve(self, driver: Driver, timeout_s: float) -> Receipt:
        """Find out how a commit of this process ended, and record it in its journal. One that others may still carry goes on."""
        began, run = self._around.monotonic_s(), driver.run
        base = driver.state.ride.window
        window = Window(run.group.commit, base) if base is not None else None
        case = Case(run.request.commit_user, run.request.identifier, tuple(run.tried), self.schema, window)
        with self._watch("resolve", run.writer.names.uuid, run.request) as seen, self._answering(driver):
            metered = MeteredStore(self.store, seen.heard)
            found = await_answer(case, self._timeline(metered), self._around, timeout_s)
            outcome, intent = found.outcome, run.group.intent
            resumes = found.may_go_on and isinstance(driver.state.outcome, do.Undecided)
            if resumes:
                outcome = driver.resume(TimeBudget(self._policy.timeout_ms, self._around), seen)
            elif found.may_go_on and intent is not None:
                # It was interrupted, so that it is finished as if its writer were gone.
                timeline = self._timeline(metered)
                rider = read_rider(intent, driver.asked, driver.state.ride.files, timeline, self.schema)
                outcome = self.finish(rider).outcome
            outcome = self._followed(outcome, self._timeline(metered))
            if isinstance(outcome, do.Committed):
                run.group.found_in(outcome.snapshot, self._timeline(metered))
            seen.ended(outcome, len(run.tried))
        if not isinstance(outcome, do.Undecided) and not resumes:
            driver.journal.record(resolved(outcome))
            driver.journal.conclude()
        elapsed_ms = (self._around.monotonic_s() - began) * 1000
        answer = self._answer(driver, outcome, len(run.tried), metered, elapsed_ms)
        if isinstance(answer, LakelatchError):
            raise answer
        return answer

    def _replay_receipt(self, ref: SnapshotRef, user: str, identifier: int, snapshot: Snapshot | None) -> Receipt:
        """The receipt of a commit that landed before; its kind comes from its snapshot, where that was read."""
        kind = snapshot.commit_kind if snapshot is not None and snapshot.identity == ref.identity else "APPEND"
        uuid_text = None if "|" in ref.identity else ref.identity or None
        return Receipt(
            snapshot_id=ref.id,
            snapshot_uuid=uuid_text,
            commit_user=user,
            identifier=identifier,
            kind=kind,
            attempts=0,
            retries=0,
            requests=0,
            sequential_requests=0,
            elapsed_ms=0.0,
            replayed=True,
            rows=_rows_of(snapshot, user, identifier) if snapshot is not None and kind == "APPEND" else None,
            partitions=_partitions_of(snapshot) if snapshot is not None and kind == "OVERWRITE" else None,
        )


def _rows_of(snapshot: Snapshot, user: str, identifier: int) -> int | None:
    """How many rows a commit appended in a snapshot; None where that does not say."""
    try:
        listed = carried_by(snapshot)
    except TableCorrupt:  # that the commit has landed is true all the same
        return None
    if not listed and (snapshot.commit_user, snapshot.commit_identifier) == (user, identifier):
        return snapshot.delta_record_count
    return next((one.rows for one in listed if (one.user, one.identifier) == (name_of(user), identifier)), None)


def _partitions_of(snapshot: Snapshot) -> tuple[str, ...] | None:
    with suppress(TableCorrupt):  # that the commit has landed is true all the same
        return replaced_by(snapshot)
    return None


def _nothing() -> None:
    """For stores that have nothing to load."""


def _partitions_replaced(run: CommitRun) -> int | None:
    """From how many partitions an overwrite took files away; None for other commits and for tables without partitions."""
    if run.request.target is None or run.attempt is None or not run.schema.partition_keys:
        return None
    return len({entry.partition for entry in run.attempt.entries if entry.kind == DELETE})


def new_commit_user(schema: TableSchema, around: Surroundings = MACHINE) -> str:
    """A commit user for a commit that names none: a fresh uuid, prefixed with option `commit.user-prefix`."""
    prefix = schema.options.get(opt.COMMIT_USER_PREFIX)
    return f"{prefix}_{around.new_uuid()}" if prefix else str(around.new_uuid())
