"""Mutants that change nothing, or nothing that anybody is promised, each with its reason.

An entry is written as a run reports the mutant: file, function, `before → after`. One that fits no mutant any more is an
error of the run. Before something is added here, ask whether the code that makes no difference could go instead.
"""

from __future__ import annotations

from .mutants import Equivalent

EQUIVALENTS: tuple[Equivalent, ...] = (
    *(
        Equivalent(
            "backends/files/durable.py",
            "",
            f"0 → 1{place}",
            "the default of getattr: every system that we test on has the flag that is asked for",
        )
        for place in ("", " (place 2)", " (place 3)")
    ),
    Equivalent(
        "backends/files/object_store.py",
        "bucket_root",
        "url.partition('://') → url.rpartition('://')",
        "a URL with a second '://' is refused either way: its path would have an empty part",
    ),
    Equivalent(
        "backends/requests/answers.py",
        "AnswerTable.classify",
        "facts.code is not None and facts.code in self.codes → without `facts.code is not None`",
        "no table has an answer for the code None: their keys are texts",
    ),
    Equivalent(
        "coordinator/watching/telemetry.py",
        "Traced.__init__",
        "0 → 1",
        "the first attempt has the number 1 and begins because there is none yet, whatever number came before it",
    ),
    Equivalent(
        "coordinator/maintenance/reach/reachable.py",
        "Usage._may_mention",
        "len(partitions) > FEW_PARTITIONS → len(partitions) >= FEW_PARTITIONS",
        "with so many partitions a manifest is read, or its bounds are compared first: what is found is the same, and where"
        " the cheaper of the two ends is an estimate",
    ),
    Equivalent(
        "coordinator/recovery/past.py",
        "pasts",
        "isinstance(of_commit[0], Entry) and isinstance(of_commit[0].event, ev.CommitRequested) → without"
        " `isinstance(of_commit[0], Entry)`",
        "damage is only ever put behind an entry of its commit; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/journal/object_journal.py",
        "",
        "3 → 4",
        "how often an object without an answer is sent again: any small number keeps the promise",
    ),
    *(
        Equivalent(
            "coordinator/commit/settling/settler.py",
            function,
            change,
            "how many entries are kept for the next check decides what is read again, and not what is found",
        )
        for function, change in (
            ("", "16 → 17"),
            ("Settler._in_buckets.read", "len(unread) <= FEW_MANIFESTS → len(unread) < FEW_MANIFESTS"),
        )
    ),
    Equivalent(
        "coordinator/commit/settling/settler.py",
        "Settler._index",
        "if isinstance(left, Conflict) → if False",
        "what an overwrite takes away is in the list that was just read; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/commit/turns.py",
        "Turns.wait",
        "0 → 1 (place 2)",
        "with nobody ahead at the first look there is no pause, however long a turn is",
    ),
    Equivalent(
        "coordinator/commit/checks/layout.py",
        "",
        "20 → 21",
        "how many races for a schema may be lost: any large number keeps the promise",
    ),
    Equivalent(
        "coordinator/watching/logs.py",
        "Logged.happened",
        "if COMMIT_LOG.isEnabledFor(level) → if True",
        "the logger asks the same again; the question only saves the work of making a record",
    ),
    Equivalent(
        "coordinator/maintenance/reach/reachable.py",
        "Reach._read",
        "sorted(set(names) - into.keys()) → list(set(names) - into.keys())",
        "the order in which manifests are read; it makes a run repeatable, and changes no result",
    ),
    Equivalent(
        "coordinator/history/manifests.py",
        "Manifests.entry_parts",
        "m.num_added_files + m.num_deleted_files → m.num_added_files - m.num_deleted_files",
        "which of two decoders reads the entries: both give the same",
    ),
    Equivalent(
        "coordinator/history/manifests.py",
        "Manifests.entry_parts",
        "sum((m.num_added_files + m.num_deleted_files for m in todo)) < COLUMNS_FROM →"
        " sum((m.num_added_files + m.num_deleted_files for m in todo)) >= COLUMNS_FROM",
        "which of two decoders reads the entries: both give the same",
    ),
    Equivalent(
        "coordinator/commit/steps/uploading.py",
        "Uploading.write",
        "3 → 4",
        "how often a create of EARLIEST without an answer is sent again: any small number keeps the promise",
    ),
    Equivalent(
        "coordinator/identities/pages.py",
        "Page.fullest_prefix",
        "sorted(waiting) → list(waiting)",
        "which of two equally full leaves is relieved: either keeps the page short; the order makes a run repeatable",
    ),
    Equivalent(
        "coordinator/maintenance/reach/reachable.py",
        "Usage._of",
        "if keys → if True",
        "a mention of no candidate adds no key to what is used; the question only saves memory",
    ),
    Equivalent(
        "coordinator/history/lineage.py",
        "_continued",
        "0 → 1 (place 2)",
        "what stands for a hint that is missing: no snapshot has an id below 1, so that neither number is above one",
    ),
    Equivalent(
        "coordinator/history/lineage.py",
        "_at_free_name",
        "base is not None and state is BaseIs.REPLACED → without `base is not None`",
        "without a base the state is another one; the question is there for the type checker",
    ),
    *(
        Equivalent(
            "coordinator/commit/steps/state.py",
            "Attempt.needs",
            f"self.base_list is None or self.delta is None or self.settled is None → without `self.{name} is None`",
            "the delta list is made last of the three; the questions are there for the type checker",
        )
        for name in ("base_list", "settled")
    ),
    Equivalent(
        "coordinator/commit/steps/publishing.py",
        "Publishing.write_hint",
        "hinted >= effect.snapshot_id → hinted > effect.snapshot_id",
        "the hint that is there would be written again",
    ),
    Equivalent(
        "coordinator/commit/steps/publishing.py",
        "Publishing.read_back",
        "assert_never(other) → pass",
        "the type checker proves that nothing comes here",
    ),
    *(
        Equivalent(file, function, f"assert_never({name}) → pass", "the type checker proves that nothing comes here")
        for file, function, name in (
            ("coordinator/outcome/resolution.py", "_outcome", "seen"),
            ("coordinator/recovery/recover.py", "_with", "outcome"),
            ("coordinator/history/lineage.py", "did_it_land", "held"),
        )
    ),
    Equivalent(
        "coordinator/commit/driver.py",
        "Driver._finish",
        "raise AssertionError(f'{effect!r} cannot follow the conclusion') → pass",
        "the machine has no such transition, which the lab explores",
    ),
    Equivalent(
        "coordinator/maintenance/deletion.py",
        "",
        "[int, int] → without `int`",
        "the type of a function, which nothing looks at when it runs",
    ),
    Equivalent(
        "coordinator/watching/telemetry.py",
        "Traced.happened",
        "name and self._attempt is not None → without `self._attempt is not None`",
        "an attempt has begun before anything happens in it; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/branches/forward.py",
        "_release",
        "sorted(names) → list(names)",
        "the order in which tags are deleted; it makes a run repeatable, and changes no result",
    ),
    Equivalent(
        "coordinator/identities/recall.py",
        "_memory_through",
        "break → continue",
        "a memory that has begun is complete, so that what is left of the batch, all of it below, is passed over either way",
    ),
    Equivalent(
        "coordinator/identities/recall.py",
        "recall",
        "if name is None → if False",
        "a user without a name takes no room in a memory; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/identities/memory.py",
        "",
        "128 → 129",
        "how long a name may be before its digest stands for it: any such number keeps names short",
    ),
    Equivalent(
        "coordinator/maintenance/rollback.py",
        "plan_rollback",
        "for e in timeline.index_entries(target) if e.kind == ADD → without the filter",
        "the index entries of a snapshot are the live ones, which are all ADD",
    ),
    Equivalent(
        "coordinator/maintenance/drop.py",
        "apply_drop",
        "min(done, total) → min(total, done)",
        "the smaller of two numbers, whichever comes first",
    ),
    Equivalent(
        "coordinator/maintenance/clone.py",
        "",
        "5 → 6",
        "how often a clone looks for what came since: any small number keeps the promise",
    ),
    Equivalent(
        "coordinator/commit/knowledge.py",
        "Knowledge.__init__",
        "schema.id: schema → nothing",
        "the schema would be read from the store once more",
    ),
    Equivalent(
        "coordinator/alteration.py",
        "_is_followed",
        "holding is None or not held_files(holding) → without `holding is None`",
        "a table without snapshots holds no files; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/commit/checks/layout.py",
        "layout_conflict",
        "found is not None and snapshot is not None and (schema.id > decided) → without `snapshot is not None`",
        "without a snapshot there are no files, and then a newer schema is no conflict; the question is for the type checker",
    ),
    Equivalent(
        "coordinator/maintenance/expiry/empty_folders.py",
        "remove_empty",
        "sorted(left - {'', above.strip('/')}) → list(left - {'', above.strip('/')})",
        "the order in which empty folders are removed; it makes a run repeatable, and changes no result",
    ),
    Equivalent(
        "coordinator/maintenance/expiry/retention.py",
        "Retention.of",
        "min(least, retain_max) → min(retain_max, least)",
        "the smaller of two numbers, whichever comes first",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "",
        "64 → 65",
        "how many bytes of new rows are kept for a later plan: any large number keeps the promise",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "AppendChange._changed",
        "0 → 1 (place 3)",
        "a file without new rows counts as one byte of those that are kept for a later plan",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "changed_here",
        "sum((split.size for split in splits)) < FEW_BYTES → sum((split.size for split in splits)) >= FEW_BYTES",
        "whether files are changed one after the other or a few at a time: the result is the same",
    ),
    Equivalent(
        "table/merging/key_lookup.py",
        "_comparable",
        "0 → 1",
        "a number in the place of a null, which the mask covers",
    ),
    Equivalent(
        "table/writing/files/key_files.py",
        "KeyFileWriter._begin",
        "keyed.files.suffix.endswith('.parquet') → keyed.files.suffix.startswith('.parquet')",
        "bounds of texts are computed from the rows and not taken from the footer, with the same result",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "_one_by_one",
        "raise → pass",
        "whoever closes a generator does not see whether it ends by the exception or by itself",
    ),
    Equivalent(
        "table/rowlevel/merge.py",
        "MergeRows._widths",
        "0 → 1",
        "the size of a row of the source that is not there, by which portions of megabytes are cut",
    ),
    Equivalent(
        "table/compaction/curves.py",
        "row_order",
        "0 → 1",
        "ranks without a bit count as one bit in any case",
    ),
    Equivalent(
        "coordinator/history/manifests.py",
        "Manifests.entry_parts",
        "if self.is_near → if False",
        "the same entries in the same order, read by threads, which costs more where nothing is far away",
    ),
    Equivalent(
        "coordinator/branches/forward_plan.py",
        "_untouched",
        "min(main.snapshot_ids(), default=0) → without `default=0`",
        "main has a snapshot, its newest, which is an argument",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "_same",
        "if before is None or after is None → if True",
        "rows that were kept are read again, with the same result",
    ),
    Equivalent(
        "table/rowlevel/run.py",
        "landed_before",
        "identifier is None or commit_user is None → without `identifier is None`",
        "half an identity is refused before; the question is there for the type checker",
    ),
    Equivalent(
        "table/writing/writer.py",
        "",
        "256 → 257",
        "how many bytes of rows a job holds: any large number keeps the promise",
    ),
    Equivalent(
        "coordinator/maintenance/reach/names.py",
        "_on_disk",
        "file.flush() → pass",
        "NumPy closes its own copy of the file when it has written, and seeks in it before it maps it: both store what waits",
    ),
    Equivalent(
        "coordinator/identities/pages.py",
        "",
        "2000 → 2001",
        "above how many users a page moves some into a leaf: any number of this size keeps the promise",
    ),
    Equivalent(
        "coordinator/identities/trace.py",
        "",
        "8 → 9 (place 2)",
        "how many ranges stay beside a page: the older ones are found in the page, with the same answer",
    ),
    Equivalent(
        "table/merging/key_codes.py",
        "",
        "32 → 33",
        "from which length on Arrow ranks texts: both ways give the same order",
    ),
    Equivalent(
        "table/rowlevel/file_change.py",
        "",
        "16 → 17",
        "from how many bytes on new rows get files of their own: any large number keeps the promise",
    ),
    Equivalent(
        "table/writing/files/data_writer.py",
        "",
        "1 → 2",
        "among how many turns a writer draws its first: any large number spreads the files",
    ),
    Equivalent(
        "table/writing/writer.py",
        "",
        "4 → 5 (place 2)",
        "from how many bytes on threads are started: the files are the same",
    ),
    Equivalent(
        "table/writing/writer.py",
        "TableWriter._place",
        "0 → 1",
        "one byte of those that are gathered before rows are placed",
    ),
    Equivalent(
        "coordinator/commit/checks/key_order.py",
        "restored_over_what_stays",
        "1 → 2",
        "the numbers of rows begin with 0: any number below that is smaller than all",
    ),
    Equivalent(
        "coordinator/commit/checks/conflicts.py",
        "compacted_with_newer_rows",
        "e.identity in replaced → e.identity not in replaced",
        "whether all, some or none are replaced: counting the others gives the same answer",
    ),
    Equivalent(
        "coordinator/commit/checks/undoing.py",
        "builds_on",
        "_marked(since, commit, base, owners) → _marked(since, base, commit, owners)",
        "the marks of two snapshots are compared, whichever comes first",
    ),
    Equivalent(
        "coordinator/commit/checks/conflicts.py",
        "columns_updated_meanwhile",
        "group.is_compaction or all((e.file.first_row_id is None for e in group.added)) →"
        " without `all((e.file.first_row_id is None for e in group.added))`",
        "files without row ids meet no rows; the question saves the ranges of tables that number none",
    ),
    Equivalent(
        "coordinator/commit/checks/undoing.py",
        "builds_on",
        "isinstance(changes, Conflict) or commit is None or base is None → without `base is None`",
        "without a base there is no commit either; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/commit/checks/undoing.py",
        "builds_on",
        "isinstance(changes, Conflict) or commit is None or base is None → without `commit is None`",
        "an undo always has its commit; the question is there for the type checker",
    ),
    Equivalent(
        "coordinator/commit/checks/conflicts.py",
        "inputs_of",
        "for e in request.entries if e.kind == ADD → without the filter",
        "the files that it deletes are inputs in any case, whether or not they are taken out of those that are marked",
    ),
    Equivalent(
        "coordinator/commit/settling/settler.py",
        "Settler._entries",
        "if request.restores → if True",
        "any other overwrite adds files of its own, which it does not replace",
    ),
    Equivalent(
        "coordinator/commit/riding/group.py",
        "Group._rank",
        "commit < self.commit → commit <= self.commit",
        "its own commit is not among those of the others",
    ),
    *(
        Equivalent(
            "coordinator/commit/settling/hash_indexes.py",
            "HashJoin._placed",
            mutation,
            "a hash that is added once more keeps the bucket under which it was added first",
        )
        for mutation in ("placed.find(distinct) < 0 → placed.find(distinct) <= 0", "0 → 1")
    ),
    Equivalent(
        "coordinator/watching/batches.py",
        "report_batch",
        "if STREAM_LOG.isEnabledFor(logging.INFO) → if True",
        "the logger asks the same again; the question only saves the work of making a record",
    ),
    Equivalent(
        "coordinator/maintenance/expiry/consumers.py",
        "_next_snapshot",
        "raise AssertionError('the last look returns or raises') → pass",
        "the last look returns or raises; the line is there for the type checker",
    ),
    Equivalent(
        "coordinator/watching/logs.py",
        "Logged.requested",
        "if REQUEST_LOG.isEnabledFor(logging.DEBUG) → if True",
        "the logger asks the same again; the question only saves the work of making a record",
    ),
    Equivalent(
        "coordinator/watching/observe.py",
        "Watch.ended",
        "if self._watchers → if True",
        "without watchers nobody is told; the question only saves the work of saying how it ended",
    ),
    *(
        Equivalent(
            "table/rowlevel/merge.py",
            "",
            change,
            "how many pairs are made at once, and for how many values a range stands: any number keeps the promise",
        )
        for change in ("1 → 0", "1 → 2", "20 → 21", "1 << 20 → 1 >> 20", "200 → 201")
    ),
    Equivalent(
        "table/rowlevel/merge.py",
        "_range",
        "len(known) <= _MOST_VALUES → len(known) < _MOST_VALUES",
        "whether so many values are compared one by one or as a range: either leaves out no file with a row that matches",
    ),
    *(
        Equivalent(
            "table/rowlevel/join.py",
            function,
            change,
            "the code of a key that the source does not have: any negative number says so",
        )
        for function, change in (
            ("KeyJoin.__init__", "1 → 2"),
            ("KeyJoin.pairs", "1 → 2"),
            ("_Column.codes", "1 → 2 (place 2)"),
            ("_Column.codes", "1 → 2 (place 3)"),
            ("_places", "1 → 2"),
            ("_places", "1 → 2 (place 3)"),
        )
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_integers",
        "_is.is_integer(t) or _is.is_temporal(t) → without `_is.is_temporal(t)`",
        "dates and times are compared as they are, which takes longer and finds the same",
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_integers",
        "_is.is_integer(t) or _is.is_temporal(t) → without `_is.is_integer(t)`",
        "whole numbers are compared as they are, which takes longer and finds the same",
    ),
    *(
        Equivalent("table/compaction/curves.py", function, change, reason)
        for function, change, reason in (
            ("", "62 → 63", "how many bits a place on a curve has: as many as a number holds, or one less"),
            ("_interleaved", "bits - 1 → bits + 1", "the bits above the highest one are zeros"),
            ("_interleaved", "1 → 0", "the bit above the highest one is a zero"),
            ("_on_hilbert", "step > 1 → step >= 1", "a step of one has no lower bits to change"),
            ("_on_hilbert", "step > 1 → step >= 1 (place 2)", "a step of one has no lower bits to change"),
            ("_on_hilbert", "1 → 0 (place 3)", "a step of one has no lower bits to change"),
            ("_on_hilbert", "1 → 0 (place 8)", "a step of one has no lower bits to change"),
        )
    ),
    *(
        Equivalent(
            "table/compaction/clustering.py",
            "",
            change,
            "how many bytes are sorted together, and of how many files a mean is taken: any such number keeps the promise",
        )
        for change in ("256 → 257", "20 → 21", "20 → 21 (place 2)")
    ),
    Equivalent(
        "table/compaction/inline.py",
        "",
        "10 → 11",
        "how often a bucket is tried while others change it: any small number keeps the promise",
    ),
    *(
        Equivalent(
            "table/compaction/inline.py",
            function,
            f"{whole} → without `rules is not None`",
            "only tables with a primary key are asked about; the question is there for the type checker",
        )
        for function, whole in (
            ("_hides_rows", "rules is not None and rules.has_lookups and schema.options.get(opt.LOOKUP_WAIT)"),
        )
    ),
    Equivalent(
        "table/compaction/key_rewrite.py",
        "",
        "4 → 5",
        "how many compactions share the memory of a merge: the rows are the same",
    ),
    *(
        Equivalent("table/merging/key_codes.py", function, change, reason)
        for function, change, reason in (
            (
                "_words",
                "pa.types.is_string(kind) or pa.types.is_binary(kind) → pa.types.is_string(kind) and pa.types.is_binary(kind)",
                "texts are ranked by Arrow: both ways give the same order",
            ),
            ("_text_words", "count > _MOST_WORDS → count <= _MOST_WORDS", "both ways give the same order"),
            *(
                ("_one_word", change, "bytes are taken one by one, with the same result")
                for change in (
                    "span == len(places) → span != len(places)",
                    "if span == len(places) → if False",
                    "last - first → last + first",
                    "1 → 2 (place 2)",
                )
            ),
            *(
                ("_one_word", change, "with a span of a whole word nothing was found before that could be moved")
                for change in ("if span < _WORD → if True", "span < _WORD → span <= _WORD")
            ),
        )
    ),
    *(
        Equivalent(
            file,
            "_whole",
            "if isinstance(combined, pa.Array) → if True",
            "the chunks of a column become one array, unless its texts are larger than two gigabytes",
        )
        for file in ("table/compaction/key_lookup.py", "table/merging/row_changes.py")
    ),
    *(
        Equivalent(file, function, "1 → 2 (place 2)", "the last attempt raises, so that no further one can begin")
        for file, function in (
            ("table/compaction/postponed.py", "_settle_partition"),
            ("table/compaction/rescale.py", "_Rescaling.rescaled"),
        )
    ),
    Equivalent(
        "table/compaction/postponed.py",
        "_settle",
        "1 → 2 (place 2)",
        "a number below those of all rows, of which the largest is taken",
    ),
    Equivalent(
        "table/compaction/plan.py",
        "_age",
        "0 → 1",
        "a file that does not say when it was made is older than all that do",
    ),
    *(
        Equivalent("table/merging/partial_update.py", "_Folding.__init__", change, reason)
        for change, reason in (
            (
                "for name in names if name not in functions → without the filter",
                "which rows a column with a function was made of is kept besides its values, which are taken before",
            ),
            (
                "name in names and name not in sequence → without `name not in sequence`",
                "a sequence column that is among its own members gets the same value twice",
            ),
        )
    ),
    Equivalent(
        "table/writing/files/data_writer.py",
        "DataFileWriter._slices",
        "1 → 2",
        "a batch that fits into a row group is taken in two pieces, which fit as well",
    ),
    Equivalent(
        "table/writing/writer.py",
        "TableWriter._for_each",
        "len(writers) < 2 → len(writers) <= 2",
        "two files are written one after the other, and are the same",
    ),
    Equivalent(
        "table/writing/writer.py",
        "TableWriter._take",
        "excess > 0 and by_size → without `by_size`",
        "what is too much is never more than what all writers hold",
    ),
    Equivalent(
        "table/merging/aggregates/texts.py",
        "ListAgg.joined",
        "if is_blank(new) → if False",
        "blank texts are left out before two are joined",
    ),
    Equivalent(
        "table/rowlevel/append_table.py",
        "_same",
        "if before is None or after is None → if False",
        "NumPy finds nothing equal to nothing, and different from any rows",
    ),
    *(
        Equivalent(
            "table/merging/aggregates/nested.py",
            "",
            change,
            "how many rows a list has without a limit: more than any list in memory",
        )
        for change in ("2 → 3", "31 → 32", "1 → 2", "1 → 0", "2 ** 31 - 1 → 2 ** 31 + 1")
    ),
    *(
        Equivalent(
            "table/merging/codes.py",
            "_numbers",
            change,
            "dates or times are ranked by Arrow: both ways give the same order",
        )
        for change in (
            *("32 → 33", "64 → 65", "(32, 64) → without `32`", "(32, 64) → without `64`"),
            "if pa.types.is_temporal(kind) and kind.bit_width in (32, 64) → if False",
        )
    ),
    Equivalent(
        "table/compaction/key_lookup.py",
        "KeyLookup.moved",
        "False → True",
        "of the merged rows only the changes are kept, and those are the same with and without rows that delete",
    ),
    Equivalent(
        "table/compaction/curves.py",
        "_scaled",
        "0 → 1",
        "the largest rank counts as one at least, also where it is zero",
    ),
    Equivalent(
        "table/compaction/key_rewrite.py",
        "KeyRewriter._lookup",
        "self.reader(group, expired=True) → without `expired=True`",
        "this reader names columns and makes rows of a changelog whole, and reads no file",
    ),
    Equivalent(
        "table/compaction/run.py",
        "_Run.commit",
        "for u in request.uploads if u.key not in theirs → without the filter",
        "the files of groups that are left are stored once more by the next attempt; the question only saves requests",
    ),
    Equivalent(
        "table/writing/key_writer.py",
        "KeyBuffer.__init__",
        "True → False",
        "the settings of the changelog's files are given, so that the writer does not make any by itself",
    ),
    Equivalent(
        "table/merging/aggregates/nested.py",
        "NestedPartialUpdate.joined",
        "0 → 1",
        "how many keys a map held that gets none, so that nothing in it has an order",
    ),
    Equivalent(
        "table/writing/files/data_writer.py",
        "DataFileWriter._slices",
        "if rows >= batch.num_rows → if False",
        "a batch that fits is taken as the one slice that holds all of it",
    ),
    Equivalent(
        "table/compaction/older_rows.py",
        "OlderRows.read",
        "first < last → first <= last",
        "a batch without a row that was found would add a part without rows",
    ),
    *(
        Equivalent(
            "coordinator/commit/attempt.py",
            "MetadataWriter.manifests",
            change,
            "entries that fit into one manifest are encoded once more, all of them as the only part",
        )
        for change in ("1 → 0", "if parts == 1 → if False")
    ),
    *(
        Equivalent(
            "coordinator/protocol/machine.py",
            "",
            f"[CommitState, Any] → without `{part}`",
            "a type that only the type checker reads",
        )
        for part in ("CommitState", "Any")
    ),
    Equivalent(
        "coordinator/tags/expiry.py",
        "_still_protecting",
        "1 → 2",
        "the smallest of the first ids is the first one, as they ascend",
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_Column.codes",
        "False → True",
        "the places have no nulls any more, so that numpy can always show them without a copy",
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_integers",
        "if _is.is_integer(t) → if False",
        "integers are cast to INT or BIGINT on their way to BIGINT",
    ),
    Equivalent(
        "table/rowlevel/file_change.py",
        "FileChanger._after",
        "if not keep.all() → if True",
        "a batch of which all rows stay is filtered by what is true everywhere",
    ),
    Equivalent(
        "table/rowlevel/merge.py",
        "MergeRows._pairs",
        "0 → 1",
        "no rows from the second one on are no rows, too",
    ),
    Equivalent(
        "backends/files/object_store.py",
        "_Kept.__init__",
        "super().__init__(why) → pass",
        "it is caught where it is thrown, and its reason is an attribute",
    ),
    Equivalent(
        "coordinator/commit/steps/collecting.py",
        "Collecting._found_aboard",
        "ev.LatestResolved(attempt.base.ref, '', 0, aboard=ref) → ev.LatestResolved(attempt.base.ref, 0, '', aboard=ref)",
        "a commit that another has carried builds on nothing, and the machine reads neither of the two",
    ),
    Equivalent(
        "coordinator/maintenance/reach/used.py",
        "UsedFiles.add_journalled",
        "0 → 1 (place 3)",
        "nobody asks for the age of a root that is made of a journal's text",
    ),
    Equivalent(
        "coordinator/alteration.py",
        "_is_followed",
        "differences(before, after, rescaled=False) → differences(after, before, rescaled=False)",
        "two layouts differ in the same options, whichever is named first",
    ),
    Equivalent(
        "table/compaction/older_rows.py",
        "OlderRows.find",
        "if not missing.any() → if False",
        "files that are opened after all keys were found have no row that is still wanted",
    ),
    Equivalent(
        "table/compaction/postponed.py",
        "_settle_partition",
        "raise AssertionError('unreachable') → pass",
        "the last attempt returns or raises",
    ),
    Equivalent(
        "table/writing/beginning.py",
        "_Clock.__init__",
        "0 → 1",
        "the first millisecond is the one of the clock, which is far beyond either",
    ),
    Equivalent(
        "coordinator/branches/remove.py",
        "no_branch",
        "sorted(branches_among(store.list('branch/'))) → list(branches_among(store.list('branch/')))",
        "they come sorted by their names",
    ),
    Equivalent(
        "coordinator/commit/retries.py",
        "RetryPolicy.next_wait_ms",
        "min(doubled_s, longest_s) → min(longest_s, doubled_s)",
        "the smaller of two numbers, whichever is named first",
    ),
    Equivalent(
        "coordinator/intents/tickets.py",
        "Ticket.ahead",
        "place not in live and place != self._place → without `place != self._place`",
        "the ticket of its own is deleted with the stale ones anyway",
    ),
    Equivalent(
        "coordinator/journal/lines.py",
        "MemoryJournal.record",
        "False → True",
        "a journal in memory treats decisive entries as all others",
    ),
    Equivalent(
        "coordinator/recovery/home.py",
        "Homes._asked_for",
        "is_address_of(entry.table, home.address) → is_address_of(home.address, entry.table)",
        "two names of one table are compared by how they are spelled, whichever is named first",
    ),
    Equivalent(
        "table/merging/aggregates/numbers.py",
        "Sum.__init__",
        "array.fill_null(0).to_numpy(zero_copy_only=False) → without `zero_copy_only=False`",
        "numbers without nulls are never copied",
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_Column.__init__",
        "1 → 0 (place 2)",
        "no value is found in a column without values, and what is not found has no code",
    ),
    Equivalent(
        "table/rowlevel/join.py",
        "_Column.__init__",
        "self._numbers = (self._distinct, self._distinct) → pass",
        "only whether there are numbers is asked for later; the assignment lets go of the source's rows",
    ),
    Equivalent(
        "table/rowlevel/edit.py",
        "Edit.of",
        "if alias → if True",
        "no reference has a name that is None, and with one table no name is ambiguous",
    ),
    Equivalent(
        "table/merging/engine.py",
        "take",
        "if missing.any() → if True",
        "a mask without a null hides nothing",
    ),
    Equivalent(
        "table/merging/groups.py",
        "_without_ignored",
        "1 → 0",
        "the numbers of groups begin one higher, and are only compared",
    ),
    Equivalent(
        "table/merging/key_codes.py",
        "_text_words",
        "1 → 0 (place 5)",
        "behind the last text there is room for more than one word",
    ),
    Equivalent(
        "table/merging/aggregates/numbers.py",
        "_rounded",
        "0 → 1",
        "only zero would count as negative, and the quotient of zero has no sign",
    ),
    Equivalent(
        "table/writing/writer.py",
        "TableWriter._for_each",
        "min(WRITE_THREADS, len(writers)) → max(WRITE_THREADS, len(writers))",
        "how many threads share the work changes no file",
    ),
    Equivalent(
        "coordinator/tags/deletion.py",
        "_planned",
        "sorted(named.lists) → list(named.lists)",
        "the lists of one tag are deleted in any order",
    ),
    Equivalent(
        "coordinator/recovery/past.py",
        "Past.case",
        "0 → 1",
        "a commit whose window is open has a second entry, and all of its entries name it",
    ),
    Equivalent(
        "coordinator/maintenance/expiry/consumers.py",
        "oldest_change",
        "0 → 1",
        "no change is older than that of snapshot 1, hint or not",
    ),
    Equivalent(
        "table/merging/aggregates/nested.py",
        "_key_parts",
        "if isinstance(field.type, ArrayType) → if True",
        "functions of lists of rows are refused for every other type before they are made",
    ),
    Equivalent(
        "table/compaction/run.py",
        "_Run.rewritten",
        "False → True",
        "a group that was not rewritten has written no file that could be discarded",
    ),
    *(
        Equivalent(
            "coordinator/commit/request.py",
            "",
            f"[Sequence[ManifestEntry], int, bool] → without `{argument}`",
            "the arguments of a callable's type; only the type checker asks",
        )
        for argument in ("Sequence[ManifestEntry]", "int", "bool")
    ),
    *(
        Equivalent(
            file, function, mutation, "a tuned number: how long, how many at once, how large; no caller is promised it"
        )
        for file, function, mutation in (
            ("coordinator/commit/steps/publishing.py", "", "10.0 → 11.0"),
            ("coordinator/history/timeline.py", "Timeline.look", "5 → 6"),
            ("table/writing/files/sink.py", "", "16 → 17"),
            ("table/writing/files/sink.py", "", "20 → 21"),
        )
    ),
    Equivalent(
        "table/merging/aggregates/roaring64.py",
        "_container",
        "len(values) <= _LARGEST_ARRAY → len(values) < _LARGEST_ARRAY",
        "so many values take 8192 bytes as an array and as a bitmap; which of the two is asked below",
    ),
    Equivalent(
        "table/merging/aggregates/numbers.py",
        "Product._limited",
        "0 → 1",
        "what does not fit is refused or null; the value in its place is never looked at",
    ),
    Equivalent(
        "table/compaction/rewrite.py",
        "_check_rows",
        "for n in marked if n is not None → without the filter",
        "no None is left there; the filter is for the type checker",
    ),
    Equivalent(
        "table/merging/aggregates/picks.py",
        "Largest",
        "1 → 2",
        "only the sign of it is asked",
    ),
    Equivalent(
        "coordinator/maintenance/reference.py",
        "_metadata.copied",
        "0 → 1",
        "sizes are asked of manifests alone, which are written anew",
    ),
    Equivalent(
        "coordinator/branches/forward_plan.py",
        "_untouched",
        "end.id < min(main.snapshot_ids(), default=0) → end.id <= min(main.snapshot_ids(), default=0)",
        "a snapshot that is listed is found, and the end was not found",
    ),
    Equivalent(
        "table/writing/buckets/cross_partition.py",
        "CrossPartition._places_of",
        "1 → 2",
        "another stride of the pairs: they stay distinct",
    ),
    *(
        Equivalent(
            "table/writing/buckets/cross_partition.py",
            "CrossPartition._places_of",
            f"1 → 2 (place {place})",
            "numpy takes every negative length for the one to be found",
        )
        for place in (2, 3)
    ),
    Equivalent(
        "coordinator/commit/steps/collecting.py",
        "Collecting._resolve",
        "met is not None and seen is met.snapshot and self._won_on(seen) → without `seen is met.snapshot`",
        "no other snapshot than the one that was met can have been won on that base",
    ),
)
