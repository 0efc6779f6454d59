"""The HTTP client of the commands that talk to a running service; it finds a local one by itself (DESIGN §14)."""

import functools
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx
import rich_click as click

from agentsched.cli.configuration import read_settings
from agentsched.cli.data_dir import DataDir
from agentsched.cli.refusal import CommandRefused
from agentsched.settings import Settings

TIMEOUT_SECONDS = 30.0

Command = TypeVar("Command", bound=Callable[..., Any])


class Address(NamedTuple):
    """Where a service is, and who asks."""

    url: str
    api_key: str


class Client:
    """JSON over HTTP with one API key. Every method raises CommandRefused for whatever is not a success.

    The service is looked for when it is first needed, so that wrong usage is told before that there is none.
    """

    def __init__(self, find: Callable[[], Address]) -> None:
        self._find = find

    def get(self, path: str, **query: object) -> Any:
        return self._send("GET", path, query=query)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        return self._send("POST", path, body=body, headers=headers)

    def patch(self, path: str, body: Mapping[str, Any], *, version: int) -> Any:
        """A patch that is guarded by the version that the caller has read."""
        return self._send("PATCH", path, body=body, headers={"If-Match": str(version)})

    def delete(self, path: str, **query: object) -> Any:
        return self._send("DELETE", path, query=query)

    def close(self) -> None:
        if "_http" in vars(self):
            self._http.close()

    @functools.cached_property
    def _http(self) -> httpx.Client:
        url, api_key = self._find()
        return httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=TIMEOUT_SECONDS,
            # A proxy of the environment is not meant for this machine itself.
            trust_env=not is_local(url),
        )

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        http = self._http
        parameters = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        try:
            answer = http.request(method, path, params=parameters, json=body, headers=headers)
        except httpx.TimeoutException as error:
            raise CommandRefused(
                "no_answer_in_time", f"{http.base_url} did not answer within {TIMEOUT_SECONDS:.0f} s. Try again."
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandRefused(
                "no_answer",
                f"Nothing answers at {http.base_url}: {error}. "
                "Start it with `agentsched up`, or give another address with --url or AGENTSCHED_URL.",
            ) from error
        if answer.is_success:
            return answer.json() if answer.content else None
        raise _refused(answer)


def client_options(command: Command) -> Command:
    """Add ``--url`` and ``--api-key``, and pass a ``client`` instead of them."""

    @click.option("--url", envvar="AGENTSCHED_URL", show_envvar=True, help="The service; else the local one.")
    @click.option(
        "--api-key", envvar="AGENTSCHED_API_KEY", show_envvar=True, help="Who you are; else the local admin key."
    )
    @functools.wraps(command)
    def wrapped(*args: Any, url: str | None, api_key: str | None, **options: Any) -> Any:
        client = Client(lambda: find_service(read_settings(), url, api_key))
        try:
            return command(*args, client=client, **options)
        finally:
            client.close()

    return wrapped  # type: ignore[return-value]  # click calls it by keyword


def find_service(settings: Settings, url: str | None, api_key: str | None) -> Address:
    """The given service, else the one that is up on the data directory.

    The admin key of the data directory is sent to this machine only. Raises CommandRefused if there is no service to be
    found, or no key for it.
    """
    data_dir = DataDir.of(settings)
    if url is None:
        url = data_dir.served_url()
    if url is None and api_key is not None:
        url = f"http://{settings.host}:{settings.port}"
    if url is None:
        raise CommandRefused(
            "not_up",
            f"agentsched is not running on the data directory {data_dir.path}. "
            "Start it with `agentsched up`, or say where it is with --url and --api-key "
            "(or AGENTSCHED_URL and AGENTSCHED_API_KEY).",
        )
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.BadParameter(f"{url!r} is no address; write http://127.0.0.1:8420.", param_hint="--url")
    if api_key is None and is_local(url):
        api_key = data_dir.api_key()
    if api_key is None:
        raise CommandRefused(
            "no_api_key",
            f"There is no key for {url}. Give one with --api-key or AGENTSCHED_API_KEY; "
            f"`agentsched keys create` makes one. (The local one would be in {data_dir.api_key_file}.)",
        )
    return Address(url, api_key)


def is_local(url: str) -> bool:
    """Whether the URL names this machine."""
    name = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _query_value(value: object) -> str | list[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(each) for each in value] if isinstance(value, list | tuple) else str(value)


def _refused(answer: httpx.Response) -> CommandRefused:
    try:
        document = answer.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and ("code" in document or "detail" in document):
        return CommandRefused(document.get("code", ""), str(document.get("detail", "")), document=document)
    return CommandRefused(
        "unexpected_answer",
        f"{answer.request.method} {answer.request.url.copy_with(query=None)} answered "
        f"HTTP {answer.status_code} and not as agentsched does. Is the address right?",
    )
