"""The PostgreSQL inside: started by the first process that needs it, stopped by the last one to leave.

The files are in `<data dir>/postgres` (for root possibly elsewhere, see `EmbeddedPostgres.start`):

- `start.lock` is held while somebody starts, joins, leaves or stops;
- `members.lock` is shared by everybody who uses the server, so that who gets it alone is the last;
- `server.lock` is held by the server's own processes;
- `cluster/` has the database (`data`) and its password; beside it lie `port`, `server.log` and the last log.

It listens on 127.0.0.1 only, and asks everybody for the password.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.embedded.locks import locked, open_lock, release, share, try_exclusive
from agentsched.embedded.places import SYSTEM_HOME, root_home, running_as_root, user_home
from agentsched.embedded.server import Server
from agentsched.embedded.system_user import (
    ensure_account,
    executable_binaries,
    installed_binaries,
    make_system_home,
)


class EmbeddedPostgres:
    """This process's membership in the server of a data directory (DESIGN §15, "Embedded PostgreSQL").

    `url` is `postgresql://…`, with password, naming the database `agentsched`. Membership ends with
    `leave()`, at the normal end of the process, and at SIGTERM and SIGHUP. A process that is killed otherwise
    no longer counts, and the server it may leave behind is taken over by the next start.
    """

    def __init__(self, data_dir: Path, server: Server, members: int) -> None:
        self.data_dir = data_dir
        self.url = server.url()
        self._server = server
        self._members: int | None = members
        self._process = os.getpid()
        atexit.register(self.leave)

    @classmethod
    def start(cls, data_dir: Path, *, options: Mapping[str, str] | None = None) -> Self:
        """Join the server of this data directory, after starting it if it does not run. Blocks.

        `options` are PostgreSQL's server settings (`{"fsync": "off"}`); they count only for a server that
        this call starts.

        For root, PostgreSQL runs as the system user `agentsched`, created if absent. A data directory that
        this user can not get to holds only a link named `postgres`; the files are then in
        `/var/lib/agentsched/<digest>-<random>`, and stay there if the data directory is deleted. Binaries
        that the user can not execute are copied to `/var/lib/agentsched`. No permission or owner of anything
        else is changed.

        Called in the main thread, it makes SIGTERM and SIGHUP end the process with exit status 128 + signal
        by way of SystemExit, unless the program handles or ignores them itself.

        Raises EmbeddedPostgresError with the reason, quoting the end of the server's log where there is one.
        """
        if sys.platform == "win32":
            raise EmbeddedPostgresError(
                "The embedded PostgreSQL runs on Linux and macOS. On Windows, set AGENTSCHED_DATABASE_URL."
            )
        data_dir = data_dir.absolute()
        server = _root_server(data_dir) if running_as_root() else _user_server(data_dir)
        _unwind_when_terminated()
        with locked(server.home / "start.lock"):
            members = open_lock(server.home / "members.lock")
            try:
                share(members)
                server.ensure_running(options or {})
                return cls(data_dir, server, members)
            except BaseException:
                _release(members, server)
                raise

    def leave(self) -> None:
        """Leave; the last one stops the server, cleanly. Does nothing a second time, or in a forked child.

        Raises EmbeddedPostgresError if the server does not stop in time.
        """
        if self._members is None or self._process != os.getpid():
            return
        members, self._members = self._members, None
        atexit.unregister(self.leave)
        with locked(self._server.home / "start.lock"):
            _release(members, self._server)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def _user_server(data_dir: Path) -> Server:
    return Server(home=user_home(data_dir), binaries=installed_binaries(), account=None)


def _root_server(data_dir: Path) -> Server:
    make_system_home()
    with locked(SYSTEM_HOME / "setup.lock"):
        account = ensure_account()
        binaries = executable_binaries(account)
        home = root_home(data_dir, uid=account.uid, gid=account.gid)
    return Server(home=home, binaries=binaries, account=account)


def _release(members: int, server: Server) -> None:
    try:
        release(members)
        if try_exclusive(members):
            server.stop()
    finally:
        os.close(members)


def _unwind_when_terminated() -> None:
    # By default these signals end Python on the spot, without atexit, and the server would be left running.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
