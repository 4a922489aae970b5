"""`idempotent=` of `wrap`: a predicate gives its permission in one word, and what is no such word is a mistake."""

from __future__ import annotations

import functools

import pytest

import resilient_bridge as rb
from resilient_bridge.adapters import Call
from tests.internals.adapters import permits


FAST = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)))


class Shop:
    """A stranger's client, whose orders fail after they have run."""

    def __init__(self):
        self.orders = 0

    def order(self):
        self.orders += 1
        raise ConnectionResetError


async def _allows(call):
    return True


class _Asks:
    """A predicate with an async `__call__`."""

    async def __call__(self, call):
        return True


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("predicate", [_allows, functools.partial(_allows), _Asks()])
def test_an_async_predicate_is_refused_where_it_is_passed(predicate):
    """A coroutine is true: nobody would await it, and every call were allowed to run twice."""
    with pytest.raises(
        rb.ConfigError, match=r"wrap\.idempotent: wanted a predicate that is no async function"
    ):
        rb.wrap(Shop(), FAST, methods=["order"], idempotent=predicate)


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("word", [None, 1, "yes", [], "a coroutine"])
def test_what_is_not_true_or_false_is_no_permission(word):
    """A predicate that forgets its `return`, or gives a coroutine after all: the call is not made, and nothing is left unawaited."""
    shop = Shop()
    client = rb.wrap(
        shop,
        FAST,
        methods=["order"],
        idempotent=lambda call: _allows(call) if word == "a coroutine" else word,
    )
    with pytest.raises(
        rb.ConfigError, match="idempotent: wanted True or False from the predicate for order"
    ):
        client.order()
    assert shop.orders == 0


@pytest.mark.requirement("S8")
@pytest.mark.parametrize("word", [True, False])
def test_a_word_of_a_predicate_is_taken_as_it_is(word):
    """True repeats, False does not."""
    shop = Shop()
    client = rb.wrap(shop, FAST, methods=["order"], idempotent=lambda call: word)
    with rb.testing.virtual_time(), pytest.raises(ConnectionResetError):
        client.order()
    assert shop.orders == (3 if word else 1)
    assert permits(lambda call: call.method == "order", Call("order", (), {}))


def test_an_error_of_a_predicate_is_the_users_own():
    """It comes out as it is, and the call is not made."""
    shop = Shop()

    def fails(call):
        raise LookupError

    with pytest.raises(LookupError):
        rb.wrap(shop, FAST, methods=["order"], idempotent=fails).order()
    assert shop.orders == 0
