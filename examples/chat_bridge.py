"""A client of an agent's bridge that survives a cut.

It sends a prompt and reads what the agent says. When the connection is cut in between,
it continues where it was. Here both ends run on a simulated network; for a real bridge
call `chat("wss://host/ws", token, prompt)`.

    $ python examples/chat_bridge.py
    prompt: applied
    agent: thinking
    agent: here is your answer
    agent: session_end
"""

import asyncio

import resilient_bridge as rb


async def chat(url: str, token: str, prompt: str) -> None:
    # called where messages may be missing
    async def reload(gap: rb.bridge.Gap) -> None:
        print(f"{gap.verdict}: {gap.reason}, please reload the conversation")

    async with rb.BridgeClient(
        url, token=token, policy=rb.presets.recursor, on_gap=reload
    ) as bridge:
        receipt = await bridge.send("message", {"content": prompt})
        print("prompt:", await receipt.confirmed(timeout=30))
        async for message in bridge:
            print("agent:", message.payload.get("text", message.type))
            if message.type == "session_end":
                return


async def agent(server: rb.testing.BridgeServer) -> None:
    """Play the agent: push a message, cut the connection, push the rest meanwhile."""
    person = asyncio.create_task(chat(server.url, "secret", "What is a bridge?"))
    await asyncio.sleep(5)
    await server.push("claude_event", {"text": "thinking"})
    await asyncio.sleep(1)
    await server.cut("abort")
    await server.push("claude_event", {"text": "here is your answer"})
    await server.push("session_end", {})
    await person


if __name__ == "__main__":
    rb.testing.simulate(agent, seed=1)
