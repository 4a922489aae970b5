"""Wait for a job: poll, wait longer each time, and stop after ten minutes.

`on_result=` says which answers mean "not yet". The policy also repeats a poll whose
connection was lost.

    $ python examples/wait_for_a_job.py
    done after 5 questions and 15 s
"""

import asyncio

import resilient_bridge as rb


answers = [
    "queued",
    "running",
    ConnectionResetError(104, "connection reset"),
    "running",
    "done",
]


def is_unfinished(status: object) -> bool:
    return status in {"queued", "running"}


waiting = rb.Policy(
    rb.Deadline(600),
    rb.Retry(
        attempts=100,
        on_result=is_unfinished,
        backoff=rb.Backoff.exponential(1, factor=2, cap=30, jitter="none"),
        budget=None,
    ),
)


@waiting(idempotent=True)
async def job_status(_job: str) -> str:
    """Ask the service for the status; here the answers come from a list."""
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


async def main() -> None:
    with rb.testing.virtual_time() as time:  # only here: do not wait
        outcome = await rb.capture(job_status, "job-1")
        print(
            f"{outcome.value} after {outcome.attempts} questions "
            f"and {sum(time.slept):.0f} s"
        )


if __name__ == "__main__":
    asyncio.run(main())
