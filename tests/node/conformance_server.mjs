// The fixtures that @modelcontextprotocol/conformance asks a server for, on the official TypeScript SDK; written from what the suite says of
// each scenario.
//
//     node conformance_server.mjs          over standard input and output
//     node conformance_server.mjs PORT     streamable HTTP on 127.0.0.1; prints its URL; ends when its standard input does
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as schemas from "@modelcontextprotocol/sdk/types.js";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = Buffer.from("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0", "latin1").toString("base64");
const STEP = 20; // milliseconds between two notifications

const text = (value) => ({ type: "text", text: value });
const said = (value) => ({ content: [text(value)] });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const resource = (uri, mimeType, value) => ({ type: "resource", resource: { uri, mimeType, text: value } });
const titled = (pairs) => pairs.map(([value, title]) => ({ const: value, title }));
const strings = (...names) => ({ type: "object", properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])), required: names });

const defaults = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};
const singles = [["value1", "First Option"], ["value2", "Second Option"], ["value3", "Third Option"]];
const choices = [["value1", "First Choice"], ["value2", "Second Choice"], ["value3", "Third Choice"]];
const options = { type: "string", enum: ["option1", "option2", "option3"] };
const enums = {
  untitledSingle: options,
  titledSingle: { type: "string", oneOf: titled(singles) },
  legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
  untitledMulti: { type: "array", items: options },
  titledMulti: { type: "array", items: { anyOf: titled(choices) } },
};
const user = {
  username: { type: "string", description: "User's response" },
  email: { type: "string", description: "User's email address" },
};

async function elicit(extra, message, properties, required) {
  const requestedSchema = { type: "object", properties, ...(required && { required }) };
  return extra.sendRequest({ method: "elicitation/create", params: { message, requestedSchema } }, schemas.ElicitResultSchema);
}

async function completed(extra, message, properties) {
  const { action, content } = await elicit(extra, message, properties);
  return said(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
}

// Each tool: its arguments, and what it does.
const tools = {
  test_simple_text: [strings(), () => said("This is a simple text response for testing.")],
  test_image_content: [strings(), () => ({ content: [image] })],
  test_audio_content: [strings(), () => ({ content: [{ type: "audio", data: WAV, mimeType: "audio/wav" }] })],
  test_embedded_resource: [
    strings(),
    () => ({ content: [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")] }),
  ],
  test_multiple_content_types: [
    strings(),
    () => ({
      content: [
        text("Multiple content types test:"),
        image,
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
      ],
    }),
  ],
  test_tool_with_logging: [
    strings(),
    async (_, extra) => {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
        await sleep(STEP);
      }
      return said("done");
    },
  ],
  test_tool_with_progress: [
    strings(),
    async (_, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined) {
          await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
        }
        await sleep(STEP);
      }
      return said("done");
    },
  ],
  test_error_handling: [
    strings(),
    () => ({ ...said("This tool intentionally returns an error for testing"), isError: true }),
  ],
  test_sampling: [
    strings("prompt"),
    async ({ prompt }, extra) => {
      const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 };
      const answer = await extra.sendRequest({ method: "sampling/createMessage", params }, schemas.CreateMessageResultSchema);
      return said(`LLM response: ${answer.content.text}`);
    },
  ],
  test_elicitation: [
    strings("message"),
    async ({ message }, extra) => {
      const answer = await elicit(extra, message, user, Object.keys(user));
      return said(`User response: ${JSON.stringify(answer)}`);
    },
  ],
  test_elicitation_sep1034_defaults: [strings(), (_, extra) => completed(extra, "Check the defaults", defaults)],
  test_elicitation_sep1330_enums: [strings(), (_, extra) => completed(extra, "Choose", enums)],
  test_reconnection: [
    strings(),
    async (_, extra) => {
      extra.closeSSEStream?.();
      await sleep(5 * STEP);
      return said("Reconnection test completed successfully.");
    },
  ],
  json_schema_2020_12_tool: [
    {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    },
    () => said("done"),
  ],
};

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
const prompts = {
  test_simple_prompt: [[], () => [text("This is a simple prompt for testing.")]],
  test_prompt_with_arguments: [
    ["arg1", "arg2"],
    ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  ],
  test_prompt_with_embedded_resource: [
    ["resourceUri"],
    ({ resourceUri }) => [
      resource(resourceUri, "text/plain", "Embedded resource content for testing."),
      text("Please process the embedded resource above."),
    ],
  ],
  test_prompt_with_image: [[], () => [image, text("Please analyze the image above.")]],
};

function read(uri) {
  const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
  if (id !== undefined) {
    return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  }
  if (!(uri in resources)) throw new schemas.McpError(-32002, "resource not found", { uri });
  return { uri, ...resources[uri] };
}

function newServer() {
  const capabilities = {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
  };
  const server = new Server({ name: "conformance-fixture", version: "1.0.0" }, { capabilities });
  const handlers = [
    [schemas.ListToolsRequestSchema, () => ({
      tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: `The fixture ${name}`, inputSchema })),
    })],
    [schemas.CallToolRequestSchema, ({ params }, extra) => {
      if (!(params.name in tools)) throw new schemas.McpError(-32602, `unknown tool: ${params.name}`);
      return tools[params.name][1](params.arguments ?? {}, extra);
    }],
    [schemas.ListResourcesRequestSchema, () => ({
      resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, description: `The fixture ${uri}`, mimeType })),
    })],
    [schemas.ListResourceTemplatesRequestSchema, () => ({
      resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
    })],
    [schemas.ReadResourceRequestSchema, ({ params }) => ({ contents: [read(params.uri)] })],
    [schemas.SubscribeRequestSchema, () => ({})],
    [schemas.UnsubscribeRequestSchema, () => ({})],
    [schemas.ListPromptsRequestSchema, () => ({
      prompts: Object.entries(prompts).map(([name, [fields]]) => ({
        name,
        description: `The fixture ${name}`,
        arguments: fields.map((field) => ({ name: field, description: field, required: true })),
      })),
    })],
    [schemas.GetPromptRequestSchema, ({ params }) => ({
      messages: prompts[params.name][1](params.arguments ?? {}).map((content) => ({ role: "user", content })),
    })],
    [schemas.CompleteRequestSchema, ({ params }) => ({
      completion: { values: ["paris", "park", "party"].filter((word) => word.startsWith(params.argument.value)), total: 3, hasMore: false },
    })],
    [schemas.SetLevelRequestSchema, () => ({})],
  ];
  for (const [schema, handler] of handlers) server.setRequestHandler(schema, handler);
  return server;
}

// ---- streamable HTTP -------------------------------------------------------------------------------------------------------------------
class Events {
  // What was sent on each stream, for a client that comes back for it.
  #sent = [];

  async storeEvent(stream, message) {
    this.#sent.push([stream, message]);
    return String(this.#sent.length - 1);
  }

  async getStreamIdForEventId(id) {
    return this.#sent[Number(id)]?.[0];
  }

  async replayEventsAfter(id, { send }) {
    const [stream] = this.#sent[Number(id)];
    for (const [index, [of, message]] of this.#sent.entries()) {
      if (index > Number(id) && of === stream && Object.keys(message).length > 0) await send(String(index), message);
    }
    return stream;
  }
}

function overHttp(port) {
  const sessions = new Map();
  const listener = createServer(async (request, response) => {
    const number = request.headers["mcp-session-id"];
    let transport = sessions.get(number);
    if (transport === undefined && number !== undefined) {
      response.writeHead(404, { "content-type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "Session not found" } }));
      return;
    }
    if (transport === undefined) {
      const hosts = ["127.0.0.1", "localhost", "[::1]"].map((host) => `${host}:${listener.address().port}`);
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
        eventStore: new Events(),
        retryInterval: 100,
        enableDnsRebindingProtection: true,
        allowedHosts: hosts,
        allowedOrigins: hosts.map((host) => `http://${host}`),
      });
      await newServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  listener.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
  process.stdin.on("end", () => process.exit(0)).resume();
}

if (process.argv[2] === undefined) await newServer().connect(new StdioServerTransport());
else overHttp(Number(process.argv[2]));
