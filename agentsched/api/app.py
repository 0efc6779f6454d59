"""The HTTP API: routes, and what holds for all of them."""

import json
from collections.abc import Sequence
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.plugins.pydantic import PydanticInitPlugin, PydanticSchemaPlugin
from litestar.types import ControllerRouterHandler

from agentsched.api import (
    backfills,
    conversations,
    dead_letters,
    hooks,
    lifecycle,
    runs,
    schedules,
    service,
    simulations,
    tasks,
    tools,
    webhook_page,
)
from agentsched.api.auth import authenticated, caller_of
from agentsched.api.bodies import MAX_BODY_BYTES, JsonRequest, is_model, read_model
from agentsched.api.mcp import mcp_endpoint
from agentsched.api.openapi import config, specification
from agentsched.api.parameters import refuse_unknown_query
from agentsched.api.parts import Parts
from agentsched.api.problems import HANDLERS
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database

WITH_KEY: Sequence[ControllerRouterHandler] = (
    conversations.create_conversation,
    conversations.list_conversations,
    conversations.get_conversation,
    conversations.delete_conversation,
    conversations.list_entries,
    conversations.read_inbox,
    conversations.send_message,
    schedules.create_schedule,
    schedules.list_schedules,
    schedules.list_conversation_schedules,
    schedules.preview_schedule,
    schedules.get_schedule,
    schedules.update_schedule,
    schedules.preview_saved_schedule,
    schedules.list_changes,
    simulations.simulate_schedule,
    simulations.simulate_saved_schedule,
    lifecycle.cancel_schedule,
    lifecycle.pause_schedule,
    lifecycle.resume_schedule,
    lifecycle.run_schedule_now,
    hooks.rotate_webhook_token,
    backfills.create_backfill,
    backfills.list_backfills,
    backfills.get_backfill,
    backfills.cancel_backfill,
    runs.list_schedule_runs,
    runs.list_runs,
    runs.get_run,
    runs.list_run_tasks,
    runs.cancel,
    dead_letters.requeue_run,
    dead_letters.discard_run,
    dead_letters.requeue_runs,
    dead_letters.discard_runs,
    tasks.get_task,
    tasks.create_subtask,
    tools.list_tools,
    tools.call_tool,
    service.get_status,
    service.run_tick,
)
OPEN: Sequence[ControllerRouterHandler] = (
    hooks.call_webhook,
    hooks.call_webhook_with_bearer,
    # These two take the key from a header or a form.
    webhook_page.explain_webhook,
    webhook_page.make_webhook_token,
    service.is_alive,
    service.ready,
)


class RequestModels(PydanticInitPlugin):
    """Litestar's support for pydantic, but bodies are read by ``bodies.read_model``."""

    @classmethod
    def decoders(cls, validate_strict: bool = False) -> list[Any]:
        return [(is_model, read_model)]


def create_app(db: Database, settings: Settings, waker: Waker) -> Litestar:
    """The application. It opens and closes nothing: the database and the waker belong to the caller."""
    parts = Parts(db, settings, waker)
    mcp, while_served = mcp_endpoint(parts)
    return Litestar(
        route_handlers=[
            Router("/", route_handlers=WITH_KEY, guards=[authenticated(db)], before_request=refuse_unknown_query),
            *OPEN,
            mcp,
        ],
        lifespan=[while_served],
        dependencies={
            "parts": Provide(lambda: parts, sync_to_thread=False),
            "caller": Provide(caller_of, sync_to_thread=False),
        },
        exception_handlers=HANDLERS,
        request_class=JsonRequest,
        request_max_body_size=MAX_BODY_BYTES,
        plugins=[RequestModels(prefer_alias=True), PydanticSchemaPlugin(prefer_alias=True)],
        openapi_config=config(),
        logging_config=None,
    )


def export_openapi() -> str:
    """The specification as the text of `openapi/agentsched.json`. Needs no database and no configuration."""
    app = create_app(Database("postgresql://"), Settings.model_construct(), _Nobody())
    return json.dumps(specification(app), indent=2, ensure_ascii=False) + "\n"


class _Nobody:
    """There is nobody to wake where nothing runs."""

    def wake(self) -> None:
        pass
