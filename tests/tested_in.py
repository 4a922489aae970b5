"""Where a module of the package is tested that has no test file of its own name.

A module is tested in the file of its name in the tests of its room: `calls/breaker/windows.py` in `tests/calls/test_windows.py`
or `test_breaker_windows.py`. ELSEWHERE names for each test file the other modules whose changes are to be tried with it first;
tests/test_house.py sees that every module has a file, and none two. `python -m tests.tested_in` prints the
rows that the data of `nox -s coverage` suggests. Where many files run all of a module, a person chose the one that is about it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path


ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "resilient_bridge", ROOT / "tests"


def modules() -> list[str]:
    """The modules of the package with something to test, by their path in it."""
    paths = (path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")))
    return [str(path) for path in paths if path.name not in {"__init__.py", "__main__.py"}]


def own_files(module: str) -> list[Path]:
    """The test files of a module's own name, in the tests of its room."""
    room, *folders = Path(module).with_suffix("").parts
    names = {"_".join(folders[start:]).lstrip("_") for start in range(len(folders))} or {room}
    files = (TESTS / room if folders else TESTS).rglob("test_*.py")
    return [path for path in files if path.stem.removeprefix("test_") in names]


def measured(data_file: str) -> dict[str, str]:
    """For each module without a file of its own, the test file that runs it best: most of its lines, and little else."""
    from coverage import CoverageData

    data = CoverageData(data_file)
    data.read()
    lines: dict[str, dict[str, set[int]]] = defaultdict(
        lambda: defaultdict(set)
    )  # test file -> module -> lines
    for measured_file in data.measured_files():
        path = Path(measured_file)
        module = str(path).partition("/resilient_bridge/")[2]
        for line, contexts in data.contexts_by_lineno(measured_file).items():
            for context in contexts:
                if context.startswith("tests/"):
                    lines[context][module].add(line)
    total = {file: sum(map(len, found.values())) for file, found in lines.items()}
    best = {}
    for module in modules():
        if own_files(module):
            continue
        room = module.split("/")[0]
        found = {file: len(its[module]) for file, its in lines.items() if its.get(module)}
        near = {file: count for file, count in found.items() if file.split("/")[1] == room} or found
        if near:
            enough = [file for file, count in near.items() if count >= 0.8 * max(near.values())]
            best[module] = max(enough, key=lambda file: near[file] / total[file])
    return best


# fmt: off
ELSEWHERE = {
    "adapters/sidecar/test_eras.py": "adapters/sidecar/upstream_eras",
    "adapters/sidecar/test_front_http.py":
        "adapters/sidecar/front_http_exchange adapters/sidecar/front_http_limits "
        "adapters/sidecar/front_http_session adapters/sidecar/front_http_sessions adapters/sidecar/front_http_stream",
    "adapters/sidecar/test_front_http_floods.py": "adapters/sidecar/front_http_connection",
    "adapters/sidecar/test_front_http_threats.py": "adapters/sidecar/front_http_guard",
    "adapters/sidecar/test_relay_attempts.py": "adapters/sidecar/sessions",
    "adapters/sidecar/test_relay_back.py": "adapters/sidecar/notices adapters/sidecar/set_up",
    "adapters/sidecar/test_relay_matrix.py": "adapters/sidecar/permission adapters/sidecar/relay",
    "adapters/sidecar/test_relay_modern.py": "adapters/sidecar/upstream",
    "adapters/sidecar/test_relay_patience.py": "adapters/sidecar/calls adapters/sidecar/limits",
    "adapters/sidecar/test_relay_sessions.py": "adapters/sidecar/catalog adapters/sidecar/status",
    "adapters/sidecar/test_relay_shared.py": "adapters/sidecar/instead adapters/sidecar/shared",
    "adapters/sidecar/test_running.py": "adapters/sidecar/front adapters/sidecar/front_stdio adapters/sidecar/serving adapters/sidecar/state",
    "adapters/sidecar/test_upstream_http_losses.py": "classification/proxies",
    "adapters/sidecar/test_upstream_http.py":
        "adapters/sidecar/upstream_http_exchange adapters/sidecar/upstream_http_headers "
        "adapters/sidecar/upstream_http_notices adapters/sidecar/upstream_http_wire",
    "adapters/test_event_source.py": "adapters/sse/event_source_arguments",
    "adapters/test_http_bodies.py": "adapters/http/decoding",
    "adapters/test_http_proxies.py": "adapters/http/own_transport",
    "adapters/test_http_redirects.py": "adapters/arguments adapters/http/requests transports/following",
    "adapters/test_http_rotated_token.py": "adapters/http/bearer",
    "adapters/test_link_calls.py": "adapters/links/link_proxy adapters/links/reconnecting",
    "adapters/test_link_evidence.py": "adapters/links/link_losses adapters/links/loss_rules",
    "adapters/test_link_hints.py": "adapters/links/mcp_hints adapters/mcp_wire",
    "adapters/test_link_lasting.py": "adapters/links/link_heartbeat",
    "adapters/test_link_states.py": "adapters/links/connection adapters/links/link_health adapters/links/link_supervisor transports/loop_guard",
    "adapters/test_other_clients.py": "adapters/http/aiohttp_middleware adapters/http/requests_adapter adapters/http/views",
    "adapters/test_wrap_http_clients.py": "adapters/sdk/http_clients",
    "adapters/test_stdio.py":
        "adapters/processes/child_process adapters/processes/notifications adapters/processes/peer adapters/processes/peer_lines",
    "adapters/test_wrap_addresses.py": "adapters/sdk/sdks adapters/sdk/stream_proxies adapters/sdk/wrapping",
    "adapters/test_wrap_any.py": "adapters/sdk/clients adapters/sdk/proxies",
    "adapters/test_wrap_evidence.py": "adapters/sdk_errors",
    "adapters/test_wrap_limits.py": "adapters/limits",
    "adapters/test_wrap_openai2.py": "adapters/sdk/model_streams",
    "adapters/test_wrap_tools.py": "adapters/idempotency adapters/sdk/sdk_tools",
    "agent/test_commands_table.py": "agent/commands/command_answers",
    "agent/test_daemon.py": "agent/daemons/daemon_process",
    "agent/test_hooks.py": "agent/hook_events",
    "agent/test_hostile_calls.py": "agent/tools/bounded agent/tools/tool_calls",
    "agent/test_hostile_fixes.py": "agent/suggestions/existing_paths agent/suggestions/missing_file agent/suggestions/suggestion_context",
    "agent/test_spend_file.py": "agent/blocking agent/spending/spend_book",
    "agent/test_suggestions.py": "agent/suggestions/suggest",
    "agent/test_suggestions_checked.py": "agent/suggestions/missing_path",
    "agent/test_tool_annotations.py": "agent/tools/annotations",
    "agent/test_tool_bounds.py": "agent/tools/tool_policy",
    "agent/test_tool_failures.py": "agent/tools/shell_commands",
    "agent/workflow/test_checkpoint.py": "agent/workflow/workflow_fields",
    "agent/workflow/test_doubts.py": "agent/workflow/failures agent/workflow/runner",
    "agent/workflow/test_hard_cases.py": "agent/workflow/phase agent/workflow/verification",
    "agent/workflow/test_looking.py": "agent/workflow/workflow_file",
    "bridges/dialects/test_keepalive.py": "client/keepalive",
    "bridges/dialects/test_schedules.py":
        "protocol/dialects/_agno protocol/dialects/_centrifugo protocol/dialects/_families protocol/dialects/_json "
        "protocol/dialects/_jsonrpc protocol/dialects/_jupyter protocol/dialects/_mattermost protocol/dialects/_openhands "
        "protocol/dialects/_plain protocol/dialects/_recursor protocol/dialects/_slack protocol/dialects/_socketio",
    "bridges/dialects/test_wrong_dialect.py": "client/defects client/pump",
    "bridges/test_doubts_of_sends.py": "client/doubts client/one_reader",
    "calls/test_blocks_in_loops.py": "calls/tracing",
    "calls/test_breaker_state.py": "calls/breaker/windows",
    "calls/test_budget_state.py": "calls/retry/budget",
    "calls/test_bulkhead_and_rate_limit.py": "calls/bulkhead/guard calls/states",
    "calls/test_calls.py": "calls/recommended",
    "calls/test_calls_in_number.py": "calls/run/layers calls/timeout/guard",
    "calls/test_cancellation.py": "calls/fallback/value calls/rate_limit/guard",
    "calls/test_conditions.py": "calls/run/attempt_result",
    "calls/test_context.py": "calls/attempt",
    "calls/test_evidence.py": "calls/run/binding",
    "calls/test_explanation.py": "calls/layer_order calls/retry/value calls/timeout/deadline calls/timeout/value",
    "calls/test_fallback_gate.py": "calls/fallback/rungs",
    "calls/test_finished.py": "calls/rejections",
    "calls/test_handles.py": "calls/breaker/handle",
    "calls/test_nested_counts.py": "calls/frame calls/retry/retrying calls/run/protect calls/run/retry_loop",
    "calls/test_nesting.py": "calls/guards calls/retry/decision",
    "calls/test_open_circuits.py": "calls/run/in_thread",
    "calls/test_outcome.py": "calls/outcome_text",
    "calls/test_pause.py": "calls/layer",
    "calls/test_rate_state.py": "calls/rate_limit/state",
    "calls/test_refresh.py": "calls/retry/planned",
    "calls/test_registry.py": "calls/breaker/circuits calls/breaker/in_use calls/breaker/value calls/names",
    "calls/test_replacing.py": "calls/policy",
    "calls/test_retrying_schedules.py": "calls/steps",
    "calls/test_shared_calls.py": "calls/retry/budgets calls/retry/shared_budget calls/shared/waits",
    "calls/test_shared_circuit.py": "calls/shared/ports",
    "calls/test_stream_limits.py": "calls/first_item calls/run/plan calls/run/stream_calls",
    "calls/test_streams.py": "calls/breaker/guard calls/run/runners",
    "calls/test_verdicts.py": "calls/breaker/verdict",
    "classification/test_bodies.py": "classification/provider_codes",
    "classification/test_http_clients.py": "classification/http_libraries",
    "classification/test_links.py": "classification/dispatch classification/websocket_losses",
    "classification/test_lookup.py": "classification/plain",
    "classification/test_proofs.py": "classification/answers",
    "classification/test_providers.py": "classification/google",
    "classification/test_rpc.py": "classification/mcp_sessions classification/rpc_answers",
    "classification/test_texts.py": "classification/hints",
    "classification/test_tls.py": "classification/tls_errors",
    "classification/test_wrappers.py": "classification/finding",
    "cli/test_backoff.py": "cli/printing",
    "cli/test_check.py": "settings/schema",
    "cli/test_doctor_bridge.py": "cli/doctor cli/doctor_look cli/doctor_steps cli/doctor_taps",
    "cli/test_doctor_findings.py": "cli/doctor_events cli/doctor_journal cli/doctor_promise cli/doctor_rows cli/doctor_values",
    "cli/test_doctor_mcp.py": "cli/doctor_mcp_page cli/doctor_mcp_talk",
    "cli/test_main.py": "cli/commands cli/dialects",
    "cli/test_mcp.py": "cli/mcp_http cli/mcp_options",
    "cli/test_mcp_entries.py": "cli/mcp_config",
    "cli/test_workflow_targets.py": "cli/modules",
    "cli/test_progress.py": "cli/status_line",
    "cli/test_schedules.py": "config/spelled_calls",
    "cli/test_terminal.py": "cli/completion",
    "composition/test_cancellation.py": "client/cancelled client/ending transports/websockets_releases",
    "config/test_documents.py": "config/paths config/toml_lines config/yaml_nodes",
    "crashes/test_owners.py": "files/owner",
    "errors/test_codes.py": "errors/taxonomy",
    "errors/test_corpora.py": (
        "errors/secret_commands errors/secret_decoding errors/secret_fields errors/secret_near errors/secret_readings errors/secret_rows"
        " errors/secret_tables errors/secret_values"
    ),
    "errors/test_failure_report.py": "errors/secret_names",
    "errors/test_mistakes_in_code.py": (
        "errors/foreign_words errors/merged_lines errors/mistakes errors/source_text errors/teaching errors/wrong_names errors/wrong_urls"
        " errors/wrong_values"
    ),
    "errors/test_peer_advice.py": "errors/rpc errors/signs",
    "errors/test_record.py": "errors/errnos",
    "errors/test_secret_shapes.py": "errors/secret_tokens",
    "exporters/test_prometheus.py": "exporters/series",
    "exporters/test_readings.py": "exporters/exporter",
    "exporters/test_shipped_rules.py": "telemetry/instruments",
    "journeys/test_health_check.py": "client/health_check",
    "journeys/test_sends.py": "client/sending",
    "journeys/test_session_of_failures.py": "client/driver client/receipt",
    "journeys/test_sessions.py": "client/beginning client/bridge",
    "peers/test_http_fault.py": "testing/faulty_http testing/loopback_http",
    "platforms/test_loops.py": "transports/event_loop",
    "presets/test_presets.py": "presets/_default presets/bridge_policy",
    "protocol/test_corner_cases.py": "protocol/facts",
    "protocol/test_corner_cases_backfill.py": "client/backfilling",
    "protocol/test_corner_cases_client.py": "client/supervisor",
    "protocol/test_corner_cases_life.py": "protocol/policies/ends protocol/recovery",
    "protocol/test_corner_cases_live.py": "protocol/positioned protocol/replaying",
    "protocol/test_corner_cases_refused.py": "protocol/policies/dialect protocol/policies/positions",
    "protocol/test_corner_cases_sends.py": "protocol/fact_link protocol/unanswered",
    "protocol/test_corner_cases_stored.py": "protocol/bookmark",
    "protocol/test_expectations.py": "client/greeting protocol/join protocol/recognition",
    "protocol/test_frames.py": "protocol/strict_json",
    "protocol/test_joining.py": "protocol/features",
    "protocol/test_link.py": "protocol/envelope_link",
    "protocol/test_outbound.py": "protocol/known_entries",
    "protocol/test_outbox.py": "protocol/deadlines",
    "protocol/test_reading.py": "protocol/order",
    "protocol/test_reconnection.py": "protocol/policies/losses protocol/policies/reconnect",
    "protocol/test_rejoin.py": "protocol/policies/replay",
    "protocol/test_session.py": "protocol/asking",
    "protocol/test_session_records.py": "protocol/session_text",
    "protocol/test_signs_and_snapshots.py": "protocol/fact_wire protocol/resuming",
    "protocol/test_wire.py": "protocol/dedupe",
    "report/test_incident.py": "report/summary",
    "report/test_page.py":
        "report/calls report/charts report/escaping report/guards report/lines report/links report/sections_calls report/sections_links "
        "report/series report/style report/wording",
    "settings/test_mistakes.py":
        "settings/dialect_names settings/fields settings/policy_tables settings/reading settings/seed_keys settings/tables settings/walk",
    "settings/test_reload.py": "settings/config",
    "settings/test_round_trip.py": "settings/failure_words settings/writing",
    "settings/test_shown.py": "settings/document settings/explain settings/sources values/forms",
    "settings/test_specifications.py": "settings/provider_check",
    "stores/test_file_changes.py": "files/file_changes",
    "stores/test_private_files.py": "files/private_files",
    "stores/test_redis_state.py":
        "stores/redis_state/budget stores/redis_state/circuit stores/redis_state/exchange stores/redis_state/question "
        "stores/redis_state/state",
    "stores/test_redis_store.py": "stores/redis/keys stores/redis/known stores/redis/link stores/redis/scripts stores/redis/url stores/redis/writer",
    "stores/test_redis_store_damage.py": "stores/redis/loading",
    "stores/test_files_of_version_1.py": "stores/sessions",
    "stores/test_sqlite_faults.py": "stores/sqlite/salvage",
    "stores/test_sqlite_later_version.py": "stores/arguments",
    "stores/test_sqlite_migration.py": "stores/session_record",
    "stores/test_sqlite_taken_away.py": "stores/sqlite/owned",
    "stores/test_state_file_taken_away.py": "files/identity",
    "stores/test_sqlite_path.py": "files/portable stores/sqlite/integrity stores/sqlite/opening stores/sqlite/versions",
    "stores/test_sqlite_store.py": "stores/sqlite/commits stores/sqlite/database",
    "stores/test_sqlite_version_1.py": "stores/rows",
    "stores/test_state_document.py": "stores/state_files/document",
    "stores/test_state_recovery.py": "stores/state_files/candidates stores/state_files/copies",
    "stores/test_store_port.py": "protocol/ports stores/memory stores/sqlite/sends",
    "stores/test_store_port_positions.py": "stores/sqlite/positions",
    "telemetry/test_alerts.py": "telemetry/alert_state telemetry/error_metric telemetry/measures",
    "telemetry/test_events.py": "telemetry/alert_events telemetry/call_events telemetry/debug_events telemetry/event telemetry/work_events",
    "test_exports.py": "bridge lazy_names",
    "testing/test_log_bridge_faults.py": "testing/server_log testing/server_log_bridge testing/server_log_forms testing/server_log_link",
    "testing/test_mcp_trap.py": "testing/mcp_trap_http testing/mcp_trap_ledger testing/mcp_trap_plan testing/mcp_trap_stdio testing/mcp_trap_tools",
    "testing/test_proxy.py": "testing/proxy_link",
    "testing/test_repeated_runs.py": "testing/virtual_clock",
    "testing/test_virtual_time.py": "testing/injection testing/recording testing/worlds",
    "threats/test_links.py": "client/reading",
    "threats/test_origins.py": "client/dialing client/streams",
    "threats/test_secrets.py": "client/arguments client/health client/secrets",
    "transports/test_process.py": "transports/process_groups transports/process_tree",
    "transports/test_process_unread.py": "transports/unread",
    "transports/test_websocket.py": "transports/contract",
    "typing/api.py": "client/signature",
    "values/test_layer_refusals.py": "values/foreign",
    "values/test_layers.py": "calls/bulkhead/value calls/rate_limit/value",
    "values/test_rule.py": "values/what",
    "world/test_one_world.py": "world/real world/signal world/threads",
}
# fmt: on


if __name__ == "__main__":
    rows: dict[str, list[str]] = defaultdict(list)
    for module, file in measured(sys.argv[1] if len(sys.argv) > 1 else ".coverage").items():
        rows[file.removeprefix("tests/")].append(module.removesuffix(".py"))
    for file, found in sorted(rows.items()):
        print(f'    "{file}": "{" ".join(sorted(found))}",')  # noqa: T201 -- it is a script
