"""The options of s3fs as the settings of obstore's S3 client.

Owns: which options, variables and profiles mean the same to both clients, and where the credentials come from. Must not
know: requests, tables. Source: decision 70.
Invariants: an option whose meaning is not known to be the same is `NotExpressed`. Credentials that are not given come from
botocore's own chain, so that both clients use the same ones, also when they are renewed. Keys are never part of a text (H19).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from .choice import NotExpressed, ObstoreRequests, is_md5, settings

_OF_FILES = frozenset(
    {
        "default_block_size", "default_cache_type", "default_fill_cache",
        "fixed_upload_size", "max_concurrency", "skip_instance_cache", "use_listings_cache",
        "allow_unsafe", "operation_timeout", "request_timeout", "transport",
    }
)  # fmt: skip
"""Options that concern s3fs's files and caches, or lakelatch alone: no request depends on them."""

_NAMES = (
    ("key", "username", "aws_access_key_id"),
    ("secret", "password", "aws_secret_access_key"),
    ("token", "token", "aws_session_token"),
)

_REGIONS = ("us-east", "us-west", "eu-", "ap-", "ca-", "sa-", "me-", "af-", "il-", "mx-")
_READ = frozenset(
    {
        *(name for names in _NAMES for name in names[:2]),
        *("anon", "endpoint_url", "client_kwargs", "config_kwargs", "profile", "use_ssl", "requester_pays"),
    }
)
_CLIENT_READ = frozenset({*(names[2] for names in _NAMES), "region_name", "endpoint_url", "use_ssl", "verify"})
_CONFIG = frozenset({"connect_timeout", "read_timeout", "max_pool_connections", "retries", "s3", "signature_version"})

_VARIABLES = (
    "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_S3_EXPRESS", "AWS_CONDITIONAL_PUT", "AWS_CHECKSUM_ALGORITHM",
    "AWS_SERVER_SIDE_ENCRYPTION", "AWS_PROXY_URL", "AWS_DEFAULT_HEADERS",
)  # fmt: skip
"""Variables of the environment that mean something to one of the two clients only."""

_PROFILE = frozenset(
    {
        "region", "ca_bundle", "output", "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "role_arn",
        "source_profile", "credential_source", "credential_process", "role_session_name", "external_id",
        "duration_seconds", "mfa_serial", "web_identity_token_file", "cli_pager", "max_attempts", "retry_mode",
    }
)  # fmt: skip
"""Settings of a profile that concern the credentials, which botocore finds, or no request."""

_RENEWED = timedelta(minutes=5)
"""How long obstore keeps credentials before it asks botocore again, which knows when they end."""


def are_common(names: Iterable[str]) -> bool:
    """Whether s3fs is known to have all of these options, so that it need not be loaded in order to look."""
    return set(names) <= _READ | _OF_FILES


def s3_requests(given: Mapping[str, Any], deadline_seconds: float) -> Callable[[], ObstoreRequests]:
    """How obstore does the requests of a bucket. Raises NotExpressed, which names what obstore does not have."""
    config = s3_config({**_configured(), **given})
    common = settings(deadline_seconds)
    common["client_options"] |= config.pop("certificates")

    def client(bucket: str, **more: Any) -> Any:
        from obstore.store import S3Store

        return S3Store(bucket, **config, **common, **more)

    return lambda: ObstoreRequests(client, is_md5, with_checksums=partial(client, checksum_algorithm="CRC64NVME"))


def s3_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of obstore's client without the bucket, and its options for `certificates`."""
    for name, value in options.items():
        if name not in _READ | _OF_FILES and value not in (None, False, {}):
            raise NotExpressed(f"obstore cannot express storage option {name!r}")
    client, config = dict(options.get("client_kwargs") or {}), dict(options.get("config_kwargs") or {})
    for which, names in ((client, _CLIENT_READ), (config, _CONFIG)):
        unknown = sorted(set(which) - names)
        if unknown:
            raise NotExpressed(f"obstore cannot express {unknown[0]!r} in client_kwargs or config_kwargs")
    for name in _VARIABLES:
        if os.environ.get(name):
            raise NotExpressed(f"the environment sets {name}, which does not mean the same to obstore")
    keys = _keys(options, client)
    session = _session(options.get("profile"), keys is not None or bool(options.get("anon")))
    made: dict[str, Any] = {
        **_address({**client, **options}, config, client.get("region_name") or session.get_config_variable("region")),
        "conditional_put": "etag",
        "skip_signature": bool(options.get("anon")),
        "request_payer": bool(options.get("requester_pays")),
        "certificates": _certificates(client.get("verify"), session),
    }
    if made["skip_signature"]:
        return made
    if keys is not None:  # not as values: then obstore would add a token of the environment to them
        return made | {"credential_provider": lambda: {**keys, "expires_at": None}}
    try:
        credentials = session.get_credentials()
    except Exception:  # of botocore, or of what a profile makes it run
        credentials = None
    if credentials is None:
        raise NotExpressed("botocore finds no credentials, and says what it looked for")
    return made | {"credential_provider": _Credentials(credentials)}


def _keys(options: Mapping[str, Any], client: Mapping[str, Any]) -> dict[str, str | None] | None:
    """The keys of the options, or those of the environment, with which botocore's chain begins."""
    found = [options.get(name) or options.get(other) or client.get(inner) for name, other, inner in _NAMES]
    variables = os.environ
    if not any(found) and not options.get("profile") and not variables.get("AWS_CREDENTIAL_EXPIRATION"):
        token = variables.get("AWS_SESSION_TOKEN") or variables.get("AWS_SECURITY_TOKEN")
        found = [variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY"), token]
        if not (found[0] and found[1]):
            return None
    if not any(found):
        return None
    if not (found[0] and found[1]):
        raise NotExpressed("only half of a key is given")
    return dict(zip(("access_key_id", "secret_access_key", "token"), found, strict=True))


def _address(options: Mapping[str, Any], config: Mapping[str, Any], region: str | None) -> dict[str, Any]:
    endpoint = options.get("endpoint_url")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    is_virtual = _style(config) == "virtual"
    made = {"region": region or "us-east-1", "virtual_hosted_style_request": is_virtual}
    if endpoint:
        if is_virtual:
            raise NotExpressed("obstore has another idea of virtual addresses at an endpoint of one's own")
        return made | {"endpoint": str(endpoint).rstrip("/")}
    if not region or not region.startswith(_REGIONS):
        raise NotExpressed("obstore must be told a region, and one of AWS's common partition")
    if options.get("use_ssl", True) is False:
        raise NotExpressed("obstore cannot express use_ssl=False")
    return made


class _Credentials:
    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        held = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": held.access_key,
            "secret_access_key": held.secret_key,
            "token": held.token,
            "expires_at": datetime.now(timezone.utc) + _RENEWED,
        }


def _certificates(verify: Any, session: Any) -> dict[str, Any]:
    """Whom to trust: botocore's `verify`, or the bundle that the environment or the profile names."""
    if verify is False:
        return {"allow_invalid_certificates": True}
    bundle = verify if isinstance(verify, str) else session.get_config_variable("ca_bundle")
    if not bundle:
        return {}
    try:
        return {"root_certificate": Path(bundle).read_bytes()}
    except OSError as error:
        raise NotExpressed(f"the bundle of certificates {bundle} cannot be read: {error.strerror}") from None


def _configured() -> dict[str, Any]:
    """What fsspec's own configuration says of S3: files in `~/.config/fsspec`, and variables such as `FSSPEC_S3_KEY`."""
    from fsspec.config import conf

    return {**conf.get("s3", {}), **conf.get("s3a", {})}


def _style(config: Mapping[str, Any]) -> str:
    """The style of addresses: `path`, or `virtual` for the bucket as a part of the host."""
    s3 = dict(config.get("s3") or {})
    style = str(s3.pop("addressing_style", "path"))
    s3.pop("payload_signing_enabled", None)
    if s3:
        raise NotExpressed(f"obstore cannot express {min(s3)!r} of config_kwargs")
    if config.get("signature_version", "s3v4") not in ("s3v4", "v4"):
        raise NotExpressed("obstore cannot express signature_version of config_kwargs")
    return "virtual" if style == "virtual" else "path"


class _Environment:
    """What botocore's session says where nothing but variables of the environment are set, without loading botocore."""

    def get_config_variable(self, name: str) -> str | None:
        return os.environ.get({"region": "AWS_DEFAULT_REGION", "ca_bundle": "AWS_CA_BUNDLE"}[name])

    def get_credentials(self) -> Any:
        raise AssertionError("the keys are given")


def _session(profile: str | None, has_keys: bool) -> Any:
    """botocore's session, if the settings of the profile mean the same to obstore. Loading it takes a quarter of a second."""
    files = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    named = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    if has_keys and not named and not any(os.path.exists(_expanded(*file)) for file in files):
        return _Environment()
    import botocore.exceptions
    import botocore.session

    session = botocore.session.Session(profile=profile)
    try:
        found: Mapping[str, Any] = session.get_scoped_config()
    except botocore.exceptions.BotoCoreError:
        raise NotExpressed("the AWS profile cannot be read, and s3fs says why") from None
    others = sorted(name for name in found if name not in _PROFILE and not name.startswith("sso_"))
    if others:
        raise NotExpressed(f"the AWS profile sets {others[0]!r}, which obstore cannot express")
    return session


def _expanded(variable: str, default: str) -> str:
    return os.path.expanduser(os.environ.get(variable) or default)
