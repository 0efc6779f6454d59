"""A process that uses the embedded PostgreSQL until its standard input ends.

`member.py DATA_DIR [SETTING=VALUE …]`
"""

import sys
from pathlib import Path

from agentsched.embedded.postgres import EmbeddedPostgres


def main() -> None:
    options = dict(argument.split("=", 1) for argument in sys.argv[2:])
    with EmbeddedPostgres.start(Path(sys.argv[1]), options=options) as postgres:
        print(postgres.url, flush=True)  # noqa: T201 (this is how the test learns it)
        sys.stdin.read()


if __name__ == "__main__":
    main()
