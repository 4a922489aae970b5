"""The reference page of metrics, printed from the package's own table."""

from __future__ import annotations

from tests.internals.telemetry import INSTRUMENTS

from .reference_layout import page, table


def metrics_page() -> str:
    """The text of docs/reference/metrics.md."""
    rows = [
        (
            f"`{one.scraped_name}`",
            f"`{one.name}`",
            one.sort,
            f"`{one.unit}`",
            " ".join(f"`{label}`" for label in one.labels) or "none",
            one.text,
        )
        for one in INSTRUMENTS
    ]
    return page(
        "metrics",
        "Metrics",
        [
            "[`rb.exporters.prometheus.install()`](../how-to/metrics.md) and [`rb.exporters.otel.install()`](../how-to/traces.md) say the same, in the",
            "spelling of each: Prometheus has underscores, the unit and `_total` in the name, OpenTelemetry dots, and the unit apart.",
        ],
        [*table("Prometheus | OpenTelemetry | sort | unit | labels | says", rows)],
        [
            "A histogram has `_bucket`, `_sum` and `_count` behind its name in Prometheus. Gauges are read when somebody scrapes.",
            "",
            "**Labels.** `policy` is the name of what was called: the function's, or the one that you gave. `bridge` is the `name=` of a client or",
            "link, empty without one; links without a name are counted together, so that their drops and reconnects are only roughly told apart.",
            "`circuit` is its key. `outcome` is `ok`, `ok_after_retry`, `failed`, `rejected` (nothing was called), `cancelled` or `fell_back`; `code`,",
            "`category` (the prefix of the code) and `severity` are those of [errors](errors.md). `source` is `hook` for a hook event that was not valid,",
            "`server` for what the server answered, and `client` for what was noticed here.",
            "",
            "**How many series.** Each metric has at most `max_series` (1,000) of them; policies, circuits, bridges and sessions beyond that are counted",
            "as `other`, and the log says so once. A circuit takes five of the gauge of states, so 200 have a name; those that are not closed come first. In",
            "OpenTelemetry the first 200 that were seen keep it: its SDK forgets no series, and reads all after the 2,000th as one without a name.",
            "Session ids, and the version of this package (`user_agent`), are exemplars and attributes of spans (`session.id`,",
            '`user_agent.original`); they are labels of the errors only with `labels=("session_id", "user_agent")`.',
            "",
            "**What is an error.** Each attempt of a call that failed, the last one included; a call that was rejected; the loss of a connection; an",
            "attempt to connect that failed; a hook event, a frame, a store or a state file that was not right. A failure of severity `info` is only logged.",
        ],
    )
