"""The options of adlfs as the settings of obstore's Azure client.

Owns: which options mean the same to both clients. Must not know: requests, tables. Source: decision 70. Invariants: an option
whose meaning is not known to be the same is `NotExpressed`. Only keys and shared access tokens are expressed: identities are
looked up by Azure's own client, whose chain obstore does not have. Secrets are never part of a text (H19).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .choice import NotExpressed, ObstoreRequests, settings

_OF_FILES = frozenset(
    {
        "blocksize", "connection_timeout", "default_cache_type", "default_fill_cache",
        "max_concurrency", "read_timeout", "skip_instance_cache", "socket_timeout", "timeout", "use_listings_cache",
        "assume_container_exists", "allow_unsafe", "operation_timeout", "request_timeout", "transport",
    }
)  # fmt: skip
"""Options that concern adlfs's files and caches, or lakelatch alone: no request depends on them."""

_READ = frozenset({"account_name", "account_key", "account_host", "connection_string", "sas_token"})
_IN_A_STRING = frozenset(
    {
        "AccountName", "AccountKey", "SharedAccessSignature", "BlobEndpoint", "EndpointSuffix", "DefaultEndpointsProtocol",
        "QueueEndpoint", "FileEndpoint", "TableEndpoint",
    }
)  # fmt: skip
_STRING = "AZURE_STORAGE_CONNECTION_STRING"
"""The variable that obstore's client does not look at, so that it is read here, after the option, as adlfs reads it."""

_BY_FSSPEC = ("_stat", "_delete")
"""A HEAD shows no metadata and no code of a 404, so that a folder and a missing container would look like something else; and
several deletions are one request of an interface that not every account has."""


def are_common(names: Iterable[str]) -> bool:
    """Whether adlfs is known to have all of these options, so that it need not be loaded in order to look."""
    return set(names) <= _READ | _OF_FILES


def azure_requests(given: Mapping[str, Any], host: str, deadline_seconds: float) -> Callable[[], ObstoreRequests]:
    """How obstore does the requests of a container. Raises NotExpressed, which names what obstore does not have."""
    from fsspec.config import conf

    config = azure_config({**conf.get("abfs", {}), **conf.get("az", {}), **given}, host)
    common = settings(deadline_seconds)

    def client(container: str) -> Any:
        from obstore.store import AzureStore

        return AzureStore(container, **config, **common)

    return lambda: ObstoreRequests(client, _is_of_azure, _BY_FSSPEC, resumes=False)  # Azurite ignores `startFrom`


def azure_config(options: Mapping[str, Any], host: str) -> dict[str, Any]:
    for name, value in options.items():
        if (
            name not in _READ | _OF_FILES
            and value not in (None, False)
            and (name, value) != ("location_mode", "primary")
        ):
            raise NotExpressed(f"obstore cannot express storage option {name!r}")
    for name in sorted(os.environ):
        if name.startswith("AZURE_") and name != _STRING:
            raise NotExpressed(
                f"the environment sets {name}, which both clients would combine with options differently"
            )
    text = options.get("connection_string") or os.environ.get(_STRING)
    if text:
        said = _parts(str(text))
        account, key, token = (said.get(name) for name in ("AccountName", "AccountKey", "SharedAccessSignature"))
        suffix = said.get("EndpointSuffix", "core.windows.net")
        endpoint = (
            said.get("BlobEndpoint") or f"{said.get('DefaultEndpointsProtocol', 'https')}://{account}.blob.{suffix}"
        )
        account = account or options.get("account_name")
    else:
        account, key, token = options.get("account_name"), options.get("account_key"), options.get("sas_token")
        name, _, domain = host.partition(".")
        account = account or name
        place = (
            options.get("account_host") or f"{account}.{domain.replace('dfs.', 'blob.', 1) or 'blob.core.windows.net'}"
        )
        endpoint = f"https://{place}"
    if not account:
        raise NotExpressed("no account is named")
    if bool(key) == bool(token):
        raise NotExpressed("obstore needs either an account's key or a shared access token in the options")
    secret = {"account_key": key} if key else {"sas_key": str(token).removeprefix("?")}
    return {"account_name": account, "endpoint": str(endpoint).rstrip("/"), **secret}


def _parts(text: str) -> dict[str, str]:
    found = dict(part.strip().partition("=")[::2] for part in text.split(";") if part.strip())
    unknown = sorted(set(found) - _IN_A_STRING)
    if unknown:
        raise NotExpressed("the connection string has a setting that obstore cannot express")
    return found


def _is_of_azure(tag: str, data: bytes) -> bool:
    """Whether an ETag has the form of Azure's, which says nothing about the bytes."""
    return tag.startswith("0x")
