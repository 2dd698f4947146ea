"""The line between what a table may ask for by itself and what only the caller may: places outside of the table's folder.

Owns: `allow`, `is_allowed`, `check_allowed`, the user's settings file, and what travels to other processes. Must not know:
stores, options, what lies in a place. Source: H16.
A table's files are written by others. What they name inside the table's folder is the table's own business. Data files elsewhere,
a journal in a file of this machine and a service that is told of partitions are places of the caller, who allows them for a
table, or for all tables below a URL: by `allow`, which writes the settings file, or by `LAKELATCH_ALLOW`, which names places for
all tables of a process.
Invariant: nothing that a table's files say changes what is allowed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from ..core.errors import InvalidArgument
from ..core.json_text import parse_json
from ..core.places import plain_url, scheme_of
from .files.durable import temporary_name
from .files.user_folders import user_folder
from .requests.threads import forked_lock

SETTINGS = "LAKELATCH_SETTINGS"
"""The environment variable that names the settings file; by default `~/.config/lakelatch/settings.json`."""
PLACES = "LAKELATCH_ALLOW"
"""The environment variable with places that are allowed for all tables, separated by commas."""
FIELD = "allowed_places"
_ALIASES = {"s3a": "s3", "gcs": "gs"}
_LOG = logging.getLogger("lakelatch.trust")

Allowed = Mapping[str, tuple[str, ...]]
"""The URL of a table, or of a folder of tables, to the places that are allowed there. The URL is empty for all tables."""


class _Known:
    """What this process knows besides the settings file and the environment."""

    def __init__(self) -> None:
        self.lock = forked_lock()
        self.places: dict[str, tuple[str, ...]] = {}
        self.read: tuple[object, Allowed] = (None, {})


_KNOWN = _Known()


def allow(url: str | PathLike[str], *places: str | PathLike[str]) -> tuple[str, ...]:
    """Allow a table to use places outside of its folder, from now on and for all processes of this user.

    A table's own files can name such places: locations of data files (`data-file.external-paths`, `lakelatch.referenced-paths`),
    a journal on this machine (`commit.journal`), a service to be told of partitions (`partition.mark-done-action.http.url`).
    Whoever can write to the table chooses them, so they are used only where you allow it. In a place that is allowed, files that
    the table names are read, written, and deleted once they are not needed.

    Args:
        url: the table, or a folder of tables, each of which may use the places.
        places: folders, files or URLs. Everything below them is meant. None: only tell what is allowed.

    Returns:
        The places that are allowed for the URL by now.

    Raises:
        InvalidArgument: the settings file cannot be read or written.

    >>> allow("memory://doctest-allow/t")
    ()
    """
    table, wanted = spelled(url), tuple(spelled(place) for place in places)
    learn({table: wanted})
    if wanted:
        _write({table: wanted})
    return places_of(table)


def allow_here(url: str, places: Iterable[str]) -> None:
    """The same for places that the caller has just named; in this process alone where the settings file cannot be written."""
    wanted = tuple(place for place in map(spelled, places) if not is_allowed(url, place))
    if not wanted:
        return
    try:
        allow(url, *wanted)
    except InvalidArgument as error:
        _LOG.warning("%s may use %s in this process only: %s", url, ", ".join(wanted), error.message)


def is_allowed(url: str, place: str) -> bool:
    """Whether a table may use a place: one inside its own folder, or one that was allowed."""
    return root_of(url, place) is not None


def root_of(url: str, place: str) -> str | None:
    """The innermost place that is allowed for the table and holds this one; None if none does."""
    wanted = spelled(place)
    if ".." in wanted.split("/"):
        return None
    roots = (spelled(url), *places_of(url))
    return max((root for root in roots if _lies_in(wanted, root)), key=len, default=None)


def check_allowed(url: str, place: str, what: str, *, itself: bool = False) -> str:
    """Refuse a place that was not allowed.

    Args:
        what: what names the place, for the message.
        itself: the very place must have been allowed. A folder above it may hold links.

    Returns:
        As `root_of`.

    Raises:
        InvalidArgument: it was not.
    """
    root = root_of(url, place)
    if root is None or (itself and spelled(place) not in places_of(url)):
        raise InvalidArgument(
            f"{what} of table {url} names {place}, which was not allowed for this table",
            next_step=f"if you trust whoever writes to it, run `lakelatch allow {url} {place}`"
            + (
                ", or name a journal yourself (journal=)"
                if itself
                else f" or allow a folder above it; {PLACES} allows it, too"
            ),
        )
    return root


def places_of(url: str) -> tuple[str, ...]:
    """The places outside of its folder that a table may use."""
    table = spelled(url)
    return tuple(
        dict.fromkeys(place for one, places in allowed_now().items() if _lies_in(table, one) for place in places)
    )


def allowed_now() -> dict[str, tuple[str, ...]]:
    """All that is allowed in this process: this travels to the workers of a job."""
    found = dict(_KNOWN.places)
    for table, places in _settings().items():
        found[table] = (*found.get(table, ()), *places)
    named = tuple(spelled(place.strip()) for place in os.environ.get(PLACES, "").split(",") if place.strip())
    if named:
        found[""] = (*found.get("", ()), *named)
    return found


def learn(allowed: Allowed) -> None:
    """Take over what is allowed in the process that sent this one its work."""
    with _KNOWN.lock:
        for table, places in allowed.items():
            _KNOWN.places[table] = tuple(dict.fromkeys((*_KNOWN.places.get(table, ()), *places)))


def moved(url: str, new_url: str) -> None:
    """A table was renamed by the caller: what was allowed for it goes with it."""
    allow_here(new_url, allowed_now().get(spelled(url), ()))


def spelled(url: str | PathLike[str]) -> str:
    """A URL in one spelling, absolute and with a scheme.

    >>> spelled("s3a://lake/t/"), spelled("file:///data//lake"), spelled("/data/lake")
    ('s3://lake/t', 'file:/data/lake', 'file:/data/lake')
    """
    from .local import local_path

    text = os.fspath(url)
    if scheme_of(text) in ("", "file"):
        return plain_url(local_path(text[:5].lower() + text[5:] if scheme_of(text) else text))
    plain = plain_url(text).rstrip("/")
    scheme, _, rest = plain.partition(":")
    return f"{_ALIASES.get(scheme, scheme)}:{rest}"


def _lies_in(place: str, root: str) -> bool:
    return not root or place == root or place.startswith(root.rstrip("/") + "/")


# ------------------------------------------------------------------------------------------------------ the settings file


def settings_file() -> Path:
    named = os.environ.get(SETTINGS)
    return Path(named) if named else user_folder("XDG_CONFIG_HOME", ".config") / "lakelatch" / "settings.json"


def _settings() -> Allowed:
    path = settings_file()
    try:
        found = os.stat(path)
    except OSError:
        return {}
    mark = (path, found.st_mtime_ns, found.st_size, found.st_ino)
    if _KNOWN.read[0] != mark:
        _KNOWN.read = (mark, _parsed(path))
    return _KNOWN.read[1]


def _content(path: Path) -> dict[str, object]:
    try:
        told = parse_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"settings file {path} cannot be read: {error}", next_step="mend or remove it") from error
    if not isinstance(told, dict):
        raise InvalidArgument(f"settings file {path} is no JSON object", next_step="mend or remove it")
    return told


def _parsed(path: Path) -> Allowed:
    field = _content(path).get(FIELD, {})
    if not isinstance(field, dict) or not all(
        isinstance(places, list) and all(isinstance(place, str) for place in places) for places in field.values()
    ):
        raise InvalidArgument(
            f"field '{FIELD}' of settings file {path} does not map the URLs of tables to lists of places",
            next_step="mend or remove it",
        )
    return {spelled(table): tuple(map(spelled, places)) for table, places in field.items()}


def _write(more: Allowed) -> None:
    """Add to the settings file, beside other processes that do."""
    import fcntl  # not on Windows, where no table lies in a folder

    path = settings_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.parent / f".{path.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = _content(path)
            merged = dict(_parsed(path))
            for table, places in more.items():
                merged[table] = tuple(dict.fromkeys((*merged.get(table, ()), *places)))
            text = json.dumps({**content, FIELD: {table: list(places) for table, places in merged.items()}}, indent=2)
            made = path.parent / temporary_name(path.name)
            made.write_text(text + "\n")
            os.replace(made, path)
    except OSError as error:
        raise InvalidArgument(
            f"settings file {path} cannot be written: {error.strerror or error}",
            next_step=f"name another file in {SETTINGS}, or name the places in {PLACES}",
        ) from error
