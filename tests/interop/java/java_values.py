"""Apache Paimon's row objects to the encoding of `values.py`, and back.

Owns: one reader and one builder per data type. Must not know: lakelatch's own types: what Java says here is evidence
about them, so it comes from Java's types alone.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from jpype import JArray, JByte, JClass, JObject
from values import (
    decode_time,
    decode_timestamp,
    encode_binary,
    encode_date,
    encode_float,
    encode_time,
    encode_timestamp,
    row_text,
)

Getter = Callable[[Any, int], Any]
"""(row or array, position) to the encoded value."""

PLAIN: dict[str, Getter] = {
    "BOOLEAN": lambda row, i: bool(row.getBoolean(i)),
    "TINYINT": lambda row, i: int(row.getByte(i)),
    "SMALLINT": lambda row, i: int(row.getShort(i)),
    "INTEGER": lambda row, i: int(row.getInt(i)),
    "BIGINT": lambda row, i: int(row.getLong(i)),
    "FLOAT": lambda row, i: encode_float(float(row.getFloat(i))),
    "DOUBLE": lambda row, i: encode_float(float(row.getDouble(i))),
    "CHAR": lambda row, i: str(row.getString(i)),
    "VARCHAR": lambda row, i: str(row.getString(i)),
    "BINARY": lambda row, i: encode_binary(bytes(row.getBinary(i))),
    "VARBINARY": lambda row, i: encode_binary(bytes(row.getBinary(i))),
    "BLOB": lambda row, i: encode_binary(bytes(row.getBlob(i).toData())),
    "DATE": lambda row, i: encode_date(int(row.getInt(i))),
    "TIME_WITHOUT_TIME_ZONE": lambda row, i: encode_time(int(row.getInt(i))),
    "VARIANT": lambda row, i: str(row.getVariant(i).toJson()),
}


def reader(data_type: Any) -> Getter:
    """How a value of a Java data type is taken out of a row or array, encoded; null is None."""
    get = _reader(data_type)
    return lambda row, i: None if row.isNullAt(i) else get(row, i)


def _reader(data_type: Any) -> Getter:
    root = str(data_type.getTypeRoot().name())
    if root in PLAIN:
        return PLAIN[root]
    if root == "DECIMAL":
        precision, scale = data_type.getPrecision(), data_type.getScale()
        return lambda row, i: str(row.getDecimal(i, precision, scale).toBigDecimal().toPlainString())
    if root.startswith("TIMESTAMP"):
        digits, zone = data_type.getPrecision(), "Z" if root.endswith("LOCAL_TIME_ZONE") else ""
        return lambda row, i: encode_timestamp(_nanos(row.getTimestamp(i, digits))) + zone
    if root == "ARRAY":
        element = reader(data_type.getElementType())
        return lambda row, i: _elements(row.getArray(i), element)
    if root == "VECTOR":
        element = reader(data_type.getElementType())
        return lambda row, i: _elements(row.getVector(i), element)
    if root in ("MAP", "MULTISET"):
        key_type = data_type.getKeyType() if root == "MAP" else data_type.getElementType()
        key = reader(key_type)
        value = reader(data_type.getValueType()) if root == "MAP" else PLAIN["INTEGER"]
        by_value = str(key_type.getTypeRoot().name()) == "DECIMAL"
        return lambda row, i: _pairs(row.getMap(i), key, value, by_value)
    if root == "ROW":
        parts = [reader(t) for t in data_type.getFieldTypes()]
        return lambda row, i: [part(inner, j) for inner in [row.getRow(i, len(parts))] for j, part in enumerate(parts)]
    raise NotImplementedError(f"no encoding for {data_type}")


def _nanos(timestamp: Any) -> int:
    return int(timestamp.getMillisecond()) * 1_000_000 + int(timestamp.getNanoOfMillisecond())


def _elements(array: Any, element: Getter) -> list[Any]:
    return [element(array, i) for i in range(array.size())]


def _pairs(java_map: Any, key: Getter, value: Getter, by_value: bool) -> list[list[Any]]:
    keys, values = java_map.keyArray(), java_map.valueArray()
    pairs = [[key(keys, i), value(values, i)] for i in range(java_map.size())]
    if by_value:
        return sorted(pairs, key=lambda pair: Decimal(pair[0]))
    comparable = all(isinstance(pair[0], (int, str)) for pair in pairs) or all(isinstance(p[0], float) for p in pairs)
    return sorted(pairs, key=lambda pair: pair[0] if comparable else row_text(pair[:1]))


# ----------------------------------------------------------------------------------------------------------- building


def build(value: Any, data_type: Any) -> Any:
    """The Java object of an encoded value, as Apache Paimon holds it inside."""
    if value is None:
        return None
    root = str(data_type.getTypeRoot().name())
    lang, data = "java.lang.", "org.apache.paimon.data."
    match root:
        case "BOOLEAN":
            return JClass(lang + "Boolean")(value)
        case "TINYINT":
            return JClass(lang + "Byte")(value)
        case "SMALLINT":
            return JClass(lang + "Short")(value)
        case "INTEGER":
            return JClass(lang + "Integer")(value)
        case "BIGINT":
            return JClass(lang + "Long")(value)
        case "FLOAT":
            return JClass(lang + "Float").valueOf(JClass(lang + "String")(str(value)))
        case "DOUBLE":
            return JClass(lang + "Double").valueOf(JClass(lang + "String")(str(value)))
        case "CHAR" | "VARCHAR":
            return JClass(data + "BinaryString").fromString(value)
        case "BINARY" | "VARBINARY":
            return _java_bytes(value)
        case "BLOB":
            return JClass(data + "BlobData")(_java_bytes(value))
        case "DATE":
            return JClass(lang + "Integer")(decode_timestamp(value + "T00:00:00.0") // 86_400_000_000_000)
        case "TIME_WITHOUT_TIME_ZONE":
            return JClass(lang + "Integer")(decode_time(value))
        case "DECIMAL":
            number = JClass("java.math.BigDecimal")(value)
            return JClass(data + "Decimal").fromBigDecimal(number, data_type.getPrecision(), data_type.getScale())
        case "TIMESTAMP_WITHOUT_TIME_ZONE" | "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            millis, nanos = divmod(decode_timestamp(value), 1_000_000)
            return JClass(data + "Timestamp").fromEpochMillis(millis, nanos)
        case "VARIANT":
            return JClass(data + "variant.GenericVariant").fromJson(value)
        case _:
            return _build_nested(value, data_type, root)


def _build_nested(value: Any, data_type: Any, root: str) -> Any:
    data = "org.apache.paimon.data."
    if root == "ARRAY":
        elements = [build(v, data_type.getElementType()) for v in value]
        return JClass(data + "GenericArray")(JArray(JObject)(elements))
    if root in ("MAP", "MULTISET"):
        key_type = data_type.getKeyType() if root == "MAP" else data_type.getElementType()
        value_type = data_type.getValueType() if root == "MAP" else JClass("org.apache.paimon.types.IntType")()
        entries = JClass("java.util.HashMap")()
        for key, item in value:
            entries.put(build(key, key_type), build(item, value_type))
        return JClass(data + "GenericMap")(entries)
    if root == "ROW":
        return build_row(value, list(data_type.getFieldTypes()))
    raise NotImplementedError(f"no encoding for {data_type}")


def _java_bytes(text: str) -> Any:
    return JArray(JByte)(bytes.fromhex(text[2:]))


def build_row(values: list[Any], types: list[Any], kind: str = "+I") -> Any:
    """A row object of encoded values. `kind` is +I, -U, +U or -D."""
    row = JClass("org.apache.paimon.data.GenericRow")(len(types))
    for i, (value, data_type) in enumerate(zip(values, types, strict=True)):
        row.setField(i, build(value, data_type))
    if kind != "+I":
        kinds = {str(k.shortString()): k for k in JClass("org.apache.paimon.types.RowKind").values()}
        row.setRowKind(kinds[kind])
    return row
