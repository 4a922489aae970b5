"""A model that may cost one dollar, and a person who approves more.

Each call reserves an estimate, so that concurrent calls cannot exceed the limit
together. At the limit the next call waits until a person approves more.

    $ python examples/bounded_spending.py
    warned at 80 %
    paused at 100 %
    approved 1.00 more
    6 answers for 1.20
"""

import asyncio
from decimal import Decimal

import resilient_bridge as rb


budget = rb.agent.SpendBudget("1.00", name="assistant")


async def ask(prompt: str) -> str:
    async with budget.call(estimate="0.20", timeout=60) as call:
        answer = prompt.upper()  # here you would call your model
        call.spend("0.20")  # what the call has cost
        return answer


def person(event: rb.events.Event) -> None:
    """Handle the budget's events: here you would write a message to somebody."""
    match event:
        case rb.events.SpendChanged(state="warning"):
            print("warned at 80 %")
        case rb.events.SpendChanged(state="paused"):
            print("paused at 100 %")
            asyncio.get_running_loop().call_soon(approve)


def approve() -> None:
    budget.approve(Decimal("1.00"))
    print("approved 1.00 more")


async def main() -> None:
    with rb.listen(person):
        answers = [await ask(f"question {number}") for number in range(6)]
    print(f"{len(answers)} answers for {budget.status().spent}")


if __name__ == "__main__":
    asyncio.run(main())
