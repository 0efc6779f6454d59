"""Whether answers are what the specification says, whoever asks and whatever the test is about."""

import json
import re
from typing import Any

from httpx import Response
from openapi_schema_validator import OAS31Validator

from agentsched.api.app import export_openapi

SPECIFICATION: dict[str, Any] = json.loads(export_openapi())
BASE = "http://agentsched.test"


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation at an address; literal addresses before those with parameters."""
    templates = sorted(SPECIFICATION["paths"], key=lambda template: template.count("{"))
    for template in templates:
        pattern = re.sub(r"\{\w+\}", "[0-9]+", template.replace("{token}", "asw_[^/]+").replace("{name}", "[a-z_]+"))
        found: dict[str, Any] | None = SPECIFICATION["paths"][template].get(method.lower())
        if found is not None and re.fullmatch(pattern, path):
            return found
    return None


async def check(response: Response) -> None:
    """Raise AssertionError for an answer that the specification does not foresee."""
    await response.aread()
    operation = operation_of(response.request.method, response.request.url.path)
    if operation is None:
        assert response.status_code >= 400 or not response.request.url.path.startswith("/v1")
        return
    assert str(response.status_code) in operation["responses"], f"{operation['operationId']}: {response.text}"
    described = operation["responses"][str(response.status_code)]
    if "$ref" in described:
        described = SPECIFICATION["components"]["responses"][described["$ref"].rpartition("/")[2]]
    if "content" not in described:
        assert response.content == b""
        return
    content_type = response.headers["content-type"].partition(";")[0]
    validate(response.json(), described["content"][content_type]["schema"])


def validate(value: object, schema: dict[str, Any]) -> None:
    """Raise for a value that is not of a schema of the specification."""
    OAS31Validator({**schema, "components": SPECIFICATION["components"]}).validate(value)
