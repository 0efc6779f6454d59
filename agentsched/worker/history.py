"""What a runner is given: the transcript up to the claim, and the assignment around it."""

from agentsched.runners.protocol import Assignment, Entry
from agentsched.service.claim import Claimed
from agentsched.store import entries
from agentsched.store.database import Database
from agentsched.store.entries import EntryRow

HISTORY_ENTRIES = 1000
"""How much of a transcript a runner gets where the schedule does not say (``max_history_entries``)."""


async def read_assignment(db: Database, claimed: Claimed) -> Assignment:
    """The assignment for a claimed task, with the last entries of its conversation."""
    async with db.begin() as conn:
        rows = await entries.read_last(
            conn,
            claimed.conversation_id,
            upto=claimed.last_seq,
            limit=claimed.max_history_entries or HISTORY_ENTRIES,
        )
    return Assignment(
        task_id=claimed.id,
        run_id=claimed.run_id,
        attempt=claimed.attempt,
        conversation_id=claimed.conversation_id,
        prompt=claimed.prompt,
        preamble=claimed.preamble,
        payload=claimed.payload,
        agent=claimed.agent,
        history=[_entry(row) for row in rows],
        idempotency_key=claimed.idempotency_key,
        deadline_at=claimed.deadline_at,
        task_token=claimed.token,
    )


def _entry(row: EntryRow) -> Entry:
    return Entry.from_json(
        {"role": row.role, "content": row.content, "tool_calls": row.tool_calls, "tool_call_id": row.tool_call_id}
    )
