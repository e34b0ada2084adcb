/** `docs/lookup/dashboard.json` for Grafana, against what a program really exports. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import type { CircuitEvent } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import * as World from "./World.ts"

const lookup = join(import.meta.dirname, "..", "..", "docs", "lookup")

interface Panel {
  readonly id: number
  readonly title: string
  readonly description: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
}

const { panels }: { readonly panels: ReadonlyArray<Panel> } = JSON.parse(
  readFileSync(join(lookup, "dashboard.json"), "utf8")
)

/** Metrics of other parts, which this program does not have. */
const elsewhere = /^outlast_(outbox|dead_letters|guard|tasks|retry_budget|headline|hedges)/

/** A key is refused, and another target fails once: the call waits before it asks again. */
const plan: FaultPlan.FaultPlan = {
  answers: () => ({ text: "The Nile." }),
  faults: [
    { when: { key: "secret-of-revoked" }, times: "always", fault: { type: "status", status: 401 } },
    { when: { key: "secret-of-busy" }, times: 1, fault: { type: "status", status: 500 } }
  ]
}

/** Samples of a scrape, with their labels. `job` is Prometheus' own. */
const samplesOf = (text: string) => {
  const found = new Map<string, Set<string>>()
  for (const [, name = "", inner = ""] of text.matchAll(/^(\w+)(?:\{(.*)\})? /gm)) {
    const labels = [...inner.matchAll(/(\w+)="/g)].map(([, label = ""]) => label)
    found.set(name, new Set([...(found.get(name) ?? ["job"]), ...labels]))
  }
  return found
}

describe("docs/lookup/dashboard.json", () => {
  it("has panels with a name and a description, which do not overlap", () => {
    assert.isAbove(panels.length, 10)
    assert.strictEqual(new Set(panels.map(({ id }) => id)).size, panels.length)
    for (const one of panels) {
      assert.isNotEmpty(one.title)
      assert.isNotEmpty(one.description, one.title)
      assert.isAtMost(one.gridPos.x + one.gridPos.w, 24, one.title)
      for (const other of panels) {
        if (other === one) continue
        const [a, b] = [one.gridPos, other.gridPos]
        const isApart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y
        assert.isTrue(isApart, `${one.title} and ${other.title}`)
      }
    }
  })

  it.live("asks only for samples of a real scrape, by labels that they have", () =>
    Effect.gen(function* () {
      yield* Effect.all([World.call, World.stream, World.stream])
      yield* ResilienceEvents.publishNow<CircuitEvent.CircuitTransition>({
        _tag: "CircuitTransition",
        circuit: "search",
        from: "closed",
        to: "open",
        generation: 1,
        openFor: 30_000
      })
      const { metrics } = yield* Ops.Ops
      const text = yield* Effect.promise(() =>
        fetch(`http://127.0.0.1:${metrics}/metrics`).then((response) => response.text())
      )
      const found = samplesOf(text)
      const documented = readFileSync(join(lookup, "metrics.md"), "utf8")
      for (const { targets, title } of panels) {
        for (const { expr, legendFormat } of targets) {
          for (const [open, close] of ["()", "{}", "[]"]) {
            assert.strictEqual(expr.split(open ?? "").length, expr.split(close ?? "").length, expr)
          }
          const names = [...expr.matchAll(/outlast_\w+/g)].map(([name]) => name)
          assert.isNotEmpty(names, title)
          const labels = new Set<string>()
          for (const name of names) {
            if (elsewhere.test(name)) assert.include(documented, `\`${name}\``, title)
            else assert.isTrue(found.has(name), `${title}: ${name} is no sample`)
            for (const label of found.get(name) ?? ["job", "reason"]) labels.add(label)
          }
          const matched = [...expr.matchAll(/(\w+)(?:=~|!=|!~|=)"/g)].map(([, label = ""]) => label)
          const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, inner = ""]) => inner.split(", "))
          const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label)
          for (const label of [...matched, ...grouped])
            assert.isTrue(labels.has(label), `${title}: no label ${label}`)
          // An aggregation keeps only the labels that it groups by.
          for (const label of shown) assert.include(grouped, label, title)
        }
      }
    }).pipe(Effect.scoped, Effect.provide(World.layer({ metrics: { port: 0 }, page: false }, plan)))
  )
})
