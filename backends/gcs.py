"""Google Cloud Storage over gcsfs: `gs://bucket/path` and `gcs://bucket/path`.

Owns: the requests of GCS's JSON interface, the table of its answers, the client's settings. Must not know: tables.
Source: format/stores §1, §4, §5. Invariants: one operation is one request, sent on gcsfs's own session with gcsfs's own
credentials. The calls of gcsfs are not used, because they repeat requests and hide the reason of a refusal (403 becomes
a bare `OSError`). A create is one upload with `ifGenerationMatch=0` for every size. A large file is one upload too,
from a temporary file: every repeat starts from the beginning, so there is no half-sent session to resume.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime, timezone
from email import message_from_bytes
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from ..core.errors import Unsupported
from .client_import import import_client
from .files.object_store import FIXED_OPTIONS, FsspecStore, all_of, bucket_root, known_options
from .files.upload import Multipart, SpooledUpload
from .requests.answers import COMMON_STATUSES, Answer, AnswerTable
from .store import Capabilities, Listed

_PAGE = 1000
_BATCH = 100

_CONNECT_SECONDS = 10
_PIECE_BYTES = 1 << 20

GCS_ANSWERS = AnswerTable(
    codes=MappingProxyType(
        {
            "conditionNotMet": Answer.EXISTS,
            "orgPolicyConstraintFailed": Answer.DENIED,  # 412, too
            "notFound": Answer.MISSING,
            "noSuchBucket": Answer.NO_CONTAINER,  # lakelatch's own code: GCS reports notFound for both
            "requestedRangeNotSatisfiable": Answer.PAST_END,
            "rateLimitExceeded": Answer.BUSY,  # 429 for a busy name, 403 for a busy project
            "userRateLimitExceeded": Answer.BUSY,
            "backendError": Answer.BUSY,
            "internalError": Answer.BUSY,
            "notImplemented": Answer.NO_CONDITION,
        }
    ),
    statuses=COMMON_STATUSES,
    types=MappingProxyType({"_NoCredentials": Answer.NOT_SENT}),
    carriers=MappingProxyType({"_Refused": ("status", "reason")}),
)


class GcsStore(FsspecStore):
    """Stores objects in a bucket of Google Cloud Storage.

    Args:
        url: `gs://bucket/path` or `gcs://bucket/path`.
        storage_options: the options of gcsfs (`token`, `project`, `requester_pays`, `endpoint_url`, `session_kwargs`, …),
            and `request_timeout` (seconds, default 30) and `allow_unsafe`. Without `token`, gcsfs uses ambient
            credentials (H19): the default ones of gcloud, then those of the machine.

    Raises:
        InvalidArgument: the URL has no bucket or holds credentials, or an option is not known.

    >>> GcsStore("gs://lake/flights", {"token": "do not show", "project": "p"})
    GcsStore('gs://lake/flights', StorageOptions(token=***, project='p'))
    """

    delete_page = _BATCH
    carriers = GCS_ANSWERS.carriers
    rewrite_seconds = 1.0
    """GCS takes one write of a name in this time, and refuses others."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("ifGenerationMatch=0", "gs", "one upload with ifGenerationMatch=0", self._allow_unsafe)

    def _root_of(self, url: str) -> str:
        return bucket_root(url, ("gs", "gcs"), "GCS")

    def _check_options(self) -> None:
        self._given.only(known_options(_gcsfs().GCSFileSystem), "GCS stores")

    async def _connect(self) -> Any:
        options = dict(self._options.without(*FIXED_OPTIONS))
        # Not the class that `gcsfs` exports, which first asks for each bucket's kind by gRPC.
        fs = _gcsfs().GCSFileSystem(**options, skip_instance_cache=True, use_listings_cache=False)
        await fs._set_session()
        return fs

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        await _upload(fs, path, *_bytes_of(data), ifGenerationMatch="0")

    def _asks_for_fewer(self, error: Exception) -> bool:
        """GCS refuses a second write of one name within a second, too, which says nothing of other requests."""
        return super()._asks_for_fewer(error) and "object mutation" not in str(error)

    def _classify(self, error: BaseException) -> Answer:
        return GCS_ANSWERS.classify(error)

    async def _read(self, fs: Any, path: str) -> bytes:
        return (await _ask(fs, "GET", _object(path), alt="media"))[1]

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        headers = {"Range": f"bytes={start}-{end - 1}"}
        return (await _ask(fs, "GET", _object(path), headers=headers, alt="media"))[1]

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        found = json.loads((await _ask(fs, "GET", _object(path), fields="size,updated"))[1])
        return int(found["size"]), _milliseconds(found["updated"])

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await _upload(fs, path, *_bytes_of(data))

    def _import_client(self) -> None:
        _gcsfs()

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        bucket, _, start = prefix.partition("/")
        fields = "nextPageToken,items(name,size,updated,etag)"
        more: dict[str, Any] = {"pageToken": after} if after else {}
        place = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        found = json.loads((await _ask(fs, "GET", place, prefix=start, maxResults=_PAGE, fields=fields, **more))[1])
        listed = [
            (f"{bucket}/{one['name']}", int(one["size"]), _milliseconds(one["updated"]), one.get("etag", ""))
            for one in found.get("items", ())
        ]
        return listed, found.get("nextPageToken")

    async def _folder_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[str], str | None]:
        bucket, _, start = prefix.partition("/")
        more: dict[str, Any] = {"pageToken": after} if after else {}
        more |= {"maxResults": _PAGE, "fields": "nextPageToken,prefixes", "delimiter": "/"}
        place = f"/storage/v1/b/{quote(bucket, safe='')}/o"
        found = json.loads((await _ask(fs, "GET", place, prefix=start, **more))[1])
        return [f"{bucket}/{name}" for name in found.get("prefixes", ())], found.get("nextPageToken")

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        if len(paths) == 1:
            try:
                await _ask(fs, "DELETE", _object(paths[0]))
            except _Refused as refused:
                if self._classify(refused) is not Answer.MISSING:
                    raise
            return
        await all_of(_delete_batch(fs, paths[i : i + _BATCH]) for i in range(0, len(paths), _BATCH))

    def _multipart(self, path: str) -> Multipart:
        def send(size: int, read: Callable[[int, int], bytes]) -> None:
            async def upload(fs: Any) -> None:
                await _upload(fs, path, size, read)

            self._request("write", path, self._seconds(size), upload)

        return SpooledUpload(send)


class _Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.headers: dict[str, str] = {}


class _NoCredentials(Exception):
    """No valid token exists for the request."""


async def _ask(
    fs: Any,
    method: str,
    place: str,
    *,
    headers: Mapping[str, str] | None = None,
    data: Any = None,
    **parameters: Any,
) -> tuple[Mapping[str, str], bytes]:
    import aiohttp
    from yarl import URL

    session = await fs._set_session()
    try:
        signed = fs._get_headers(headers)
    except Exception as error:
        raise _NoCredentials(f"no valid token: {error}") from error
    query = urlencode(fs._get_params(parameters), quote_via=quote, safe="")
    url = URL(f"{fs._location}{place}{'?' if query else ''}{query}", encoded=True)
    limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)  # the caller sets the deadline
    async with session.request(method, url, headers=signed, data=data, timeout=limits, allow_redirects=False) as answer:
        body = bytes(await answer.read())
        if answer.status >= 300:
            refusal = _refusal(answer.status, body, is_about_bucket=method == "POST" or place.endswith("/o"))
            refusal.headers = dict(answer.headers)
            raise refusal
        return answer.headers, body


async def _upload(fs: Any, path: str, size: int, read: Callable[[int, int], Any], **condition: str) -> None:
    """Upload the whole object in one request. `read` returns a number of bytes from an offset."""

    async def body() -> AsyncIterator[Any]:  # in pieces, as one large body would block the event loop
        for offset in range(0, size, _PIECE_BYTES):
            yield read(offset, min(_PIECE_BYTES, size - offset))

    bucket, _, key = path.partition("/")
    place = f"/upload/storage/v1/b/{quote(bucket, safe='')}/o"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    data = body() if size > _PIECE_BYTES else read(0, size)
    await _ask(fs, "POST", place, headers=headers, data=data, uploadType="media", name=key, **condition)


def _bytes_of(data: bytes) -> tuple[int, Callable[[int, int], Any]]:
    view = memoryview(data)
    return len(data), lambda offset, size: view[offset : offset + size]


async def _delete_batch(fs: Any, paths: list[str]) -> None:
    boundary = "lakelatch-batch"
    parts = [
        f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
        f"DELETE {_object(path)}{_payer(fs)} HTTP/1.1\r\n\r\n\r\n"
        for number, path in enumerate(paths)
    ]
    body = "".join(parts) + f"--{boundary}--\r\n"
    headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
    answered, answer = await _ask(fs, "POST", "/batch/storage/v1", headers=headers, data=body.encode())
    answers = list(_batch_answers(answered.get("Content-Type", ""), answer))
    for status, text in answers:
        refusal = _refusal(status, text, is_about_bucket=False)
        if status >= 300 and GCS_ANSWERS.classify(refusal) is not Answer.MISSING:
            raise refusal
    if len(answers) != len(paths):
        raise _Refused(502, "backendError", f"{len(answers)} answers to {len(paths)} deletes")


def _batch_answers(content_type: str, body: bytes) -> Iterator[tuple[int, bytes]]:
    whole = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    for part in whole.get_payload() if whole.is_multipart() else ():
        inner = part.get_payload(decode=True)  # type: ignore[union-attr]
        if isinstance(inner, bytes):
            head, _, text = inner.lstrip().partition(b"\r\n\r\n")
            status = head.split(None, 2)[1:2]
            yield int(status[0]) if status and status[0].isdigit() else 502, text


def _refusal(status: int, body: bytes, *, is_about_bucket: bool) -> _Refused:
    """The refusal that an answer stands for. A 404 to an upload or a listing is about the bucket."""
    text = body.decode(errors="replace").strip()
    reason = ""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
        error = json.loads(text)["error"]
        text = error.get("message", text)
        reason = error["errors"][0]["reason"]
    if status == 404 and (is_about_bucket or "bucket does not exist" in text):
        reason = "noSuchBucket"
    return _Refused(status, reason, text[:500])


def _object(path: str) -> str:
    bucket, _, key = path.partition("/")
    return f"/storage/v1/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}"


def _payer(fs: Any) -> str:
    query = urlencode(fs._get_params({}))
    return f"?{query}" if query else ""


def _milliseconds(text: str) -> int:
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole = datetime.fromisoformat(seconds).replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * 1000 + int(f"{fraction}000"[:3])


def _gcsfs() -> Any:
    try:
        return import_client("gcsfs.core")
    except ImportError as error:
        raise Unsupported(
            "GCS stores need gcsfs, which is not installed", next_step="pip install 'lakelatch[gcs]'"
        ) from error
