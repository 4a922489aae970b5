"""Tools of a Toolbox under the OpenAI Agents SDK.

The SDK reads the schema from a function that calls the toolbox and returns `to_llm()`.
So a failure is an answer with a suggestion, and not the SDK's "An error occurred". The
model here is scripted; for a real one, pass `rb.wrap(AsyncOpenAI())` to
`OpenAIChatCompletionsModel`.

    $ python examples/frameworks/openai_agents.py
    tool: 21 degrees in Rome
    answer: It has 21 degrees.
"""

import asyncio
import json

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.openviber)
calls = 0


@toolbox.tool(name="weather", idempotent=True)
async def look(city: str) -> str:
    global calls
    calls += 1
    if calls == 1:
        # repeated by the toolbox's policy
        raise ConnectionResetError(104, "connection reset")
    return f"21 degrees in {city}"


@function_tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return (await toolbox.call("weather", {"city": city})).to_llm()


class Scripted(Model):
    """A model that asks for the weather once, and then answers."""

    async def get_response(self, system_instructions, input, *_, **__) -> ModelResponse:
        if isinstance(input, str) or len(input) == 1:
            call = {
                "arguments": '{"city": "Rome"}',
                "call_id": "call-1",
                "name": "weather",
                "type": "function_call",
            }
            output = [ResponseFunctionToolCall(**call)]
        else:
            said = {"text": "It has 21 degrees.", "type": "output_text"}
            text = ResponseOutputText(annotations=[], **said)
            message = {"id": "message-1", "role": "assistant", "type": "message"}
            message |= {"status": "completed", "content": [text]}
            output = [ResponseOutputMessage(**message)]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_args, **_more):
        raise NotImplementedError


async def main() -> None:
    agent = Agent(name="assistant", model=Scripted(), tools=[weather])
    config = RunConfig(tracing_disabled=True)
    result = await Runner.run(agent, "How is Rome?", run_config=config)
    print("tool:", json.loads(result.new_items[1].output)["result"])
    print("answer:", result.final_output)


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
