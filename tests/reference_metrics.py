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
        "Metric names",
        [
            "[`rb.telemetry.prometheus.install()`](../how-to/metrics.md) and [`rb.telemetry.otel.install()`](../how-to/traces.md) export the same metrics. Prometheus names have",
            "underscores, the unit and `_total`. OpenTelemetry names have dots, and the unit is separate.",
        ],
        [*table("Prometheus | OpenTelemetry | kind | unit | labels | what it measures", rows)],
        [
            "In Prometheus a histogram has series with `_bucket`, `_sum` and `_count` after its name. Gauges are read at each scrape.",
            "",
            "**Labels.** `policy` is the name of what was called: that of the function, or the one that you gave. `bridge` is the `name=` of a client or link,",
            "and empty without one. Links without a name are counted together, so their drops and reconnects can be distinguished only roughly. `circuit` is the key of",
            "the circuit. `limit` is the owner of an adaptive limit: a function, the origin of a client, or the name in `AdaptiveLimit(key=)`; never what a key adds to it,",
            "as a tenant, a route or a model. `outcome` is `ok`, `ok_after_retry`, `failed`, `rejected` (nothing was called), `cancelled` or `fell_back`. `code`, `category` (the prefix of",
            "the code) and `severity` are those of [errors](errors.md). `source` is `hook` for a hook event that was not valid, `server` for what the server answered,",
            "and `client` for what was noticed in this process.",
            "",
            "**How many series.** Each metric has at most `max_series` (1,000) series. Policies, circuits, limits, bridges and sessions beyond that are counted as `other`, and the",
            "log says so once. In the gauge of circuit states each circuit takes five series, so 200 circuits have a name; circuits that are not closed come first. In",
            "OpenTelemetry the first 200 circuits (and 1,000 limits) that were seen keep their names, because its SDK never drops a series and merges all after the 2,000th into one without",
            "a name. Session ids, and the version of this package (`user_agent`), are exemplars and attributes of spans (`session.id`, `user_agent.original`). They are",
            'labels of the errors only with `labels=("session_id", "user_agent")`.',
            "",
            "**What counts as an error.** Each failed attempt of a call, the last one included; a rejected call; the loss of a connection; a failed attempt to connect; a",
            "hook event, a frame, a store or a state file that was not valid. A failure of severity `info` is only logged.",
        ],
    )
