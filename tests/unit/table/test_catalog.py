"""Catalogs: databases and tables below one URL, and nothing else that lies there."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.core.errors import InvalidArgument, TableExists, TableNotFound, Unsupported

FIELDS = pa.schema([("v", pa.int64())])
COUNTER = itertools.count()


@pytest.fixture
def lake(tmp_path: Path) -> ll.Catalog:
    made = ll.open_catalog(str(tmp_path / "lake"))
    made.create_database("air")
    made.create_table("air.flights", FIELDS).append(pa.table({"v": [1, 2]}))
    return made


def test_databases_and_tables_are_listed_opened_and_dropped(lake: ll.Catalog) -> None:
    lake.create_database("sea")
    with pytest.raises(InvalidArgument, match="there is a database 'sea'"):
        lake.create_database("sea")
    lake.create_database("sea", exist_ok=True)
    ships = lake.create_table("sea.ships.of.the.line", FIELDS, options={"bucket": "2", "bucket-key": "v"})
    assert ships.url == f"{lake.url}/sea.db/ships.of.the.line"
    assert (lake.databases(), lake.tables("air"), lake.tables("sea")) == (
        ["air", "sea"],
        ["flights"],
        ["ships.of.the.line"],
    )
    assert list(lake) == ["air.flights", "sea.ships.of.the.line"] == lake._ipython_key_completions_()
    assert lake["air.flights"].to_arrow().num_rows == 2
    assert ("air.flights" in lake, "air.none" in lake, 7 in lake) == (True, False, False)
    with pytest.raises(TableExists):
        lake.create_table("air.flights", FIELDS)
    assert lake.create_table("air.flights", FIELDS, exist_ok=True).to_arrow().num_rows == 2
    with pytest.raises(TableNotFound):
        lake["air.none"]
    assert lake.drop_table("air.flights", dry_run=True).snapshots == 1
    assert lake.rename_table("air.flights", "sea.flights").to_arrow().num_rows == 2
    assert list(lake) == ["sea.flights", "sea.ships.of.the.line"]
    lake.drop_table("sea.flights")
    with pytest.raises(InvalidArgument, match=r"holds 1 tables: ships\.of\.the\.line.*cascade=True"):
        lake.drop_database("sea")
    assert [plan.url for plan in lake.drop_database("sea", cascade=True, dry_run=True)] == [ships.url]
    assert lake.databases() == ["air", "sea"]
    lake.drop_database("sea", cascade=True)
    lake.drop_database("air")
    assert lake.databases() == []
    assert list(Path(lake.url).iterdir()) == []
    for unknown in (
        lambda: lake.tables("air"),
        lambda: lake.create_table("air.x", FIELDS),
        lambda: lake.drop_database("air"),
    ):
        with pytest.raises(InvalidArgument, match=r"there is no database 'air'.*create_database\('air'\)"):
            unknown()


def test_foreign_folders_and_object_tables_are_not_listed(lake: ll.Catalog) -> None:
    """Only what is a table of this format; a damaged one is listed, because somebody must find it."""
    root = Path(lake.url)
    for folder in ("air.db/notes/deep", "air.db/.hidden", "air.db/objects/schema", "air.db/late/schema", "air.db/broken/schema",
                   "other/flights/schema", "sys.db", "b$c.db", ".db"):  # fmt: skip
        (root / folder).mkdir(parents=True)
    schema = json.loads((root / "air.db/flights/schema/schema-0").read_text())
    (root / "air.db/objects/schema/schema-0").write_text(json.dumps({**schema, "options": {"type": "object-table"}}))
    (root / "air.db/late/schema/schema-3").write_text(json.dumps({**schema, "id": 3}))
    (root / "air.db/broken/schema/schema-0").write_text("{")
    (root / "air.db/link").symlink_to(root / "air.db/flights")
    (root / "file.db").write_text("")
    assert lake.tables("air") == ["broken", "flights", "late"]
    assert lake.databases() == ["air", "sys"]
    with pytest.raises(InvalidArgument, match="holds 3 tables"):
        lake.drop_database("air")
    with pytest.raises(
        InvalidArgument, match=r"files that belong to no table, such as air\.db/objects/schema/schema-0"
    ):
        lake.drop_database("air", cascade=True)
    assert lake["air.flights"].to_arrow().num_rows == 2


@pytest.mark.parametrize(
    "name",
    ["flights", "", ".", "..", "air.", ".flights", "air...", "air./etc", "air.a/b", "../air.flights", "a/b.c", "air.x\x00y",
     "air.x\ny", "air. x", "sys.tables", "air.flights$snapshots", "air.flights$branch_", "air.flights$branch_../x",
     "air.a\\b", "air.\ud800"],
)  # fmt: skip
def test_hostile_names_are_refused(lake: ll.Catalog, name: str) -> None:
    """H16: before any request."""
    for use in (
        lambda: lake[name],
        lambda: lake.create_table(name, FIELDS),
        lambda: lake.drop_table(name),
        lambda: lake.rename_table("air.flights", name),
        lambda: lake.rename_table(name, "air.x"),
        lambda: name in lake,
    ):
        with pytest.raises(InvalidArgument):
            use()
    assert list(lake) == ["air.flights"]


@pytest.mark.parametrize("name", ["", "a.b", "..", "a/b", "sys", "a$b", " a"])
def test_hostile_names_of_databases_are_refused(lake: ll.Catalog, name: str) -> None:
    """H16."""
    for use in (lake.create_database, lake.drop_database, lake.tables):
        with pytest.raises(InvalidArgument):
            use(name)


def test_a_branch_is_opened_by_its_name(lake: ll.Catalog) -> None:
    source = Path(lake.url) / "air.db/flights"
    (source / "branch/branch-dev").mkdir(parents=True)
    for folder in ("schema", "snapshot"):
        (source / folder).rename(source / "branch/branch-dev" / folder) if False else None
    with pytest.raises(InvalidArgument, match="has no branch 'dev'"):
        lake["air.flights$branch_dev"]
    for use in (
        lambda: lake.drop_table("air.flights$branch_dev"),
        lambda: lake.create_table("air.x$branch_dev", FIELDS),
    ):
        with pytest.raises(InvalidArgument, match="names a branch"):
            use()
    (source / "branch/branch-dev/schema").mkdir()
    (source / "branch/branch-dev/schema/schema-0").write_bytes((source / "schema/schema-0").read_bytes())
    assert lake["air.flights$branch_dev"].to_arrow().num_rows == 0


def test_a_listing_asks_once_for_each_table() -> None:
    """One request per folder, side by side, and one for the database."""
    lake = ll.open_catalog(f"memory://catalog-{next(COUNTER)}/lake")
    lake.create_database("air")
    for name in "abc":
        lake.create_table(f"air.{name}", FIELDS)
    metered = lake._store = MeteredStore(lake._store)
    assert lake.tables("air") == ["a", "b", "c"]
    assert dict(metered.snapshot().by_operation) == {"list": 1, "get": 3}


def test_an_object_store_refuses_a_rename_and_says_what_to_do() -> None:
    lake = ll.open_catalog("s3://no-such-bucket/lake", storage_options={"key": "a", "secret": "not a real one"})
    from lakelatch.backends.files.folders import move

    with pytest.raises(Unsupported, match=r"cannot rename a folder in one step.*clone\(\)"):
        move(lake._store, "s3://no-such-bucket/other")
    assert "not a real one" not in repr(lake)


def test_a_table_is_no_catalog(lake: ll.Catalog) -> None:
    """A job that looks after a catalog would find nothing to do, for ever."""
    table = ll.open_catalog(lake.url_of("air.flights"))
    for ask in (
        table.databases,
        lambda: list(table),
        lambda: table.tables("air"),
        lambda: table.create_database("air"),
    ):
        with pytest.raises(InvalidArgument, match=r"air\.db/flights is a table, and no catalog of tables"):
            ask()
    assert ll.open_catalog(f"{lake.url}/nothing").databases() == []


def test_a_folder_named_like_one_of_a_table_is_none(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    assert ll.open_catalog(str(tmp_path)).databases() == []
