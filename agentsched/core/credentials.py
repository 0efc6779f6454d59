"""The text form of credentials: prefix, 256 random bits, checksum; only a SHA-256 is ever stored (DESIGN §10).

The checksum lets secret scanners recognise a leaked credential and lets us refuse a mistyped one without a look-up.
"""

import hashlib
import zlib
from enum import StrEnum

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_BYTES = 32
_BODY, _CHECK = 43, 6
SHOWN = 12
"""How many leading characters may be shown again to tell credentials apart."""


class Prefix(StrEnum):
    API_KEY = "ask_"
    TASK_TOKEN = "ast_"  # noqa: S105 — a prefix, not a secret
    WEBHOOK_TOKEN = "asw_"  # noqa: S105 — a prefix, not a secret


def compose(prefix: Prefix, random_bytes: bytes) -> str:
    """The credential made of 32 random bytes. Raises ValueError for any other number of bytes."""
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError(f"a credential takes {RANDOM_BYTES} random bytes, got {len(random_bytes)}")
    body = prefix.value + _base62(int.from_bytes(random_bytes, "big"), _BODY)
    return body + _checksum(body)


def is_well_formed(credential: str, prefix: Prefix) -> bool:
    """Whether prefix, length and checksum are right; says nothing about whether anybody issued it."""
    length = len(prefix.value) + _BODY + _CHECK
    return (
        len(credential) == length
        and credential.isascii()
        and credential.startswith(prefix.value)
        and credential[-_CHECK:] == _checksum(credential[:-_CHECK])
    )


def digest(credential: str) -> bytes:
    """What is stored of a credential."""
    return hashlib.sha256(credential.encode()).digest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK)


def _base62(value: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        value, digit = divmod(value, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
