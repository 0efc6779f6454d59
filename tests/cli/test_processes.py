"""The processes that run until they are stopped: start, stop, crash, share, refuse."""

import asyncio
import contextlib
import json
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from sqlalchemy.engine import URL

from tests.cli.processes import Process, document, invoke, run, up
from tests.embedded.members import postmaster, query, wait_until
from tests.openai_stub import Hang, openai_stub

Result = TypeVar("Result")

PROVIDER = {"OPENAI_API_KEY": "sk-test"}


@pytest.fixture
def given_url(server_url: URL, tmp_path: Path) -> Iterator[str]:
    """An empty database on a server that was not started by agentsched's commands."""
    name = f"cli_{tmp_path.name.replace('-', '_')}_{tmp_path.parent.name.replace('-', '_')}".lower()
    maintenance = server_url.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
    query(maintenance, f'CREATE DATABASE "{name}"')
    yield server_url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    query(maintenance, f'DROP DATABASE "{name}" WITH (FORCE)')


def client(process: Process, key: str | None = None) -> httpx.Client:
    key = key or process.ready["api_key"]
    return httpx.Client(base_url=process.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)


def task_of_message(http: httpx.Client, agent: dict[str, str] | None = None) -> int:
    conversation = http.post("/v1/conversations", json={} if agent is None else {"agent": agent}).json()["id"]
    task: int = http.post(f"/v1/conversations/{conversation}/messages", json={"text": "Hello"}).json()["task_id"]
    return task


def task(http: httpx.Client, task_id: int) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/v1/tasks/{task_id}").json()
    return found


async def in_thread(do: Callable[[], Result]) -> Result:
    """For what runs an event loop of its own. Not asyncio.to_thread, whose context says that there is one already."""
    return await asyncio.get_running_loop().run_in_executor(None, do)


def test_stopped_killed_and_started_again_with_its_data(data_dir: Path) -> None:
    with up(data_dir) as first:
        key = first.ready["api_key"]
        key_file = data_dir / "api_key"
        assert key_file.read_text().strip() == key
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert first.ready["mcp_url"] == f"{first.url}/mcp"
        with client(first) as http:
            task_id = task_of_message(http)
            wait_until(lambda: task(http, task_id)["status"] == "completed")
        assert first.end(signal.SIGTERM) == 0
    assert postmaster(data_dir) is None, "the last one stops PostgreSQL"
    assert not (data_dir / "url").exists()

    with Process(data_dir, "up", "--port", "0") as second:
        said = second.said_up_to("Ctrl-C stops it.\n")
        assert (data_dir / "url").read_text().strip() in said
        assert str(key_file) in said
        assert key not in said
        assert f"AGENTSCHED_DATA_DIR={data_dir} agentsched schedules create 1 --cron" in said
        [snippet] = [json.loads(line) for line in said.splitlines() if "mcpServers" in line]
        server = snippet["mcpServers"]["agentsched"]
        assert server["env"] == {"AGENTSCHED_DATA_DIR": str(data_dir)}
        helped = subprocess.run([server["command"], *server["args"], "--help"], capture_output=True, check=True)
        assert b"AGENTSCHED_CONVERSATION" in helped.stdout
        second.end(signal.SIGKILL)

    with up(data_dir) as third, client(third, key) as http:
        assert third.ready["api_key"] == key
        assert task(http, task_id)["result"] == "Echo: Hello"
        assert third.end(signal.SIGINT) == 0
    assert postmaster(data_dir) is None


def test_one_data_directory_has_one_up(service: Process) -> None:
    second = run(service.data_dir, "up", "--port", "0", "--json")
    assert (second.returncode, second.stdout) == (1, "")
    refusal = json.loads(second.stderr)
    assert refusal["code"] == "already_up"
    assert f"runs already at {service.url}" in refusal["detail"]
    assert invoke(service.data_dir, "chat").exit_code == 0, "it is still found"


def test_a_port_that_is_taken(data_dir: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        ended = run(data_dir, "up", "--port", str(port))
    assert ended.returncode == 1
    assert f"port {port}" in ended.stderr
    assert "--port" in ended.stderr
    assert not (data_dir / "postgres").exists(), "nothing was begun"


def test_serve_and_worker_share_the_embedded_database(data_dir: Path) -> None:
    with Process(data_dir, "serve", "--json", "--port", "0") as serve:
        assert serve.ready["api_key"]
        with client(serve) as http:
            task_id = task_of_message(http)
            doctor = json.loads(invoke(data_dir, "doctor", "--json").stdout)
            found = {each["check"]: each["state"] for each in doctor["checks"]}
            assert (found["workers"], found["tick"]) == ("warning", "warning"), "serve runs neither"
            assert (found["harness"], doctor["ok"]) == ("problem", False), "a message waits for a worker"
            assert task(http, task_id)["status"] == "pending"
            with Process(data_dir, "worker", "--json") as worker:
                assert worker.ready["database_url"] == serve.ready["database_url"]
                wait_until(lambda: task(http, task_id)["status"] == "completed")
                assert task(http, task_id)["worker"] == worker.ready["worker"]
                assert document(invoke(data_dir, "doctor", "--json"))["ok"]
                assert worker.end() == 0
            assert http.get("/health/ready").status_code == 200, "PostgreSQL stays for the other one"
        assert serve.end() == 0
    assert postmaster(data_dir) is None


def test_a_given_database_is_migrated_by_hand(given_url: str, data_dir: Path) -> None:
    given = {"AGENTSCHED_DATABASE_URL": given_url}
    refused = run(data_dir, "serve", "--port", "0", given=given)
    assert refused.returncode == 1
    assert "agentsched migrate" in refused.stderr
    assert json.loads(invoke(data_dir, "doctor", "--json", **given).stdout)["ok"] is False
    assert document(invoke(data_dir, "migrate", "--json", **given))["revision"]
    with up(data_dir, given=given) as process:
        assert process.ready["api_key"] is None
        assert process.ready["database_url"] == given_url
        key = document(invoke(data_dir, "keys", "create", "--json", **given))["api_key"]
        here = {**given, "AGENTSCHED_URL": process.url, "AGENTSCHED_API_KEY": key}
        chat = invoke(data_dir, "chat", stdin="Hello\n", **here)
        assert chat.stdout.splitlines()[-1] == "assistant: Echo: Hello"
        assert process.end() == 0
    assert not data_dir.exists(), "a given database leaves no files on this machine"


@pytest.mark.anyio
@pytest.mark.parametrize(("patience", "interrupts"), [("1", 1), ("600", 2)])
async def test_ctrl_c_with_a_turn_in_progress(patience: str, interrupts: int, given_url: str, data_dir: Path) -> None:
    given = {"AGENTSCHED_DATABASE_URL": given_url, "AGENTSCHED_SHUTDOWN_SECONDS": patience, **PROVIDER}
    async with openai_stub() as stub:
        stub.default = Hang()
        migrated = await in_thread(partial(invoke, data_dir, "migrate", **given))
        assert migrated.exit_code == 0, migrated.output
        with up(data_dir, given={**given, "OPENAI_BASE_URL": stub.url}) as process:
            assert process.url
            key = document(await in_thread(partial(invoke, data_dir, "keys", "create", "--json", **given)))["api_key"]
            with client(process, key) as http:
                task_id = task_of_message(http, {"harness": "pydantic-ai", "model": "openai:stub"})
                await stub.received(1)
                assert task(http, task_id)["status"] == "running"
            for number in range(interrupts):
                if number:
                    process.wait_for_log("worker.finishing")
                process.process.send_signal(signal.SIGINT)
            assert process.process.wait(60) == 0
        found = f"SELECT status || ' ' || restarts || ' ' || attempt FROM tasks WHERE id = {task_id}"
        after = await in_thread(partial(query, given_url, found))
    if interrupts == 1:
        assert after == "pending 0 1", "it is handed back, and neither attempt nor restart is counted"
    else:
        assert after == "running 0 1", "it is left to its lease"
