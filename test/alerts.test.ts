/** `docs/lookup/alerts.yml` and `docs/lookup/metrics.md` against the metrics that the definitions really update. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { Yaml } from "effect/encoding"
import { PrometheusMetrics } from "effect/observability"
import { execFileSync, spawnSync } from "node:child_process"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { EventLine } from "@outlast/agent"
import { Inbound } from "@outlast/agent/guard"
import { DeliveryMetrics } from "@outlast/delivery"
import { GatewayMetrics } from "@outlast/gateway"
import { TaskMetrics } from "@outlast/tasks"
import { Supervised } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import type { EventDefinition } from "@outlast/resilience"
import { Metrics, RetryBudget } from "@outlast/resilience"

const root = join(import.meta.dirname, "..")
const file = join(root, "docs", "lookup", "alerts.yml")

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly description: string }
}

const { groups } = Yaml.parse(readFileSync(file, "utf8")) as {
  readonly groups: ReadonlyArray<{ readonly name: string; readonly rules: ReadonlyArray<Rule> }>
}
const rules = groups.flatMap(({ rules }) => rules)

/** Metrics with the labels that their definitions set. */
const known = new Map<
  string,
  { readonly metric: Metric.Metric<number, unknown>; readonly labels: Set<string> }
>()
const add = (metric: Metric.Metric<number, unknown>, labels: ReadonlyArray<string>) => {
  const entry = known.get(metric.id) ?? { metric, labels: new Set() }
  known.set(metric.id, entry)
  for (const label of labels) entry.labels.add(label)
}
for (const { metrics } of Object.values<EventDefinition.EventDefinition<never>>({
  ...EventLine.definitions,
  ...DeliveryMetrics.definitions,
  ...TaskMetrics.definitions,
  ...GatewayMetrics.definitions,
  ...Supervised.definitions,
  ...Ops.definitions
})) {
  for (const { metric, names = {}, words = {} } of metrics) {
    add(metric, [...Object.keys(names), ...Object.keys(words)])
  }
}
add(Metrics.events, ["event"])
add(Metrics.attemptsPerCall, [])
add(Inbound.messages, ["outcome"])
for (const metric of Object.values(RetryBudget.metrics)) add(metric, [])

/** The samples that Prometheus reads, with their labels. */
const samples = Effect.gen(function* () {
  for (const { metric, labels } of known.values()) {
    const attributes = Object.fromEntries([...labels].map((label) => [label, "x"]))
    yield* Metric.update(Metric.withAttributes(metric, attributes), 1)
  }
  const text = yield* PrometheusMetrics.format()
  const found = new Map<string, Set<string>>()
  for (const [, name = "", inner = ""] of text.matchAll(/^(\w+)(?:\{(.*)\})? /gm)) {
    const labels = [...inner.matchAll(/(\w+)="/g)].map(([, label = ""]) => label)
    found.set(name, new Set([...(found.get(name) ?? []), ...labels]))
  }
  return found
}).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

describe("docs/lookup/alerts.yml", () => {
  it("names each alert once, with a severity, a summary and a description", () => {
    assert.isAbove(rules.length, 10)
    assert.strictEqual(new Set(rules.map(({ alert }) => alert)).size, rules.length)
    for (const { alert, labels, annotations } of rules) {
      assert.match(alert, /^Outlast[A-Z]\w+$/)
      assert.include(["info", "warning", "critical"], labels.severity, alert)
      assert.isNotEmpty(annotations.summary, alert)
      assert.isNotEmpty(annotations.description, alert)
    }
  })

  it.effect("reads only samples that exist, by labels that they have", () =>
    Effect.gen(function* () {
      const found = yield* samples
      for (const { alert, expr, annotations } of rules) {
        const names = [...expr.matchAll(/outlast_\w+/g)].map(([name]) => name)
        assert.isNotEmpty(names, alert)
        const labels = new Set<string>()
        for (const name of names) {
          const own = found.get(name)
          assert.isDefined(own, `${alert}: ${name} is no sample`)
          for (const label of own ?? []) labels.add(label)
        }
        const matched = [...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, inner = ""]) =>
          [...inner.matchAll(/(\w+)(?:=~|!=|!~|=)"/g)].map(([, label = ""]) => label)
        )
        const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, inner = ""]) => inner.split(/, ?/))
        const shown = [...JSON.stringify(annotations).matchAll(/\$labels\.(\w+)/g)].map(
          ([, label = ""]) => label
        )
        for (const label of [...matched, ...grouped, ...shown]) {
          assert.isTrue(labels.has(label), `${alert}: no label ${label}`)
        }
        // An aggregation keeps only the labels that it groups by.
        if (grouped.length > 0) for (const label of shown) assert.include(grouped, label, alert)
      }
    })
  )

  it("matches only words that the definitions can set", () => {
    const tags = new Set(Object.keys(EventLine.definitions))
    for (const [, event = ""] of readFileSync(file, "utf8").matchAll(/event="(\w+)"/g)) {
      assert.isTrue(tags.has(event), event)
    }
  })

  // A tool of Prometheus, which few machines have. The tests above do not need it.
  if (spawnSync("promtool", ["--version"]).error === undefined) {
    it("passes promtool", () => {
      execFileSync("promtool", ["check", "rules", file], { stdio: "pipe" })
    })
  }
})

describe("docs/lookup/metrics.md", () => {
  it("lists every metric that the sources name", () => {
    const documented = new Set(
      [...readFileSync(join(root, "docs", "lookup", "metrics.md"), "utf8").matchAll(/^\| `(\w+)`/gm)].map(
        ([, name = ""]) => name
      )
    )
    assert.deepStrictEqual([...documented].toSorted(), [...known.keys()].toSorted())
    for (const source of globSync("packages/*/src/**/*.ts", { cwd: root })) {
      const text = readFileSync(join(root, source), "utf8")
      // Either `"outlast_…"`, or a name that is completed by a prefix.
      for (const [, name = ""] of text.matchAll(/(?:counter|gauge|histogram)\(\s*"outlast_(\w+)"/g)) {
        assert.isTrue(documented.has(`outlast_${name}`), `${source}: ${name}; add it to scripts/events.ts`)
      }
    }
  })

  it.effect("names counters that only grow `_total`, and no other metric", () =>
    Effect.gen(function* () {
      for (const { metric } of known.values()) yield* Metric.update(metric, 1)
      const text = yield* PrometheusMetrics.format()
      for (const { metric } of known.values()) {
        assert.strictEqual(metric.id.endsWith("_total"), metric.type === "Counter", metric.id)
        // Prometheus gets a counter that may fall as a gauge.
        const type = metric.type.toLowerCase()
        assert.include(text, `# TYPE ${metric.id} ${type}\n`)
      }
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it("has no label for ids, keys, addresses and texts", () => {
    const allowed = new Set(
      "action agent alert circuit connection event from kind model name outcome pattern process provider reason route scope source state tier to transition verdict wire".split(
        " "
      )
    )
    for (const { metric, labels } of known.values()) {
      for (const label of labels) assert.isTrue(allowed.has(label), `${metric.id}: ${label}`)
    }
  })
})
