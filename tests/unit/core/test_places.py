"""Where the files beside a data file lie: in its folder, wherever that is."""

from __future__ import annotations

import pytest
from by_hand.tables import Handmade, added

from lakelatch.core.places import FileKeys


@pytest.mark.parametrize(
    "path", ["s3://lake/one/data-x", "s3://lake/one/renamed-in-another-place.parquet", "s3://lake/one/d"]
)
def test_files_beside_one_outside_of_the_table_lie_in_its_folder(path: str) -> None:
    """A URL may end in another name than the manifest has, which is longer or shorter."""
    keys = FileKeys(Handmade(data_file__external_paths="s3://lake").schema)
    assert keys.data(added("data-x", external_path=path, extra_files=("data-x.index",))) == (
        path,
        "s3://lake/one/data-x.index",
    )


def test_files_beside_one_in_the_table_lie_in_its_bucket() -> None:
    keys = FileKeys(Handmade().schema)
    assert keys.data(added("x", extra_files=("data-x.index",))) == ("bucket-0/data-x", "bucket-0/data-x.index")
