"""The layout of a table's files: the options for their locations and contents, which are fixed by the first file.

Owns: `layout_of`, `differences`, `with_layout`, `held_files`. Must not know: files, stores, how options are changed.
Source: format/schema §4 (options that cannot change once there is a snapshot). Invariant: If two schemas have no differences,
readers with either schema find the same files in the same buckets, even if columns were renamed in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import options as opt
from ..schema import TableSchema
from ..snapshot import Snapshot

_BUCKETS = (opt.BUCKET.key, opt.BUCKET_KEY.key, opt.BUCKET_FUNCTION.key)
_FLAGS = (opt.ROW_TRACKING, opt.DATA_EVOLUTION, opt.INDEX_BESIDE_DATA)
_TEXTS = (opt.DATA_FILE_DIRECTORY.key, "blob-field")
LAYOUT_OPTIONS = (*_BUCKETS, *(flag.key for flag in _FLAGS), *_TEXTS)

SCHEMA_PROPERTY = "lakelatch.schema"
"""A property of an empty snapshot, which names the schema whose layout the snapshot fixes."""


def layout_of(schema: TableSchema) -> Mapping[str, Any]:
    """The layout by option, with defaults. Bucket keys are given as field ids, which a rename does not change."""
    options, fixed = schema.options, schema.bucket > 0
    return {
        opt.BUCKET.key: schema.bucket,
        opt.BUCKET_KEY.key: _key_ids(schema) if fixed else (),
        opt.BUCKET_FUNCTION.key: options.get(opt.BUCKET_FUNCTION) if fixed else "",
        **{flag.key: options.get(flag) for flag in _FLAGS},
        **{key: schema.option_texts.get(key, "") for key in _TEXTS},
    }


def differences(one: TableSchema, other: TableSchema, *, rescaled: bool) -> tuple[str, ...]:
    """The options in which layouts differ. `rescaled` ignores the number of fixed buckets, which may differ by partition."""
    ours, theirs = layout_of(one), layout_of(other)
    found = [key for key in LAYOUT_OPTIONS if ours[key] != theirs[key]]
    if rescaled and opt.BUCKET.key in found and ours[opt.BUCKET.key] > 0 and theirs[opt.BUCKET.key] > 0:
        found.remove(opt.BUCKET.key)
    return tuple(found)


def with_layout(schema: TableSchema, like: TableSchema) -> TableSchema:
    """A schema with the layout of another. If a column of that bucket key was dropped meanwhile, the buckets do not change."""
    names = {field.id: field.name for field in schema.fields}
    keys = LAYOUT_OPTIONS
    if not names.keys() >= set(_key_ids(like)):
        keys = tuple(key for key in keys if key not in _BUCKETS)
    texts = {key: text for key, text in schema.option_texts.items() if key not in keys}
    texts.update({key: like.option_texts[key] for key in keys if key in like.option_texts})
    if opt.BUCKET_KEY.key in keys and like.option_texts.get(opt.BUCKET_KEY.key):
        texts[opt.BUCKET_KEY.key] = ",".join(names[key] for key in _key_ids(like))
    return replace(schema, option_texts=texts)


def held_files(snapshot: Snapshot | None) -> bool:
    """Has the table ever had a file? Only if it has a snapshot other than one that just fixes a layout."""
    if snapshot is None:
        return False
    return SCHEMA_PROPERTY not in snapshot.own_properties or snapshot.total_record_count != 0


def _key_ids(schema: TableSchema) -> tuple[int, ...]:
    return tuple(schema.by_name[name.strip()].id for name in schema.bucket_keys if name.strip() in schema.by_name)
