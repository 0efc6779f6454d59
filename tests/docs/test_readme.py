"""The README is executed: its tour by a shell against a running service, its table against the settings."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from agentsched.store.database import Database
from tests.cli.processes import Process, up
from tests.docs.settings_table import README, with_table
from tests.embedded.members import remove

pytestmark = pytest.mark.anyio

ROOT = README.parent
FENCE = re.compile(r"^```(sh|text)\n(.*?)^```$|^<!-- (the next fire comes) -->$", re.MULTILINE | re.DOTALL)
END = "--- end of block ---"


class Shell:
    """One bash for all blocks, so that what a block sets is there in the next."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "-eu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def run(self, block: str) -> str:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{block}\necho; echo '{END}'\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.strip() == END:
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"the block failed:\n{block}\n{''.join(lines)}")

    def close(self) -> None:
        self._bash.communicate(timeout=10)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Process]:
    directory = tmp_path / "agentsched"
    with up(directory) as process:
        assert process.ready
        yield process
    remove(directory)


async def test_the_tour(service: Process) -> None:
    tour = README.read_text(encoding="utf-8").split("## A tour")[1].split("\n## ")[0]
    blocks = list(FENCE.finditer(tour))
    assert len(blocks) >= 8
    environment = {
        **os.environ,
        "AGENTSCHED_DATA_DIR": str(service.data_dir),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    with contextlib.closing(Shell(environment)) as shell:
        await follow(blocks, shell, service)


async def follow(blocks: list[re.Match[str]], shell: Shell, service: Process) -> None:
    """Do what a reader does: block by block."""
    said = ""
    for block in blocks:
        kind, body, mark = block.groups()
        if mark is not None:
            await the_next_fire_comes(service.ready["database_url"])
        elif kind == "sh":
            said += await asyncio.to_thread(shell.run, body.replace("http://127.0.0.1:8420", service.url))
        else:
            expect(body, said)
            said = ""


async def the_next_fire_comes(database_url: str) -> None:
    """Move the clock to the sweep after the next fire, and wait until the run of it has ended."""
    db = Database(database_url, pool_size=1)
    async with db.begin() as conn:
        await conn.execute(
            text(
                "UPDATE clock SET shift ="
                " (SELECT min(next_fire_at) FROM schedules) + interval '11 s' - clock_timestamp()"
            )
        )
    ended = text("SELECT count(*) FROM runs WHERE status = 'completed'")
    async with asyncio.timeout(60), db.autocommit() as conn:
        while (await conn.execute(ended)).scalar_one() == 0:  # noqa: ASYNC110 — another process completes it
            await asyncio.sleep(0)
    await db.close()


def expect(shown: str, said: str) -> None:
    """Each line that the README shows was said, in this order; ``…`` stands for anything."""
    rest = said
    for line in shown.strip().splitlines():
        pattern = ".*".join(re.escape(part) for part in line.strip("…").split("…"))
        found = re.search(pattern, rest)
        assert found, f"the README shows\n  {line}\nand this was said\n{said}"
        rest = rest[found.end() :]


def test_the_table_of_settings_is_complete() -> None:
    readme = README.read_text(encoding="utf-8")
    assert with_table(readme) == readme, "write it anew with: python -m tests.docs.settings_table"


def test_every_relative_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
