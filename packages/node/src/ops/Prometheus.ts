/**
 * The text format of Prometheus (0.0.4), strict: Prometheus drops a whole scrape for one wrong line. Pure.
 *
 * Names are cleaned. A family keeps the type of its first metric, and metrics of another type under the same name are
 * left out. So is the second of two series with the same labels. A counter that may fall is written as a gauge.
 */
import type { Metric } from "effect"

/** A sample without labels, of a metric that is not in Effect's registry. */
export interface Gauge {
  readonly name: string
  readonly help: string
  readonly value: number
  readonly labels?: Readonly<Record<string, string>>
}

export const contentType = "text/plain; version=0.0.4; charset=utf-8"

type Labels = ReadonlyArray<readonly [name: string, value: string]>

interface Family {
  readonly type: "counter" | "gauge" | "histogram" | "summary"
  readonly help: string | undefined
  /** Lines of each series, by its labels. */
  readonly series: Map<string, ReadonlyArray<string>>
}

/** Encodes a snapshot of the metrics, and gauges beside it. */
export const encode = (
  snapshot: ReadonlyArray<Metric.Metric.Snapshot>,
  gauges: ReadonlyArray<Gauge> = []
): string => {
  const families = new Map<string, Family>()
  const add = (
    id: string,
    type: Family["type"],
    help: string | undefined,
    labels: Labels,
    linesOf: (name: string) => ReadonlyArray<string>
  ): void => {
    const name = nameOf(id)
    let family = families.get(name)
    if (family === undefined) families.set(name, (family = { type, help, series: new Map() }))
    const key = labelsText(labels)
    if (family.type === type && !family.series.has(key)) family.series.set(key, linesOf(name))
  }
  for (const { name, help, value, labels = {} } of gauges) {
    const own = labelsOf(labels)
    add(name, "gauge", help, own, (name) => [line(name, own, value)])
  }
  for (const metric of snapshot) {
    const labels = labelsOf(metric.attributes ?? {})
    add(metric.id, typeOf(metric), metric.description, labels, (name) => linesOf(name, labels, metric))
  }
  let text = ""
  for (const [name, { type, help, series }] of families) {
    // `promtool check metrics` fails without a help text. A metric without one gets the words of its name.
    text += `# HELP ${name} ${escapeHelp(help === undefined || help === "" ? name.replaceAll("_", " ") : help)}\n`
    text += `# TYPE ${name} ${type}\n`
    for (const lines of series.values()) for (const line of lines) text += `${line}\n`
  }
  return text
}

const typeOf = (metric: Metric.Metric.Snapshot): Family["type"] => {
  switch (metric.type) {
    case "Counter":
      return metric.state.incremental ? "counter" : "gauge"
    case "Frequency":
      return "counter"
    case "Gauge":
      return "gauge"
    case "Histogram":
      return "histogram"
    case "Summary":
      return "summary"
  }
}

const linesOf = (name: string, labels: Labels, metric: Metric.Metric.Snapshot): ReadonlyArray<string> => {
  switch (metric.type) {
    case "Counter":
      return [line(name, labels, metric.state.count)]
    case "Gauge":
      return [line(name, labels, metric.state.value)]
    case "Frequency":
      return [...metric.state.occurrences].map(([key, count]) =>
        line(name, withLabel(labels, "key", key), count)
      )
    case "Histogram": {
      const { buckets, count, sum } = metric.state
      const finite = buckets.filter(([bound]) => Number.isFinite(bound)).toSorted(([a], [b]) => a - b)
      return [
        ...finite.map(([bound, below]) =>
          line(`${name}_bucket`, withLabel(labels, "le", numberText(bound)), below)
        ),
        line(`${name}_bucket`, withLabel(labels, "le", "+Inf"), count),
        line(`${name}_sum`, labels, sum),
        line(`${name}_count`, labels, count)
      ]
    }
    case "Summary": {
      const { quantiles, count, sum } = metric.state
      return [
        ...quantiles.map(([quantile, value]) =>
          line(name, withLabel(labels, "quantile", numberText(quantile)), value ?? Number.NaN)
        ),
        line(`${name}_sum`, labels, sum),
        line(`${name}_count`, labels, count)
      ]
    }
  }
}

const line = (name: string, labels: Labels, value: number | bigint): string =>
  `${name}${labelsText(labels)} ${numberText(value)}`

const labelsText = (labels: Labels): string =>
  labels.length === 0 ? "" : `{${labels.map(([name, value]) => `${name}="${escapeValue(value)}"`).join(",")}}`

/** Labels in the order of their names. The first of two that are cleaned to the same name stays. */
const labelsOf = (attributes: Readonly<Record<string, string>>): Labels => {
  const found = new Map<string, string>()
  for (const [name, value] of Object.entries(attributes)) {
    if (internal.has(name)) continue
    const clean = labelName(name)
    if (!found.has(clean)) found.set(clean, value)
  }
  return [...found].toSorted(([a], [b]) => (a < b ? -1 : 1))
}

/** Attributes that Effect sets for itself. */
const internal: ReadonlySet<string> = new Set(["unit", "time_unit"])

/** A label of the format replaces one of the program. */
const withLabel = (labels: Labels, name: string, value: string): Labels => [
  ...labels.filter(([other]) => other !== name),
  [name, value]
]

const nameOf = (id: string): string => {
  const clean = id.replaceAll(/[^\w:]/g, "_")
  return /^[a-z_:]/i.test(clean) ? clean : `_${clean}`
}

/** Names with two underscores in front belong to Prometheus. */
const labelName = (name: string): string => {
  const clean = name.replaceAll(/\W/g, "_").replace(/^_+/, "_")
  return /^[a-z_]/i.test(clean) ? clean : `_${clean}`
}

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")

const escapeValue = (text: string): string => escapeHelp(text).replaceAll('"', '\\"')

const numberText = (value: number | bigint): string =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value)
