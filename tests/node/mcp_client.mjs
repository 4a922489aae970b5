// The official TypeScript client: `node mcp_client.mjs PLAN COMMAND...` or `node mcp_client.mjs PLAN URL` runs tools and prints a line of JSON
// for the session, and one for each call.
//
// PLAN is JSON: {"calls": [{"name": "order", "arguments": {"marker": "m-{n}"}, "times": 3}], "timeout": 60, "paced": false}; "{n}" in a text is
// the number of the call, from 0. Paced: each call waits for a line on standard input. tests/adapters/sidecar/python_client.py is the same.
// Renewed (here alone, as only this SDK can): the timeout begins anew with each notification of progress, which is printed.
import { createInterface } from "node:readline";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [plan, command, ...args] = process.argv.slice(2);
const { calls, timeout = 60, paced = false, renewed = false } = JSON.parse(plan);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const transport = /^https?:/.test(command)
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });

const client = new Client({ name: "typescript-client", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
print({ server: client.getServerVersion()?.name, tools: tools.map(({ name }) => name) });

let n = 0;
for (const { name, arguments: asked = {}, times = 1 } of calls) {
  for (let done = 0; done < times; done += 1, n += 1) {
    if (paced && (await lines.next()).done) break;
    const numbered = JSON.parse(JSON.stringify(asked).replaceAll("{n}", String(n)));
    try {
      const renewing = renewed && { resetTimeoutOnProgress: true, onprogress: (progress) => print({ n, progress }) };
      const result = await client.callTool({ name, arguments: numbered }, undefined, { timeout: timeout * 1000, ...renewing });
      const text = (result.content ?? []).map((item) => item.text ?? "").join("\n");
      print({ n, name, isError: result.isError ?? false, text, meta: result._meta ?? {} });
    } catch (error) {
      print({ n, name, error: { code: error.code ?? null, message: String(error.message) } });
    }
  }
}
await client.close();
process.exit(0);
