"""The OpenAPI specification, as it is served and as it is exported."""

import json
from collections.abc import Iterator
from typing import Any

from litestar import Litestar, Request
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Info, License, SecurityScheme, Tag

from agentsched import __version__
