// A second bridge, written from the ReCursor page alone and sharing nothing with the Python one: what both accept
// is the protocol, and not one author's reading of it. Its replay buffer is the page's with the two bugs fixed
// (the size is measured again while trimming, `since` is inclusive). Its port is the first line on stdout.
// Commands on stdin, one a line, each answered by one line of JSON:
//   push N | cut [abort|CODE] | restart-sessions | expire | received
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { WebSocketServer } from 'ws';

const GRACE_MS = 5 * 60 * 1000;
const DEDUPE_MS = 5 * 60 * 1000;
const MAX_SIZE = 100 * 1024;
const MAX_AGE_MS = 30 * 60 * 1000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

let serverId = randomUUID();
let sessions = new Map(); // id -> { id, ws, buffer, timer }
let processed = new Map(); // idempotency key -> { at, answer }
let latest = null;
let count = 0;
const received = [];

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const envelope = (type, payload, id) => ({ type, ...(id && { id }), timestamp: new Date().toISOString(), payload });
const send = (ws, message) => ws?.readyState === 1 && ws.send(JSON.stringify(message));
const fail = (ws, id, code, message, more) => send(ws, envelope('error', { code, message, ...more }, id));
const refuse = (ws, id, wrong) => fail(ws, id, 'PROTO_INVALID_MESSAGE', 'Message validation failed', { violations: wrong });

function remember(session, message) {
  const now = Date.now();
  session.buffer.push({ message, size: Buffer.byteLength(JSON.stringify(message)) + 1, at: now });
  const size = () => session.buffer.reduce((sum, entry) => sum + entry.size, 0);
  while (session.buffer.length && (size() > MAX_SIZE || now - session.buffer[0].at > MAX_AGE_MS)) session.buffer.shift();
}

function getReplay(session, since) {
  const fresh = session.buffer.filter((entry) => Date.now() - entry.at <= MAX_AGE_MS).map((entry) => entry.message);
  return since ? fresh.filter((message) => new Date(message.timestamp) >= new Date(since)) : fresh;
}

const emit = (session, message) => { remember(session, message); send(session.ws, message); };

function close(session) {
  clearTimeout(session.timer);
  if (sessions.get(session.id) === session) sessions.delete(session.id);
  session.ws?.close(4404, 'session expired');
}

function violations(m) {
  const wrong = [];
  const check = (field, constraint, ok) => ok || wrong.push({ field, constraint, received: m?.[field] ?? null });
  check('type', m.type ? 'matches' : 'required', typeof m.type === 'string' && /^[a-z_]+$/.test(m.type));
  const beat = m.id === undefined && m.type === 'heartbeat_ping';
  check('id', m.id === undefined ? 'required' : 'uuid', beat || (typeof m.id === 'string' && UUID.test(m.id)));
  check('timestamp', m.timestamp === undefined ? 'required' : 'iso8601', typeof m.timestamp === 'string' && ISO.test(m.timestamp));
  check('payload', m.payload === undefined ? 'required' : 'object', isObject(m.payload));
  return wrong;
}

function join(ws, state, { id, payload }) {
  const name = payload.session_id;
  if (typeof name !== 'string' || !name) return refuse(ws, id, [{ field: 'payload.session_id', constraint: 'required', received: name ?? null }]);
  const known = sessions.get(name);
  const suggestions = ['Check session ID spelling', 'Session may have expired'];
  if (payload.resume && !known) return fail(ws, id, 'SESS_NOT_FOUND', `Session '${name}' not found`, { suggestions });
  const session = known ?? { id: name, ws: null, buffer: [], timer: null };
  sessions.set(name, session);
  clearTimeout(session.timer);
  const old = session.ws;
  Object.assign(session, { ws, timer: null });
  Object.assign(state, { session, phase: 'joined' });
  latest = session;
  if (old && old !== ws) old.close(4409, 'superseded');
  send(ws, envelope('session_joined', { session_id: name }, id));
  if (known && session.buffer.length) send(ws, { type: 'replay_buffer', payload: { messages: getReplay(session) } });
}

function apply(ws, { session }, message) {
  const { id, type, payload } = message;
  if (sessions.get(session.id) !== session) return fail(ws, id, 'SESS_NOT_FOUND', `Session '${session.id}' not found`);
  const ack = (status) => send(ws, envelope('message_ack', { message_id: id, status }, randomUUID()));
  const key = payload.idempotency_key;
  const before = key && processed.get(key);
  if (before && Date.now() - before.at <= DEDUPE_MS) {
    ack('already_processed');
    return send(ws, before.answer);
  }
  received.push(message);
  const answer = type.endsWith('_request') ? envelope(type.replace(/request$/, 'response'), payload, id) : undefined;
  if (key) processed.set(key, { at: Date.now(), answer });
  ack('applied');
  if (answer) emit(session, answer);
}

const EXPECTED = {
  connected: { auth: (ws, state, { id }) => {
    state.phase = 'authenticated';
    send(ws, envelope('connection_ack', { server_id: serverId, active_sessions: [...sessions.keys()], dedupes: true }, id));
  } },
  authenticated: { session_join: join, heartbeat_ping: (ws) => send(ws, envelope('heartbeat_pong', {})) },
};
EXPECTED.joined = { ...EXPECTED.authenticated, request_replay: (ws, { session }, { id, payload }) =>
  send(ws, envelope('replay_buffer', { messages: getReplay(session, payload.since) }, id)) };

function onMessage(ws, state, data) {
  let message;
  try { message = JSON.parse(data); } catch { message = null; }
  if (!isObject(message)) message = { type: '' };
  const wrong = violations(message);
  if (wrong.length) return refuse(ws, message.id, wrong);
  const expected = EXPECTED[state.phase];
  const handle = Object.hasOwn(expected, message.type) ? expected[message.type] : state.phase === 'joined' && message.type !== 'auth' && apply;
  if (handle) return handle(ws, state, message);
  const details = { expected: Object.keys(expected), received: message.type, current_phase: state.phase };
  fail(ws, message.id, 'PROTO_SEQUENCE_ERROR', 'Message out of sequence', details);
}

const server = new WebSocketServer({ host: '127.0.0.1', port: 0 }, () => console.log(server.address().port));
server.on('connection', (ws) => {
  const state = { phase: 'connected', session: null };
  ws.on('message', (data) => onMessage(ws, state, data));
  ws.on('error', () => {}); // a broken frame ends in `close`, which is all that matters here
  ws.on('close', () => {
    const { session } = state;
    if (session?.ws !== ws) return; // superseded
    session.ws = null;
    session.timer = setTimeout(close, GRACE_MS, session);
  });
});

const COMMANDS = {
  push: (n) => ({ pushed: Array.from({ length: Number(n) }, () => {
    const idless = count % 2 === 1; // every second message is a stream chunk, which has no id
    const message = envelope(idless ? 'stream_chunk' : 'tool_call', { n: count++ }, idless ? null : randomUUID());
    emit(latest, message);
    return message;
  }) }),
  cut: (how = 'abort') => {
    for (const ws of server.clients) {
      if (how === 'abort') ws._socket.resetAndDestroy();
      else ws.close(Number(how), 'cut');
    }
  },
  'restart-sessions': () => {
    for (const session of sessions.values()) clearTimeout(session.timer);
    [serverId, sessions, processed] = [randomUUID(), new Map(), new Map()];
    for (const ws of server.clients) ws.close(1012, 'service restart');
  },
  expire: () => [...sessions.values()].forEach(close),
  received: () => ({ received }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const [name, argument] = line.trim().split(/\s+/);
  console.log(JSON.stringify({ done: name, ...COMMANDS[name]?.(argument) }));
}).on('close', () => process.exit(0));
