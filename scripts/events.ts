/**
 * Writes `docs/lookup/events.md` and `docs/lookup/metrics.md`: every event and every metric, from the definitions of the events. With
 * `--check` it fails where a file is not what the definitions give.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Metric } from "effect"
import { EventLine } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
import { DeliveryMetrics } from "@outlast/delivery"
import { GatewayMetrics } from "@outlast/gateway"
import { Host, Supervised } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import type { EventDefinition } from "@outlast/resilience"
import { Metrics, RetryBudget } from "@outlast/resilience"
import { TaskMetrics } from "@outlast/tasks"

const definitions = Object.entries<EventDefinition.EventDefinition<never>>({
  ...EventLine.definitions,
  ...DeliveryMetrics.definitions,
  ...TaskMetrics.definitions,
  ...GatewayMetrics.definitions,
  ...Host.definitions,
  ...Ops.definitions,
  ...Supervised.definitions
}).toSorted(([a], [b]) => (a < b ? -1 : 1))

interface Row {
  readonly kind: string
  readonly labels: Set<string>
  readonly from: Set<string>
  readonly description: string
}

const rows = new Map<string, Row>()
const add = (
  { id, type, description = "" }: Pick<Metric.Metric<number, unknown>, "id" | "type" | "description">,
  labels: ReadonlyArray<string>,
  from: string
) => {
  const row = rows.get(id) ?? { kind: type.toLowerCase(), labels: new Set(), from: new Set(), description }
  rows.set(id, row)
  for (const label of labels) row.labels.add(`\`${label}\``)
  row.from.add(from)
}
add(Metrics.events, ["event"], "every event")
add(Metrics.attemptsPerCall, [], "the end of a call (`Metrics.attemptsOf`)")
add(Inbound.messages, ["outcome"], "`Inbound.accept`")
for (const metric of Object.values(RetryBudget.metrics)) add(metric, [], "`RetryBudget`")
for (const [tag, { metrics }] of definitions)
  for (const { metric, names = {}, words = {} } of metrics)
    add(metric, [...Object.keys(names), ...Object.keys(words)], `\`${tag}\``)

const table = (lines: ReadonlyArray<ReadonlyArray<string>>): string => {
  const [head = []] = lines
  const widths = head.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  const rule = widths.map((width) => "-".repeat(width))
  return [line(head), line(rule), ...lines.slice(1).map(line)].join("\n")
}

const events = `# Events

Written by \`npm run events\` from the definition of each event. [metrics.md](metrics.md) lists the metrics that count them.

Every event has its tag and its time (\`at\`, Unix milliseconds). Events are plain data without keys and prompts. Durations are milliseconds.

${definitions.map(([tag, { doc }]) => `- \`${tag}\`: ${doc}`).join("\n")}
`

const metrics = `# Metrics

Written by \`npm run events\` from the definitions of the events. [telemetry.md](../do/telemetry.md) says how to export them, [alerts.yml](alerts.yml) has alert rules for Prometheus.

\`Outlast.layerMetrics()\` of \`@outlast/agent\` counts those of calls, runs, guards, retries, circuits, connections and alerts, \`DeliveryMetrics.layer()\` those of the outbox, \`TaskMetrics.layer()\` those of durable tasks, \`GatewayMetrics.layer()\` those of a gateway. Compactions, inbound messages, retry budgets, supervised processes and actions of operators are counted without a layer. \`/metrics\` of \`Ops\` adds figures of the process: \`outlast_build_info\`, uptime, memory, and the delay of the event loop. Labels with names of the program have at most 1,000 values each, then \`other\`. No label has an id, a key or an address.

${table([
  ["metric", "kind", "labels", "from", "counts"],
  ...[...rows]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([id, { kind, labels, from, description }]) => [
      `\`${id}\``,
      kind,
      [...labels].join(", "),
      [...from].join(", "),
      description
    ])
])}
`

for (const [name, text] of [
  ["events.md", events],
  ["metrics.md", metrics]
] as const) {
  const file = join(import.meta.dirname, "..", "docs", "lookup", name)
  if (!process.argv.includes("--check")) writeFileSync(file, text)
  else if (readFileSync(file, "utf8") !== text) {
    console.error(
      `docs/lookup/${name} is not what the definitions of the events give: run \`npm run events\`.`
    )
    process.exitCode = 1
  }
}
