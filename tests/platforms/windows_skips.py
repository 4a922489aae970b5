"""What tests cannot show on Windows, or under Wine, and why: `-p tests.platforms.windows_skips` skips it.

A test that fails because it asks the system for what only POSIX has is skipped where it asks. All others are named here. Rule: what the
package asks for is never excused.
"""

from __future__ import annotations

import re
import sys
from pathlib import PureWindowsPath

import pytest


_LACKING = re.compile(
    r"module '(?:os|signal|socket|time)' has no attribute '\w+'|No module named '(?:fcntl|grp|pwd|pty|resource|termios)'"
    r"|Unsupported signal|cannot find context for 'fork\w*'"
)
LONGEST_ID = 30_000  # characters; pytest puts it into PYTEST_CURRENT_TEST
SKIPPED = {
    "modes and owners of files, which the system does not have": """test_a_new_state_is_new_and_no_loss test_what_is_saved_is_loaded
        test_a_full_file_makes_room test_events_become_lines_inside_the_block_only test_a_copy_leaves_the_file test_a_new_file_is_private""",
    "files that are moved or removed while they are open, which the system refuses": """test_a_file_that_is_moved_away_is_begun_anew
        test_a_directory_that_is_gone_is_not_made_again test_a_link_in_its_place_takes_no_lines""",
    "links of the file system: Wine 8.0 makes none, and says that it has": "test_another_client_is_the_owner test_a_link_is_refused",
    "descriptors and command lines, which stand in /proc": """leaves_nothing test_cancelled_while_opening test_an_event_under_way_when_it_closes
        test_processes_that_start_it_at_once_end_with_one""",
    "programs of a POSIX system: Wine starts them, and cannot wait for them": """test_tasks_share_a_start_that_fails test_one_that_ends_at_once
        test_a_foreign_server_on_its_port test_a_command_that_cannot_be_run test_a_log_takes_its_output test_environment_and_folder
        test_without_an_old_answer_the_error test_h10_a_given_cache test_it_is_answered_from_the_cache_when_it_cannot_be_started
        test_stopping_it_ends_its_whole_session""",
    "the steps of Linux: it makes a directory durable with a call that the system lacks": """test_a_file_is_replaced_whole_and_durably
        test_an_interrupt_leaves_no_temporary_file[5] test_an_interrupt_leaves_no_temporary_file[6] test_any_step_may_fail[6
        test_any_step_may_fail[7 test_a_save_may_fail_at_any_call test_a_crash_at_any_call_of_a_save test_a_crash_leaves_the_old_or_the_new
        test_a_directory_that_cannot_be_made_is_typed""",
    "texts and paths that the test writes in another way: the code page, \\r\\n, slashes": """test_a_bit_of_the_number_of_a_version test_sqlite_migration
        test_a_file_that_is_full_already test_ten_mebibytes_and_five test_sqlite_version_1 test_any_bytes_and_any_terminal
        test_any_value_is_shown test_saving_over_something_damaged""",
    "names that the system does not have for a file": "test_a_path_that_is_none_is_refused test_a_path_is_taken_when_it_is_given",
    "signals to a process: the system has no SIGTERM and no SIGINT for one": """test_a_process_that_really_failed test_a_signal_drains[15]
        test_one_that_shuts_down_is_waited_for test_a_process_that_took_too_long test_keep_open_goes_on_printing test_a_frame_goes_out_as_it_is
        test_the_end_of_stdin_ends_nothing_and_a_signal_does""",
    "seconds that are counted finer than the system's ticks of 16 ms": "_is_linear test_the_seam_costs_linear_time",
    "a reset: under Wine it is the end of a stream": "test_a_reset_connection test_what_breaks_while_reading[ReadError",
    "several addresses of a loop that gives each an errno": "test_a_host_with_several_addresses",
    "errnos: the loop of the system has numbers of its own": "a_native_error_is_not_dressed_up several_addresses_keeps_its_errno",
    "errnos: the test writes a number of Linux": "test_the_line_names_what_tells_cases_apart[failure0",
    "more than Wine is fast enough for": "test_no_value_breaks_it",
    "importlib of 3.11.9 with a standard library of 3.11.7, as far as was looked": "test_what_a_package_itself_lacks_is_named",
    "the words of the system for a path that is wrong": """test_what_cannot_be_done_is_one_line_and_two[argv4
        test_wrong_use_is_one_line[arguments1""",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is named, with its reason; drop what has an id that no variable of the environment may be as long as."""
    if sys.platform == "win32":
        items[:] = [item for item in items if len(item.nodeid) < LONGEST_ID]
    for item in items:
        for reason, names in SKIPPED.items():
            if sys.platform == "win32" and any(name in item.nodeid for name in names.split()):
                item.add_marker(pytest.mark.skip(reason=f"shows {reason}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Make a skip of a failure for want of something that only POSIX has, where the test itself asked for it."""
    report = yield
    if call.excinfo is not None and sys.platform == "win32" and _is_excused(call.excinfo):
        report.outcome = "skipped"
        report.longrepr = (
            *item.location[:2],
            f"asks for what only POSIX has: {call.excinfo.value}",
        )
    return report


def _is_excused(failed: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether it is about what POSIX has, and nothing of the package stands between the test and what it asked for."""
    ours = any(
        "resilient_bridge" in PureWindowsPath(str(entry.path)).parts for entry in failed.traceback
    )
    return not ours and _LACKING.search(str(failed.value)) is not None
