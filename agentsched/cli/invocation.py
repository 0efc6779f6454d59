"""How the person at the terminal calls this program, for commands that are shown to be typed or configured."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

from agentsched.settings import Settings


def command(settings: Settings) -> str:
    """`agentsched` where the shell finds it, else its path; with the data directory in front if one was given."""
    program = Path(sys.argv[0]).absolute()
    found = shutil.which("agentsched")
    if program.name != "agentsched" or (found is not None and Path(found).absolute() == program):
        name = "agentsched"
    else:
        name = shlex.quote(os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program))
    if settings.data_dir is None:
        return name
    return f"AGENTSCHED_DATA_DIR={shlex.quote(str(settings.data_dir.absolute()))} {name}"


def host_configuration(settings: Settings) -> str:
    """What a desktop host is given to run the MCP server in conversation 1. It has no shell, and a PATH of its own."""
    program = Path(sys.argv[0]).absolute()
    started = [str(program)] if program.name == "agentsched" else [sys.executable, "-m", "agentsched.cli.main"]
    name, *arguments = started
    server: dict[str, object] = {"command": name, "args": [*arguments, "mcp", "--conversation", "1"]}
    if settings.data_dir is not None:
        server["env"] = {"AGENTSCHED_DATA_DIR": str(settings.data_dir.absolute())}
    return json.dumps({"mcpServers": {"agentsched": server}}, ensure_ascii=False)
