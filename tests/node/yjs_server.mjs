// npm's @y/websocket-server as it is, on npm's ws: `node yjs_server.mjs PORT LEDGER`. A document is named by the path of the URL.
// POST /publish/NAME/NUMBER sets a number in its map "numbers"; what clients set in its map "sent" goes into the ledger.
// GET /document/NAME is the document as a client of npm's y-websocket reads it; GET /connected/NAME counts the clients.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { docs, getYDoc, setContentInitializor, setupWSConnection } from '@y/websocket-server/utils';
import { WebSocket, WebSocketServer } from 'ws';
import { WebsocketProvider } from 'y-websocket';
import * as Y from 'yjs';

const [port, ledger] = process.argv.slice(2);

// One writer for each life of a document: its client id is the name of the log, its clocks are the numbers.
setContentInitializor(async (doc) => {
  doc.clientID = 2 ** 30 + Math.floor(Math.random() * 2 ** 30);
  doc.getMap('numbers').set('begin', 0);
  doc.getMap('sent').observe((event) => {
    for (const [key, { action }] of event.changes.keys) appendFileSync(ledger, `${doc.name} ${key} ${action}\n`);
  });
});

async function read(name) {
  const doc = new Y.Doc();
  const provider = new WebsocketProvider(`ws://127.0.0.1:${port}`, name, doc, { WebSocketPolyfill: WebSocket, disableBc: true });
  await new Promise((done) => provider.once('sync', done));
  const found = { numbers: doc.getMap('numbers').toJSON(), sent: doc.getMap('sent').toJSON(), text: doc.getText('text').toString() };
  provider.destroy();
  return found;
}

const http = createServer(async (request, response) => {
  const [, command, name, number] = request.url.split('/');
  let answer = null;
  if (command === 'publish') getYDoc(name).getMap('numbers').set(number, Number(number));
  if (command === 'document') answer = await read(name);
  if (command === 'connected') answer = docs.get(name)?.conns.size ?? 0;
  response.end(JSON.stringify(answer));
});
const server = new WebSocketServer({ server: http });
server.on('connection', setupWSConnection);
http.listen(Number(port), '127.0.0.1');
