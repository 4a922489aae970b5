// A bridge that behaves as ReCursor's own does today (its development branch), and not as its page says: no session join, no
// replay by request, no acknowledgement. It shares no line with the package.
//   * `auth` is answered by `connection_ack`, and then the whole queue (the last 1,000 events) is pushed as if it were live.
//   * A wrong token is `connection_error {code: AUTH_FAILED}`, plain ws:// (with `plain refuse`) `INSECURE_TRANSPORT`; both leave
//     the socket open.
//   * A type that it does not know is `error {code: PROTO_INVALID_MESSAGE, request_type}` under a fresh id.
//   * `message` is read and not answered; `git_status_request`, `session_start` and `health_check` are answered with their id.
// Its port is the first line on stdout. Commands on stdin, one a line, each answered by one line of JSON:
//   push N | cut [abort|CODE] | token T | plain allow|refuse | received | stats
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { WebSocketServer } from 'ws';

const QUEUED = 1000;
let token = 't';
let refusesPlain = false;
let count = 0;
let queue = [];
const received = [];
const stats = { connections: 0, auths: 0, types: {} };
const clients = new Map(); // socket -> is it authenticated?

const envelope = (type, payload, id = randomUUID()) => ({ type, id, timestamp: new Date().toISOString(), payload });
const send = (ws, message) => ws.readyState === 1 && ws.send(JSON.stringify(message));
const error = (ws, code, message, requestType) =>
  send(ws, envelope('error', { code, message, ...(requestType && { request_type: requestType }) }));

function enqueue(message) {
  queue.push(message);
  if (queue.length > QUEUED) queue = queue.slice(-QUEUED);
  for (const [ws, isAuthenticated] of clients) if (isAuthenticated) send(ws, message);
}

function authenticate(ws, message) {
  stats.auths += 1;
  if (refusesPlain) {
    send(ws, envelope('connection_error', {
      code: 'INSECURE_TRANSPORT', message: 'Bridge requires a TLS connection',
      remediation: 'Connect with wss://', documentation_url: 'https://docs.example/bridge-tls',
    }));
  } else if (message.payload?.token !== token) {
    send(ws, envelope('connection_error', { code: 'AUTH_FAILED', message: 'Invalid or expired token' }));
  } else {
    clients.set(ws, true);
    send(ws, envelope('connection_ack', { server_version: '1.0.0', active_sessions: [], requires_health_verification: true }));
    for (const event of queue) send(ws, event);
  }
}

function read(ws, raw) {
  let message;
  try { message = JSON.parse(raw); } catch { return error(ws, 'PROTO_INVALID_MESSAGE', 'Invalid JSON'); }
  stats.types[message.type] = (stats.types[message.type] ?? 0) + 1;
  if (message.type === 'auth') return authenticate(ws, message);
  if (message.type === 'heartbeat_ping') return send(ws, { type: 'heartbeat_pong', timestamp: new Date().toISOString(), payload: {} });
  if (!clients.get(ws)) return error(ws, 'NOT_AUTHENTICATED', 'Authenticate first', message.type);
  switch (message.type) {
    case 'message': received.push(message); return;
    case 'session_start': return send(ws, envelope('session_ready', { session_id: 's1' }, message.id));
    case 'git_status_request': return send(ws, envelope('git_status_response', { branch: 'main' }, message.id));
    case 'file_read': return error(ws, 'FILE_ACCESS_DENIED', 'Outside of the project', 'file_read');
    default: return error(ws, 'PROTO_INVALID_MESSAGE', `Unknown message type: ${message.type}`, message.type);
  }
}

const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
server.on('connection', (ws) => {
  stats.connections += 1;
  clients.set(ws, false);
  ws.on('message', (raw) => read(ws, raw.toString()));
  ws.on('close', () => clients.delete(ws));
  ws.on('error', () => {});
});
server.on('listening', () => console.log(server.address().port));

const commands = {
  push(n) {
    const pushed = [];
    for (let i = 0; i < Number(n); i += 1) {
      const message = envelope('claude_event', { i: (count += 1) });
      pushed.push(message.payload.i);
      enqueue(message);
    }
    return { pushed };
  },
  cut(how = 'abort') {
    for (const ws of clients.keys()) how === 'abort' ? ws.terminate() : ws.close(Number(how), 'scripted');
    return {};
  },
  token(value) { token = value; return {}; },
  plain(word) { refusesPlain = word === 'refuse'; return {}; },
  received: () => ({ received }),
  stats: () => stats,
};
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const [name, ...words] = line.split(' ');
  console.log(JSON.stringify(commands[name](...words)));
});
lines.on('close', () => process.exit(0));
