"""Amazon S3 and compatible stores over s3fs: `s3://bucket/path` and `s3a://bucket/path`.

Owns: the requests of S3's interface, the table of S3's answers, the client's settings. Must not know: tables.
Invariants: one operation is one request, so s3fs's `cat_file` and `info` (sometimes two) and `rm` (hides errors) are not used.
A create is one PUT with `If-None-Match: *` for every size: some servers ignore the condition on a multipart upload, and s3fs
loses it for an empty `open("xb")`. An old botocore that would silently drop the condition is refused.
Source: format/stores §1, §4, §5.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from types import MappingProxyType, SimpleNamespace
from typing import Any

from ..core.errors import LakelatchError, UnsafeBackend, Unsupported
from .client_import import import_client
from .files.object_store import FIXED_OPTIONS, FsspecStore, bucket_root, known_options, modified_ms
from .files.upload import Multipart
from .requests.answers import COMMON_STATUSES, Answer, AnswerTable
from .store import Capabilities, Listed
from .transport.choice import After, NotExpressed, ObstoreRequests
from .transport.s3_obstore import are_common, s3_requests

_FROM_AIOBOTOCORE = frozenset({"profile", "session_vars", "event_hooks", "include_builtin_handlers"})

_ACCESS_POINT = re.compile(r"(?<=://)arn:[^/]+?:(?:outpost/[^/]+/)?accesspoint/[^/]+")
_CONFLICT, _BUSY, _DENIED, _NOT_SENT = Answer.CONFLICT, Answer.BUSY, Answer.DENIED, Answer.NOT_SENT

S3_ANSWERS = AnswerTable(
    codes=MappingProxyType(
        {
            "PreconditionFailed": Answer.EXISTS,  # with or without <Condition>: FileExistsError or OSError(22) in s3fs
            "NoSuchKey": Answer.MISSING,
            "NoSuchVersion": Answer.MISSING,
            "NotFound": Answer.MISSING,
            "404": Answer.MISSING,  # an answer without a body, for example to a HEAD
            "NoSuchBucket": Answer.NO_CONTAINER,
            "InvalidRange": Answer.PAST_END,
            "ConditionalRequestConflict": _CONFLICT,
            "OperationAborted": _CONFLICT,
            "SlowDown": _BUSY,
            "SlowDownRead": _BUSY,
            "SlowDownWrite": _BUSY,
            "RequestTimeout": _BUSY,
            "RequestLimitExceeded": _BUSY,
            "Throttling": _BUSY,
            "ThrottlingException": _BUSY,
            "TooManyRequests": _BUSY,
            "BandwidthLimitExceeded": _BUSY,
            "InternalError": _BUSY,
            "ServiceUnavailable": _BUSY,
            "BadDigest": _BUSY,  # the bytes were damaged in transit: send them again
            "XAmzContentSHA256Mismatch": _BUSY,
            "IncompleteBody": _BUSY,
            "NotImplemented": Answer.NO_CONDITION,
            "InvalidObjectState": Answer.ARCHIVED,
            "AccessDenied": _DENIED,
            "ExpiredToken": _DENIED,
            "InvalidAccessKeyId": _DENIED,
            "SignatureDoesNotMatch": _DENIED,
            "RequestTimeTooSkewed": _DENIED,
            "PermanentRedirect": _DENIED,
        }
    ),
    # A 404 with another code concerns something else, such as an upload or a user that does not exist.
    statuses=MappingProxyType({**COMMON_STATUSES, 404: _DENIED}),
    types=MappingProxyType(
        {
            # botocore gave up before it sent anything. A refused connection or handshake is not in this list: the HTTP
            # client resends by itself when a kept connection breaks, and the first send may have been applied (H2).
            **dict.fromkeys(
                (
                    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound",
                    "NoAuthTokenError", "TokenRetrievalError", "SSOError", "UnauthorizedSSOTokenError",
                    "NoRegionError", "InvalidRegionError", "ParamValidationError", "ValidationError",
                    "ConfigNotFound", "ConfigParseError", "InvalidConfigError", "MetadataRetrievalError",
                    "UnknownEndpointError", "BaseEndpointResolverError", "NoCredentials",
                ),
                _NOT_SENT,
            ),
        }
    ),
)  # fmt: skip


class S3Store(FsspecStore):
    """Stores objects in an S3 bucket.

    Args:
        url: `s3://bucket/path` or `s3a://bucket/path`.
        storage_options: the options of s3fs (`key`, `secret`, `token`, `profile`, `anon`, `endpoint_url`, `client_kwargs`,
            `config_kwargs`, …), and `request_timeout` (seconds, default 30) and `allow_unsafe`. lakelatch makes the retries
            itself: those in `config_kwargs` are replaced. Listings are never cached. `transport` chooses the client: see
            `FsspecStore`. Prefer a profile or the environment to explicit keys (H19).

    Raises:
        InvalidArgument: the URL has no bucket or holds credentials, or an option is not known.

    >>> S3Store("s3://lake/flights", {"key": "AKIAEXAMPLE", "secret": "do not show"})
    S3Store('s3://lake/flights', StorageOptions(key=***, secret=***))
    """

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("If-None-Match", "s3a", "one PUT with If-None-Match: *", self._allow_unsafe)

    def _root_of(self, url: str) -> str:
        # AWS writes an access point with slashes or with colons. Only with these it is one part of a path.
        return bucket_root(_ACCESS_POINT.sub(lambda arn: arn[0].replace("/", ":"), url), ("s3", "s3a"), "S3")

    def _check_options(self) -> None:
        if are_common(self._given) and find_spec("s3fs") is not None:
            return  # loading it takes half a second, which obstore's requests can do without
        self._given.only(known_options(_s3fs().S3FileSystem) | _FROM_AIOBOTOCORE, "S3 stores")

    def _obstore(self) -> Callable[[], ObstoreRequests]:
        bucket = self._root.partition("/")[0]
        if bucket.endswith("--x-s3") or ":" in bucket:
            raise NotExpressed("the bucket is a directory bucket or an access point, whose address s3fs knows")
        return s3_requests(self._options, self._patience.deadline_seconds)

    async def _connect(self) -> Any:
        options = dict(self._options.without(*FIXED_OPTIONS))
        options["config_kwargs"] = {
            "connect_timeout": 5,
            "read_timeout": self._patience.deadline_seconds,
            "max_pool_connections": 32,
            **(options.get("config_kwargs") or {}),
            "retries": {"total_max_attempts": 1, "mode": "standard"},
        }
        fs = _s3fs().S3FileSystem(**options, skip_instance_cache=True, use_listings_cache=False)
        fs.retries = 1  # s3fs's own loop around botocore's
        await fs.set_session()
        _prepare(fs._s3)
        return fs

    async def _create(self, fs: Any, path: str, data: bytes) -> None:
        if "IfNoneMatch" not in fs._s3.meta.service_model.operation_model("PutObject").input_shape.members:
            raise UnsafeBackend(
                "this botocore silently drops If-None-Match", next_step="install botocore 1.35.20 or newer"
            )
        await fs._call_s3("put_object", **_named(path), Body=data, IfNoneMatch="*")

    def _classify(self, error: BaseException) -> Answer:
        return S3_ANSWERS.classify(error)

    async def _read(self, fs: Any, path: str) -> bytes:
        return await _body(await fs._call_s3("get_object", **_named(path)))

    async def _read_range(self, fs: Any, path: str, start: int, end: int) -> bytes:
        return await _body(await fs._call_s3("get_object", **_named(path), Range=f"bytes={start}-{end - 1}"))

    async def _stat(self, fs: Any, path: str) -> tuple[int, int]:
        found = await fs._call_s3("head_object", **_named(path))
        return int(found["ContentLength"]), modified_ms(found)

    async def _write(self, fs: Any, path: str, data: bytes) -> None:
        await fs._call_s3("put_object", **_named(path), Body=data)

    def _import_client(self) -> None:
        _s3fs()

    async def _page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[Listed], str | None]:
        bucket, _, start = prefix.partition("/")
        more = {"ContinuationToken": after} if after else {}
        if isinstance(after, After):
            more = {"StartAfter": after.partition("/")[2]}
        found = await fs._call_s3("list_objects_v2", Bucket=bucket, Prefix=start, **more)
        listed = [
            (f"{bucket}/{one['Key']}", int(one["Size"]), modified_ms(one), one.get("ETag", ""))
            for one in found.get("Contents", ())
        ]
        return listed, found["NextContinuationToken"] if found.get("IsTruncated") else None

    async def _folder_page(self, fs: Any, prefix: str, after: str | None) -> tuple[list[str], str | None]:
        bucket, _, start = prefix.partition("/")
        more = {"ContinuationToken": after} if after else {}
        found = await fs._call_s3("list_objects_v2", Bucket=bucket, Prefix=start, Delimiter="/", **more)
        names = [f"{bucket}/{one['Prefix']}" for one in found.get("CommonPrefixes", ())]
        return names, found["NextContinuationToken"] if found.get("IsTruncated") else None

    async def copy(self, fs: Any, source: str, path: str) -> None:
        await fs._call_s3("copy_object", **_named(path), CopySource=_named(source))

    async def _delete(self, fs: Any, paths: list[str]) -> None:
        if len(paths) == 1:
            await fs._call_s3("delete_object", **_named(paths[0]))
            return
        bucket = paths[0].partition("/")[0]
        objects = [{"Key": _named(path)["Key"]} for path in paths]
        answer = await fs._call_s3("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        for refused in answer.get("Errors", ()):
            if S3_ANSWERS.codes.get(refused.get("Code", "")) is not Answer.MISSING:
                raise _NotDeleted(refused)

    def _multipart(self, path: str) -> Multipart:
        return _S3Upload(self, path)


class _NotDeleted(Exception):
    def __init__(self, refused: Mapping[str, Any]) -> None:
        super().__init__(f"{refused.get('Key')}: {refused.get('Code')} {refused.get('Message', '')}")
        status = 503 if S3_ANSWERS.codes.get(refused.get("Code", "")) is Answer.BUSY else 403
        self.response = {"Error": dict(refused), "ResponseMetadata": {"HTTPStatusCode": status}}


class _S3Upload:
    """A multipart upload. Every request of it is idempotent, so each is repeated like a read."""

    costs = (1, 1)

    def __init__(self, store: S3Store, path: str) -> None:
        self._store = store
        self._path = path
        self._id = ""

    def start(self) -> None:
        self._id = self._send("create_multipart_upload", 0)["UploadId"]

    def part(self, number: int, data: bytes) -> Any:
        sent = self._send("upload_part", len(data), UploadId=self._id, PartNumber=number, Body=data)
        named = {"PartNumber": number, "ETag": sent["ETag"]}
        if "ChecksumSHA256" in sent:  # only if the user asked for it; the client's default must not be repeated
            named["ChecksumSHA256"] = sent["ChecksumSHA256"]
        return named

    def finish(self, parts: list[Any], size: int) -> None:
        try:
            self._send("complete_multipart_upload", 0, UploadId=self._id, MultipartUpload={"Parts": parts})
        except LakelatchError:
            # If an earlier send whose answer was lost completed the upload, it is gone and the object exists.
            if not self._is_there(size):
                raise

    def abandon(self) -> None:
        with contextlib.suppress(LakelatchError):
            self._send("abort_multipart_upload", 0, UploadId=self._id)

    def _is_there(self, size: int) -> bool:
        store = self._store
        try:
            return store._request("finish", self._path, store._seconds(0), store._stat, self._path)[0] == size
        except LakelatchError:
            return False

    def _send(self, method: str, size: int, **request: Any) -> Any:
        async def call(fs: Any) -> Any:
            return await fs._call_s3(method, **_named(self._path), **request)

        return self._store._request("write", self._path, self._store._seconds(size), call)


def _s3fs() -> Any:
    try:
        return import_client("s3fs")
    except ImportError as error:
        raise Unsupported(
            "S3 stores need s3fs, which is not installed", next_step="pip install 'lakelatch[s3]'"
        ) from error


def _named(path: str) -> dict[str, str]:
    bucket, _, key = path.partition("/")
    return {"Bucket": bucket, "Key": key}


async def _body(response: Any) -> bytes:
    body = response["Body"]
    try:
        return bytes(await body.read())
    finally:
        body.close()


def _prepare(client: Any) -> None:
    """Send bodies at once: botocore asks `Expect: 100-continue` first, which costs every PUT a round trip. Believe the store
    alone: the HTTP client follows redirections, after which the answer may be that of a login page (H2)."""
    client.meta.events.register_last("before-call.s3", _without_expect)
    client.meta.events.register_last("after-call.s3", _not_redirected)
    client.meta.events.register_first("before-call.s3.HeadBucket", _looked_for_once)


def _without_expect(params: Any, **_: Any) -> None:
    params["headers"].pop("Expect", None)


_LOOKED_FOR: ContextVar[bool] = ContextVar("lakelatch_bucket_looked_for", default=False)


def _looked_for_once(**_: Any) -> tuple[Any, dict[str, Any]] | None:
    """botocore asks the bucket where it is if a request was redirected, and if that question is, too, without end. Each of our
    requests is a task of its own, and asks once.
    """
    if not _LOOKED_FOR.get():
        _LOOKED_FOR.set(True)
        return None
    nowhere = {"Error": {"Code": "301"}, "ResponseMetadata": {"HTTPStatusCode": 301, "HTTPHeaders": {}}}
    return SimpleNamespace(status_code=301, headers={}), nowhere


class _Redirected(Exception):
    """Something in between sent the request elsewhere. What was answered there proves nothing."""


def _not_redirected(http_response: Any, **_: Any) -> None:
    if http_response.status_code >= 300:
        return  # a refusal, which is believed
    for step in getattr(http_response.raw, "history", ()):
        if step.status not in (307, 308):  # by these, S3 sends the same request to another of its hosts
            raise _Redirected(f"the answer {step.status} led elsewhere")
