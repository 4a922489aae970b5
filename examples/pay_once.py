"""A tool that pays, and a model that calls it again because the answer was lost.

The call that is in doubt is not made again by itself: the shop is asked whether it took
effect, and its answer is that of the second call. Two honest orders are still two.

    $ python examples/pay_once.py
    A-7: TOOL_TIMEOUT
    A-7 again: paid 12 for A-7
    A-8: paid 5 for A-8
    A-8 once more: paid 5 for A-8
    the shop has: A-7 A-8 A-8
"""

import asyncio
import tempfile

import resilient_bridge as rb


booked: list[str] = []


def find_payment(call: rb.stores.DoubtfulCall) -> object:
    """Ask the shop what became of a payment in doubt."""
    order, amount = call.arguments["order"], call.arguments["amount"]
    if order in booked:
        return rb.stores.Ran(f"paid {amount} for {order}")
    return rb.stores.NOT_RUN


async def main(path: str) -> None:
    with rb.stores.Effects(path, verify={"pay": find_payment}) as effects:
        tools = rb.agent.Toolbox(effects=effects, timeouts={"pay": 0.1})

        @tools.tool
        async def pay(order: str, amount: int) -> str:
            """Pay an order. The answer for A-7 never comes."""
            booked.append(order)
            if order == "A-7":
                await asyncio.Event().wait()
            return f"paid {amount} for {order}"

        for who, arguments in [
            ("A-7", {"order": "A-7", "amount": 12}),
            ("A-7 again", {"amount": 12, "order": "A-7"}),
            ("A-8", {"order": "A-8", "amount": 5}),
            ("A-8 once more", {"order": "A-8", "amount": 5}),
        ]:
            outcome = await tools.call("pay", arguments)
            failure = outcome.failure
            print(f"{who}: {outcome.value if failure is None else failure.code}")
    print("the shop has:", *booked)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"{folder}/effects.db"))
