"""The API over ASGI in the test's own event loop, with keys of two principals."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from httpx import ASGITransport, AsyncClient
from litestar import Litestar

from agentsched.api.app import create_app
from agentsched.core.words import Scope
from agentsched.service import keys
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import conforming


@dataclass
class CountingWaker:
    """A waker that only counts."""

    calls: int = field(default=0)

    def wake(self) -> None:
        self.calls += 1


async def key_of(
    db: Database, name: str, scope: Scope = Scope.USER, *, timezone: str | None = "UTC", conversation: int | None = None
) -> str:
    """A new key of the principal of this name."""
    principal = await keys.ensure_principal(db, name, timezone)
    _, key = await keys.create_key(db, principal.id, scope=scope, label="test", conversation_id=conversation)
    return key


def client_with(app: Litestar, key: str | None) -> AsyncClient:
    """A client with this key, whose every answer is held against the specification."""
    return AsyncClient(
        transport=ASGITransport(app),  # type: ignore[arg-type]  # Litestar has types of its own for ASGI
        base_url=conforming.BASE,
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
        event_hooks={"response": [conforming.check]},
    )


@pytest.fixture
def waker() -> CountingWaker:
    return CountingWaker()


@pytest.fixture
async def app(db: Database, settings: Settings, waker: CountingWaker) -> AsyncIterator[Litestar]:
    made = create_app(db, settings, waker)
    async with made.lifespan():
        yield made


@pytest.fixture
async def client(app: Litestar, db: Database) -> AsyncIterator[AsyncClient]:
    """Ada, with a key of scope user."""
    async with client_with(app, await key_of(db, "ada")) as ada:
        yield ada


@pytest.fixture
async def other(app: Litestar, db: Database) -> AsyncIterator[AsyncClient]:
    """Bob, who owns nothing of Ada's."""
    async with client_with(app, await key_of(db, "bob")) as bob:
        yield bob


@pytest.fixture
async def admin(app: Litestar, db: Database) -> AsyncIterator[AsyncClient]:
    """Ada, with a key of scope admin."""
    async with client_with(app, await key_of(db, "ada", Scope.ADMIN)) as ada:
        yield ada
