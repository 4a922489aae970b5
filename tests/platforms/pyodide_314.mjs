// CPython 3.14 of pyodide on this source: every public name loads with deprecations as errors, and a few calls are made.
// node pyodide_314.mjs FOLDER   FOLDER has node_modules/pyodide, and packages/ with the pure packages that the SDK needs.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = resolve(process.argv[2]);
const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const { loadPyodide } = await import(pathToFileURL(join(folder, "node_modules/pyodide/pyodide.mjs")));
const python = await loadPyodide();

const copy = (from, to) => {
  python.FS.mkdirTree(to);
  for (const name of readdirSync(from)) {
    if (name === "__pycache__") continue;
    const path = join(from, name);
    if (statSync(path).isDirectory()) copy(path, `${to}/${name}`);
    else python.FS.writeFile(`${to}/${name}`, readFileSync(path));
  }
};
process.on("uncaughtException", (error) => {
  console.error(String(error.message ?? error.errno));
  process.exit(1);
});
copy(join(root, "resilient_bridge"), "/src/resilient_bridge");
copy(join(folder, "packages"), "/src");
python.FS.writeFile("/src/check.py", readFileSync(join(root, "tests/platforms/check_314.py")));
try {
  console.log(await python.runPythonAsync("import sys; sys.path.insert(0, '/src'); import check; await check.main()"));
} catch (error) {
  console.error(error.message); // not the error: node would print all of pyodide
  process.exit(1);
}
