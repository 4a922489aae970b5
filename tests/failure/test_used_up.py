"""A failure is final by words only if they say what became of it: a day, money, a size, a model or a content that is merely named is none.

The texts are in the words of the providers they name. They were written down before the reader was mended.
"""

from __future__ import annotations

import httpx

from resilient_bridge.failure import Failure, classify
from tests.rows import each_row


SPENT = [
    (
        "OpenAI",
        429,
        "Rate limit reached for gpt-4o in organization org-1 on requests per day (RPD): Limit 200, Used 200, Requested 1.",
    ),
    (
        "OpenAI",
        429,
        "Rate limit reached for gpt-4.1 on tokens per day (TPD): Limit 1000000, Used 999990, Requested 12.",
    ),
    ("OpenAI", 429, "You've reached your monthly usage limit. Please check your plan."),
    (
        "Anthropic",
        429,
        "This request would exceed your organization's limit of 1,000,000 input tokens per day",
    ),
    ("Anthropic", 429, "Number of request tokens has exceeded your daily rate limit"),
    ("Anthropic", 429, "You've hit your weekly limit"),
    (
        "Google",
        403,
        "Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT).",
    ),
    (
        "Google",
        403,
        "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'customsearch.googleapis.com' for consumer 'project_number:1'.",
    ),
    ("Google", 429, "You have exceeded your daily request quota for this API."),
    ("AWS", 429, "Too many tokens per day, please wait before trying again."),
    ("AWS", 400, "Daily message quota exceeded."),
    ("Azure", 403, "The monthly call volume quota of your F0 tier has been used up."),
    ("Azure", 429, "Your weekly token allowance has run out."),
    (
        "Groq",
        429,
        "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99336, Requested 1724.",
    ),
    ("Groq", 429, "TPD exhausted for this organization"),
    ("Mistral", 429, "Monthly token limit exceeded for this workspace"),
    ("Mistral", 429, "0 requests left today: your daily limit is spent"),
    (
        "Cohere",
        429,
        "You are using a Trial key, which is limited to 1000 API calls / month. Upgrade to a Production key",
    ),
    ("Cohere", 429, "trial token rate limit exceeded, limit is 1000000 tokens per month"),
    ("GitHub", 403, "The monthly quota for Actions minutes is used up"),
    ("GitHub", 402, "You have exceeded your monthly allowance of premium requests"),
    ("Stripe", 400, "This payout would exceed the daily limit of this account"),
    ("Stripe", 429, "The limit for this month has been reached"),
    ("Twilio", 429, "Account exceeded the 50 daily messages limit"),
    ("Twilio", 429, "The daily limit of 5 verification attempts has been reached"),
    ("Twilio", 429, "No calls remain of your daily limit"),
    ("AWS", 429, "You have reached the maximum number of requests per day for your plan"),
    ("Azure", 429, "Your monthly quota has been used"),
    ("Mistral", 429, "Daily quota: 0 remaining"),
    ("Cohere", 429, "Over your monthly limit"),
    ("Google", 429, "Requests per day exceeded: 1000/1000"),
]
NAMED = [
    ("Python", 500, "rendering the per-day report failed"),
    ("Stripe", 503, "Under maintenance; your daily limit is not affected"),
    ("GitHub", 500, "could not render the monthly quota page"),
    ("Twilio", 429, "10 calls per minute, 1000 per day"),
    ("Twilio", 429, "rate limit exceeded: 10 requests per minute, 1000 requests per day"),
    ("OpenAI", 500, "The server had an error while computing your usage per day"),
    ("OpenAI", 503, "Sorry, we could not load the daily limit of your organization."),
    ("OpenAI", 500, "failed to change the billing hard limit"),
    ("Anthropic", 529, "Overloaded. Your weekly limit was not charged for this request."),
    ("Anthropic", 500, "Internal error; your weekly limit has not been reached"),
    ("Anthropic", 503, "We are down. You have not exceeded your monthly quota."),
    ("Google", 503, "The service is unavailable; queries per day are unaffected"),
    ("Google", 500, "failed to read the quota of queries per day"),
    ("AWS", 503, "Service Unavailable: the per-day metrics are delayed"),
    ("AWS", 500, "The job that sums up calls/day crashed"),
    ("Azure", 500, "Could not update the monthly cap of the workspace"),
    ("Azure", 503, "the content management policy could not be loaded"),
    ("Groq", 503, "service down; the docs list the RPD and TPD of your tier"),
    ("Groq", 429, "Requests are limited to 60 per minute and 5000 per day"),
    ("Mistral", 500, "Unable to compute the monthly allowance for this workspace"),
    ("Mistral", 500, "could not read the maximum context length from the store"),
    ("Cohere", 502, "bad gateway while counting calls / month"),
    ("GitHub", 502, "Unicorn! The weekly cap report could not be built"),
    ("GitHub", 503, "Your quota is not exceeded: we are having trouble, hold on"),
    ("Stripe", 500, "rendering the unpaid invoice failed"),
    ("Stripe", 500, "the top-up could not be created"),
    ("Stripe", 503, "we could not confirm whether the account is in good standing"),
    ("Twilio", 500, "Daily limit lookup failed"),
    ("Python", 500, "the per-day report spent 3 s in the renderer"),
    ("Python", 500, "too many open files while counting calls per day"),
    ("Python", 500, "hit an error while rendering requests per day"),
    ("Python", 500, "exhausted all retries while reading your monthly quota"),
    ("Python", 503, "The report of calls per day exceeded the time limit"),
    ("Python", 500, "monthly quota job exceeded 30 s"),
    ("Python", 500, "the monthly limit alert was hit by a timeout"),
    ("Stripe", 503, "once the daily limit is reached we send a mail"),
    ("Stripe", 500, "Unable to top up the card"),
    ("Twilio", 429, "Too many requests. Limits: 100 per second, 100000 per day"),
]
REFUSED = [
    ("Stripe", 400, "The monthly limit parameter must be an integer"),
    ("GitHub", 422, "Invalid value: the limit for the day has to be a positive number"),
    ("AWS", 400, "Granularity must be one of: per-day, per-month"),
    ("Twilio", 400, "a daily limit must not exceed the limit of its parent"),
]


def _answer(status: int, text: str) -> Failure:
    failure = classify(httpx.Response(status, json={"error": {"message": text}}))
    assert isinstance(failure, Failure)
    return failure


@each_row(("provider", "status", "text"), SPENT)
def test_a_day_that_is_used_up_is_final(provider, status, text):
    """A day, a week or a month, and that it is exceeded, reached, spent or gone: as an answer and as a text."""
    for failure in (_answer(status, text), classify(RuntimeError(text))):
        assert failure.details.get("reason") == "quota_exhausted", provider
        assert not failure.retryable


@each_row(("provider", "status", "text"), NAMED)
def test_what_is_only_named_is_not_final(provider, status, text):
    """The status decides, and a repeat may help; a text alone says nothing of a quota, a content or a context."""
    failure = _answer(status, text)
    assert (failure.retryable, failure.details.get("reason")) == (True, None), provider
    assert failure.code == ("SYS_RATE_LIMITED" if status == 429 else "SYS_UNAVAILABLE")
    assert classify(RuntimeError(text)).details.get("reason") is None


@each_row(("provider", "status", "text"), REFUSED)
def test_a_refusal_that_names_a_day_is_no_quota(provider, status, text):
    """A parameter is wrong: final by its status, and no credit helps."""
    failure = _answer(status, text)
    assert (failure.code, failure.details.get("reason")) == ("SYS_UPSTREAM_REJECTED", None), (
        provider
    )
    assert classify(RuntimeError(text)).details.get("reason") is None
