"""The OpenAPI specification, as it is served and as it is exported.

Litestar describes the operations; the schemas are pydantic's own, which leave no bound, default or forbidden field out.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from litestar import Litestar, Request, Response, Router
from litestar.enums import MediaType
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from agentsched import __version__
from agentsched.api.docs_page import page
from agentsched.api.parameters import LARGEST_ID
from agentsched.api.problems import TITLES, address_problem

Json = dict[str, Any]
Mode = Literal["validation", "serialization"]

REFERENCE = "#/components/schemas/{model}"

DESCRIPTION = """\
AI conversations own schedules; when one fires, the service creates a run of the agent in a conversation. Instants are \
UTC. Errors are problem details (RFC 9457) with a stable `code`, and `errors` say of each wrong field what to write \
instead. `Idempotency-Key` makes it safe to repeat a request: it is answered as the first time, with \
`Idempotent-Replayed: true`."""

EXAMPLES: dict[str, Json] = {
    "create_conversation": {"title": "Briefings", "timezone": "Europe/Berlin"},
    "send_message": {"text": "What is open?"},
    "create_schedule": {"cron": "0 9 * * 1-5", "name": "Morning briefing", "prompt": "Check my open pull requests."},
    "update_schedule": {"cron": "30 8 * * 1-5"},
    "preview_schedule": {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "count": 3},
    "pause_schedule": {"note": "On holiday"},
    "create_backfill": {"from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z", "dry_run": True},
    "requeue_runs": {"error_code": "model_unavailable"},
    "discard_runs": {"failed_before": "2026-05-01T00:00:00Z"},
}


class _Untitled(GenerateJsonSchema):
    """Without titles that only repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class _Specification(JsonRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: Json) -> bytes:
        return self.render_json(request, specification(request.app))


class _DocsPage(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/", media_type=MediaType.HTML, favicon="", style="")

    def render(self, request: Request[Any, Any, Any], openapi_schema: Json) -> bytes:
        return page(specification(request.app)).encode()


def config() -> OpenAPIConfig:
    """How Litestar describes and serves: `/schema` for people, `/schema/openapi.json` for programs."""
    return OpenAPIConfig(
        title="agentsched",
        version=__version__,
        description=DESCRIPTION,
        use_handler_docstrings=True,
        render_plugins=[_Specification(), _DocsPage()],
        security=[{"api_key": []}],
        components=Components(
            security_schemes={
                "api_key": SecurityScheme(
                    type="http",
                    scheme="bearer",
                    description="An API key, `Authorization: Bearer ask_…`; `agentsched keys create` makes one",
                )
            }
        ),
        openapi_router=Router("/schema", route_handlers=[], include_in_schema=False, after_request=_absent_as_problem),
    )


def _absent_as_problem(response: Response[Any]) -> Response[Any]:
    """Litestar answers HTML for what is not under `/schema`."""
    return address_problem() if response.status_code == 404 else response


@lru_cache(maxsize=1)
def specification(app: Litestar) -> Json:
    """The specification of the application's routes."""
    found = app.openapi_schema.to_schema()
    _, definitions = models_json_schema(
        list(dict.fromkeys(_models(app))), ref_template=REFERENCE, schema_generator=_Untitled
    )
    found["components"]["schemas"] |= definitions["$defs"]
    found["components"]["schemas"] = dict(sorted(found["components"]["schemas"].items()))
    problems: Json = {}
    for path, item in found["paths"].items():
        for operation in item.values():
            _describe(operation)
            operation["tags"] = [path.removeprefix("/v1").split("/")[1]]
            operation["responses"] = {
                status: response if status.startswith("2") else _shared(status, response, problems)
                for status, response in operation["responses"].items()
            }
    found["components"]["responses"] = dict(sorted(problems.items()))
    return found


def _models(app: Litestar) -> Iterator[tuple[type[BaseModel], Mode]]:
    """The models of the bodies that are read and answered."""
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else []:
            yield from _models_of(handler)


def _models_of(handler: HTTPRouteHandler) -> Iterator[tuple[type[BaseModel], Mode]]:
    signature = handler.parsed_fn_signature
    answers = [signature.return_type, *signature.return_type.inner_types]
    yield from ((each.annotation, "serialization") for each in answers if _is_model(each.annotation))
    if (data := signature.parameters.get("data")) is not None:
        yield from ((each.annotation, "validation") for each in (data, *data.inner_types) if _is_model(each.annotation))
    for spec in (handler.responses or {}).values():
        if isinstance(spec.data_container, type) and issubclass(spec.data_container, BaseModel):
            yield spec.data_container, "serialization"


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _describe(operation: Json) -> None:
    """Words for people: a summary, and statuses by their names; parameters without what does not apply to them."""
    summary, _, rest = operation.pop("description").partition("\n\n")
    operation["summary"] = summary
    if rest:
        operation["description"] = rest.replace("\n", " ")
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            response["description"] = "Done" if int(status) == 204 else "The answer"
        if "headers" in response:
            response["headers"] = dict(sorted(response["headers"].items()))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["schema"] = _never_null(content["schema"])
        if operation["operationId"] in EXAMPLES:
            content["example"] = EXAMPLES[operation["operationId"]]
    for parameter in operation.get("parameters", []):
        parameter["schema"] = _parameter_schema(parameter["schema"])
        for name in ("deprecated", "allowEmptyValue", "allowReserved"):
            parameter.pop(name, None)


def _shared(status: str, response: Json, problems: Json) -> Json:
    """A problem in the components, where all operations with this status refer to it."""
    name = TITLES[int(status)].replace(" ", "")
    if problems.setdefault(name, response) != response:
        raise ValueError(f"two descriptions of the status {status}")
    return {"$ref": f"#/components/responses/{name}"}


def _parameter_schema(schema: Json) -> Json:
    """A parameter is sent or left out, never null; bounds of whole numbers are whole numbers."""
    plain = _never_null({name: value for name, value in schema.items() if name != "description"})
    for name in ("minimum", "maximum"):
        if name in plain:
            plain[name] = min(int(plain[name]), LARGEST_ID)
    return plain


def _never_null(schema: Json) -> Json:
    """The schema without the alternative null, which stands for what is left out."""
    alternatives = [each for each in schema.get("oneOf", []) if each.get("type") != "null"]
    rest = {name: value for name, value in schema.items() if name != "oneOf"}
    return rest | (alternatives[0] if alternatives else {})
