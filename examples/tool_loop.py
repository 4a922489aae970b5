"""An agent's loop: the model asks for tools, and every outcome goes back to it as data.

The model here is a list of scripted calls. Its second call misspells the tool's name,
and its third has an argument too many; it reads the suggestions and corrects itself.

    $ python examples/tool_loop.py
    weather {"city": "Rome"}: 21 degrees
    wether {"city": "Oslo"}: did you mean weather?; call one of these: weather
    weather {"city": "Oslo", "unit": "C"}: correct the arguments: unit: no such argument
    weather {"city": "Oslo"}: 21 degrees
"""

import asyncio
import json

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.openviber)
calls = 0


@toolbox.tool(idempotent=True)
async def weather(city: str, days: int = 1) -> str:
    """Return the weather of a city."""
    global calls
    calls += 1
    if calls == 1:
        # repeated: the tool is idempotent
        raise ConnectionResetError(104, "connection reset")
    return "21 degrees"


def model():
    """Play the model: yield its calls."""
    yield "weather", '{"city": "Rome"}'
    yield "wether", '{"city": "Oslo"}'
    yield "weather", '{"city": "Oslo", "unit": "C"}'
    yield "weather", '{"city": "Oslo"}'


async def main() -> None:
    for name, arguments in model():
        outcome = await toolbox.call(name, arguments)  # never raises a failure
        answer = json.loads(outcome.to_llm())
        print(f"{name} {arguments}: {answer.get('result') or answer['suggestion']}")


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
