"""What the files of a table lie and look like by, as its options say: decided with the first file, and never after.

Owns: `layout_of`, `differences`, `with_layout`, `held_files`. Must not know: files, stores, who changes options.
Source: format/schema §4 (options that cannot change once there is a snapshot). Invariant: two schemas without differences write
files that a reader of either finds and puts into the same buckets, whatever columns were renamed in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import options as opt
from .schema import TableSchema
from .snapshot import Snapshot

_BUCKETS = (opt.BUCKET.key, opt.BUCKET_KEY.key, opt.BUCKET_FUNCTION.key)
_FLAGS = (opt.ROW_TRACKING, opt.DATA_EVOLUTION, opt.INDEX_BESIDE_DATA)
_TEXTS = (opt.DATA_FILE_DIRECTORY.key, "blob-field")
LAYOUT_OPTIONS = (*_BUCKETS, *(flag.key for flag in _FLAGS), *_TEXTS)

SCHEMA_PROPERTY = "lakelatch.schema"
"""Of an empty snapshot: the schema whose layout it decides."""


def layout_of(schema: TableSchema) -> Mapping[str, Any]:
    """The layout by option, defaults filled in; bucket keys as field ids, which a rename does not change."""
    options, fixed = schema.options, schema.bucket > 0
    return {
        opt.BUCKET.key: schema.bucket,
        opt.BUCKET_KEY.key: _key_ids(schema) if fixed else (),
        opt.BUCKET_FUNCTION.key: options.get(opt.BUCKET_FUNCTION) if fixed else "",
        **{flag.key: options.get(flag) for flag in _FLAGS},
        **{key: schema.option_texts.get(key, "") for key in _TEXTS},
    }


def differences(one: TableSchema, other: TableSchema, *, rescaled: bool) -> tuple[str, ...]:
    """The options in which two schemas have another layout.

    Args:
        rescaled: a table with files may get another number of fixed buckets, partition by partition: that is no difference.
    """
    ours, theirs = layout_of(one), layout_of(other)
    found = [key for key in LAYOUT_OPTIONS if ours[key] != theirs[key]]
    if rescaled and opt.BUCKET.key in found and ours[opt.BUCKET.key] > 0 and theirs[opt.BUCKET.key] > 0:
        found.remove(opt.BUCKET.key)
    return tuple(found)


def with_layout(schema: TableSchema, like: TableSchema) -> TableSchema:
    """The schema with another's layout. Where a column of its bucket key was dropped meanwhile, buckets stay as they are."""
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
    """Did the table ever hold a file? Not before a snapshot other than one that decides a layout."""
    if snapshot is None:
        return False
    return SCHEMA_PROPERTY not in snapshot.own_properties or snapshot.total_record_count != 0


def _key_ids(schema: TableSchema) -> tuple[int, ...]:
    return tuple(schema.by_name[name.strip()].id for name in schema.bucket_keys if name.strip() in schema.by_name)
