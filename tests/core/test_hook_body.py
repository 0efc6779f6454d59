"""Bodies of deliveries: read, or refused with a reason."""

import json

import pytest

from agentsched.core.hook_body import FORM, MAX_BODY_BYTES, MalformedBody, UnsupportedType, read_body

JSON = "application/json"


@pytest.mark.parametrize(
    ("content_type", "raw", "media_type", "text"),
    [
        (JSON, b'{"n": 1}', JSON, '{"n": 1}'),
        ("Application/JSON; charset=UTF-8", b"[1, 2]", JSON, "[1, 2]"),
        ("application/cloudevents+json", b"null", "application/cloudevents+json", "null"),
        ("text/plain", "Grüße\n".encode(), "text/plain", "Grüße\n"),
        ('text/csv; charset="utf-8"', b"a,b", "text/csv", "a,b"),
        ("", b"", "text/plain", ""),
        (JSON, b'{"a": ' * 64 + b"1" + b"}" * 64, JSON, '{"a": ' * 64 + "1" + "}" * 64),
        (JSON, b'"half a pair: \\ud83d"', JSON, '"half a pair: \\ud83d"'),
        (JSON, b'"\\\\u0000 is six characters"', JSON, '"\\\\u0000 is six characters"'),
    ],
)
def test_read(content_type: str, raw: bytes, media_type: str, text: str) -> None:
    assert read_body(content_type, raw) == (media_type, text)


def test_a_form_is_decoded() -> None:
    read = read_body(FORM, b"command=%2Fdeploy&text=Gr%C3%BC%C3%9Fe+%26+mehr&tag=a&tag=b&empty=")

    assert json.loads(read.text) == {"command": "/deploy", "text": "Grüße & mehr", "tag": ["a", "b"], "empty": ""}
    assert "Grüße" in read.text


def test_as_many_elements_as_fit() -> None:
    many = b"[" + b"1," * ((MAX_BODY_BYTES - 3) // 2) + b"1]"

    assert read_body(JSON, many).text == many.decode()


@pytest.mark.parametrize(
    ("content_type", "raw", "code"),
    [
        (JSON, b"", "json_malformed"),
        (JSON, b"{", "json_malformed"),
        (JSON, b"{} {}", "json_malformed"),
        (JSON, b"[NaN]", "json_malformed"),
        (JSON, b"-Infinity", "json_malformed"),
        (JSON, b"\xef\xbb\xbf{}", "json_malformed"),
        (JSON, b'"\x01"', "json_malformed"),
        (JSON, b"1" * 5000, "json_malformed"),
        (JSON, b'{"a": 1, "b": {"c": 1, "c": 1}}', "json_duplicate_key"),
        (JSON, b'{"a": 1, "\\u0061": 2}', "json_duplicate_key"),
        (JSON, b"[" * 65 + b"]" * 65, "json_too_deep"),
        (JSON, b"[" * 200_000, "json_too_deep"),
        (JSON, b'{"a": ["\\u0000"]}', "nul_character"),
        (JSON, b'{"a\\u0000": 1}', "nul_character"),
        (JSON, b'"\xff"', "body_not_utf8"),
        (JSON, '"ä"'.encode("utf-16"), "body_not_utf8"),
        ("text/plain", b"a\x00b", "nul_character"),
        ("text/plain", b"\xed\xa0\x80", "body_not_utf8"),
        (FORM, b"a=%00", "nul_character"),
        (FORM, b"%00=a", "nul_character"),
        (FORM, b"a=%ff", "body_not_utf8"),
        (FORM, b"a&" * 2000, "form_too_long"),
    ],
)
def test_malformed(content_type: str, raw: bytes, code: str) -> None:
    with pytest.raises(MalformedBody) as refused:
        read_body(content_type, raw)

    assert refused.value.code == code
    assert len(refused.value.message) < 300


@pytest.mark.parametrize(
    "content_type",
    [
        "application/xml",
        "multipart/form-data; boundary=x",
        "application/octet-stream",
        "json",
        "",
        "text/plain; charset=latin-1",
        "application/json; charset=utf-16",
    ],
)
def test_unsupported(content_type: str) -> None:
    with pytest.raises(UnsupportedType, match="application/json"):
        read_body(content_type, b"1")
