"""The folder of each new data file in a table with locations outside its own folder (`data-file.external-paths`).

Owns: the strategies of Apache Paimon that choose a location. Must not know: stores, files. Source: format/snapshot §1.
Invariant: A chosen location is one that the option names, so every reader of the table accepts it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from . import options as opt
from .errors import InvalidArgument
from .options import TableOptions
from .places import named_locations, plain_url, scheme_of

STRATEGIES = ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin")
_HASH_BITS, _PART_BITS, _PARTS = 20, 4, 3
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class ExternalPaths:
    """Where new data files are stored: the locations without a slash at the end, and how often each is chosen relative
    to the others (empty if they take turns).

    Attributes:
        entropy: whether folders named after a hash of the file's name come before the name.
    """

    roots: tuple[str, ...]
    weights: tuple[int, ...] = ()
    entropy: bool = False

    @staticmethod
    def of(options: TableOptions) -> ExternalPaths | None:
        """Where new files go, or None if it is the table's own folder. Raises InvalidArgument, which names the option."""
        strategy, roots = options.get(opt.EXTERNAL_STRATEGY), named_locations(options)
        if strategy not in STRATEGIES:
            raise InvalidArgument(
                f"option '{opt.EXTERNAL_STRATEGY.key}' = {strategy!r} is not known",
                next_step=f"use one of {', '.join(STRATEGIES)}",
            )
        if not roots or strategy == "none":
            return None
        for root in roots:
            if not scheme_of(root):
                raise InvalidArgument(
                    f"option '{opt.EXTERNAL_PATHS.key}': location {root!r} has no scheme",
                    next_step="write it as a URL, such as file:///data or s3://bucket/data",
                )
        if strategy == "specific-fs":
            wanted = options.get(opt.EXTERNAL_SPECIFIC_FS).lower()
            roots = tuple(root for root in roots if scheme_of(root) == wanted)
            if not roots:
                raise InvalidArgument(
                    f"option '{opt.EXTERNAL_PATHS.key}' names no location of the scheme {wanted!r}, which option"
                    f" '{opt.EXTERNAL_SPECIFIC_FS.key}' asks for"
                )
        weights = _weights(options, len(roots)) if strategy == "weight-robin" else ()
        return ExternalPaths(tuple(map(_root, roots)), weights, strategy == "entropy-inject")

    def folder(self, folder: str, file_name: str, turn: int, drawn: float) -> str:
        """The URL of a new file's folder, ending in a slash, like `folder`, that of its bucket. `turn` is how many
        files were placed before, `drawn` a random number from 0 to 1.

        >>> ExternalPaths(("s3://a/x", "s3://b")).folder("p=1/bucket-0/", "data-1.orc", 1, 0.0)
        's3://b/p=1/bucket-0/'
        >>> ExternalPaths(("s3://a/x",), entropy=True).folder("bucket-0/", "data-1.orc", 0, 0.0)
        's3://a/x/bucket-0/0100/0110/1011/00110110/'
        """
        if self.weights:
            marks = list(accumulate(self.weights))
            root = self.roots[min(bisect_right(marks, drawn * marks[-1]), len(marks) - 1)]
        else:
            root = self.roots[turn % len(self.roots)]
        return f"{root}/{folder}{_entropy(file_name) if self.entropy else ''}"


def _root(root: str) -> str:
    return plain_url(root).rstrip("/")


def _weights(options: TableOptions, count: int) -> tuple[int, ...]:
    text = options.get(opt.EXTERNAL_WEIGHTS)
    if not text.strip() or count < 2:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != count or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InvalidArgument(
            f"option '{opt.EXTERNAL_WEIGHTS.key}' = {text!r} does not give each of the {count} locations a whole number"
            " above 0"
        )
    return tuple(map(int, parts))


def _entropy(file_name: str) -> str:
    bits = format(murmur3(file_name.encode()) | 1 << 31, "b")[-_HASH_BITS:]
    cut = _PARTS * _PART_BITS
    parts = [bits[i : i + _PART_BITS] for i in range(0, cut, _PART_BITS)]
    return "/".join((*parts, bits[cut:])) + "/"


def murmur3(data: bytes) -> int:
    """The 32-bit MurmurHash3 of some bytes with seed 0, as an unsigned number.

    >>> murmur3(b""), murmur3(b"hello"), murmur3(b"hello, world")
    (0, 613153351, 345750399)
    """
    hashed = 0
    for start in range(0, len(data), 4):
        block = data[start : start + 4]
        word = int.from_bytes(block, "little") * 0xCC9E2D51 & _WORD
        word = (word << 15 | word >> 17) * 0x1B873593 & _WORD
        hashed ^= word
        if len(block) == 4:
            hashed = (hashed << 13 | hashed >> 19) & _WORD
            hashed = hashed * 5 + 0xE6546B64 & _WORD
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return hashed ^ hashed >> 16
