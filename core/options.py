"""Table options: names, types, defaults.

Owns: parsing the texts of options (memory sizes, durations, booleans), and the options that lakelatch uses.
Must not know: tables, stores. Source: format/schema §6; format/commit §4, §9; format/manifests §5; the format's own texts.
Invariant: an option that is not set has the format's default. The exception is `commit.*`, whose defaults allow for 100
writers (architecture §3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import InvalidArgument

T = TypeVar("T")

_SIZE_UNITS = {"": 1, "b": 1, "bytes": 1}
for _power, _letter in enumerate("kmgt", start=1):
    for _suffix in ("", "b", "ib", "ibytes", "bytes"):
        _SIZE_UNITS[_letter + _suffix] = 1024**_power
_TIME_UNITS_MS = {
    "": 1.0,
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-6),
}
_NUMBER_UNIT = re.compile(r"^\s*(\d+)\s*([^\d\s]*)\s*$")


def parse_size(text: str) -> int:
    """A memory size in bytes.

    >>> parse_size("8 mb"), parse_size("1b"), parse_size("100")
    (8388608, 1, 100)
    """
    found = _NUMBER_UNIT.match(text.lower())
    if not found or found[2] not in _SIZE_UNITS:
        raise ValueError(f"{text!r} is not a memory size such as '8 mb'")
    return int(found[1]) * _SIZE_UNITS[found[2]]


def parse_duration_ms(text: str) -> int:
    """A duration in milliseconds.

    >>> parse_duration_ms("1 h"), parse_duration_ms("10ms")
    (3600000, 10)
    """
    found = _NUMBER_UNIT.match(text.lower())
    if not found or found[2] not in _TIME_UNITS_MS:
        raise ValueError(f"{text!r} is not a duration such as '10 s'")
    return int(int(found[1]) * _TIME_UNITS_MS[found[2]])


def parse_bool(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return folded == "true"


def parse_zone(text: str) -> str:
    """The name of a time zone.

    >>> parse_zone("Asia/Shanghai")
    'Asia/Shanghai'
    """
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: the name of a folder of the zone database
        raise ValueError(f"{text!r} is not a time zone such as 'Asia/Shanghai'") from error
    return text


GROUP_AUTO, GROUP_OFF = "auto", "off"
REPLAY_WARNS, REPLAY_REFUSES = "warn", "error"


def parse_replay(text: str) -> str:
    """What happens if the rows of a commit that is repeated are evidently others."""
    folded = text.strip().lower()
    if folded not in (REPLAY_WARNS, REPLAY_REFUSES):
        raise ValueError(f"{text!r} is neither {REPLAY_WARNS} nor {REPLAY_REFUSES}")
    return folded


def parse_group(text: str) -> str:
    folded = text.strip().lower()
    if folded not in (GROUP_AUTO, GROUP_OFF):
        raise ValueError(f"{text!r} is neither {GROUP_AUTO} nor {GROUP_OFF}")
    return folded


def parse_levels(text: str) -> Mapping[int, str]:
    """Values by level.

    >>> parse_levels("0:avro, 5:ORC")
    {0: 'avro', 5: 'orc'}
    """
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        level, colon, value = part.partition(":")
        if not colon or not level.strip().isdigit():
            raise ValueError(f"{part!r} is not a level and its value, such as '0:avro'")
        found[int(level)] = value.strip().lower()
    return found


def one_of(*known: str) -> Callable[[str], str]:
    """A parser of one of some words.

    >>> one_of("daily", "hourly")("Daily")
    'daily'
    """

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"it is none of {', '.join(known)}")
        return text.lower()

    return parse


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    key: str
    parse: Callable[[str], T]
    default: T
    fallback_keys: tuple[str, ...] = ()


BUCKET = Option("bucket", int, -1)
BUCKET_KEY = Option("bucket-key", str, "")
BUCKET_FUNCTION = Option("bucket-function.type", str, "default")
DYNAMIC_TARGET_ROWS = Option("dynamic-bucket.target-row-num", int, 2_000_000)
DYNAMIC_INITIAL_BUCKETS: Option[int | None] = Option("dynamic-bucket.initial-buckets", int, None)
DYNAMIC_MAX_BUCKETS = Option("dynamic-bucket.max-buckets", int, -1)
POSTPONE_FIXED_BUCKET = Option("postpone.batch-write-fixed-bucket", parse_bool, True)
POSTPONE_DEFAULT_BUCKETS = Option("postpone.default-bucket-num", int, 1)
FILE_FORMAT = Option("file.format", str.lower, "parquet")
FILE_COMPRESSION = Option("file.compression", str.lower, "zstd")
ZSTD_LEVEL = Option("file.compression.zstd-level", int, 1)
ORC_LTZ_BY_WALL_CLOCK = Option("orc.timestamp-ltz.legacy.type", parse_bool, True)
ORC_WRITER_ZONE = Option("orc.timestamp-ltz.writer-zone", parse_zone, "UTC")
FILE_BLOCK_SIZE: Option[int | None] = Option("file.block-size", parse_size, None)
FILE_FORMAT_PER_LEVEL: Option[Mapping[int, str]] = Option("file.format.per.level", parse_levels, {})
FILE_COMPRESSION_PER_LEVEL: Option[Mapping[int, str]] = Option("file.compression.per.level", parse_levels, {})
COMPRESSION_IN_SUFFIX = Option("file.suffix.include.compression", parse_bool, False)
DATA_FILE_PREFIX = Option("data-file.prefix", str, "data-")
THIN_MODE = Option("data-file.thin-mode", parse_bool, False)
DATA_FILE_DIRECTORY = Option("data-file.path-directory", str, "")
EXTERNAL_PATHS = Option("data-file.external-paths", str, "")
EXTERNAL_STRATEGY = Option("data-file.external-paths.strategy", str.lower, "none")
EXTERNAL_SPECIFIC_FS = Option("data-file.external-paths.specific-fs", str, "")
EXTERNAL_WEIGHTS = Option("data-file.external-paths.weights", str, "")
REFERENCED_PATHS = Option("lakelatch.referenced-paths", str, "")
"""Folders with files of other tables, which this one reads and never deletes (decision 72)."""
INDEX_BESIDE_DATA = Option("index-file-in-data-file-dir", parse_bool, False)
TARGET_FILE_SIZE: Option[int | None] = Option("target-file-size", parse_size, None)
BLOB_TARGET_FILE_SIZE: Option[int | None] = Option("blob.target-file-size", parse_size, None)
STATS_MODE = Option("metadata.stats-mode", str, "truncate(16)")
STATS_MODE_PER_LEVEL: Option[Mapping[int, str]] = Option("metadata.stats-mode.per.level", parse_levels, {})
STATS_DENSE = Option("metadata.stats-dense-store", parse_bool, True)
STATS_KEEP_FIRST: Option[int | None] = Option("metadata.stats-keep-first-n-columns", int, None)
PARTITION_DEFAULT_NAME = Option("partition.default-name", str, "__DEFAULT_PARTITION__")
PARTITION_LEGACY_NAME = Option("partition.legacy-name", parse_bool, True)
PARTITION_EXPIRATION_TIME: Option[int | None] = Option("partition.expiration-time", parse_duration_ms, None)
PARTITION_EXPIRATION_STRATEGY = Option("partition.expiration-strategy", str.lower, "values-time")
PARTITION_EXPIRATION_MAX = Option("partition.expiration-max-num", int, 100)
PARTITION_EXPIRATION_BATCH: Option[int | None] = Option("partition.expiration-batch-size", int, None)
RECORD_EXPIRE_TIME: Option[int | None] = Option("record-level.expire-time", parse_duration_ms, None)
RECORD_TIME_FIELD = Option("record-level.time-field", str, "")
PARTITION_CHECK_INTERVAL = Option("partition.expiration-check-interval", parse_duration_ms, 3_600_000)
CHECK_PARTITIONS_AT_END = Option("end-input.check-partition-expire", parse_bool, False)
PARTITION_TIMESTAMP_PATTERN: Option[str | None] = Option("partition.timestamp-pattern", str, None)
PARTITION_TIMESTAMP_FORMATTER: Option[str | None] = Option("partition.timestamp-formatter", str, None)
PARTITION_MARK_DONE_ACTION = Option("partition.mark-done-action", str.lower, "success-file")
PARTITION_MARK_DONE_URL = Option("partition.mark-done-action.http.url", str, "")
PARTITION_MARK_DONE_PARAMS: Option[str | None] = Option("partition.mark-done-action.http.params", str, None)
PARTITION_IDLE_TIME_TO_DONE: Option[int | None] = Option("partition.idle-time-to-done", parse_duration_ms, None)
PARTITION_TIME_INTERVAL: Option[int | None] = Option("partition.time-interval", parse_duration_ms, None)
PARTITION_SINK_STRATEGY: Option[str | None] = Option("partition.sink-strategy", str.lower, None)

MANIFEST_FORMAT = Option("manifest.format", str.lower, "avro")
MANIFEST_COMPRESSION = Option("manifest.compression", str.lower, "zstd")
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", parse_size, 8 << 20)
MANIFEST_FULL_THRESHOLD = Option("manifest.full-compaction-threshold-size", parse_size, 16 << 20)
MANIFEST_MERGE_MIN_COUNT = Option("manifest.merge-min-count", int, 30)

COMMIT_MAX_RETRIES = Option("commit.max-retries", int, 200)
COMMIT_TIMEOUT: Option[int | None] = Option("commit.timeout", parse_duration_ms, None)
COMMIT_MIN_RETRY_WAIT = Option("commit.min-retry-wait", parse_duration_ms, 100)
COMMIT_MAX_RETRY_WAIT = Option("commit.max-retry-wait", parse_duration_ms, 10_000)
COMMIT_USER_PREFIX = Option("commit.user-prefix", str, "")
COMMIT_JOURNAL = Option("commit.journal", str, "")
COMMIT_GROUP = Option("commit.group", parse_group, GROUP_OFF)
COMMIT_REPLAY = Option("commit.replay", parse_replay, REPLAY_WARNS)

SNAPSHOT_TIME_RETAINED = Option("snapshot.time-retained", parse_duration_ms, 3_600_000)
SNAPSHOT_RETAINED_MIN = Option("snapshot.num-retained.min", int, 10)
SNAPSHOT_RETAINED_MAX = Option("snapshot.num-retained.max", int, 2_147_483_647)
SNAPSHOT_EXPIRE_LIMIT = Option("snapshot.expire.limit", int, 50)
EXPIRE_AUTOMATICALLY: Option[bool | None] = Option("snapshot.expire.automatic", parse_bool, None)
CLEAN_EMPTY_FOLDERS = Option(
    "snapshot.clean-empty-directories", parse_bool, False, ("snapshot.expire.clean-empty-directories",)
)
CONSUMER_EXPIRATION: Option[int | None] = Option("consumer.expiration-time", parse_duration_ms, None)
CONSUMER_CHANGELOG_ONLY = Option("consumer.changelog-only", parse_bool, False)
TAG_AUTOMATIC = Option("tag.automatic-creation", one_of("none", "process-time", "watermark", "batch"), "none")
TAG_PERIOD = Option("tag.creation-period", one_of("daily", "hourly", "two-hours"), "daily")
TAG_PERIOD_DURATION: Option[int | None] = Option("tag.creation-period-duration", parse_duration_ms, None)
TAG_DELAY = Option("tag.creation-delay", parse_duration_ms, 0)
TAG_FORMATTER = Option(
    "tag.period-formatter", one_of("with_dashes", "without_dashes", "without_dashes_and_spaces"), "with_dashes"
)
TAG_RETAINED_MAX: Option[int | None] = Option("tag.num-retained-max", int, None)
TAG_TIME_RETAINED: Option[int | None] = Option("tag.default-time-retained", parse_duration_ms, None)
TAG_TIME_EXPIRES = Option("tag.time-expire-enabled", parse_bool, True)
TAG_COMPLETION = Option("tag.automatic-completion", parse_bool, False)
TAG_BATCH_NAME: Option[str | None] = Option("tag.batch.customized-name", str, None)
TAG_SUCCESS_FILE = Option("tag.create-success-file", parse_bool, False)
PROCESS_TIME_ZONE: Option[str | None] = Option("sink.process-time-zone", str, None)
WATERMARK_TIME_ZONE = Option("sink.watermark-time-zone", str, "UTC")
COMPACTION_MIN_FILES = Option("compaction.min.file-num", int, 5)
COMPACTION_SMALL_RATIO = Option("compaction.small-file-ratio", float, 0.7)
COMPACTION_DELETE_RATIO = Option("compaction.delete-ratio-threshold", float, 0.2)
WRITE_ONLY = Option("write-only", parse_bool, False, ("write.compaction-skip",))
RUNS_TO_COMPACT = Option("num-sorted-run.compaction-trigger", int, 5)
RUNS_TO_STOP: Option[int | None] = Option("num-sorted-run.stop-trigger", int, None)
NUM_LEVELS: Option[int | None] = Option("num-levels", int, None)
COMPACTION_AMPLIFICATION = Option("compaction.max-size-amplification-percent", int, 200)
COMPACTION_SIZE_RATIO = Option("compaction.size-ratio", int, 1)
COMPACTION_FORCE_LEVEL_0 = Option("compaction.force-up-level-0", parse_bool, False)
COMPACTION_FORCE_REWRITE = Option("compaction.force-rewrite-all-files", parse_bool, False)
COMPACTION_INTERVAL: Option[int | None] = Option("compaction.optimization-interval", parse_duration_ms, None)
COMPACTION_TOTAL_SIZE: Option[int | None] = Option("compaction.total-size-threshold", parse_size, None)
COMPACTION_INCREMENTAL_SIZE: Option[int | None] = Option("compaction.incremental-size-threshold", parse_size, None)
OFF_PEAK_START = Option("compaction.offpeak.start.hour", int, -1)
OFF_PEAK_END = Option("compaction.offpeak.end.hour", int, -1)
OFF_PEAK_RATIO = Option("compaction.offpeak-ratio", int, 0)
LOOKUP_WAIT = Option("lookup-wait", parse_bool, True, ("changelog-producer.lookup-wait",))
LOOKUP_COMPACT = Option("lookup-compact", str.lower, "radical")
LOOKUP_COMPACT_INTERVAL: Option[int | None] = Option("lookup-compact.max-interval", int, None)
FULL_COMPACTION_COMMITS: Option[int | None] = Option("full-compaction.delta-commits", int, None)
CLUSTERING_INCREMENTAL = Option("clustering.incremental", parse_bool, False)
FILE_INDEX_READ = Option("file-index.read.enabled", parse_bool, True)
FILE_INDEX_IN_MANIFEST = Option("file-index.in-manifest-threshold", parse_size, 500)
BUCKET_APPEND_ORDERED = Option("bucket-append-ordered", parse_bool, True)
ROW_KIND_FIELD = Option("rowkind.field", str, "")
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", parse_bool, False)
WRITE_BUFFER_SIZE = Option("write-buffer-size", parse_size, 256 << 20)
CHANGELOG_PRODUCER = Option("changelog-producer", str.lower, "none")
OVERWRITE_UPGRADE = Option("overwrite-upgrade", parse_bool, True)
CHANGELOG_FILE_FORMAT: Option[str | None] = Option("changelog-file.format", str.lower, None)
CHANGELOG_FILE_COMPRESSION: Option[str | None] = Option("changelog-file.compression", str.lower, None)
CHANGELOG_FILE_STATS: Option[str | None] = Option("changelog-file.stats-mode", str, None)
CHANGELOG_FILE_PREFIX = Option("changelog-file.prefix", str, "changelog-")
ROW_DEDUPLICATE = Option("changelog-producer.row-deduplicate", parse_bool, False)
DEDUPLICATE_IGNORES = Option("changelog-producer.row-deduplicate-ignore-fields", str, "")
CHANGELOG_TIME_RETAINED: Option[int | None] = Option("changelog.time-retained", parse_duration_ms, None)
CHANGELOG_RETAINED_MIN: Option[int | None] = Option("changelog.num-retained.min", int, None)
CHANGELOG_RETAINED_MAX: Option[int | None] = Option("changelog.num-retained.max", int, None)
FALLBACK_BRANCH = Option("scan.fallback-branch", str, "")
PRIMARY_BRANCH = Option("scan.primary-branch", str, "")
ROW_TRACKING = Option("row-tracking.enabled", parse_bool, False)
DATA_EVOLUTION = Option("data-evolution.enabled", parse_bool, False)
CLUSTERED_BY_OTHERS = Option("pk-clustering-override", parse_bool, False)
SNAPSHOT_ORDERING = Option("sequence.snapshot-ordering", parse_bool, False)
DELETION_VECTORS = Option("deletion-vectors.enabled", parse_bool, False)
WIDE_VECTORS = Option("deletion-vectors.bitmap64", parse_bool, False)
SPLIT_TARGET_SIZE = Option("source.split.target-size", parse_size, 128 << 20)
MERGE_MEMORY = Option("read.merge-memory", parse_size, 512 << 20)
SPLIT_OPEN_COST = Option("source.split.open-file-cost", parse_size, 4 << 20)

ALL_OPTIONS: tuple[Option[Any], ...] = tuple(value for value in list(globals().values()) if isinstance(value, Option))


@dataclass(frozen=True)
class TableOptions:
    """The options of a table as typed values.

    >>> TableOptions({"bucket": "4"}).get(BUCKET)
    4
    """

    texts: Mapping[str, str]

    def get(self, option: Option[T]) -> T:
        for key in (option.key, *option.fallback_keys):
            if key in self.texts:
                try:
                    return option.parse(str(self.texts[key]))
                except ValueError as error:
                    raise InvalidArgument(f"option '{key}' = {self.texts[key]!r}: {error}") from error
        return option.default

    def check(self) -> None:
        """Parse every known option once, so that an invalid value is found before anything is written."""
        for option in ALL_OPTIONS:
            self.get(option)

    def stats_mode_of(self, column: str, position: int) -> str:
        """The statistics mode of a column: its own option, else the table's (format/statistics §1)."""
        own = self.texts.get(f"fields.{column}.stats-mode")
        if own is not None:
            return own
        keep = self.get(STATS_KEEP_FIRST)
        if keep is not None and 0 <= keep <= position:
            return "none"
        return self.get(STATS_MODE)
