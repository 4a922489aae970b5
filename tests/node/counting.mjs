// A WebSocket server on npm's ws: it echoes each message, notes it, and ends every connection after seven, each in another way.
// Its port is the first line on stdout; then one line for each message that arrived. It ends with its stdin.
import { WebSocketServer } from 'ws';

const ENDS = [(ws) => ws.close(1001), (ws) => ws.terminate(), (ws) => ws.close(1011, 'trouble'), (ws) => ws._socket.resetAndDestroy()];
let number = 0;
const server = new WebSocketServer({ host: '127.0.0.1', port: 0 }, () => console.log(server.address().port));
server.on('connection', (ws) => {
  const end = ENDS[number++ % ENDS.length];
  let left = 7;
  ws.on('error', () => {});
  ws.on('message', (data) => {
    console.log(String(data));
    ws.send(String(data));
    if (--left === 0) end(ws);
  });
});
process.stdin.on('end', () => process.exit(0)).resume();
