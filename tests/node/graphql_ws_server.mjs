// npm's graphql-ws as it is: `node graphql_ws_server.mjs PORT LEDGER OPTIONS`, the options being graphql-ws's own as JSON.
// `subscription { ticks(after: N) }` gives the numbers of POST /publish/NUMBER that are larger than N, the earlier ones first;
// without N only new ones. `mutation { do(value: N) }` writes N to the ledger. A connection that has {"token": "wrong"} is refused.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { buildSchema } from 'graphql';
import { useServer } from 'graphql-ws/use/ws';
import { WebSocketServer } from 'ws';

const [port, ledger, options] = process.argv.slice(2);
const published = [];
let wake = deferred(); // resolved, and replaced, when a number is published

function deferred() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}

async function* ticks({ after }) {
  for (let next = after == null ? published.length : 0; ; ) {
    for (; next < published.length; next += 1) if (after == null || published[next] > after) yield { ticks: published[next] };
    await wake.promise;
  }
}

const http = createServer((request, response) => {
  const [, command, number] = request.url.split('/');
  if (command === 'publish') {
    published.push(Number(number));
    const { resolve } = wake;
    wake = deferred();
    resolve();
  }
  response.end(JSON.stringify(server.clients.size));
});
const server = new WebSocketServer({ server: http, path: '/graphql' });
const schema = buildSchema(`
  type Query { count: Int! }
  type Mutation { do(value: Int!): Int! }
  type Subscription { ticks(after: Int): Int! }
`);
const roots = {
  query: { count: () => published.length },
  mutation: {
    do: ({ value }) => {
      appendFileSync(ledger, `${value}\n`);
      return value;
    },
  },
  subscription: { ticks },
};
useServer(
  { schema, roots, onConnect: ({ connectionParams }) => connectionParams?.token !== 'wrong', ...JSON.parse(options) },
  server,
);

http.listen(Number(port), '127.0.0.1');
