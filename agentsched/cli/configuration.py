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
        problems = []
        for each in error.errors():
            name = "_".join(str(part) for part in each["loc"])
            where = f"--{name.replace('_', '-')}" if name in given else f"AGENTSCHED_{name.upper()}"
            problems.append(f"{where}: {each['msg']} (got {each['input']!r})")
        raise click.UsageError("\n".join(problems)) from None
