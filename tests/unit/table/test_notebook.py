"""What a notebook shows of tables, plans, receipts and explanations."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import lakelatch as ll


def test_a_notebook_shows_readable_html(tmp_path: Path) -> None:
    schema = ll.Schema([("p", "INT"), ("<b>", "DECIMAL(5, 2)")])
    table = ll.create_table(str(tmp_path / "t"), schema, partition_by=["p"], comment="a & b", options={"bucket": "-1"})
    rows = pa.table({"p": pa.array([1, 2], pa.int32()), "<b>": pa.array([Decimal(1), Decimal(2)], pa.decimal128(5, 2))})
    receipt = table.append(rows)
    shown = table._repr_html_()
    for part in ("a &amp; b", "<td>&lt;b&gt;</td>", "DECIMAL(5, 2)", "<th>partition</th><td>p</td>", "option bucket"):
        assert part in shown, part
    assert "snapshot 1" in table.at(snapshot=1)._repr_html_()
    assert "<b>" not in shown.replace("<p><b>", "").replace("</b></p>", "")
    assert "<th>attempts</th><td>1</td>" in receipt._repr_html_() and str(receipt) in receipt._repr_html_()
    plan = table.plan(where=(ll.col("p") == 1) & (ll.col("<b>") > 1))
    assert plan._repr_html_().startswith("<pre>snapshot   1") and "`&lt;b&gt;` &gt; 1" in plan._repr_html_()
    told = table.explain()
    assert isinstance(told, str) and told._repr_html_() == f"<pre>{told}</pre>"
    for plan in (table.expire(dry_run=True), table.orphans(), table.compact(dry_run=True), ll.recover(table.url)):
        assert plan._repr_html_() == f"<pre>{plan}</pre>".replace("<pre><", "<pre>&lt;")


def test_showing_a_table_sends_no_request(tmp_path: Path) -> None:
    """A notebook shows the last value of a cell, also when the store cannot be reached."""
    from lakelatch.backends.around.metered import MeteredStore
    from lakelatch.backends.local import LocalStore
    from lakelatch.table.table import Table

    made = ll.create_table(str(tmp_path / "t"), pa.schema([("x", pa.int32())]))
    store = MeteredStore(LocalStore(str(tmp_path / "t")))
    shown = Table(store, made.schema)._repr_html_()
    assert "<td>x</td>" in shown and store.snapshot().requests == 0
