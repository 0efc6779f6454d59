"""`agentsched openapi`: the specification of the HTTP API."""

import rich_click as click


@click.command()
def openapi() -> None:
    """Print the OpenAPI specification, as JSON."""
    from agentsched.api.app import export_openapi

    click.echo(export_openapi(), nl=False)
