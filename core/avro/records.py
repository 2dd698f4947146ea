"""Write and read containers of records in memory, record by record.

Owns: every container format of manifests, lists and index manifests (Avro with every codec, and ORC and Parquet, which
older tables may use). Must not know: what the records mean. Source: format/manifests §1, §2. Invariants: Damaged bytes
raise `TableCorrupt` with the file's name. A container is read completely or not at all.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ..errors import TableCorrupt, Unsupported
from ..json_text import loads
from .blocks import Irregular, TooLarge, blocks_of
from .columnar import ORC_MAGIC, PARQUET_MAGIC, read_columnar, write_columnar

_AVRO = b"Obj\x01"
_SYNC = b"lakelatch-blocks"
"""The marker between the blocks of a container. Any 16 bytes will do, because no reader starts in the middle of a manifest.
With random ones, fastavro's default, the same records would give different bytes each time."""
_CODECS = {"zstd": "zstandard", "none": "null", "gzip": "deflate"}
_BLOCK_BYTES = 16_000
KEPT_CODECS = ("zstd", "zstandard", "none", "null")


def read_records(data: bytes, where: str) -> list[dict[str, Any]]:
    """All records of a container, as dicts. Raises TableCorrupt."""
    if data[:4] == _AVRO:
        return _read_avro(data, where)
    if data[:3] == ORC_MAGIC or data[:4] == PARQUET_MAGIC:
        return read_columnar(data, where)
    raise TableCorrupt(f"{where} is not a manifest file: it begins with {bytes(data[:4])!r}")


def _read_avro(data: bytes, where: str) -> list[dict[str, Any]]:
    import fastavro

    try:
        known = _read_known(data)
        if known is not None:
            return known
        _check_blocks(data)
    except TooLarge as error:
        raise TableCorrupt(f"{where} is damaged: {error}") from error
    try:
        records = list(fastavro.reader(io.BytesIO(data)))
    except ValueError as error:
        if "codec" in str(error) and not isinstance(error, UnicodeError):
            raise Unsupported(
                f"{where}: {error}", next_step="the compression that the file names is not supported"
            ) from error
        raise TableCorrupt(f"{where} is damaged: {error}") from error
    except Exception as error:
        raise TableCorrupt(f"{where} is cut off or damaged: {type(error).__name__}: {error}") from error
    if not all(isinstance(record, dict) for record in records):
        raise TableCorrupt(f"{where} has a value that is not a record")
    return records


def _read_known(data: bytes) -> list[dict[str, Any]] | None:
    """The records of a container whose schema need not be parsed again, which takes five times as long as a small manifest.
    None if anything is unusual: fastavro's reader then says what is wrong. After TooLarge no reader should go on.
    """
    import fastavro

    found: list[dict[str, Any]] = []
    try:
        schema, blocks = blocks_of(data)
        rows = _rows_of(schema)
        for count, block in blocks:
            # As an array: only the counts around the bytes differ.
            whole = b"".join((long_bytes(count), block, b"\0"))
            source = io.BytesIO(whole)
            with _interruptible():
                found += fastavro.schemaless_reader(source, rows, None)
            if count <= 0 or source.tell() != len(whole):
                return None
    except TooLarge:
        raise
    except Exception:
        return None
    return found


def _check_blocks(data: bytes) -> None:
    """Raises TooLarge where fastavro, which has no limits, would fill the memory."""
    try:
        schema, blocks = blocks_of(data)
        check_sizes(loads(schema))
        for _ in blocks:
            pass
    except TooLarge:
        raise
    except (Irregular, ValueError, RecursionError):
        return  # it comes as far as this, and says what is wrong


@lru_cache(maxsize=64)
def _rows_of(schema: bytes) -> Any:
    import fastavro

    record = loads(schema)
    if record["type"] != "record":
        raise Irregular("its values are no records")
    check_sizes(record)
    return fastavro.parse_schema({"type": "array", "items": record})


def check_sizes(kind: Any) -> None:
    """Raises TooLarge for lists of values that take no bytes: their number is bounded by nothing."""
    parts = [kind]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            items = part.get("items", part.get("values"))
            if items in ("null", {"type": "null"}) or (isinstance(items, dict) and items.get("fields") == []):
                raise TooLarge("its schema has a list of values without bytes")
            parts += [part.get("type"), items, *(field.get("type") for field in part.get("fields", ()))]


def write_records(
    schema: Any, records: Iterable[dict[str, Any]], *, compression: str = "zstd", level: int = 1, form: str = "avro"
) -> bytes:
    """A container in `form` `avro`, `orc` or `parquet`, for a schema of `fastavro.parse_schema`. `level` is that of
    zstandard. Raises Unsupported where ORC or Parquet do not have the codec.
    """
    if form != "avro":
        return write_columnar(schema, records, form, compression, level)
    import fastavro

    codec = _CODECS.get(compression, compression)
    out = io.BytesIO()
    with _interruptible():
        fastavro.writer(
            out,
            schema,
            records,
            codec=codec,
            sync_marker=_SYNC,
            codec_compression_level=level if codec == "zstandard" else None,
        )
    return out.getvalue()


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # compiled code reports an interrupt in this way
            raise error.__cause__ from None
        raise


def encoded(schema: Any, record: dict[str, Any]) -> bytes:
    import fastavro

    out = io.BytesIO()
    with _interruptible():
        fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def with_encoded(header: bytes, records: Iterable[bytes], *, compression: str = "zstd", level: int = 1) -> bytes:
    """The Avro container that `write_records` would make, of encoded records and the container without records."""
    out, block, count = [header], bytearray(), 0
    for record in records:
        block += record
        count += 1
        if len(block) >= _BLOCK_BYTES:
            out.append(_block(count, bytes(block), compression, level))
            block, count = bytearray(), 0
    if count:
        out.append(_block(count, bytes(block), compression, level))
    return b"".join(out)


def _block(count: int, data: bytes, compression: str, level: int) -> bytes:
    if _CODECS.get(compression, compression) == "zstandard":
        from .zstandard import zstd

        data = zstd.compress(data, level)
    return b"".join((long_bytes(count), long_bytes(len(data)), data, _SYNC))


def long_bytes(number: int) -> bytes:
    """A count in Avro's encoding.

    >>> long_bytes(64)
    b'\\x80\\x01'
    """
    number <<= 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))
