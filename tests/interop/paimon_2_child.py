"""Apache Paimon 2.0.0 (Java) in a process of its own, because a process has one JVM and the other tests' has 1.4.2.

Owns: merging rows by its merge functions. Must not know: lakelatch. It reads JSON lines on stdin, and answers on stdout.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import java_home
import jpype
from interop.java.java_values import build_row, reader
from interop.java.jvm import pyspark_jars
from jpype import JClass, JLong
from merge_cases import ERROR

_DATA = "org.apache.paimon."
_FACTORIES = {
    "aggregation": "mergetree.compact.aggregate.AggregateMergeFunction",
    "partial-update": "mergetree.compact.PartialUpdateMergeFunction",
}


def merged(columns: list[list[Any]], options: dict[str, str], rows: list[list[Any]]) -> list[Any]:
    """For each key, ascending: the merged row, null if it is gone, or `ERROR` with the reason."""
    fields, types = JClass("java.util.ArrayList")(), []
    for number, (name, kind) in enumerate(columns):
        util = JClass(_DATA + "utils.JsonSerdeUtil")
        types.append(util.fromJson(json.dumps(kind), JClass(_DATA + "types.DataType").class_))
        fields.add(JClass(_DATA + "types.DataField")(number, name, types[-1]))
    conf = JClass(_DATA + "options.Options")()
    for key, text in options.items():
        conf.set(key, text)
    factory = JClass(_DATA + _FACTORIES[options["merge-engine"]]).factory(
        conf, JClass(_DATA + "types.RowType")(fields), JClass("java.util.ArrayList")([columns[0][0]])
    )
    readers = [reader(t) for t in types]
    by_key: dict[int, list[Any]] = {}
    for row in rows:
        by_key.setdefault(row[1][0], []).append(row)
    return [_one(factory.create(), by_key[key], types, readers) for key in sorted(by_key)]


def _one(function: Any, rows: list[list[Any]], types: list[Any], readers: list[Any]) -> Any:
    kinds = {str(k.shortString()): k for k in JClass(_DATA + "types.RowKind").values()}
    binary = JClass(_DATA + "data.GenericRow").of(1)
    function.reset()
    try:
        for number, (kind, values) in enumerate(rows):
            row = build_row(values, types)
            function.add(JClass(_DATA + "KeyValue")().replace(binary, JLong(number), kinds[kind], row))
        result = function.getResult()
    except jpype.JException as error:
        return [ERROR, str(error.toString())[:200]]
    if not result.isAdd():
        return None
    return [get(result.value(), i) for i, get in enumerate(readers)]


def main() -> None:
    jpype.startJVM(
        str(java_home.wire() / "lib" / "server" / "libjvm.so"),
        "-Duser.timezone=UTC",
        "-Dlog4j2.level=ERROR",
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        classpath=[sys.argv[1], str(pyspark_jars() / "*")],
        convertStrings=False,
    )
    for line in sys.stdin:
        print(json.dumps(merged(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
