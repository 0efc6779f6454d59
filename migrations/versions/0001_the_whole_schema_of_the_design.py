"""The whole schema of the design

Revision: 0001
Revises: 
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None

TABLES = ['clock', 'events', 'outages', 'principals', 'service_facts', 'ticks', 'workers', 'agents', 'idempotency_keys', 'principal_days', 'conversations', 'api_keys', 'entries', 'notes', 'schedules', 'backfills', 'deliveries', 'schedule_changes', 'schedule_versions', 'webhook_tokens', 'webhooks', 'runs', 'tasks', 'provisional_entries']

CLOCK_NOW = """
CREATE FUNCTION clock_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(frozen_at, clock_timestamp() + coalesce(shift, interval '0')) FROM clock WHERE id = 1
$$
"""


def upgrade() -> None:
    op.create_table('clock',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('shift', sa.Interval(), nullable=True),
    sa.Column('frozen_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint('id = 1', name=op.f('clock_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('clock_pkey'))
    )
    op.create_table('events',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('conversation_id', sa.BigInteger(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('data', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('xid', sa.BigInteger(), server_default=sa.text('(pg_current_xact_id()::text)::bigint'), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('events_pkey')),
    comment='Read in id order up to pg_snapshot_xmin, because ids that commit late would be lost.'
    )
    op.create_index(op.f('events_created_at_idx'), 'events', ['created_at'], unique=False)
    op.create_index(op.f('events_principal_id_id_idx'), 'events', ['principal_id', 'id'], unique=False)
    op.create_table('outages',
    sa.Column('until_minute', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('last_minute', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('recorded_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("until_minute > last_minute + interval '1 minute'", name=op.f('outages_is_a_hole')),
    sa.PrimaryKeyConstraint('until_minute', name=op.f('outages_pkey')),
    comment='A hole between two recorded ticks, whose minutes are last_minute and until_minute.'
    )
    op.create_table('principals',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('timezone', sa.Text(), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('principals_pkey')),
    sa.UniqueConstraint('name', name=op.f('principals_name_key'))
    )
    op.create_table('service_facts',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('service_facts_pkey')),
    comment='Facts that the service remembers between starts, such as the tzdata version of its next_fire_at.'
    )
    op.create_table('ticks',
    sa.Column('minute', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('started_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('finished_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('due', sa.Integer(), nullable=False),
    sa.Column('fired', sa.Integer(), nullable=False),
    sa.Column('skipped', sa.Integer(), nullable=False),
    sa.Column('missed', sa.Integer(), nullable=False),
    sa.CheckConstraint('due >= 0 AND fired >= 0 AND skipped >= 0 AND missed >= 0', name=op.f('ticks_counts')),
    sa.CheckConstraint('mod(extract(epoch FROM minute), 60) = 0', name=op.f('ticks_minute_whole_minute')),
    sa.PrimaryKeyConstraint('minute', name=op.f('ticks_pkey')),
    comment='One row a minute, counts summed over its ticks.'
    )
    op.create_table('workers',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('harnesses', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('heard_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('workers_pkey')),
    comment='Who has asked for work, and for which harnesses.'
    )
    op.create_index(op.f('workers_heard_at_idx'), 'workers', ['heard_at'], unique=False)
    op.create_table('agents',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('digest', sa.LargeBinary(), nullable=False),
    sa.Column('harness', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=True),
    sa.Column('instructions', sa.Text(), nullable=True),
    sa.Column('tools', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('settings', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('agents_principal_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('agents_pkey')),
    sa.UniqueConstraint('principal_id', 'digest', name=op.f('agents_principal_id_digest_key')),
    comment='Immutable and shared by content: conversations, snapshots and tasks point at one.'
    )
    op.create_table('idempotency_keys',
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('operation', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('request_hash', sa.LargeBinary(), nullable=False),
    sa.Column('subject_id', sa.BigInteger(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('idempotency_keys_principal_id_fkey')),
    sa.PrimaryKeyConstraint('principal_id', 'operation', 'key', name=op.f('idempotency_keys_pkey')),
    comment='Idempotency-Key of creates, run-nows and backfills: what the first request with it made.'
    )
    op.create_index(op.f('idempotency_keys_created_at_idx'), 'idempotency_keys', ['created_at'], unique=False)
    op.create_table('principal_days',
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('day', sa.Date(), nullable=False),
    sa.Column('runs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.CheckConstraint('runs >= 0 AND tokens >= 0', name=op.f('principal_days_counts')),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('principal_days_principal_id_fkey')),
    sa.PrimaryKeyConstraint('principal_id', 'day', name=op.f('principal_days_pkey')),
    comment='What a principal spent on a UTC day. Locked last, in key order (DESIGN §10).'
    )
    op.create_table('conversations',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('title', sa.Text(), nullable=True),
    sa.Column('agent_id', sa.BigInteger(), nullable=False),
    sa.Column('timezone', sa.Text(), nullable=True),
    sa.Column('parent_id', sa.BigInteger(), nullable=True),
    sa.Column('parent_seq', sa.Integer(), nullable=True),
    sa.Column('last_seq', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('active_task_id', sa.BigInteger(), nullable=True),
    sa.Column('run_id', sa.BigInteger(), nullable=True),
    sa.Column('scheduled_run_id', sa.BigInteger(), nullable=True),
    sa.Column('next_schedule_number', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('deleted_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint('(parent_id IS NULL) = (parent_seq IS NULL)', name=op.f('conversations_fork_has_both')),
    sa.CheckConstraint('last_seq >= coalesce(parent_seq, 0)', name=op.f('conversations_last_seq_after_fork')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('conversations_agent_id_fkey')),
    sa.ForeignKeyConstraint(['parent_id'], ['conversations.id'], name=op.f('conversations_parent_id_fkey')),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('conversations_principal_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('conversations_pkey')),
    comment='run_id: the run that it was made for. scheduled_run_id: the run whose sub-task made it (lineage).'
    )
    op.create_index(op.f('conversations_parent_id_idx'), 'conversations', ['parent_id'], unique=False, postgresql_where=sa.text('parent_id IS NOT NULL'))
    op.create_index(op.f('conversations_principal_id_id_idx'), 'conversations', ['principal_id', 'id'], unique=False)
    op.create_table('api_keys',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('prefix', sa.Text(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('conversation_id', sa.BigInteger(), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('last_used_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint("scope IN ('admin', 'user', 'worker')", name=op.f('api_keys_scope')),
    sa.CheckConstraint('octet_length(hash) = 32', name=op.f('api_keys_hash_is_sha256')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('api_keys_conversation_id_fkey'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('api_keys_principal_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('api_keys_pkey')),
    sa.UniqueConstraint('hash', name=op.f('api_keys_hash_key'))
    )
    op.create_index(op.f('api_keys_principal_id_idx'), 'api_keys', ['principal_id'], unique=False)
    op.create_table('entries',
    sa.Column('conversation_id', sa.BigInteger(), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('role', sa.Text(), nullable=False),
    sa.Column('content', sa.Text(), nullable=False),
    sa.Column('tool_calls', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('tool_call_id', sa.Text(), nullable=True),
    sa.Column('task_id', sa.BigInteger(), nullable=True),
    sa.Column('run_id', sa.BigInteger(), nullable=True),
    sa.Column('schedule_id', sa.BigInteger(), nullable=True),
    sa.Column('fire_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("role IN ('user', 'assistant', 'tool', 'system', 'error')", name=op.f('entries_role')),
    sa.CheckConstraint('(schedule_id IS NULL) = (fire_at IS NULL) AND (schedule_id IS NULL OR run_id IS NOT NULL)', name=op.f('entries_scheduled_mark')),
    sa.CheckConstraint('seq >= 1', name=op.f('entries_seq')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('entries_conversation_id_fkey')),
    sa.PrimaryKeyConstraint('conversation_id', 'seq', name=op.f('entries_pkey')),
    comment="schedule_id and fire_at mark a scheduled prompt, which is never a person's words (DESIGN §9)."
    )
    op.create_table('notes',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('conversation_id', sa.BigInteger(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=True),
    sa.Column('run_id', sa.BigInteger(), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("kind IN ('schedule_paused', 'run_failed', 'run_result', 'budget')", name=op.f('notes_kind')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('notes_conversation_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('notes_pkey'))
    )
    op.create_index(op.f('notes_conversation_id_id_idx'), 'notes', ['conversation_id', 'id'], unique=False)
    op.create_table('schedules',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('conversation_id', sa.BigInteger(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('name', sa.Text(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('cron', sa.Text(), nullable=True),
    sa.Column('every_minutes', sa.Integer(), nullable=True),
    sa.Column('anchor_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('timezone', sa.Text(), nullable=False),
    sa.Column('ends_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('max_runs', sa.Integer(), nullable=True),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('pause_reason', sa.Text(), nullable=True),
    sa.Column('pause_note', sa.Text(), nullable=True),
    sa.Column('paused_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('next_fire_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('last_fire_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('accounted_until', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('runs_admitted', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('consecutive_failures', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('day', sa.Date(), nullable=True),
    sa.Column('day_runs', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('day_tokens', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('day_noted', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('version', sa.Integer(), server_default=sa.text('1'), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('updated_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("(kind = 'cron') = (cron IS NOT NULL)", name=op.f('schedules_cron_has_expression')),
    sa.CheckConstraint("(kind = 'interval') = (every_minutes IS NOT NULL) AND (kind = 'interval') = (anchor_at IS NOT NULL)", name=op.f('schedules_interval_has_anchor')),
    sa.CheckConstraint("(kind = 'once') = (at IS NOT NULL)", name=op.f('schedules_once_has_instant')),
    sa.CheckConstraint("(status = 'active' AND kind <> 'webhook') = (next_fire_at IS NOT NULL)", name=op.f('schedules_active_has_next_fire')),
    sa.CheckConstraint("(status = 'paused') = (pause_reason IS NOT NULL) AND (status = 'paused') = (paused_at IS NOT NULL)", name=op.f('schedules_paused_says_why')),
    sa.CheckConstraint("kind IN ('cron', 'interval', 'once', 'webhook')", name=op.f('schedules_kind')),
    sa.CheckConstraint("pause_reason IN ('user', 'failures', 'error')", name=op.f('schedules_pause_reason')),
    sa.CheckConstraint("status IN ('active', 'paused', 'cancelled', 'completed')", name=op.f('schedules_status')),
    sa.CheckConstraint('every_minutes >= 1', name=op.f('schedules_every_minutes')),
    sa.CheckConstraint('max_runs >= 1', name=op.f('schedules_max_runs')),
    sa.CheckConstraint('mod(extract(epoch FROM anchor_at), 60) = 0', name=op.f('schedules_anchor_at_whole_minute')),
    sa.CheckConstraint('mod(extract(epoch FROM at), 60) = 0', name=op.f('schedules_at_whole_minute')),
    sa.CheckConstraint('mod(extract(epoch FROM next_fire_at), 60) = 0', name=op.f('schedules_next_fire_at_whole_minute')),
    sa.CheckConstraint('next_fire_at <= ends_at', name=op.f('schedules_next_fire_before_end')),
    sa.CheckConstraint('next_fire_at > accounted_until', name=op.f('schedules_next_fire_after_accounted')),
    sa.CheckConstraint('runs_admitted >= 0 AND consecutive_failures >= 0 AND day_runs >= 0 AND day_tokens >= 0 AND version >= 1', name=op.f('schedules_counts')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('schedules_conversation_id_fkey')),
    sa.ForeignKeyConstraint(['principal_id'], ['principals.id'], name=op.f('schedules_principal_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('schedules_pkey')),
    sa.UniqueConstraint('conversation_id', 'number', name=op.f('schedules_conversation_id_number_key')),
    comment="day_*: what was spent of the daily budget on `day`, a day of the schedule's zone."
    )
    op.create_index('schedules_due_idx', 'schedules', ['next_fire_at', 'id'], unique=False, postgresql_where=sa.text("status = 'active'"))
    op.create_index('schedules_live_idx', 'schedules', ['principal_id', 'conversation_id'], unique=False, postgresql_where=sa.text("status IN ('active', 'paused')"))
    op.create_index(op.f('schedules_principal_id_id_idx'), 'schedules', ['principal_id', 'id'], unique=False)
    op.create_index('schedules_live_name_idx', 'schedules', ['conversation_id', 'name'], unique=True, postgresql_where=sa.text("status IN ('active', 'paused') AND name IS NOT NULL"))
    op.create_table('backfills',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('from_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('to_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('reprocess', sa.Text(), nullable=False),
    sa.Column('count', sa.Integer(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('finished_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint("(status = 'running') = (finished_at IS NULL)", name=op.f('backfills_finished')),
    sa.CheckConstraint("reprocess IN ('missing', 'failed', 'all')", name=op.f('backfills_reprocess')),
    sa.CheckConstraint("status IN ('running', 'completed', 'cancelled')", name=op.f('backfills_status')),
    sa.CheckConstraint('to_at > from_at', name=op.f('backfills_span')),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('backfills_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('backfills_pkey'))
    )
    op.create_index(op.f('backfills_schedule_id_id_idx'), 'backfills', ['schedule_id', 'id'], unique=False)
    op.create_table('deliveries',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('body_hash', sa.LargeBinary(), nullable=False),
    sa.Column('body', sa.LargeBinary(), nullable=False),
    sa.Column('content_type', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=True),
    sa.Column('run_id', sa.BigInteger(), nullable=True),
    sa.Column('answer_status', sa.Integer(), nullable=False),
    sa.Column('answer', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('received_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('expires_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('deliveries_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('deliveries_pkey')),
    sa.UniqueConstraint('schedule_id', 'key', name=op.f('deliveries_schedule_id_key_key'))
    )
    op.create_index(op.f('deliveries_expires_at_idx'), 'deliveries', ['expires_at'], unique=False)
    op.create_index(op.f('deliveries_schedule_id_id_idx'), 'deliveries', ['schedule_id', 'id'], unique=False)
    op.create_table('schedule_changes',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('changes', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('schedule_changes_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('schedule_changes_pkey')),
    comment='Who changed what, and when.'
    )
    op.create_index(op.f('schedule_changes_schedule_id_id_idx'), 'schedule_changes', ['schedule_id', 'id'], unique=False)
    op.create_table('schedule_versions',
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('prompt', sa.Text(), nullable=False),
    sa.Column('mode', sa.Text(), nullable=False),
    sa.Column('agent_id', sa.BigInteger(), nullable=False),
    sa.Column('overlap', sa.Text(), nullable=False),
    sa.Column('max_concurrency', sa.Integer(), nullable=True),
    sa.Column('queue_limit', sa.Integer(), nullable=True),
    sa.Column('cancel_grace_seconds', sa.Integer(), nullable=True),
    sa.Column('misfire', sa.Text(), nullable=False),
    sa.Column('misfire_grace_seconds', sa.Integer(), nullable=False),
    sa.Column('start_deadline_seconds', sa.Integer(), nullable=False),
    sa.Column('timeout_seconds', sa.Integer(), nullable=False),
    sa.Column('retry_max_attempts', sa.Integer(), nullable=False),
    sa.Column('retry_initial_delay_seconds', sa.Integer(), nullable=False),
    sa.Column('retry_max_delay_seconds', sa.Integer(), nullable=False),
    sa.Column('pause_after_failures', sa.Integer(), nullable=True),
    sa.Column('notify', sa.Text(), nullable=False),
    sa.Column('daily_run_limit', sa.Integer(), nullable=True),
    sa.Column('daily_token_limit', sa.BigInteger(), nullable=True),
    sa.Column('max_history_entries', sa.Integer(), nullable=True),
    sa.Column('template', sa.Text(), nullable=True),
    sa.Column('filter', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("max_concurrency >= 1 AND (max_concurrency IS NOT NULL OR overlap = 'allow')", name=op.f('schedule_versions_max_concurrency')),
    sa.CheckConstraint("misfire <> 'all' OR overlap NOT IN ('queue_latest', 'replace')", name=op.f('schedule_versions_all_needs_a_line')),
    sa.CheckConstraint("misfire IN ('skip', 'latest', 'all')", name=op.f('schedule_versions_misfire')),
    sa.CheckConstraint("mode IN ('fork', 'append', 'fresh')", name=op.f('schedule_versions_mode')),
    sa.CheckConstraint("notify IN ('always', 'failures', 'never')", name=op.f('schedule_versions_notify')),
    sa.CheckConstraint("overlap IN ('skip', 'queue', 'queue_latest', 'replace', 'allow')", name=op.f('schedule_versions_overlap')),
    sa.CheckConstraint('cancel_grace_seconds >= 0 AND misfire_grace_seconds >= 0 AND start_deadline_seconds >= 1 AND timeout_seconds >= 0 AND retry_max_attempts >= 1 AND retry_initial_delay_seconds >= 0 AND retry_max_delay_seconds >= retry_initial_delay_seconds AND pause_after_failures >= 1 AND daily_run_limit >= 1 AND daily_token_limit >= 1 AND max_history_entries >= 1', name=op.f('schedule_versions_ranges')),
    sa.CheckConstraint('queue_limit >= 1', name=op.f('schedule_versions_queue_limit')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('schedule_versions_agent_id_fkey')),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('schedule_versions_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('schedule_id', 'version', name=op.f('schedule_versions_pkey')),
    comment='Prompt, agent snapshot and policies; never updated. A run refers to the version it fired with.'
    )
    op.create_table('webhook_tokens',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('prefix', sa.Text(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('expires_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('last_used_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint('octet_length(hash) = 32', name=op.f('webhook_tokens_hash_is_sha256')),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('webhook_tokens_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('webhook_tokens_pkey')),
    sa.UniqueConstraint('hash', name=op.f('webhook_tokens_hash_key'))
    )
    op.create_index(op.f('webhook_tokens_schedule_id_idx'), 'webhook_tokens', ['schedule_id'], unique=False)
    op.create_table('webhooks',
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('signature', sa.Text(), nullable=True),
    sa.Column('signature_secret', sa.LargeBinary(), nullable=True),
    sa.Column('rate_per_minute', sa.Integer(), nullable=False),
    sa.Column('rate_burst', sa.Integer(), nullable=False),
    sa.Column('bucket_tokens', sa.Double(), nullable=False),
    sa.Column('bucket_filled_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.CheckConstraint("signature IN ('standard', 'github', 'stripe', 'slack')", name=op.f('webhooks_signature')),
    sa.CheckConstraint('(signature IS NULL) = (signature_secret IS NULL)', name=op.f('webhooks_signature_has_secret')),
    sa.CheckConstraint('rate_per_minute >= 1 AND rate_burst >= 1', name=op.f('webhooks_rate')),
    sa.ForeignKeyConstraint(['schedule_id'], ['schedules.id'], name=op.f('webhooks_schedule_id_fkey')),
    sa.PrimaryKeyConstraint('schedule_id', name=op.f('webhooks_pkey'))
    )
    op.create_table('runs',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('schedule_id', sa.BigInteger(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('trigger', sa.Text(), nullable=False),
    sa.Column('lane', sa.Text(), nullable=False),
    sa.Column('fire_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('occurrence_key', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('reason_text', sa.Text(), nullable=True),
    sa.Column('conversation_id', sa.BigInteger(), nullable=True),
    sa.Column('attempt', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('restarts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('missed_count', sa.Integer(), nullable=True),
    sa.Column('missed_until', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('retry_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('error_code', sa.Text(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('overdue', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('counted', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('delivery_id', sa.BigInteger(), nullable=True),
    sa.Column('backfill_id', sa.BigInteger(), nullable=True),
    sa.Column('requeue_of', sa.BigInteger(), nullable=True),
    sa.Column('cancel_requested_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('usage', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('result', sa.Text(), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('started_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('finished_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('discarded_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint("(status = 'missed') = (missed_count IS NOT NULL) AND (status = 'missed') = (missed_until IS NOT NULL)", name=op.f('runs_missed_stretch')),
    sa.CheckConstraint("(status = 'retry_wait') = (retry_at IS NOT NULL)", name=op.f('runs_retry_wait_has_instant')),
    sa.CheckConstraint("(status IN ('completed', 'failed', 'cancelled', 'abandoned', 'skipped', 'missed')) = (finished_at IS NOT NULL)", name=op.f('runs_terminal_finished')),
    sa.CheckConstraint("(status IN ('skipped', 'missed')) = (reason IS NOT NULL)", name=op.f('runs_reason_if_not_run')),
    sa.CheckConstraint("discarded_at IS NULL OR status = 'failed'", name=op.f('runs_discarded_failed')),
    sa.CheckConstraint("lane IN ('live', 'backfill')", name=op.f('runs_lane')),
    sa.CheckConstraint("reason IN ('overlap', 'superseded', 'queue_full', 'paused', 'schedule_cancelled', 'backfill_cancelled', 'budget', 'filtered', 'misfire', 'stranded', 'not_started')", name=op.f('runs_reason')),
    sa.CheckConstraint("status <> 'queued' OR conversation_id IS NULL", name=op.f('runs_queued_has_no_target')),
    sa.CheckConstraint("status IN ('queued', 'pending', 'running', 'retry_wait', 'completed', 'failed', 'cancelled', 'abandoned', 'skipped', 'missed')", name=op.f('runs_status')),
    sa.CheckConstraint("status NOT IN ('pending', 'running', 'retry_wait', 'completed') OR conversation_id IS NOT NULL", name=op.f('runs_flight_has_conversation')),
    sa.CheckConstraint("status NOT IN ('running', 'completed') OR started_at IS NOT NULL", name=op.f('runs_running_started')),
    sa.CheckConstraint("trigger IN ('cron', 'interval', 'once', 'webhook', 'manual', 'backfill', 'requeue')", name=op.f('runs_trigger')),
    sa.CheckConstraint('attempt >= 0 AND restarts >= 0', name=op.f('runs_counts')),
    sa.CheckConstraint('missed_count >= 1 AND missed_until >= fire_at', name=op.f('runs_missed_order')),
    sa.CheckConstraint('mod(extract(epoch FROM fire_at), 60) = 0', name=op.f('runs_fire_at_whole_minute')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('runs_conversation_id_fkey')),
    sa.ForeignKeyConstraint(['schedule_id', 'version'], ['schedule_versions.schedule_id', 'schedule_versions.version'], name=op.f('runs_schedule_id_version_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('runs_pkey')),
    sa.UniqueConstraint('schedule_id', 'occurrence_key', name=op.f('runs_schedule_id_occurrence_key_key')),
    comment='The ledger. conversation_id: where it runs. overdue: admitted late by misfire all, so it waits in line whatever overlap says. counted: it spent one of max_runs.'
    )
    op.create_index(op.f('runs_conversation_id_idx'), 'runs', ['conversation_id'], unique=False)
    op.create_index('runs_dead_letter_idx', 'runs', ['principal_id', 'id'], unique=False, postgresql_where=sa.text("status = 'failed'"))
    op.create_index('runs_in_flight_idx', 'runs', ['schedule_id'], unique=False, postgresql_where=sa.text("status IN ('pending', 'running', 'retry_wait')"))
    op.create_index('runs_line_idx', 'runs', ['schedule_id', 'fire_at', 'id'], unique=False, postgresql_where=sa.text("status = 'queued'"))
    op.create_index(op.f('runs_principal_id_id_idx'), 'runs', ['principal_id', 'id'], unique=False)
    op.create_index('runs_retry_idx', 'runs', ['retry_at'], unique=False, postgresql_where=sa.text("status = 'retry_wait'"))
    op.create_index(op.f('runs_schedule_id_fire_at_id_idx'), 'runs', ['schedule_id', 'fire_at', 'id'], unique=False)
    op.create_table('tasks',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('principal_id', sa.BigInteger(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('conversation_id', sa.BigInteger(), nullable=False),
    sa.Column('run_id', sa.BigInteger(), nullable=True),
    sa.Column('parent_task_id', sa.BigInteger(), nullable=True),
    sa.Column('scheduled_run_id', sa.BigInteger(), nullable=True),
    sa.Column('agent_id', sa.BigInteger(), nullable=False),
    sa.Column('harness', sa.Text(), nullable=False),
    sa.Column('prompt', sa.Text(), nullable=True),
    sa.Column('priority', sa.Integer(), nullable=False),
    sa.Column('due_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('restarts', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('fence', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('worker', sa.Text(), nullable=True),
    sa.Column('token_hash', sa.LargeBinary(), nullable=True),
    sa.Column('heartbeat_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('lease_expires_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('timeout_seconds', sa.Integer(), nullable=False),
    sa.Column('deadline_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('claimable_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('start_deadline_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('cancel_requested_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('cancel_deadline_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('error_code', sa.Text(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('result', sa.Text(), nullable=True),
    sa.Column('usage', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.Column('started_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.Column('finished_at', sa.TIMESTAMP(timezone=True), nullable=True),
    sa.CheckConstraint("(kind = 'run') = (prompt IS NULL)", name=op.f('tasks_run_task_has_no_prompt')),
    sa.CheckConstraint("(kind = 'run') = (run_id IS NOT NULL)", name=op.f('tasks_run_task_has_run')),
    sa.CheckConstraint("(kind = 'subtask') = (parent_task_id IS NOT NULL)", name=op.f('tasks_subtask_has_parent')),
    sa.CheckConstraint("(status = 'running') = (lease_expires_at IS NOT NULL) AND (status = 'running') = (deadline_at IS NOT NULL) AND (status <> 'running' OR (worker IS NOT NULL AND started_at IS NOT NULL AND fence >= 1))", name=op.f('tasks_running_is_owned')),
    sa.CheckConstraint("(status IN ('completed', 'failed', 'cancelled', 'abandoned')) = (finished_at IS NOT NULL)", name=op.f('tasks_terminal_finished')),
    sa.CheckConstraint("kind <> 'run' OR scheduled_run_id = run_id", name=op.f('tasks_run_task_lineage')),
    sa.CheckConstraint("kind IN ('run', 'message', 'subtask')", name=op.f('tasks_kind')),
    sa.CheckConstraint("status IN ('pending', 'running', 'completed', 'failed', 'cancelled', 'abandoned')", name=op.f('tasks_status')),
    sa.CheckConstraint('attempt >= 1 AND restarts >= 0 AND fence >= 0 AND timeout_seconds >= 1', name=op.f('tasks_counts')),
    sa.ForeignKeyConstraint(['agent_id'], ['agents.id'], name=op.f('tasks_agent_id_fkey')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('tasks_conversation_id_fkey')),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('tasks_run_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('tasks_pkey')),
    comment='One attempt at generating. due_at orders claims; claimable_at is when it last became pending. scheduled_run_id: the run whose lineage it is of, copied at insertion.'
    )
    op.create_index('tasks_cancel_idx', 'tasks', ['cancel_deadline_at'], unique=False, postgresql_where=sa.text("status = 'running' AND cancel_deadline_at IS NOT NULL"))
    op.create_index('tasks_claim_idx', 'tasks', ['harness', 'priority', 'due_at', 'id'], unique=False, postgresql_where=sa.text("status = 'pending'"))
    op.create_index(op.f('tasks_conversation_id_id_idx'), 'tasks', ['conversation_id', 'id'], unique=False)
    op.create_index('tasks_deadline_idx', 'tasks', ['deadline_at'], unique=False, postgresql_where=sa.text("status = 'running'"))
    op.create_index('tasks_lease_idx', 'tasks', ['lease_expires_at'], unique=False, postgresql_where=sa.text("status = 'running'"))
    op.create_index('tasks_one_live_a_run_idx', 'tasks', ['run_id'], unique=True, postgresql_where=sa.text("status IN ('pending', 'running')"))
    op.create_index('tasks_one_running_a_conversation_idx', 'tasks', ['conversation_id'], unique=True, postgresql_where=sa.text("status = 'running'"))
    op.create_index(op.f('tasks_run_id_id_idx'), 'tasks', ['run_id', 'id'], unique=False)
    op.create_index('tasks_running_idx', 'tasks', ['principal_id'], unique=False, postgresql_where=sa.text("status = 'running'"))
    op.create_index('tasks_start_deadline_idx', 'tasks', ['start_deadline_at'], unique=False, postgresql_where=sa.text("status = 'pending' AND start_deadline_at IS NOT NULL"))
    op.create_index('tasks_token_idx', 'tasks', ['token_hash'], unique=True, postgresql_where=sa.text('token_hash IS NOT NULL'))
    op.create_table('provisional_entries',
    sa.Column('task_id', sa.BigInteger(), nullable=False),
    sa.Column('fence', sa.Integer(), nullable=False),
    sa.Column('position', sa.Integer(), nullable=False),
    sa.Column('entry', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('created_at', sa.TIMESTAMP(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['task_id'], ['tasks.id'], name=op.f('provisional_entries_task_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('task_id', 'fence', 'position', name=op.f('provisional_entries_pkey'))
    )
    op.create_foreign_key('schedules_version_fkey', 'schedules', 'schedule_versions', ['id', 'version'],
                          ['schedule_id', 'version'], deferrable=True, initially='DEFERRED')
    op.execute(CLOCK_NOW)
    op.execute("INSERT INTO clock (id) VALUES (1)")


def downgrade() -> None:
    op.execute("DROP FUNCTION clock_now()")
    op.drop_constraint('schedules_version_fkey', 'schedules')
    for table in reversed(TABLES):
        op.drop_table(table)
