// npm's http-proxy in front of a port: 502 where the server refuses or drops a request, 504 where it does not answer in time.
// Arguments: the server's port, and the seconds for an answer. Its own port is the first line on stdout. It ends with its stdin.
import http from 'node:http';
import httpProxy from 'http-proxy';

const [port, seconds] = process.argv.slice(2).map(Number);
const proxy = httpProxy.createProxyServer({ target: { host: '127.0.0.1', port }, proxyTimeout: seconds * 1000 });
proxy.on('error', (_error, _request, response) => {
  if (response.headersSent) return response.destroy();
  response.writeHead(Date.now() - response.since < seconds * 1000 ? 502 : 504, { 'Content-Type': 'text/plain' });
  response.end('no answer');
});
// http-proxy by itself leaves a client waiting whose answer was cut
proxy.on('proxyRes', (answer, _, response) => answer.on('close', () => answer.complete || response.destroy()));
const server = http.createServer((request, response) => {
  response.since = Date.now();
  proxy.web(request, response);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
