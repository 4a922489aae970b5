"""Tools of a Toolbox under LangGraph.

The model of the graph asks for a tool. The node returns the outcome of `toolbox.call`
as one line of JSON, also for a failure, so no exception of a tool reaches the graph. A
policy protects the node that calls the model.

    $ python examples/frameworks/langgraph_agent.py
    tool: 21 degrees in Rome
    answer: It has 21 degrees.
"""

import asyncio
import json

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.openviber)
calls = 0


@toolbox.tool(idempotent=True)
async def weather(city: str) -> str:
    """Return the weather of a city."""
    global calls
    calls += 1
    if calls == 1:
        # repeated by the toolbox's policy
        raise ConnectionResetError(104, "connection reset")
    return f"21 degrees in {city}"


asked = AIMessage(
    "", tool_calls=[{"name": "weather", "args": {"city": "Rome"}, "id": "call-1"}]
)
# your model
model = GenericFakeChatModel(messages=iter([asked, AIMessage("It has 21 degrees.")]))


# a model call may be repeated
@rb.Policy(rb.Deadline(60), rb.Retry(attempts=3))(idempotent=True)
async def ask(state: MessagesState) -> dict:
    return {"messages": [await model.ainvoke(state["messages"])]}


async def use_tools(state: MessagesState) -> dict:
    results = []
    for call in state["messages"][-1].tool_calls:
        outcome = await toolbox.call(
            call["name"], call["args"], idempotency_key=call["id"]
        )
        results.append(ToolMessage(outcome.to_llm(), tool_call_id=call["id"]))
    return {"messages": results}


def route(state: MessagesState) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


async def main() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", use_tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route)
    graph.add_edge("tools", "model")
    end = await graph.compile().ainvoke({"messages": [HumanMessage("How is Rome?")]})
    print("tool:", json.loads(end["messages"][2].content)["result"])
    print("answer:", end["messages"][-1].content)


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
