"""Tells a service that partitions are done: action `http-report` of option `partition.mark-done-action`.

Owns: the request, and what its answer means. Must not know: which partitions are done. Source: Apache Paimon's
`HttpReportMarkDoneAction`. Invariant: a partition counts as reported only once the service has answered `SUCCESS`.
"""

from __future__ import annotations

import json
import re
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ..backends.elsewhere import fixed_url, location_of
from ..backends.store import Store
from ..backends.trust import check_allowed
from ..core import options as opt
from ..core.errors import InvalidArgument, StoreUnavailable
from ..core.json_text import parse_json
from ..core.metadata.schema import TableSchema

TIMEOUT_S = 60
_HTTP = re.compile(r"https?://[^\x00-\x20\x7f]+", re.IGNORECASE)
_USER = re.compile(r"(\w+://)[^/?#]*@")
_IN_A_CATALOG = re.compile(r"([^/]+)\.db/([^/]+)$")


def service_of(schema: TableSchema) -> str:
    """The URL in the table's options. `InvalidArgument`: it is not set, is no URL of HTTP, or names a user, who is never sent."""
    key = opt.PARTITION_MARK_DONE_URL.key
    url = schema.options.get(opt.PARTITION_MARK_DONE_URL).strip()
    if not _HTTP.fullmatch(url):
        raise InvalidArgument(
            f"option '{key}' is {_shown(url)!r}, and action 'http-report' needs a URL",
            next_step=f"set '{key}' to http://…",
        )
    if _USER.match(url):
        raise InvalidArgument(
            f"option '{key}' names a user before its host, {_shown(url)}, and action 'http-report' sends none",
            next_step=f"take the name out, and say what the service must know in '{opt.PARTITION_MARK_DONE_PARAMS.key}'",
        )
    return url


def _shown(url: str) -> str:
    """A URL for messages and logs: without a user's name and without what may be a token.

    >>> _shown("https://me:secret@here/done?token=secret#secret")
    'https://here/done?…'
    """
    plain, cut, _ = re.sub(r"[?#]", "?", _USER.sub(r"\1", url), count=1).partition("?")
    return plain + ("?…" if cut else "")


def report_partition(store: Store, schema: TableSchema, path: str) -> None:
    """Report one partition, such as `dt=2026-01-01/hour=9`, and wait for the answer.

    `InvalidArgument`: the caller did not allow the service for this table. After `StoreUnavailable` it may be reported again.
    """
    url, location = service_of(schema), location_of(store)
    check_allowed(fixed_url(store), re.split("[?#]", url)[0], f"option '{opt.PARTITION_MARK_DONE_URL.key}'")
    found = _IN_A_CATALOG.search(location)
    told = {
        "params": schema.options.get(opt.PARTITION_MARK_DONE_PARAMS),
        "table": f"{found[1]}.{found[2]}" if found else location.rpartition("/")[2],
        "path": location,
        "partition": path,
    }
    request = Request(url, json.dumps(told).encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            result = parse_json(answer.read()).get("result")
    except (OSError, HTTPException, ValueError, AttributeError) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise _unconfirmed(url, path, str(error)) from error
    if str(result).upper() != "SUCCESS":
        raise _unconfirmed(url, path, f"its answer has result {result!r}")


def _unconfirmed(url: str, path: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{_shown(url)} did not confirm that partition {path} is done: {why}",
        next_step="run it again: partitions that were reported before are reported once more",
    )
