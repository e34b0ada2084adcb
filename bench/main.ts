/** `npm run bench -- <name> [--json | --check | --update]` */
import { agentLoop } from "./agent.ts"
import { breaker } from "./breaker.ts"
import { classifier } from "./classifier.ts"
import { compaction } from "./compaction.ts"
import { delivery } from "./delivery.ts"
import { durable } from "./durable.ts"
import { failover } from "./failover.ts"
import { compare, update } from "./figures.ts"
import { gateway } from "./gateway.ts"
import { guard } from "./guard.ts"
import { http } from "./http.ts"
import { imports } from "./import.ts"
import type { Report, Row } from "./measure.ts"
import { machine, printed, rowsInto } from "./measure.ts"
import { ops } from "./ops.ts"
import { sqlite } from "./sqlite.ts"
import { tasks } from "./tasks.ts"
import { streamFilter } from "./streamFilter.ts"

interface Bench {
  readonly what: string
  readonly run: (report: Report) => Promise<void>
  /** Rows that are too short or too few for a ratio that can be compared. */
  readonly untracked?: RegExp | undefined
}

const benches: Readonly<Record<string, Bench>> = {
  agent: { what: "a turn of the agent loop, beside a loop by hand", run: agentLoop },
  breaker: { what: "circuit breakers: ours, Effect's own, cockatiel, opossum", run: breaker },
  classifier: {
    what: "errors of the corpus, and hostile ones of up to 1 MB",
    run: classifier,
    untracked: /^Hostile/
  },
  compaction: { what: "tier 1 on 10,000 messages, beside LangChain and the AI SDK", run: compaction },
  delivery: { what: "the outbox, beside raw JetStream and raw appends with fsync", run: delivery },
  durable: { what: "durable runs on PostgreSQL and SQLite, beside DBOS", run: durable },
  failover: { what: "a model without I/O, raw and behind Failover.layer", run: failover },
  gateway: {
    what: "the gateway beside proxies and gateways of others: CPU, first word, memory",
    run: gateway
  },
  http: { what: "calls over HTTP, beside the AI SDK, and a gateway beside Portkey's", run: http },
  guard: { what: "the loop detector: asked before a tool call, told after it", run: guard },
  import: { what: "importing @outlast/agent in a new process, beside effect/ai", run: imports },
  ops: { what: "what the endpoints cost calls over HTTP, with ten readers of events", run: ops },
  sqlite: { what: "SQLite in a worker thread: the event loop, and groups of inserts", run: sqlite },
  "stream-filter": {
    what: "a stream of events, as it is and ended at its last event",
    run: streamFilter,
    untracked: /16 in a chunk/
  },
  tasks: { what: "a turn of a durable task, beside the raw workflow engine", run: tasks }
}

const usage = [
  "Usage: npm run bench -- <name> [--json | --check | --update]",
  "",
  ...Object.entries(benches).map(([name, { what }]) => `  ${name.padEnd(15)}${what}`),
  "",
  '--json prints one object: { "machine", "rows": [{ "name", "ns", "ratio", "spread" }] }',
  "--check compares the ratios with bench/figures.json, and fails where one is more than 15 % above; --update tracks them"
].join("\n")

const modes = ["--json", "--check", "--update"]
const args = process.argv.slice(2)
const [mode, secondMode] = args.filter((arg) => modes.includes(arg))
const [name, ...rest] = args.filter((arg) => !modes.includes(arg))
const bench = name !== undefined && Object.hasOwn(benches, name) ? benches[name] : undefined
if (name === undefined && mode === undefined) {
  console.log(usage)
} else if (name === undefined || bench === undefined || rest.length > 0 || secondMode !== undefined) {
  const extra = secondMode === undefined ? rest : [...rest, secondMode]
  const problem =
    name === undefined
      ? "Which bench?"
      : bench === undefined
        ? `There is no bench named "${name}".`
        : `"${extra.join(" ")}" is too much.`
  console.error(`${problem}\n\n${usage}`)
  process.exitCode = 2
} else if (mode === undefined) {
  await bench.run(printed)
} else {
  const rows: Array<Row> = []
  await bench.run(rowsInto(rows))
  if (mode === "--json") console.log(JSON.stringify({ machine: machine(), rows }))
  else if (mode === "--update") update(name, rows, bench.untracked)
  else {
    const { lines, isSlower } = compare(name, rows, bench.untracked)
    console.log(lines.length === 0 ? "No ratio moved by more than 15 %." : lines.join("\n"))
    if (isSlower) process.exitCode = 1
  }
}
