/**
 * Writes the made runs and their labels to a directory, to score them:
 *
 *     node --conditions=@outlast/source packages/agent/test/guard/writeTraces.ts DIR
 *     npm run outlast -- guard --score DIR
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { madeTraces } from "./madeTraces.ts"

const [, , directory = "made"] = process.argv
mkdirSync(directory, { recursive: true })
const labels = madeTraces.map(({ kind, stopFrom, calls }, index) => {
  const file = `${kind.replaceAll(/\W+/g, "-")}-${index}.jsonl`
  writeFileSync(`${directory}/${file}`, calls.map((call) => JSON.stringify(call)).join("\n"))
  return stopFrom === undefined ? { file, label: "ok" } : { file, label: "stop", stopFrom }
})
writeFileSync(`${directory}/labels.json`, JSON.stringify(labels))
