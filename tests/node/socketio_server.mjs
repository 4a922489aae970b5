// npm's socket.io as it is: `node socketio_server.mjs PORT LEDGER OPTIONS`, the options being socket.io's own as JSON.
// Clients get `tick` with a number for each POST /publish/NUMBER. What they emit as `echo` or `do` is written to the ledger,
// one line of JSON each, before it is acknowledged. The namespace /private refuses who has not {"token": "t"}.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Server } from 'socket.io';

const [port, ledger, options] = process.argv.slice(2);

const http = createServer((request, response) => {
  const [, command, number] = request.url.split('/');
  if (command === 'publish') io.emit('tick', Number(number));
  response.end(JSON.stringify(io.of('/').sockets.size));
});
const io = new Server(http, JSON.parse(options));

const handle = (socket, event, answer) =>
  socket.on(event, (value, acknowledge) => {
    appendFileSync(ledger, `${JSON.stringify({ event, value })}\n`);
    acknowledge?.(answer(value));
  });

for (const namespace of [io, io.of('/private')]) {
  namespace.on('connection', (socket) => {
    handle(socket, 'echo', (value) => `got ${value}`);
    handle(socket, 'do', (value) => ({ done: value }));
  });
}
io.of('/private').use((socket, next) => next(socket.handshake.auth.token === 't' ? undefined : new Error('wrong token')));

http.listen(Number(port), '127.0.0.1');
