"""agno's AgentOS, `/workflows/ws`: each run has a log of its own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from ..facts import (
    Auth,
    Challenge,
    Finished,
    Hello,
    Ping,
    Pong,
    Received,
    Refused,
    Replayed,
    Resume,
    Send,
)
from ..policies.dialect import Dialect
from ..policies.positions import Positions
from ._json import framed, own, text, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent, Record
    from ._json import Body


_LOST_RUN: Final = re.compile(r"Run (\S+) not found|Subscription failed")
_LAST: Final = frozenset({"WorkflowCompleted", "WorkflowCancelled", "WorkflowError"})


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    words = frame if isinstance(frame, str) else frame.decode()
    # The connection that started a run gets it as server-sent events, any other one as JSON.
    data = words.partition("\ndata: ")[2].strip() if words.startswith("event: ") else words
    body: Body = json.loads(data)
    name = str(body.get("event", ""))
    run = text(body.get("run_id"))
    match name:
        case "connected":
            return (Challenge(),) if body.get("requires_auth") else (Hello(),)
        case "authenticated":
            return (Hello(),)
        case "auth_error" | "auth_required":
            code = str(body.get("error_type") or name)
            return (Refused(raw=body, code=code, text=str(body.get("error", ""))),)
        case "pong":
            return (Pong(),)
        case "catch_up":
            return ()
        case "subscribed":
            return (Replayed(complete=True, channel=run),)
        case "replay":
            return (Replayed(channel=run, first=0, through=int(body["total_events"]) - 1),)
        case "error":
            why = str(body.get("error", ""))
            lost = _LOST_RUN.search(why)
            if lost is not None:
                return (Replayed(complete=False, channel=run or lost.group(1)),)
            return (Refused(raw=body, text=why),)
        case _:
            index = body.get("event_index")
            event = Received(
                raw=body,
                type=name,
                payload=body,
                channel=run,
                position=index if isinstance(index, int) and run is not None else None,
            )
            return (event, Finished(run)) if name in _LAST and run is not None else (event,)


def _encode(intent: Intent) -> str | None:
    match intent:
        case Send():
            return own(intent, "action")
        case Auth(token=str()):
            return write({"action": "authenticate", "token": intent.token})
        case Ping():
            return write({"action": "ping"})
        case _:
            return None


@attrs.frozen
class _Reconnect:
    """Ask for each run that has not ended."""

    workflow_id: str
    session_id: str | None

    def __call__(self, record: Record) -> Resume:
        asked: list[str] = []
        for run in record.positions:
            wanted: Body = {
                "action": "reconnect",
                "run_id": run,
                "workflow_id": self.workflow_id,
                "session_id": self.session_id,
            }
            after = record.after(run)
            if isinstance(after, int) and after >= 0:
                wanted["last_event_index"] = after
            asked.append(
                write({name: value for name, value in wanted.items() if value is not None})
            )
        return Resume(
            frames=tuple(asked), channels=tuple(run for run in record.positions if run is not None)
        )


def agno(*, workflow_id: str, session_id: str | None = None) -> Dialect:
    """The dialect of this workflow.

    `send("start-workflow", {…})` starts a run, whose events have its `run_id` as their channel.

    After a cut each run that has not ended is asked for, from the last event that you had:
    RECOVERED while the server holds it (10,000 events, 30 minutes after its end), a gap with its
    numbers where it has dropped some. A start that may have arrived is not sent again, because it
    would be a second run; its errors name no request.
    """

    return framed(
        decode=_decode,
        encode=_encode,
        login="asked",
        waits_for_hello=True,
        pings=True,
        positions=Positions(
            per_channel=True,
            contiguous=True,
            repeats=True,
            overlap=1,
            ends="stated",
            names_log=True,
        ),
        resume=_Reconnect(workflow_id, session_id),
        dedupes=False,
    )
