// Asks the built site's own search, as a browser does: `node search.mjs WORKER INDEX`, with a JSON list of words on stdin.
// Prints an object: the words, and the locations of the first ten results.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

const [worker, index] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
const filter = {
  input: { type: "operator", data: { operator: "and", operands: [] } },
  aggregation: { input: [{ type: "term", data: { field: "tags" } }] },
};
let answer;
const self = { postMessage: (message) => answer(message) };
runInContext(worker, createContext({ self, Intl }));
const ask = (type, data) =>
  new Promise((resolve) => {
    answer = resolve;
    self.onmessage({ data: { type, data: structuredClone(data) } });
  });

const { config, items } = JSON.parse(index);
await ask(0, { config, items });
const found = {};
for (const input of JSON.parse(readFileSync(0, "utf8"))) {
  const { type, data } = await ask(2, { input, filter });
  if (type !== 3) throw new Error(`results expected for ${input}, got a message of type ${type}`);
  found[input] = data.items.map((item) => items[item.id].location);
}
console.log(JSON.stringify(found));
