"""Tools of a Toolbox under pydantic-ai.

`@agent.tool_plain` decorates a function that calls the toolbox. The toolbox's policy
repeats what may pass. A call that still fails becomes pydantic-ai's `ModelRetry`, with
the checked suggestion, and counts against pydantic-ai's own `retries=`.

    $ python examples/frameworks/pydantic_ai_agent.py
    asked for Roma: ValueError: city: did you mean Rome?
    asked for Rome: 21 degrees
    answer: It has 21 degrees.
"""

import asyncio

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.openviber)
calls = 0


@toolbox.tool(idempotent=True)
async def look(city: str) -> str:
    global calls
    calls += 1
    if calls == 1:
        # repeated by the toolbox's policy
        raise ConnectionResetError(104, "connection reset")
    if city != "Rome":
        raise ValueError("city: did you mean Rome?")
    return "21 degrees"


def script(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Play the model: a wrong name, the right one, an answer."""
    rounds = [
        ToolCallPart("weather", {"city": "Roma"}),
        ToolCallPart("weather", {"city": "Rome"}),
        TextPart("It has 21 degrees."),
    ]
    return ModelResponse(parts=[rounds[len(messages) // 2]])


agent = Agent(FunctionModel(script), retries=2)


@agent.tool_plain
async def weather(city: str) -> str:
    """Return the weather of a city."""
    outcome = await toolbox.call("look", {"city": city})
    print(f"asked for {city}:", outcome.value if outcome.ok else outcome.message)
    if not outcome.ok:
        raise ModelRetry(outcome.to_llm())
    return outcome.value


async def main() -> None:
    result = await agent.run("How is Rome?")
    print("answer:", result.output)


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
