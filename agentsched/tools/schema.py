"""JSON schemas of the tools' models as every model provider takes them: self-contained, and with no unions."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


class _Plain(GenerateJsonSchema):
    """Titles repeat names, null stands for an argument that is left out, and not every decoder of a
    provider takes regular expressions."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if key != "default" or value is not None}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return {key: value for key, value in super().str_schema(schema).items() if key != "pattern"}


def plain_schema(model: type[BaseModel], *, answer: bool = False) -> dict[str, Any]:
    """The schema of a model, whole and self-contained; of an ``answer`` as it is sent."""
    made = model.model_json_schema(schema_generator=_Plain, mode="serialization" if answer else "validation")
    definitions = made.pop("$defs", {})
    whole = _inlined(made, definitions)
    return {key: value for key, value in whole.items() if key not in ("title", "description")}


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(each, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        target = definitions[part["$ref"].rsplit("/", 1)[-1]]
        rest = {key: value for key, value in part.items() if key != "$ref"}
        inner = {key: value for key, value in target.items() if key not in ("title", "description")}
        return _inlined(inner | rest, definitions)
    return {key: _inlined(value, definitions) for key, value in part.items()}
