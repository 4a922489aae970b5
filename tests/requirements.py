"""Every promise of the five specifications and beyond them, as data: what is proven, and what is not there yet.

Rule: a promise keeps its id for ever. `python -m tests.pages` prints docs/reference/promises.md from these rows;
tests/test_requirements.py holds the rows against the tests that carry `@pytest.mark.requirement(id)`. A promise of a
specification names one of its sentences, and the test that has the words of that sentence as its input.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Requirement(NamedTuple):
    """One promise: `proven` if some test shows its behaviour to a user, `later` if no release has it yet."""

    id: str
    promise: str
    status: Literal["proven", "later"]

    @property
    def source(self) -> str:
        """The specification that the promise comes from."""
        return SOURCES[self.id[0]]


class Quotation(NamedTuple):
    """Words of a specification, the test that has them as its input, and the parts of them that stand there."""

    words: str
    test: str
    inputs: tuple[str, ...]


def quoted(words: str, test: str, *inputs: str) -> Quotation:
    """Return the quotation; without `inputs` all of the words stand in the test."""
    return Quotation(words, test, inputs or (words,))


SOURCES = {
    "R": "ReCursor: a WebSocket bridge between an app and an agent",
    "C": "ccsetup: recovery for multi-step agent workflows",
    "S": "stdio Bus: typed errors between MCP clients, agents and AI providers",
    "G": "Gasoline: a browser extension and its local daemon",
    "V": "OpenViber: an agent runtime and its board",
    "X": "Beyond the five: other bridges, other clients, production",
}

_PROVEN = frozenset(
    "R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16 R17 R18 R19 C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 V1 V2 V3 V4 V5 V6 V7 V8 V9 V10 V11 V12 V13 V14 V15 V16 X1 X2 X3 X4 X5 X6 X7 X8 X9 X10 X11 X13 X14 X15 X16 X17 X18 X19 X20".split()
)

_PROMISES = {
    "R1": "every failure becomes one typed record whose code has one of seven prefixes: CONN_ AUTH_ PROTO_ SESS_ TOOL_ HOOK_ SYS_",
    "R2": "severity decides what happens: log; also a metric; also a notice; also an alert and an open circuit; the session ends",
    "R3": "a recoverable close reconnects after 1, 2, 5, 10, 30 s and asks for what it missed; an unrecoverable one fails; running out is a typed, reported state",
    "R4": "the bridge keeps a session for 5 min after a drop; after that SESS_NOT_FOUND, and the client joins afresh and reports it",
    "R5": "a failed TLS handshake names the reason, the expiry and the remedy, and is never retried; a SHA-256 pin works on a self-signed peer",
    "R6": "after CONN_TIMEOUT: 1 s, then 2 s on the cached address, then 5 s with a fresh look-up, then exponential from 10 s",
    "R7": "an invalid message is answered with every violation at once (field, constraint, received); strict on what is sent, lenient on what is read",
    "R8": "a message out of phase is named with what was expected, what was received and the phase",
    "R9": "SESS_NOT_FOUND comes with suggestions, also as the body of an HTTP error",
    "R10": "sessions move created, active, paused, closed (error, resumable); only a paused resumable one resumes, with its checkpoint",
    "R11": "a failed tool reports exit code, stderr, stdout, duration, and whether and how often it may be retried, by the table of causes",
    "R12": "tools are bounded: bash 300 s, read_file 10 s, edit_file 30 s, search 60 s, and the call really ends",
    "R13": "the seven hook events are validated, and the answer carries the field errors",
    "R14": "the replay buffer holds 100 KB and 30 min and answers `since` correctly under overflow, age and equal timestamps",
    "R15": "a circuit opens after 5 failures, for 60 s, and half-opens",
    "R16": "sessions persist (identity, directory, times, checkpoint) and survive a restart",
    "R17": "recovery of a client: 5 tries at 1 s times the attempt's number, synchronise from the last message received, then flush what was queued",
    "R18": "error metrics are labelled category, code, severity, source, session_id, user_agent",
    "R19": "alerts, warning and critical: error rate 5/15 %, reconnection failures 10/50 a minute, session drops 5/20, hook failures 20/100",
    "C1": "failures are transient, permanent, corruption or partial, by the listed patterns and exit codes; no match is permanent; the decision is logged",
    "C2": "transient: the same call again after 2, 4, 8 s, then escalated to permanent; a late success is logged",
    "C3": "permanent: the whole context is recorded with secrets masked; optional work is skipped with a warning; required work saves, reports and halts",
    "C4": "ranked suggestions, with near-miss paths and backups where a file is missing",
    "C5": "corruption: parse, validate, find orphans; restore a valid backup, else start afresh and report what was lost; then back up again",
    "C6": "partial: resume after the last phase whose artifacts verify; a completed phase never runs again",
    "C7": "before every change of the state file its one backup is written; both writes are atomic",
    "C8": "the checkpoint file has the specified format",
    "C9": "the wrapper works before, during and after each operation: checkpoint, classify, retry, skip, restore, back up",
    "C10": "it acts on tool failure, network error, interrupted session and corrupt state",
    "S1": "errors have the categories CONFIG AUTH UPSTREAM TRANSPORT TIMEOUT PROTOCOL INTERNAL, each with its default retryability",
    "S2": "errors map to MCP's JSON-RPC codes and back, with type, retryable and sessionValid; anything else is -32603 and not retryable",
    "S3": "the in-process scenarios, seen from the client: not started, unknown agent, full, unknown session, agent failed, no agents",
    "S4": "the worker scenarios: start failed, request failed, timed out (retryable), malformed answer",
    "S5": "backpressure: over the concurrency limit is retryable; over the byte limit is refused and not sent",
    "S6": "the error tables of three AI providers hold on the exceptions that their SDKs really raise",
    "S7": "a failure report has category, message, retryability, session validity and ways to recover, and reads well without a trace",
    "S8": "which calls may be repeated without asking, and which only when marked",
    "S9": "the session id is kept on every failure; no false success, no wrapped-away error, no dropped warning, no endless retry",
    "S10": "an unknown exception is INTERNAL and not retryable",
    "S11": "a health check after a failure tells whether the bridge is ready",
    "G1": "its timing constants are policy values: query 2 s, command 30 s, start 4 s, poll 1-2 s, health 0.5 s, long handler 35 s",
    "G2": "delays 0, 1, 2, 4, 8, then 30 s; a circuit of 5 failures and 30 s half-opens with one probe and states its reasons",
    "G3": "a local daemon starts fast: probe, spawn if absent, wait up to 4 s, safe against races; else an answer from the cache that says so",
    "G4": "timeouts escalate 2, 5, 30 s; the last one reports while the peer goes on",
    "G5": "a peer that goes away is noticed and its process reaped",
    "G6": "asynchronous commands: correlation id, pending to complete, timeout or expired, polling, a hint for each outcome",
    "G7": "the state of a connection has four dimensions whose invariants are checked; a violation is logged with diagnostics",
    "G8": "each errno and each execution error has its hint",
    "G9": "a peer that is starting or stopping (503) is distinguished from one that is unreachable, and from one that is ready (200)",
    "G10": "a debug mode shows connection, circuit, polling, escalation and correlation; settings come from the environment",
    "V1": "retries come from configuration: 3 calls, base 1 s, cap 30 s, linear, exponential or jittered, a list of errors",
    "V2": "per provider: when rate limited, Retry-After, else 60 s; a local provider at once",
    "V3": "401, 400, an exceeded context and a refused content fail at once",
    "V4": "after repeated failure another model, never silently: the switch is acknowledged",
    "V5": "tools are bounded: 30 s unless said otherwise for one of them",
    "V6": "a tool's failure is returned as data: type, message, recoverable, suggestion",
    "V7": "reconnects after 1, 2, 4, 8, 16 s, then disconnected mode, and the user is notified",
    "V8": "while down, requests in flight fail and are not repeated; results queue and are delivered; the heartbeat resumes at once",
    "V9": "every message with an effect has an idempotency key, the same on every resend, inside a window of 5 min",
    "V10": "configuration is validated at the start, every error has its path, and nothing starts on a bad file",
    "V11": "a spend budget warns at 80 % and pauses at 100 % until approved or cancelled",
    "V12": "context overflow is estimated before sending, compacted if allowed, else an error with the numbers and a suggestion",
    "V13": "a dead peer is noticed by an unclean close, a silent heartbeat (30 s) or a failed health check; work is sent again with its key",
    "V14": "session logs are JSON lines, only ever appended",
    "V15": "degradation follows a ladder, and each step is reported",
    "V16": "error reports have type, message, recoverable, context, suggestion and timestamp; logs are structured JSON lines",
    "X1": "one session engine for any bridge: a dialect maps other envelopes, names and kinds of position",
    "X2": "resuming in the four ways bridges use: asked in-band, asked at the connect, pushed, or fetched out of band; one merge, one verdict",
    "X3": "a bridge that refuses, ignores or does not know the messages of the join still works; what it cannot do is reported once, and nothing is sent twice to a bridge that does not recognise a repeat",
    "X4": "`resilient-bridge doctor` shows what a server can guarantee, and prints the dialect or the warning that follows",
    "X5": "`resilient-bridge mcp` runs in front of an MCP server: the client's session stays open while the server crashes or is redeployed",
    "X6": "through it no tool runs twice without a report: one stated outcome for every call",
    "X7": "it is transparent: everything the protocol defines passes both ways",
    "X8": "policies, bridges and the sidecar from TOML, YAML, environment or a dict; all errors at once; reloaded without losing state",
    "X9": "metrics and traces by the field's conventions, structured logs, alert thresholds in the process and as rules; a successful call is counted and timed; without a listener telemetry costs nothing",
    "X10": "an incident can be inspected: one self-contained page from a session log",
    "X11": "documentation as a site: search, pages by task, an API reference, migration from other libraries",
    "X12": "Linux, macOS and Windows; CPython 3.11 to 3.14; the lowest declared version of each dependency (Linux on 3.11 to 3.13 and the floors are tested, 3.14 by imports and calls, CPython for Windows by a sample under Wine; on Windows itself and on macOS nothing was run)",
    "X13": "a seed repeats everything: times, waits, ids, order, in every kind of virtual world",
    "X14": "a refusal costs time and never a call: calls that share a quota all succeed at the rate that the server allows, by default, and between the processes of a machine or of many",
    "X15": "an effect in doubt does not happen again by itself: an identical call is held until its outcome is known, across kills, in tools, policies, phases and the sidecar",
    "X16": "a second call is raced against the first only with permission and within a budget, and its outcome is honest",
    "X17": "identical calls share one that outlives its leader; an old answer in an outage is marked as old",
    "X18": "one state per host, tenant or model, by a key and bounded; a circuit that only watches; a deadline as a block",
    "X19": "a simulation tries many orders of ready tasks, repeats each from its seed, and shortens what fails",
    "X20": "a binary protocol can be spoken; what was sent to a server without acknowledgements just before a loss is reported as in doubt, with its number",
}

QUOTATIONS = {
    "R1": quoted(
        "| Session | SESS_ | Session lifecycle errors | SESS_NOT_FOUND |",
        "tests/specifications/test_recursor.py::test_each_example_of_a_category_is_one_typed_record",
    ),
    "R2": quoted(
        "critical | Log + alert + circuit break | High (service unavailable)",
        "tests/test_severity.py::test_each_level_does_what_its_row_says",
    ),
    "R3": quoted(
        "RECONNECT_DELAYS = [1000, 2000, 5000, 10000, 30000]",
        "tests/journeys/test_schedules.py::test_recursor_waits_1_2_5_10_30_and_gives_up",
    ),
    "R4": quoted(
        "const SESSION_GRACE_MS = 5 * 60 * 1000; // 5 minutes",
        "tests/journeys/test_sessions.py::test_a_session_lives_for_five_minutes",
        "SESSION_GRACE_MS = 5 * 60 * 1000",
    ),
    "R5": quoted(
        '"details": { "reason": "CERTIFICATE_EXPIRED", "expiry": "2026-03-01T00:00:00Z", "suggested_action": "regenerate_certificates" }, "recoverable": false',
        "tests/failure/test_payloads.py::test_the_certificate_error_of_the_seed",
        "CERTIFICATE_EXPIRED",
        "2026-03-01T00:00:00Z",
        "regenerate_certificates",
    ),
    "R6": quoted(
        "| 2 | 2s | Retry with cached IP |",
        "tests/journeys/test_schedules.py::test_timeouts_follow_a_schedule_of_their_own",
    ),
    "R7": quoted(
        '{ "field": "timestamp", "constraint": "iso8601", "received": "2026-03-20 14:32:00" }',
        "tests/testing/test_server_wire.py::test_every_violation_is_reported_at_once",
        '"field": "timestamp", "constraint": "iso8601", "received": "2026-03-20 14:32:00"',
    ),
    "R8": quoted(
        "`session_message` before `session_join`",
        "tests/testing/test_server_dialogue.py::test_the_scenarios_of_the_specification",
        "session_message",
        "session_join",
    ),
    "R9": quoted(
        '"message": "Session \'sess-abc123\' not found", "suggestions": [ "Check session ID spelling", "Session may have expired", "Use GET /sessions to list active sessions" ]',
        "tests/failure/test_statuses.py::test_a_lost_session_in_the_body",
        "Session 'sess-abc123' not found",
        "Check session ID spelling",
        "Use GET /sessions to list active sessions",
    ),
    "R10": quoted(
        "interface Session { id: string; state: 'created' | 'active' | 'paused' | 'closed'; resumable: boolean; checkpoint: SessionCheckpoint | null;}",
        "tests/protocol/test_session_records.py::test_a08_a_session_has_a_state_and_no_times",
        "state",
        "paused",
        "resumable",
        "checkpoint",
    ),
    "R11": quoted(
        '"tool_call_id": "tool-abc123", "tool": "bash", "code": "TOOL_EXECUTION_FAILED", "message": "Command exited with code 1"',
        "tests/specifications/test_recursor.py::test_the_tool_error_of_the_specification_is_read",
    ),
    "R12": quoted(
        "bash: 300000, // 5 minutes read_file: 10000, // 10 seconds edit_file: 30000, // 30 seconds search: 60000 // 1 minute",
        "tests/presets/test_recursor.py::test_a_tool_ends_at_its_timeout",
        "300000",
        "10000",
        "30000",
        "60000",
        "bash",
        "read_file",
        "edit_file",
        "search",
    ),
    "R13": quoted(
        "Invalid enum value. Expected one of: SessionStart, SessionEnd",
        "tests/agent/test_hooks.py::test_the_answer_of_the_seed",
        "Invalid enum value",
        "SessionStart",
        "SessionEnd",
    ),
    "R14": quoted(
        "maxSize: number; // 100KB default maxAge: number; // 30 minutes",
        "tests/specifications/test_recursor.py::test_the_bounds_of_the_buffer_are_the_printed_ones",
        "100KB default",
        "30 minutes",
    ),
    "R15": quoted(
        "private threshold = 5, private timeoutMs = 60000",
        "tests/presets/test_recursor.py::test_the_circuit_opens_after_five_failures_for_sixty_seconds",
        "threshold",
        "timeoutMs",
        "60000",
    ),
    "R16": quoted(
        "id: string; agentType: string; workingDirectory: string; createdAt: string; lastActivityAt: string; checkpoint: { messageCount: number; lastMessageId: string; contextSnapshot: unknown; };",
        "tests/protocol/test_session_records.py::test_a08_a_file_of_sessions_is_an_array",
        "agentType",
        "workingDirectory",
        "createdAt",
        "lastActivityAt",
        "messageCount",
        "lastMessageId",
        "contextSnapshot",
    ),
    "R17": quoted(
        "final delay = BASE_DELAY * (attempt + 1);",
        "tests/journeys/test_schedules.py::test_five_tries_then_synchronise_then_flush",
        "BASE_DELAY * (attempt + 1)",
    ),
    "R18": quoted(
        "category: string; // Error category prefix code: string; // Full error code severity: string; // info/warning/error/critical/fatal source: string; // client/server/hook session_id?: string; // Associated session user_agent?: string; // Client version",
        "tests/exporters/test_prometheus.py::test_they_are_labels_if_somebody_asks",
        "category",
        "code",
        "severity",
        "source",
        "session_id",
        "user_agent",
    ),
    "R19": quoted(
        "| Reconnection failures | > 10/min | > 50/min |",
        "tests/telemetry/test_alerts.py::test_more_a_minute_than_the_threshold_is_an_alert",
    ),
    "C1": quoted(
        "| **Partial** | Some files written, commit incomplete | Resume from checkpoint | 1 |",
        "tests/specifications/test_ccsetup.py::test_each_example_has_its_strategy_and_its_number_of_retries",
    ),
    "C2": quoted(
        "Attempt 2: Network timeout → Wait 4s → Retry",
        "tests/presets/test_ccsetup.py::test_the_example_of_the_specification",
    ),
    "C3": quoted(
        "| **Permanent** | File not found, permission denied, invalid argument | Report with context, suggest fix | 0 |",
        "tests/specifications/test_ccsetup.py::test_a_permanent_failure_is_reported_or_skipped",
    ),
    "C4": quoted(
        "Error: \"ENOENT: no such file or directory, open 'config.json'\"",
        "tests/agent/test_suggestions_files.py::test_the_example_of_the_specification",
        "ENOENT: no such file or directory, open 'config.json'",
    ),
    "C5": quoted(
        "Look for .claude/workflow-state.json.bak",
        "tests/specifications/test_ccsetup.py::test_its_backup_is_looked_for_and_restored",
        "workflow-state.json.bak",
    ),
    "C6": quoted(
        'files: ["src/feature.ts", "tests/feature.test.ts"]',
        "tests/agent/workflow/test_file_form.py::test_a08_the_example_of_the_partial_recovery_runs_the_tests_only",
        '["src/feature.ts", "tests/feature.test.ts"]',
    ),
    "C7": quoted(
        "Copy current state to .claude/workflow-state.json.bak",
        "tests/specifications/test_ccsetup.py::test_the_original_changes_only_after_the_backup",
        "workflow-state.json.bak",
    ),
    "C8": quoted(
        '"workflow": "x-implement", "started_at": "2026-02-16T10:30:00Z", "phases_completed": ["analyze", "plan"], "current_phase": "implement"',
        "tests/agent/workflow/test_file_form.py::test_h01_the_specifications_own_file_is_read_and_finished_phases_do_not_run_again",
        '"workflow": "x-implement"',
        '"started_at": "2026-02-16T10:30:00Z"',
        '"phases_completed": ["analyze", "plan"]',
        '"current_phase": "implement"',
    ),
    "C9": quoted(
        "If permanent + optional → skip with warning",
        "tests/specifications/test_ccsetup.py::test_each_line_of_the_wrapper",
    ),
    "C10": quoted(
        "| State corruption | workflow-state.json invalid or inconsistent |",
        "tests/specifications/test_ccsetup.py::test_each_condition_makes_it_act_by_itself",
    ),
    "S1": quoted(
        "`TIMEOUT` | Provider SDK request timeouts | Yes | -32001",
        "tests/failure/test_codes.py::test_categories_have_their_default_retryability",
        "TIMEOUT",
    ),
    "S2": quoted(
        "UPSTREAM → -32002 (Upstream Error)",
        "tests/failure/test_rpc.py::test_every_number",
        "-32002",
    ),
    "S3": quoted(
        "BridgeError.upstream('Session capacity reached')",
        "tests/adapters/test_scenarios.py::test_the_in_process_scenarios",
        "Session capacity reached",
    ),
    "S4": quoted(
        "BridgeError.upstream('Invalid worker response: malformed prompt result')",
        "tests/adapters/test_scenarios.py::test_the_worker_scenarios",
        "Invalid worker response: malformed prompt result",
    ),
    "S5": quoted(
        "BridgeError.transport('Server overloaded', { retryable: true })",
        "tests/adapters/test_scenarios.py::test_the_worker_scenarios",
        "Server overloaded",
    ),
    "S6": quoted(
        "Error with status `RESOURCE_EXHAUSTED` | UPSTREAM | Yes |",
        "tests/specifications/test_stdiobus.py::test_each_line_of_each_table",
    ),
    "S7": quoted(
        "Session not found: abc-123 (UPSTREAM, not retryable)",
        "tests/failure/test_bridge_errors.py::test_k12_its_report_for_a_person_is_read",
    ),
    "S8": quoted(
        "sessions_close (returns silently if session already closed or doesn't exist)",
        "tests/presets/test_stdiobus.py::test_these_may_be_repeated_without_asking",
        "sessions_close",
    ),
    "S9": quoted(
        "Session not found: abc-123 (UPSTREAM, not retryable)",
        "tests/presets/test_stdiobus.py::test_the_session_stays_with_the_failure",
        "Session not found: abc-123",
    ),
    "S10": quoted(
        "Zod validation errors for malformed input",
        "tests/specifications/test_stdiobus.py::test_an_exception_that_is_no_bridge_error_is_internal",
    ),
    "S11": quoted(
        "Use `bridge_health` — check readiness after failures",
        "tests/specifications/test_stdiobus.py::test_bridge_health_checks_readiness_after_a_failure",
        "bridge_health",
    ),
    "G1": quoted(
        "| `DefaultQueryTimeout` | 2s | Extension query timeout (fast fail for synchronous operations) |",
        "tests/presets/test_gasoline.py::test_a_timing_constant_bounds_its_operation",
        "DefaultQueryTimeout",
        "2s",
    ),
    "G2": quoted(
        "`half_open` → `open`: `consecutive_failures_6` (probe fails)",
        "tests/presets/test_gasoline.py::test_the_circuit_goes_round_and_states_its_reasons",
        "consecutive_failures_6",
    ),
    "G3": quoted(
        '`net.Listen()` fails with "address already in use"',
        "tests/agent/test_daemon.py::test_a_port_that_is_bound_is_waited_for",
        "address already in use",
    ),
    "G4": quoted(
        "Extension picks up (DefaultQueryTimeout: 2s)",
        "tests/presets/test_gasoline.py::test_timeouts_escalate",
    ),
    "G5": quoted(
        'Log "MCP disconnected, shutting down in 100ms"',
        "tests/specifications/test_gasoline.py::test_a_disconnect_is_noticed_and_the_process_reaped",
        "MCP disconnected, shutting down in 100ms",
    ),
    "G6": quoted(
        '| Command expired | `status: "expired"` after 30s | Result was lost; rerun command |',
        "tests/specifications/test_gasoline.py::test_each_status_has_its_hint",
    ),
    "G7": quoted(
        "Polling must be `running` if extension is `connected`",
        "tests/agent/test_connection_states.py::test_the_three_invariants",
        "running",
        "connected",
    ),
    "G8": quoted(
        "Error: `Daemon started but not responding after 4s`",
        "tests/failure/test_texts.py::test_what_to_do",
        "Daemon started but not responding after 4s",
    ),
    "G9": quoted(
        "# Returns: 503 if starting or shutting down",
        "tests/agent/test_health_probe.py::test_what_the_endpoint_says",
        "503",
    ),
    "G10": quoted(
        "GASOLINE_PORT=7891 npx gasoline-mcp",
        "tests/settings/test_specifications.py::test_settings_of_the_daemon_come_from_its_own_variables",
        "GASOLINE_PORT=7891",
    ),
    "V1": quoted(
        "max_attempts: 3 base_delay_ms: 1000 max_delay_ms: 30000 backoff: exponential # linear | exponential | jittered",
        "tests/settings/test_specifications.py::test_the_printed_block_makes_three_calls_after_one_and_two_seconds",
    ),
    "V2": quoted(
        "| OpenAI | 429 | Header or 60s | Wait, then retry |",
        "tests/presets/test_openviber.py::test_a_rate_limit_waits_for_its_header_or_sixty_seconds",
        "Header or 60s",
        "429",
    ),
    "V3": quoted(
        "`content_policy_violation` — Requires human review",
        "tests/presets/test_openviber.py::test_what_a_repeat_cannot_help_fails_at_once",
        "content_policy_violation",
    ),
    "V4": quoted(
        "fallback_model: openai/gpt-4o-mini # Used on repeated failures",
        "tests/settings/test_specifications.py::test_a03_a_fallback_model_that_no_policy_uses_is_a_warning",
    ),
    "V5": quoted(
        "shell_command: 120000 # 2 minutes for shell",
        "tests/presets/test_openviber.py::test_a_tool_ends_at_its_timeout",
        "shell_command",
        "120000",
    ),
    "V6": quoted(
        "| `not_found` | Resource missing | Verify path/URL and retry |",
        "tests/specifications/test_openviber.py::test_each_type_of_a_tools_failure_is_read_and_written",
    ),
    "V7": quoted(
        "Wait 4s → Retry",
        "tests/journeys/test_schedules.py::test_openviber_suspends_tells_and_goes_on",
    ),
    "V8": quoted(
        "**Pending tool results**: Queue locally, deliver on reconnect",
        "tests/journeys/test_outage.py::test_results_queue_and_the_heartbeat_resumes_in_the_first_burst",
        "tool result",
    ),
    "V9": quoted(
        "idempotency_key: string; // UUID, generated by Viber Board",
        "tests/journeys/test_outage.py::test_every_resend_carries_the_same_id_and_key",
        "idempotency_key",
    ),
    "V10": quoted(
        "| `temperature` | No | `0.7` | 0.0 - 2.0 |",
        "tests/settings/test_specifications.py::test_everything_that_is_printed_is_one_file",
        "temperature",
        "0.7",
    ),
    "V11": quoted(
        "warning_threshold: 0.8 # Warn at 80%",
        "tests/specifications/test_openviber.py::test_the_printed_budget_warns_at_80_percent_and_pauses_at_100",
    ),
    "V12": quoted(
        "type: 'context_overflow'; current_tokens: number; max_tokens: number; suggestion: 'compact_history' | 'reduce_tools' | 'start_new_session';",
        "tests/agent/test_context_guard.py::test_without_a_hook_it_is_an_error_that_says_compact",
        "context_overflow",
        "current_tokens",
        "max_tokens",
        "compact_history",
    ),
    "V13": quoted(
        "Heartbeat timeout (default: 30s)",
        "tests/journeys/test_half_open.py::test_the_seed_of_30_seconds_holds",
    ),
    "V14": quoted(
        "Optional session logs (`~/.openviber/vibers/{id}/sessions/*.jsonl`) provide forensic data but are **not used for recovery** — they're write-only audit trails.",
        "tests/specifications/test_openviber.py::test_session_logs_are_where_it_says_and_only_ever_appended_to",
        "~/.openviber/vibers/{id}/sessions/*.jsonl",
    ),
    "V15": quoted(
        "disable_browser_on_error: true # Fall back to web_scrape",
        "tests/specifications/test_openviber.py::test_the_printed_hierarchy_is_gone_down_step_by_step",
    ),
    "V16": quoted(
        '{"level":"error","ts":"2024-01-15T10:30:00Z","msg":"Tool execution failed","tool":"shell_command","error":"timeout","duration_ms":30000}',
        "tests/stores/test_session_log_openviber.py::test_the_sample_lines_byte_for_byte",
        "2024-01-15T10:30:00Z",
        "Tool execution failed",
        "shell_command",
    ),
}
"""One sentence of each promise of the five specifications, as printed there; table cells without their columns."""

REQUIREMENTS = tuple(
    Requirement(row, promise, "proven" if row in _PROVEN else "later")
    for row, promise in _PROMISES.items()
)


def page() -> str:
    """The text of docs/reference/promises.md."""
    proven = sum(row.status == "proven" for row in REQUIREMENTS)
    lines = [
        "# Promises, and the tests that prove them",
        "",
        "Generated by `python -m tests.pages`; edit tests/requirements.py instead.",
        "",
        f"{proven} of {len(REQUIREMENTS)} promises are proven by tests: `grep -rn 'requirement(\"R3\")' tests` finds those of R3.",
        "The others are not in this release.",
    ]
    for source in SOURCES.values():
        lines += ["", f"## {source}", "", "| id | promise | status |", "|---|---|---|"]
        lines += [
            f"| {row.id} | {row.promise} | {'proven' if row.status == 'proven' else 'not yet'} |"
            for row in REQUIREMENTS
            if row.source == source
        ]
    lines += [
        "",
        "## In the specifications' own words",
        "",
        "A promise holds with the words of its specification as input: an error text, a file, a setting, a line of a table. Each has at least the test that is named here.",
        "",
        "| id | words of the specification | test that has them as input |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row} | {_code(one.words)} | {_code(one.test)} |" for row, one in QUOTATIONS.items()
    ]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    ticks = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return ticks + space + text.replace("|", "\\|") + space + ticks
