"""What all tables share: the metadata with its naming convention, column and constraint shorthands, the clock."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)


def identity() -> sa.Column[int]:
    """A primary key that grows with creation (DESIGN §10, fine print)."""
    return sa.Column("id", sa.BigInteger, sa.Identity(always=False), primary_key=True)


def key(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=null)


def ref(name: str, target: str, *, null: bool = False, ondelete: str | None = None) -> sa.Column[Any]:
    """A foreign key to ``target`` (``table.column``)."""
    return sa.Column(name, sa.BigInteger, sa.ForeignKey(target, ondelete=ondelete), nullable=null)


def instant(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=null)


def text(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=null)


def number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[Any]:
    server_default = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.Integer, nullable=null, server_default=server_default)


def json(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, JSONB, nullable=null)


def quoted(words: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{word.value}'" for word in words)


def one_of(column: str, words: Iterable[StrEnum]) -> sa.CheckConstraint:
    """The column holds a word of a closed set."""
    return sa.CheckConstraint(f"{column} IN ({quoted(words)})", name=column)


def whole_minute(column: str) -> sa.CheckConstraint:
    """Nominal instants are whole minutes (DESIGN §2, ``fire_at``)."""
    return sa.CheckConstraint(f"mod(extract(epoch FROM {column}), 60) = 0", name=f"{column}_whole_minute")


clock = sa.Table(
    "clock",
    metadata,
    sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("shift", sa.Interval, nullable=True),
    instant("frozen_at", null=True),
    sa.CheckConstraint("id = 1", name="one_row"),
)

CLOCK_NOW = """
CREATE FUNCTION clock_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(frozen_at, clock_timestamp() + coalesce(shift, interval '0')) FROM clock WHERE id = 1
$$
"""
CLOCK_ROW = "INSERT INTO clock (id) VALUES (1)"


@sa.event.listens_for(clock, "after_create")
def _give_the_clock_its_function(_: sa.Table, connection: sa.Connection, **__: object) -> None:
    connection.exec_driver_sql(CLOCK_NOW)
    connection.exec_driver_sql(CLOCK_ROW)


service_facts = sa.Table(
    "service_facts",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    text("value"),
    comment="Facts that the service remembers between starts, such as the tzdata version of its next_fire_at.",
)
