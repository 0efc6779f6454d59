"""Credentials: their text form, their checksum, and what is stored of them (DESIGN §10)."""

import hashlib
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.credentials import ALPHABET, RANDOM_BYTES, SHOWN, Prefix, compose, digest, is_well_formed
from tests.core.expressions import bounded

SECRETS = st.binary(min_size=32, max_size=32)

# Worked out apart: int.from_bytes(secret, "big") in base 62 (0-9A-Za-z), padded to 43, then CRC-32 padded to 6.
VECTORS = [
    (Prefix.API_KEY, bytes(32), "ask_000000000000000000000000000000000000000000030XZLr"),
    (Prefix.TASK_TOKEN, bytes(range(32)), "ast_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf23dpvE"),
    (Prefix.WEBHOOK_TOKEN, b"\xff" * 32, "asw_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp13gNfUL"),
]


def from_base62(text: str) -> int:
    value = 0
    for digit in text:
        value = value * 62 + ALPHABET.index(digit)
    return value


def test_the_alphabet_is_that_of_base_62() -> None:
    assert string.digits + string.ascii_uppercase + string.ascii_lowercase == ALPHABET
    assert RANDOM_BYTES * 8 == 256


@pytest.mark.parametrize(("prefix", "secret", "credential"), VECTORS)
def test_known_credentials(prefix: Prefix, secret: bytes, credential: str) -> None:
    """The form is for ever: keys that people hold must stay valid."""
    assert compose(prefix, secret) == credential
    assert is_well_formed(credential, prefix)


@bounded(100)
@given(SECRETS, st.sampled_from(Prefix))
def test_all_256_bits_are_in_it(secret: bytes, prefix: Prefix) -> None:
    credential = compose(prefix, secret)
    assert len(credential) == 4 + 43 + 6
    assert credential.startswith(prefix)
    assert from_base62(credential[4:47]) == int.from_bytes(secret, "big")
    assert all(character in ALPHABET for character in credential[4:])
    assert is_well_formed(credential, prefix)


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_it_takes_32_bytes_and_no_others(length: int) -> None:
    with pytest.raises(ValueError, match=f"takes 32 random bytes, got {length}"):
        compose(Prefix.API_KEY, bytes(length))


@pytest.mark.parametrize(("issued", "asked"), [(a, b) for a in Prefix for b in Prefix if a is not b])
def test_a_credential_of_one_kind_is_none_of_another(issued: Prefix, asked: Prefix) -> None:
    assert not is_well_formed(compose(issued, bytes(range(32))), asked)


@bounded(150)
@given(SECRETS, st.integers(0, 52), st.characters(codec="ascii"))
def test_one_wrong_character_is_seen_by_the_checksum(secret: bytes, at: int, wrong: str) -> None:
    credential = compose(Prefix.TASK_TOKEN, secret)
    mistyped = credential[:at] + wrong + credential[at + 1 :]
    assert is_well_formed(mistyped, Prefix.TASK_TOKEN) == (mistyped == credential)


@bounded(100)
@given(SECRETS, st.integers(4, 51))
def test_two_characters_that_changed_places_are_seen(secret: bytes, at: int) -> None:
    credential = compose(Prefix.WEBHOOK_TOKEN, secret)
    swapped = credential[:at] + credential[at + 1] + credential[at] + credential[at + 2 :]
    assert is_well_formed(swapped, Prefix.WEBHOOK_TOKEN) == (swapped == credential)


GOOD = compose(Prefix.API_KEY, bytes(range(32)))


@pytest.mark.parametrize(
    "other",
    [
        "",
        "ask_",
        GOOD[:-1],
        GOOD[1:],
        GOOD + "0",
        "0" + GOOD,
        GOOD + "\n",
        " " + GOOD,
        GOOD.upper(),
        GOOD.replace("_", "-"),
        "ask_" + "0" * 49,
        # As many characters, but not ASCII: full-width digits, an accent, and half of a surrogate pair.
        GOOD[:-1] + "\uff11",
        GOOD[:10] + "é" + GOOD[11:],
        GOOD[:10] + "\ud800" + GOOD[11:],
        "\x00" * 53,
    ],
)
def test_anything_else_is_refused(other: str) -> None:
    assert is_well_formed(GOOD, Prefix.API_KEY)
    assert not is_well_formed(other, Prefix.API_KEY)


@bounded(100)
@given(st.text(max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    assert not is_well_formed(text, Prefix.API_KEY)


def with_checksum(body: str) -> str:
    value, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = ALPHABET[digit] + digits
    return body + digits


def test_the_length_counts_also_where_the_checksum_is_right() -> None:
    assert is_well_formed(with_checksum(GOOD[:-6]), Prefix.API_KEY)
    assert not is_well_formed(with_checksum(GOOD[:-6] + "0"), Prefix.API_KEY)
    assert not is_well_formed(with_checksum(GOOD[:-7]), Prefix.API_KEY)


def test_only_its_sha_256_is_stored() -> None:
    assert digest(GOOD) == hashlib.sha256(GOOD.encode("ascii")).digest()
    assert digest("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_what_may_be_shown_again_tells_keys_apart_and_gives_none_away() -> None:
    assert SHOWN == 12
    secret_characters = SHOWN - len(Prefix.API_KEY)
    assert 256 - secret_characters * 6 >= 200  # bits that stay unknown
