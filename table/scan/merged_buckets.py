"""What a plan says of buckets whose rows are merged by primary key: how many sorted runs, how much is merged, how much is raw.

Owns: `MergedBucket`, `merged_buckets`. Must not know: how rows are merged, predicates. Source: format/primary-keys §2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .split import Split

_MOST_LINES = 10


@dataclass
class MergedBucket:
    """One (partition, bucket) with files that are merged.

    Attributes:
        partition: `k=v/…`, or empty.
        runs: the most sorted runs that a key's rows may be spread over.
        sections: groups of files that are merged, each by itself.
        merged_files, merged_bytes: files in these groups.
        raw_files, raw_bytes: files that are read as they are.
    """

    partition: str
    bucket: int
    runs: int = 0
    sections: int = 0
    merged_files: int = 0
    merged_bytes: int = 0
    raw_files: int = 0
    raw_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        folder = f"{self.partition}/bucket-{self.bucket}" if self.partition else f"bucket-{self.bucket}"
        merged = f"{self.runs} runs, {self.merged_files} files ({self.merged_bytes} bytes)"
        return f"{folder}: {merged} are merged, {self.raw_files} files ({self.raw_bytes} bytes) are read as they are"


def merged_buckets(splits: Iterable[Split]) -> list[MergedBucket]:
    """The buckets that have files to merge, those with the most runs first."""
    found: dict[tuple[str, bytes, int], MergedBucket] = {}
    for split in splits:
        bucket = found.setdefault(
            (split.branch, split.partition, split.bucket), MergedBucket(split.partition_path, split.bucket)
        )
        if split.sections:
            bucket.runs = max(bucket.runs, *(split.section_runs or map(len, split.sections)))
            bucket.sections += len(split.sections)
            bucket.merged_files += len(split.files)
            bucket.merged_bytes += split.size
        else:
            bucket.raw_files += len(split.files)
            bucket.raw_bytes += split.size
    merged = [bucket for bucket in found.values() if bucket.sections]
    return sorted(merged, key=lambda bucket: (-bucket.runs, -bucket.merged_bytes))


def told(buckets: list[MergedBucket]) -> list[str]:
    lines = [f"           {bucket}" for bucket in buckets[:_MOST_LINES]]
    left = len(buckets) - _MOST_LINES
    return lines if left <= 0 else [*lines, f"           and {left} more buckets with at most as many runs"]
