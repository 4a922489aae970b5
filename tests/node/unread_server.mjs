// A server on npm's ws that notes each message on stdout, and stops reading after some (its argument). It says its port first.
import { writeSync } from 'node:fs';
import { WebSocketServer } from 'ws';

const most = Number(process.argv[2]);
const server = new WebSocketServer({ host: '127.0.0.1', port: 0 }, () => writeSync(1, `port ${server.address().port}\n`));
server.on('connection', (ws) => {
  let left = most;
  ws.on('error', () => {});
  ws.on('message', (data) => {
    writeSync(1, `${data}\n`);
    if (--left === 0) ws.pause();
  });
});
process.stdin.on('end', () => process.exit(0)).resume();
