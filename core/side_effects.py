"""Options that ask for more than lakelatch does, and how it treats them.

Owns: the list, and the checks of a table that is made, read or written. Must not know: how anything is written or read.
Source: format/commit §8; format/snapshot §5; format/schema §6.

Invariants: If a reader that relies on an option would see wrong rows or metadata after a lakelatch commit, the option is not
given to a table, and a table that has it is not written. If lakelatch would show other rows than Apache Paimon, the table is not
read either. The error names the option. `doctor` reports all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from .errors import Unsupported
from .options import ALL_OPTIONS

_OFF = frozenset({"", "false", "none"})


@dataclass(frozen=True, slots=True)
class SideEffect:
    """An option that asks for something which lakelatch does not do.

    Attributes:
        option: its name, or a pattern of names such as `parquet.*`.
        off: the values, in lower case, that ask for nothing.
        undone: what a lakelatch commit, or read, does not do.
        refused: a reader that relies on the option would see wrong rows or metadata, so the table is not written.
        unread: lakelatch would show other rows than Apache Paimon does, so the table is not read.
    """

    option: str
    undone: str
    off: frozenset[str] = _OFF
    refused: bool = False
    unread: bool = False

    @property
    def is_pattern(self) -> bool:
        return "*" in self.option

    def asked_for(self, options: Mapping[str, str]) -> Iterator[SideEffect]:
        """Itself, by the name that the table has, for each of its options that asks for it."""
        named = [self.option]
        if self.is_pattern:
            named = [key for key in options if fnmatchcase(key, self.option) and key not in _TYPED]
        for name in named:
            if str(options.get(name, "")).strip().lower() not in self.off:
                yield replace(self, option=name)


_VALUES = frozenset({""})
"""For options whose every value asks for something."""
_ZERO = frozenset({"", "0", "0 s", "0s", "0 ms", "0ms"})
_TYPED = frozenset(key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys))
_CLUSTERING = "compaction does not cluster rows: use `optimize(by=…)`"
_INDEX = "the index would not know the rows that lakelatch writes, and readers that rely on it would miss them"
_WRITER = "the writer of lakelatch chooses encodings and the sizes of pages itself; the rows are the same"

SIDE_EFFECTS: tuple[SideEffect, ...] = (
    SideEffect(
        "metadata.iceberg.storage",
        "the Iceberg metadata beside the table would not be updated, and Iceberg readers would miss the rows",
        frozenset({"", "disabled"}),
        refused=True,
    ),
    SideEffect(
        "type",
        "the folder of such a table has a different layout",
        frozenset({"", "table", "materialized-table"}),
        refused=True,
    ),
    SideEffect("chain-table.enabled", "the branches of a chain are not checked against each other", refused=True),
    SideEffect(
        "commit.strict-mode.last-safe-snapshot",
        "other writers' commits since that snapshot are not checked",
        frozenset({"", "-1"}),
        refused=True,
    ),
    *(
        SideEffect(
            f"scan.fallback-{which}-branch",
            "Apache Paimon's reads show rows of that branch, too, which lakelatch's would leave out",
            _VALUES,
            refused=True,
            unread=True,
        )
        for which in ("snapshot", "delta")
    ),
    SideEffect(
        "postpone.merge-on-read",
        "Apache Paimon's reads show rows whose buckets are postponed, which lakelatch's would leave out",
        refused=True,
        unread=True,
    ),
    SideEffect(
        "scan.mode",
        "Apache Paimon begins every read of the table there, and shows other rows than lakelatch would",
        frozenset({"", "default", "full", "latest", "latest-full"}),
        refused=True,
        unread=True,
    ),
    SideEffect(
        "delete.force-produce-changelog",
        "a DELETE would make no changelog, and streams would not be told of the rows that are gone",
        refused=True,
    ),
    SideEffect(
        "write.sequence-number-init-mode",
        "Apache Paimon's writers would begin below the sequence numbers of lakelatch's rows, which its snapshots do not name",
        frozenset({"", "scan"}),
        refused=True,
    ),
    SideEffect(
        "fields.*.default-value",
        "releases of Apache Paimon up to 1.1 fill it in when they read, and later ones do not",
        _VALUES,
        refused=True,
    ),
    *(
        SideEffect(f"pk-{kind}.index.columns", _INDEX, _VALUES, refused=True)
        for kind in ("bitmap", "btree", "full-text", "vector")
    ),
    SideEffect("commit.callbacks", "the classes are not called after a commit"),
    SideEffect("commit.custom-listeners", "the classes are not called after a commit"),
    SideEffect("tag.callbacks", "the classes are not called after a tag is created"),
    SideEffect("partition.mark-done-action", "no partition is marked as done by a commit: use `mark_done`"),
    SideEffect("partition.idle-time-to-done", "no partition is marked as done by a commit: use `mark_done`"),
    SideEffect("partition.idle-time-to-report-statistic", "no statistics of partitions are reported", _ZERO),
    SideEffect("partition.timestamp-format.strict", "a partition whose value is no time is left out, and is no error"),
    SideEffect("metastore.partitioned-table", "partitions are not registered in the metastore"),
    SideEffect("metastore.tag-to-partition", "tags are not registered in the metastore"),
    SideEffect("visibility-callback.enabled", "a commit does not wait until its rows can be read"),
    SideEffect("commit.force-compact", "a commit to an append table compacts nothing: use `compact`"),
    SideEffect(
        "full-compaction.delta-commits", "a commit to an append table compacts nothing: use `compact`", frozenset({""})
    ),
    SideEffect("commit.force-create-snapshot", "a commit without rows makes no snapshot"),
    SideEffect("snapshot.ignore-empty-commit", "a commit without rows makes no snapshot", frozenset({"", "true"})),
    SideEffect("compaction.skip-expired-partitions", "`compact` takes partitions that are about to expire, too"),
    SideEffect("blob-compaction.enabled", "`compact` leaves the files of BLOBs as they are"),
    SideEffect("data-evolution.row-sidecar.enabled", "no sidecar of rows is written beside the files"),
    SideEffect("target-file-row-num", "files end by their size, `target-file-size`, alone", _VALUES),
    SideEffect("postpone.target-row-num-per-bucket", "`postpone.default-bucket-num` says how many buckets", _VALUES),
    SideEffect("postpone.target-size-per-bucket", "`postpone.default-bucket-num` says how many buckets", _VALUES),
    SideEffect("clustering.columns", _CLUSTERING, _VALUES),
    SideEffect("clustering.strategy", _CLUSTERING, frozenset({"", "auto"})),
    SideEffect("clustering.history-partition.idle-to-full-sort", _CLUSTERING, _VALUES),
    SideEffect("clustering.incremental.mode", _CLUSTERING, _VALUES),
    SideEffect("clustering.incremental.optimize-write", _CLUSTERING),
    SideEffect("blob-as-descriptor", "reads give the bytes of BLOBs, and writes take bytes"),
    SideEffect("key-value.sequence_number.enabled", "reads have no column for sequence numbers"),
    SideEffect(
        "read.allow.fullScan", "a read without a condition on partitions is not refused", frozenset({"", "true"})
    ),
    SideEffect("query-auth.enabled", "row and column permissions are not enforced: only a catalog service can do that"),
    *(SideEffect(f"{file_format}.*", _WRITER, _VALUES) for file_format in ("parquet", "orc", "avro")),
)
"""The retention options (`snapshot.*`, `changelog.*`) are not listed, because expiry follows them, also after commits."""


def left_undone(options: Mapping[str, str]) -> list[SideEffect]:
    """What a table's options ask for and lakelatch does not do.

    >>> [effect.option for effect in left_undone({"tag.callbacks": "Ours", "commit.callbacks": "", "orc.x": "1"})]
    ['tag.callbacks', 'orc.x']
    """
    return [asked for effect in SIDE_EFFECTS for asked in effect.asked_for(options)]


def check_side_effects(options: Mapping[str, str]) -> None:
    """Refuse to write a table with an option that misleads its readers. Raises Unsupported."""
    _refuse((effect for effect in left_undone(options) if effect.refused), "writing", "write", options)


def check_readable(options: Mapping[str, str]) -> None:
    """Refuse to read a table with an option by which Apache Paimon shows other rows. Raises Unsupported."""
    _refuse((effect for effect in left_undone(options) if effect.unread), "reading", "read", options)


def _refuse(effects: Iterator[SideEffect], doing: str, do: str, options: Mapping[str, str]) -> None:
    for effect in effects:
        raise Unsupported(
            f"{doing} a table with option '{effect.option}' = '{options[effect.option]}' is not supported: {effect.undone}",
            next_step=f"{do} it with Apache Paimon, or remove the option",
        )


def check_new(options: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Refuse to give a table an option with which lakelatch could not write it. Raises Unsupported."""
    known = {effect.undone for effect in left_undone(before)}
    for effect in left_undone(options):
        if effect.refused and effect.undone not in known:
            raise Unsupported(
                f"option '{effect.option}' = '{options[effect.option]}' is not supported: {effect.undone}",
                next_step="leave it out, or give it to the table with Apache Paimon, which can write it then",
            )
