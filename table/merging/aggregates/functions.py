"""Find the aggregate function of a column.

Owns: the class of each function. Must not know: engines. Source: format/primary-keys §4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....core.metadata.schemas.functions import check_function
from ....core.rows.types import Field
from .base import Aggregate
from .elements import Collect, MergeMap, MergeMapWithKeyTime
from .nested import NestedPartialUpdate, NestedUpdate
from .numbers import Product, Sum
from .picks import FirstNonNullValue, FirstValue, Largest, LastNonNullValue, LastValue, Smallest
from .sketches import HllSketch, Sketch, ThetaSketch, check_sketches
from .texts import Bitmap32, ListAgg, RoaringBitmap64

FUNCTIONS: dict[str, type[Aggregate]] = {
    "sum": Sum,
    "product": Product,
    "max": Largest,
    "min": Smallest,
    "bool_or": Largest,
    "bool_and": Smallest,
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "first_not_null_value": FirstNonNullValue,
    "listagg": ListAgg,
    "collect": Collect,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
    "merge_map": MergeMap,
    "merge_map_with_keytime": MergeMapWithKeyTime,
    "rbm32": Bitmap32,
    "rbm64": RoaringBitmap64,
    "hll_sketch": HllSketch,
    "theta_sketch": ThetaSketch,
}


def check(name: str, field: Field, texts: Mapping[str, str]) -> None:
    """Refuse functions that do not exist or do not fit the column, and those whose library is not installed."""
    check_function(name, field, texts)
    if issubclass(FUNCTIONS[name], Sketch):
        check_sketches(name, field.name)


def aggregate_of(name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> Aggregate:
    """The state of a function for one column; arguments as for `Aggregate`."""
    return FUNCTIONS[name](name, field, array, count, texts)
