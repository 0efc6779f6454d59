"""The specification as a page for people: one document, no scripts, nothing from any other address."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Json = Mapping[str, Any]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc } h3 { margin-bottom: .2rem }
code { background: #f3f3f3; padding: .1em .3em; border-radius: 3px; overflow-wrap: anywhere }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; color: #0b5 }
.delete { color: #b22 } .post { color: #06c } .patch { color: #a60 }
table { border-collapse: collapse; width: 100% } td { border-top: 1px solid #eee; padding: .3rem .6rem .3rem 0;
vertical-align: top } details { margin: .4rem 0 } summary { cursor: pointer }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } code { background: #2a2a2a }
a { color: #8bf } td { border-color: #333 } }
"""

METHODS = ("get", "post", "put", "patch", "delete")


def page(specification: Json) -> str:
    """The whole page."""
    info = specification["info"]
    operations: dict[str, list[str]] = {}
    for path, item in specification["paths"].items():
        for method in METHODS:
            if method in item:
                tag = item[method]["tags"][0]
                operations.setdefault(tag, []).append(_operation(method, path, item[method], specification))
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{_text(info['description'])}</p>",
        '<p>For programs: <a href="/schema/openapi.json">openapi.json</a></p>',
        *(f"<h2>{escape(tag)}</h2>{''.join(shown)}" for tag, shown in sorted(operations.items())),
        "<h2>Schemas</h2>",
        *(_schema(name, schema) for name, schema in specification["components"]["schemas"].items()),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _operation(method: str, path: str, operation: Json, specification: Json) -> str:
    name = escape(operation["operationId"])
    rows = [
        _row(f"{parameter['name']} ({parameter['in']})", _type(parameter["schema"]), parameter.get("description", ""))
        for parameter in operation.get("parameters", [])
    ]
    if "requestBody" in operation:
        rows.append(_row("body", _content(operation["requestBody"]), ""))
    shared = specification["components"]["responses"]
    responses = {
        status: shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
        for status, response in operation["responses"].items()
    }
    answers = [_row(status, _content(response), response["description"]) for status, response in responses.items()]
    return (
        f'<h3 id="{name}"><span class="method {method}">{method.upper()}</span> <code>{escape(path)}</code></h3>'
        f"<p>{_text(operation['summary'])} {_text(operation.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table>"
        f"<details><summary>Answers</summary><table>{''.join(answers)}</table></details>"
    )


def _schema(name: str, schema: Json) -> str:
    if "enum" in schema:
        inside = f"<p>{_type(schema)}</p>"
    else:
        required = schema.get("required", [])
        rows = [
            _row(field + ("" if field in required else "?"), _type(each), each.get("description", ""))
            for field, each in schema.get("properties", {}).items()
        ]
        inside = f"<table>{''.join(rows)}</table>"
    return (
        f'<details id="{escape(name)}" open><summary><code>{escape(name)}</code> '
        f"{_text(schema.get('description', ''))}</summary>{inside}</details>"
    )


def _content(part: Json) -> str:
    return ", ".join(_type(each["schema"]) for each in part.get("content", {}).values())


def _type(schema: Json) -> str:
    """A schema in a word or two; others of the specification as links."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        return " | ".join(_type(each) for each in either)
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return " ".join(_words(schema))


def _words(schema: Json) -> Iterator[str]:
    yield escape(str(schema.get("type", "any")))
    if "minimum" in schema:
        yield f"from {schema['minimum']}"
    if "maximum" in schema:
        yield f"to {schema['maximum']}"
    if "default" in schema:
        yield f"(default {escape(str(schema['default']))})"


def _row(name: str, kind: str, description: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{_text(description)}</td></tr>"


def _text(text: str) -> str:
    """Prose with `code` in it."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))
