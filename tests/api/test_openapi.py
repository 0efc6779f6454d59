"""The specification: valid, complete, as exported, and readable without any outside address."""

import re
from pathlib import Path
from typing import Any

import pytest
from httpx import AsyncClient
from litestar import Litestar
from litestar.routes import HTTPRoute
from openapi_spec_validator import validate

from agentsched.api.app import export_openapi
from tests.api.conforming import SPECIFICATION
from tests.api.conforming import validate as validate_value

EXPORTED = Path(__file__).parents[2] / "openapi" / "agentsched.json"
OPERATIONS = [
    (method, path, operation) for path, item in SPECIFICATION["paths"].items() for method, operation in item.items()
]


def test_the_exported_file_is_what_the_code_says() -> None:
    text = export_openapi()
    assert text.endswith("}\n")
    assert EXPORTED.read_text() == text, "agentsched openapi > openapi/agentsched.json"


def test_the_specification_is_valid() -> None:
    validate(SPECIFICATION)


def test_operations_are_complete() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    for _, path, operation in OPERATIONS:
        assert operation["summary"].endswith((".", "]")), operation
        responses = operation["responses"]
        assert any(status.startswith("2") for status in responses)
        if path.startswith(("/v1", "/schedules")):
            assert {"401", "403", "503"} <= responses.keys(), path
            assert "security" not in operation
        else:
            assert operation["security"] == [{}]
        if "{" in path:
            assert "404" in responses, path
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= responses.keys(), path
    assert SPECIFICATION["security"] == [{"api_key": []}]


def test_requests_forbid_unknown_fields_and_their_examples_are_right() -> None:
    for _, path, operation in OPERATIONS:
        if operation["operationId"] == "call_tool":
            continue  # each tool forbids them by itself
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert SPECIFICATION["components"]["schemas"][name]["additionalProperties"] is False, path
            if "example" in content:
                validate_value(content["example"], content["schema"])
            with pytest.raises(Exception, match="no_such_field"):
                validate_value({"no_such_field": 1}, content["schema"])


def test_problems_are_described_once() -> None:
    for name, response in SPECIFICATION["components"]["responses"].items():
        assert response["content"] == {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
        }, name


@pytest.mark.anyio
async def test_every_route_is_described(app: Litestar) -> None:
    routed = {
        (method.lower(), route.path_format)
        for route in app.routes
        if isinstance(route, HTTPRoute) and not route.path.startswith("/schema")
        for method in route.methods
        if method != "OPTIONS"
    }
    assert routed == {(method, path) for method, path, _ in OPERATIONS}


@pytest.mark.anyio
async def test_it_is_served_as_exported(client: AsyncClient) -> None:
    answer = await client.get("/schema/openapi.json", headers={"Authorization": ""})
    assert answer.json() == SPECIFICATION


@pytest.mark.anyio
async def test_the_page_shows_all_operations_and_needs_no_other_address(client: AsyncClient) -> None:
    answer = await client.get("/schema", headers={"Authorization": ""})

    assert answer.headers["content-type"].startswith("text/html")
    page = answer.text
    for _, _, operation in OPERATIONS:
        assert f'id="{operation["operationId"]}"' in page
    addresses: list[Any] = re.findall(r"(?:href|src)=[\"']?([^\"'> ]+)", page)
    assert {each for each in addresses if not each.startswith("#")} == {"/schema/openapi.json"}
    assert {each[1:] for each in addresses if each.startswith("#")} <= set(re.findall(r'id="([^"]+)"', page))
    assert "<script" not in page
    assert "//" not in page.replace("<!doctype", "")
