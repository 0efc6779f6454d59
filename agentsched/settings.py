"""Everything that can be configured, each from an environment variable ``AGENTSCHED_<NAME>``."""

from pathlib import Path
from typing import Self

from pydantic import Field, PositiveInt, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The configuration of one process. Durations are seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix="AGENTSCHED_", frozen=True, extra="ignore")

    data_dir: Path | None = Field(None, description="Where the embedded PostgreSQL and the admin key live")
    database_url: str | None = Field(None, description="PostgreSQL 15 to 18; without it, the embedded one")
    redis_url: str | None = Field(None, description="Redis; without it, one inside each process")
    host: str = Field("127.0.0.1", description="The address that the API listens on")
    port: int = Field(8420, ge=0, le=65535, description="The port that the API listens on")
    allowed_hosts: str | None = Field(
        None,
        description="Names under which `/mcp` may be called besides localhost and the host, with commas between them; "
        "a reverse proxy needs one",
    )
    timezone: str | None = Field(None, description="The IANA zone of a new principal; `up` takes the host's")
    default_model: str | None = Field(
        None,
        description="The model of new conversations, such as `openai:gpt-5`; without one they get `echo`",
    )

    schedules_per_conversation: PositiveInt = Field(10, description="Live schedules a conversation may own")
    schedules_per_principal: PositiveInt = Field(100, description="Live schedules a principal may own")
    minimum_interval_minutes: PositiveInt = Field(5, description="The smallest gap between two fires of a schedule")
    prompt_max_bytes: PositiveInt = Field(32 * 1024, description="The longest prompt, in bytes of UTF-8")
    daily_run_limit: PositiveInt = Field(
        300, description="Runs a day of one schedule, unless the schedule says otherwise"
    )
    daily_run_limit_per_principal: PositiveInt = Field(2000, description="Runs a day of all schedules of a principal")

    lease_seconds: PositiveInt = Field(30, description="How long a claimed task is owned without a heartbeat")
    heartbeat_seconds: PositiveInt = Field(10, description="How often a worker says that it is alive")
    shutdown_seconds: PositiveInt = Field(10, description="How long a worker that stops lets its tasks finish")
    message_timeout_seconds: PositiveInt = Field(600, description="How long a person's turn may take")
    running_per_principal: PositiveInt = Field(100, description="Tasks of one principal that may run at once")
    concurrency: PositiveInt = Field(10, description="Tasks that one worker process runs at once")

    subtasks_per_task: PositiveInt = Field(10, description="Sub-tasks that one task may ask for")
    subtask_depth: PositiveInt = Field(3, description="Levels of sub-tasks below a run or a person's turn")

    fire_batch: PositiveInt = Field(1000, description="Due schedules fired in one transaction")
    fire_connections: PositiveInt = Field(4, description="Such transactions at once in one tick")
    misfire_all_keep: PositiveInt = Field(1000, description="Overdue slots that `misfire: all` runs at most")
    queue_adoption_window_seconds: PositiveInt | None = Field(
        None,
        description="The longest outage after which a line of `misfire: skip` is still run; else twice the period",
    )
    run_retention_days: PositiveInt = Field(90, description="How long ended runs are kept")
    delivery_retention_days: int = Field(
        7, ge=7, description="How long a webhook delivery is kept, and repeating its key is answered as the first time"
    )
    sweep_seconds: PositiveInt = Field(5, description="How often a worker looks for work without being woken")

    @model_validator(mode="after")
    def _heartbeats_keep_leases(self) -> Self:
        if self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError(
                f"AGENTSCHED_HEARTBEAT_SECONDS ({self.heartbeat_seconds}) has to be smaller than "
                f"AGENTSCHED_LEASE_SECONDS ({self.lease_seconds}), or every task is lost; a third of it is usual"
            )
        return self
