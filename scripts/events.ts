/**
 * Writes `docs/events.md`: every event and every metric, from the definitions of the events. With `--check` it fails where
 * the file is not what the definitions give.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { EventLine } from "@outlast/agent"
import type { EventDefinition } from "@outlast/resilience"
import { Metrics } from "@outlast/resilience"

const file = join(import.meta.dirname, "..", "docs", "events.md")
const definitions = Object.entries<EventDefinition.EventDefinition<never>>(EventLine.definitions).toSorted(
  ([a], [b]) => (a < b ? -1 : 1)
)

interface Row {
  readonly kind: string
  readonly labels: Set<string>
  readonly from: Set<string>
  readonly description: string
}

const rows = new Map<string, Row>()
const add = (
  { id, type, description = "" }: EventDefinition.EventMetric<never>["metric"],
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

const text = `# Events and metrics

Written by \`npm run events\` from the definition of each event.

## Events

Every event has its tag and its time (\`at\`, Unix milliseconds). Events are plain data without keys and prompts. Durations are milliseconds.

${definitions.map(([tag, { doc }]) => `- \`${tag}\`: ${doc}`).join("\n")}

## Metrics

\`Metrics\` of \`@outlast/resilience\` keeps those of retries, circuits, connections and alerts, \`FailoverMetrics\` of \`@outlast/agent\` those of calls. Compactions are counted without a layer. Labels with names of the program have at most 1,000 values each, then \`other\`.

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

if (!process.argv.includes("--check")) writeFileSync(file, text)
else if (readFileSync(file, "utf8") !== text) {
  console.error("docs/events.md is not what the definitions of the events give: run `npm run events`.")
  process.exitCode = 1
}
