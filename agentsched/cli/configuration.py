"""Settings from the environment, with what options say over them."""

import rich_click as click
from pydantic import ValidationError

from agentsched.settings import Settings


def read_settings(**options: object) -> Settings:
    """The settings; options that were not given leave the environment's. Raises UsageError, naming each variable."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        problems = [_words(each["loc"], each["msg"], each["input"], given) for each in error.errors()]
        raise click.UsageError("\n".join(problems)) from None


def _words(where: tuple[int | str, ...], message: str, got: object, given: dict[str, object]) -> str:
    """One problem; what was got is not repeated where it may hold a password, as all settings together do."""
    if not where:
        return message.removeprefix("Value error, ")
    name = "_".join(str(part) for part in where)
    source = f"--{name.replace('_', '-')}" if name in given else f"AGENTSCHED_{name.upper()}"
    return f"{source}: {message}" + ("" if name.endswith("_url") else f" (got {got!r})")
