"""Credentials that are renewed while a process runs: which ones a client was made with, and when a new one is worth making.

Owns: `Lease`, `lease_of`, `renewed`. Must not know: any client library, what a client does. Source: decision 96.
Invariants: a client is kept for what it authenticates with: options, variables of the environment, and the files that they name.
A refusal for authentication proves that nothing was applied. After one, the providers are asked again once for each client: at
once if what they say may have changed, and else only if the client has served for a while, so that refusals cost no connections.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .answers import Facts
from .threads import forked_lock, this_process

OLD_ENOUGH_S = 5.0
"""A client that is refused earlier was refused from its beginning."""

_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "FSSPEC_")
_NAMED = ("AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_FEDERATED_TOKEN_FILE")
_DEFAULTS = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("", "~/.config/gcloud/application_default_credentials.json"),
)
_CODES = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "InvalidTokenId"),
        *(
            "InvalidSecurity",
            "RequestExpired",
            "SignatureDoesNotMatch",
            "TokenRefreshRequired",
            "XMinioInvalidIAMCredentials",
        ),  # S3
        *("AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"),  # Azure
        *("authError", "required", "invalid_grant"),  # GCS
    }
)
_TYPES = frozenset(
    {
        *("NoCredentials", "_NoCredentials", "NoCredentialsError", "PartialCredentialsError", "NoAuthTokenError"),
        *("CredentialRetrievalError", "TokenRetrievalError", "UnauthorizedSSOTokenError", "ClientAuthenticationError"),
        *("RefreshError", "DefaultCredentialsError"),
    }
)


@dataclass(frozen=True)
class Lease:
    """What a client was made with.

    Attributes:
        state: what the providers of credentials could have said then.
        since_s: when that was, in monotonic seconds.
    """

    number: int
    state: str
    since_s: float


_LEASES: dict[tuple[object, str], Lease] = {}
_LOCK = forked_lock()


def lease_of(identity: str, options: Mapping[str, Any]) -> Lease:
    with _LOCK:
        held, state = _LEASES.get((this_process(), identity)), _state(options)
        if held is None or held.state != state:
            held = _begin(identity, held, state)
        return held


def renewed(identity: str, used: Lease, options: Mapping[str, Any], facts: Facts) -> bool:
    """Whether another client is worth a try after this error. If so, `lease_of` has another number from now on."""
    asks = _refuses_who_asks(facts)
    if not asks and facts.status not in (401, 403):
        return False
    with _LOCK:
        held, state = _LEASES.get((this_process(), identity), used), _state(options)
        if held.number == used.number:
            is_old = asks and time.monotonic() - used.since_s >= OLD_ENOUGH_S
            if state == used.state and not is_old:
                return False
            _begin(identity, held, state)
        return True


def _begin(identity: str, before: Lease | None, state: str) -> Lease:
    made = Lease(0 if before is None else before.number + 1, state, time.monotonic())
    _LEASES[this_process(), identity] = made
    return made


def _refuses_who_asks(facts: Facts) -> bool:
    """Whether an error is a refusal of who asks, and not of what was asked. The answer to a HEAD has no code."""
    if facts.status == 401:
        return True
    if facts.code is not None and not facts.code.isdigit():
        return facts.code in _CODES
    if facts.status is not None:
        return facts.status in (400, 403)
    return not _TYPES.isdisjoint(facts.types)


def _state(options: Mapping[str, Any]) -> str:
    """Variables of the environment, and the age and size of the files that they and the options name."""
    said = {name: text for name, text in os.environ.items() if name.startswith(_PREFIXES)}
    files = [os.environ.get(name) for name in _NAMED]
    files += [(os.environ.get(name) if name else None) or os.path.expanduser(default) for name, default in _DEFAULTS]
    files += [value for value in options.values() if isinstance(value, str) and value.startswith(("/", "~"))]
    return repr((sorted(said.items()), [(file, _age(file)) for file in files if file]))


def _age(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(os.path.expanduser(file))
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
