"""A clone by reference in detail: what is planned, what each file of it says, in which order they come, and what stops it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from by_hand.tables import IDENTITIES, Asked, Handmade, added, data, full, metadata, removed, with_page

from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.reference import (
    ReferencePlan,
    apply_reference,
    beside_expiries,
    plan_reference,
    reference_tag,
    referring,
)
from lakelatch.core.errors import CommitConflict, InvalidArgument, TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, IndexEntry, IndexFile
from lakelatch.core.metadata.manifest import (
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.metadata.tag import parse_tag
from lakelatch.core.paths import TablePaths

NEWEST = 2
ROOTS = {"schema/schema-0", "snapshot/snapshot-2", "snapshot/EARLIEST", "snapshot/LATEST", "tag/tag-cloned"}


def whole() -> Handmade:
    """A table `full` with the files that are copied."""
    table = full()
    for key in ("index/index-a", "index/index-b", "statistics/stat-2", "bucket-0/data-told"):
        table.store.put(key, key.encode())
    return table


def schema_like(table: Handmade, number: int, **options: str) -> None:
    """One more schema of the table."""
    raw = {**json.loads(table.store.get("schema/schema-0")), "id": number, "options": options}
    table.store.put(f"schema/schema-{number}", json.dumps(raw).encode())


def planned(table: Handmade, target: Asked | None = None, number: int = NEWEST) -> ReferencePlan:
    return plan_reference(table.timeline, table.schema, table.timeline.snapshot(number), target or Asked())


def held(table: Handmade, plan: ReferencePlan) -> None:
    table.store.put(table.paths.tag(plan.tag), table.store.get(table.paths.snapshot(plan.snapshot.id)))


def cloned(table: Handmade, target: Asked, number: int = NEWEST, progress: Any = None) -> ReferencePlan:
    plan = planned(table, target, number)
    held(table, plan)
    return apply_reference(table.timeline, table.schema, plan, target, progress)


def files(store: Asked) -> set[str]:
    return {info.key for info in store.list("")}


# ---------------------------------------------------------------------------------------------------------------- a plan


def test_a_plan_counts_what_stays_and_names_what_is_copied() -> None:
    """All metadata but what is written anew, and changelog files, which no tag keeps; each once, and of the snapshot alone."""
    table = full()
    told = [removed("told"), added("told-2"), added("told-2")]
    table.manifest("changes-2", added("told"), *told)
    table.list_of("told-2", "changes-2")
    table.snapshot(3, added("later"))
    table.asked()
    target = Asked()
    plan = planned(table, target)
    assert [line for line in table.asked() if not line.startswith(("get", "list", "head"))] == [], "nothing is changed"
    others = {
        *metadata("told-2", "changes-2", "index-manifest-2"),
        "index/index-a",
        "index/index-b",
        "statistics/stat-2",
    }
    assert set(plan.copied) == others | data("told", "told-2")
    assert len(plan.copied) == len(set(plan.copied))
    assert {manifest.file_name for manifest in plan.manifests} == {"manifest-1", "manifest-2"}
    assert (plan.referenced, plan.snapshots, plan.snapshot) == (1, 1, table.timeline.snapshot(2))
    assert plan.to_dict() == {
        "url": table.store.url,
        "target": target.url,
        "snapshots": 1,
        "snapshot": 2,
        "referenced": 1,
        "files": 10,
        "tag": plan.tag,
    }
    assert str(plan) == (
        f"{table.store.url} to {target.url}: snapshot 2; 1 data files stay where they are, 10 other files are written. Tag"
        f" '{plan.tag}' of {table.store.url} keeps the data files from its expiry; without that tag, or that table, the clone"
        " loses their rows"
    )


def test_what_the_snapshot_knows_of_commit_users_comes_too() -> None:
    """G3: otherwise a job that commits to the clone under an identity that landed before would land again."""
    assert set(planned(with_page(), number=1).copied) == IDENTITIES


def test_files_are_counted_over_all_manifests() -> None:
    table = Handmade()
    table.snapshot(1, added("a"), added("b"), added("c"))
    table.snapshot(2, removed("a"), removed("b"), added("d"))
    assert planned(table).referenced == 2


def test_the_name_of_the_tag_says_for_which_clone_and_snapshot_it_is() -> None:
    """As long as it needs be to be one clone's own, and of letters that every store allows."""
    assert reference_tag(Asked("memory://lake/trial"), 7) == "referenced-by-trial-c7496e87-7"
    assert reference_tag(Asked("memory://lake/trial"), 8) == "referenced-by-trial-c7496e87-8"
    names = [reference_tag(Asked(f"memory://{place}"), 7) for place in ("a/trial", "b/trial", "b/trial-2")]
    assert len(set(names)) == 3
    strange = reference_tag(Asked("memory://lake/a b+é(c).d_e-f"), 7)
    assert strange.startswith("referenced-by-a-b-c-.d_e-f-")
    long = reference_tag(Asked(f"memory://lake/{'x' * 200}"), 7)
    assert long.startswith(f"referenced-by-{'x' * 60}-") and len(long) == len("referenced-by-") + 60 + len(
        "-01234567-7"
    )


@pytest.mark.parametrize("gone", ["base-2", "delta-2", "told-2", "index-manifest-2"])
def test_a_snapshot_that_lacks_metadata_is_damaged(gone: str) -> None:
    table = full()
    table.gone(f"manifest/{gone}")
    with pytest.raises(TableCorrupt) as raised:
        planned(table)
    assert raised.value.message == f"manifest/{gone} is missing; snapshot/snapshot-2 needs it"


def test_an_index_file_outside_of_the_folder_is_named() -> None:
    table = Handmade()
    file = IndexFile("HASH", "index-x", 1, 1, external_path="file:/elsewhere/index-x")
    table.store.put("manifest/index-manifest-2", encode_index_manifest([IndexEntry(ADD, EMPTY_ROW, 0, file)]))
    table.snapshot(1, added("a"))
    table.snapshot(2, index_manifest="index-manifest-2")
    with pytest.raises(Unsupported) as raised:
        planned(table)
    assert raised.value.message == f"{table.store.url} has an index file outside of its folder: file:/elsewhere/index-x"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"data_file__external_paths": "file:///a,file:///b"},
            "files outside of its folder, in file:/a (option 'data-file.e",
        ),
        ({"lakelatch__referenced_paths": "memory://b/t"}, "in memory://b/t (option 'lakelatch.referenced-paths')"),
        ({"scan__fallback_branch": "b"}, "are read from branch 'b' too (option 'scan.fallback-branch')"),
        ({"scan__primary_branch": "b"}, "are read from branch 'b' too (option 'scan.primary-branch')"),
    ],
)
def test_a_table_whose_rows_are_not_all_in_its_own_folder_is_refused(options: dict[str, str], told: str) -> None:
    table = Handmade(**options)
    table.snapshot(1, added("a"))
    with pytest.raises(Unsupported) as raised:
        planned(table, number=1)
    assert told in raised.value.message.replace("file:///", "file:/")


# ------------------------------------------------------------------------------------------------------------- the files


def test_every_data_file_is_named_by_its_whole_url_and_all_else_is_as_it_was() -> None:
    """Also the lines of deleted files: what a file is called must not differ between two lines about it."""
    table, target = whole(), Asked()
    plan = cloned(table, target)
    assert files(target) == ROOTS | set(plan.copied) | metadata("base-2", "delta-2", "manifest-1", "manifest-2")
    for key in plan.copied:
        assert table.store.get(key) == target.get(key), key
    for name, there in (("manifest-1", [("a", ADD)]), ("manifest-2", [("a", DELETE), ("b", ADD)])):
        key = f"manifest/{name}"
        before, after = (decode_manifest(store.get(key), name) for store in (table.store, target))
        assert [(e.file.file_name, e.kind) for e in after] == [(f"data-{one}", kind) for one, kind in there]
        assert [e.file.external_path for e in after] == [f"{table.store.url}/bucket-0/data-{one}" for one, _ in there]
        assert [e._replace(file=e.file._replace(external_path=None)) for e in after] == before


def test_the_lists_say_how_long_the_new_manifests_are_and_the_snapshot_how_long_the_new_lists() -> None:
    """Readers fetch as many bytes as a list says; sizes that the snapshot does not have are not made up."""
    table, target = whole(), Asked()
    for number, sizes in ((2, (1, None)), (3, (None, 1))):
        made = replace(table.timeline.snapshot(2), base_manifest_list_size=sizes[0], delta_manifest_list_size=sizes[1])
        table.store.put("snapshot/snapshot-2", made.to_json())
        target = Asked()
        cloned(table, target)
        lengths = {name: len(target.get(f"manifest/{name}")) for name in ("base-2", "delta-2")}
        copy = Timeline(target, TablePaths()).snapshot(2)
        assert copy.base_manifest_list_size == (lengths["base-2"] if number == 2 else None)
        assert copy.delta_manifest_list_size == (lengths["delta-2"] if number == 3 else None)
        assert replace(copy, base_manifest_list_size=sizes[0], delta_manifest_list_size=sizes[1]) == made
    for name, manifests in (("base-2", ["manifest-1"]), ("delta-2", ["manifest-2"])):
        lines = decode_manifest_list(target.get(f"manifest/{name}"), name)
        assert [line.file_name for line in lines] == manifests
        assert [line.file_size for line in lines] == [len(target.get(f"manifest/{one}")) for one in manifests]
        before = decode_manifest_list(table.store.get(f"manifest/{name}"), name)
        assert [replace(line, file_size=0) for line in lines] == [replace(line, file_size=0) for line in before]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"manifest__compression": "none"},
        {"manifest__compression": "snappy"},
        {"file__compression__zstd_level": "9"},
    ],
)
def test_manifests_and_lists_are_written_as_the_options_of_the_table_say(options: dict[str, str]) -> None:
    table, target = Handmade(**options), Asked()
    for number in (1, 2):
        table.snapshot(number, *(added(f"{number}-{n}") for n in range(50)))
    cloned(table, target)
    form = {"compression": options.get("manifest__compression", "zstd")}
    level = int(options.get("file__compression__zstd_level", 1))
    entries = decode_manifest(target.get("manifest/manifest-2"), "manifest-2")
    assert len(target.get("manifest/manifest-2")) == len(encode_manifest(entries, level=level, **form))
    lines = decode_manifest_list(target.get("manifest/delta-2"), "delta-2")
    assert len(target.get("manifest/delta-2")) == len(encode_manifest_list(lines, level=level, **form))


def test_the_clone_has_one_snapshot_its_hints_and_a_tag_that_keeps_what_it_refers_to() -> None:
    table, target = whole(), Asked()
    schema_like(table, 1, owner="é")
    schema_like(table, 2)
    cloned(table, target)
    copy = Timeline(target, TablePaths())
    assert (copy.snapshot_ids(), copy.hint("EARLIEST"), copy.hint("LATEST")) == ([2], 2, 2)
    tag = parse_tag(target.get("tag/tag-cloned"), "cloned", "tag/tag-cloned")
    assert (tag.snapshot.identity, tag.snapshot.id, tag.retained_ms) == ("uuid-2", 2, None)
    assert copy.schema_ids() == [0, 1, 2]
    for number in (0, 1, 2):
        found, before = copy.schema(number), table.timeline.schema(number)
        own = {name: text for name, text in found.options.texts.items() if name != "lakelatch.referenced-paths"}
        assert found.options.texts["lakelatch.referenced-paths"] == table.store.url
        assert before.options.texts.items() <= own.items()
        assert (found.id, found.fields) == (number, before.fields)


def test_schema_0_comes_last_and_the_snapshot_after_what_it_names() -> None:
    """Until then nobody takes the folder for a table."""
    table, target = whole(), Asked()
    for number in (1, 2):
        schema_like(table, number)
    plan = cloned(table, target)
    written = [line.partition(" ")[2] for line in target.asked if line.startswith(("put", "create"))]
    assert written[-1] == "schema/schema-0" and f"create {written[-1]}" in target.asked
    assert written[-3:-1] == ["schema/schema-2", "schema/schema-1"]
    named = {*plan.copied, *metadata("base-2", "delta-2", "manifest-1", "manifest-2")}
    assert set(written[: len(named)]) == named


def test_two_clones_of_one_table_are_two_tables() -> None:
    """H21: each has an identity of its own, and neither has that of the other table."""
    table, targets = whole(), (Asked(), Asked())
    for target in targets:
        cloned(table, target)
    assert len({store.get("schema/schema-0") for store in (table.store, *targets)}) == 3


def test_what_is_written_is_told_one_by_one() -> None:
    told: list[tuple[int, int]] = []
    plan = cloned(whole(), Asked(), progress=lambda *counts: told.append(counts))
    total = len(plan.copied) + len(plan.manifests)
    assert told == [(done, total) for done in range(1, total + 1)]


def test_a_schema_that_refers_to_a_table_keeps_its_other_options_and_letters() -> None:
    raw = {"id": 0, "options": {"bucket": "1", "ä": "é"}, "comment": "für alle"}
    made = referring(json.dumps(raw).encode(), "memory://lake/t")
    assert json.loads(made) == {**raw, "options": {**raw["options"], "lakelatch.referenced-paths": "memory://lake/t"}}  # type: ignore[dict-item]
    assert "für alle" in made.decode() and "\n  " in made.decode(), "people can read it, as any schema file"
    for none in ({"id": 0}, {"id": 0, "options": None}):
        options = json.loads(referring(json.dumps(none).encode(), "x"))["options"]
        assert options == {"lakelatch.referenced-paths": "x"}


# ---------------------------------------------------------------------------------------------------------- what stops it


def lost_tag(table: Handmade, plan: ReferencePlan) -> None:
    table.gone(table.paths.tag(plan.tag))


def other_tag(table: Handmade, plan: ReferencePlan) -> None:
    table.copy("snapshot/snapshot-1", table.paths.tag(plan.tag))


@pytest.mark.parametrize("happens", [lost_tag, other_tag])
@pytest.mark.parametrize("at", ["begin", "put snapshot/LATEST"])
def test_without_its_tag_no_clone_is_made(happens: Any, at: str) -> None:
    """Deleted, or put on another snapshot: before anything is written, or just before the clone becomes a table."""
    table = whole()

    class Beside(Asked):
        def put(self, key: str, data: bytes) -> None:
            super().put(key, data)
            if f"put {key}" == at:
                happens(table, plan)

    target = Beside()
    plan = planned(table, target)
    held(table, plan)
    if at == "begin":
        happens(table, plan)
    with pytest.raises(CommitConflict) as raised:
        apply_reference(table.timeline, table.schema, plan, target)
    told = (
        f"tag '{plan.tag}' of {table.store.url}, which keeps the files of the clone, was deleted or replaced meanwhile"
    )
    assert (raised.value.message, raised.value.next_step) == (told, "run it again")
    assert "schema/schema-0" not in files(target)
    assert (files(target) == set()) is (at == "begin")


@pytest.mark.parametrize("expires", [True, False])
def test_changelog_files_that_go_meanwhile_are_an_expiry_or_damage(expires: bool) -> None:
    """No tag keeps them. The error says whether it is worth while to run it again."""
    table, target = whole(), Asked()
    plan = planned(table, target)
    held(table, plan)
    table.gone("manifest/changes-2")
    if expires:
        table.snapshot(3)
        table.store.put("snapshot/EARLIEST", b"3")
    with pytest.raises(CommitConflict if expires else TableCorrupt) as raised:
        apply_reference(table.timeline, table.schema, plan, target)
    if expires:
        assert raised.value.message == f"snapshot 2 of {table.store.url} has expired meanwhile"
        assert raised.value.next_step == "run it again"
    else:
        assert raised.value.message == "manifest/changes-2 is missing; snapshot/snapshot-2 needs it"
    assert "schema/schema-0" not in files(target)


def test_changelog_files_that_went_with_their_tag_are_told_by_the_tag() -> None:
    table, target = whole(), Asked()
    plan = planned(table, target)
    held(table, plan)

    class Losing(Asked):
        def get(self, key: str) -> bytes:
            if key == "manifest/changes-2":
                lost_tag(table, plan)
                raise ObjectNotFound(key)
            return super().get(key)

    timeline = Timeline(Losing(table.store.url), TablePaths())
    with pytest.raises(CommitConflict, match="was deleted or replaced meanwhile"):
        apply_reference(timeline, table.schema, plan, target)


def another_of_its_id(table: Handmade, made: Snapshot) -> None:
    table.store.put("snapshot/snapshot-2", replace(made, uuid="another").to_json())


def gone(table: Handmade, made: Snapshot) -> None:
    table.gone("snapshot/snapshot-2")


def announced(table: Handmade, made: Snapshot) -> None:
    table.store.put("snapshot/EARLIEST", b"3")


def at_its_own_id(table: Handmade, made: Snapshot) -> None:
    table.store.put("snapshot/EARLIEST", b"2")


@pytest.mark.parametrize("error", [TableCorrupt("a file is missing"), InvalidArgument("it is gone", next_step="")])
@pytest.mark.parametrize(
    ("happens", "expires"), [(another_of_its_id, True), (gone, True), (announced, True), (at_its_own_id, False)]
)
def test_an_error_beside_an_expiry_of_the_snapshot_may_be_run_again(
    error: Exception, happens: Any, expires: bool
) -> None:
    table = whole()
    made = table.timeline.snapshot(2)
    with pytest.raises(CommitConflict if expires else type(error)), beside_expiries(table.timeline, made):
        happens(table, made)
        raise error
    with pytest.raises(KeyError), beside_expiries(table.timeline, made):
        raise KeyError("another error is not touched")
