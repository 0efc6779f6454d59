"""Running the programs of PostgreSQL, as another user where need be."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Account:
    """As whom the PostgreSQL programs run."""

    uid: int
    gid: int


def run(command: Sequence[str], *, account: Account | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run to the end, in its own process session, so that no Ctrl-C or hang-up of this terminal gets there.

    `options` are those of `subprocess.run`. Raises OSError if it can not be executed or not as that account.
    """
    # PG* variables of the caller are meant for clients, and LC_ALL keeps the messages in one language.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if account is not None:
        options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return subprocess.run(  # noqa: S603 (the commands are put together here, none comes from outside)
        command, check=False, start_new_session=True, cwd="/", env=environment, **options
    )
