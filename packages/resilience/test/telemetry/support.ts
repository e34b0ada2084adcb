/** Shared helpers for tests of metrics. */
import { Effect, Metric } from "effect"

/** Returns every series as `id{label=value}`, with its count or value. */
export const series = Effect.map(Metric.snapshot, (snapshot) =>
  Object.fromEntries(
    snapshot.map((metric) => {
      const labels = Object.entries(metric.attributes ?? {})
        .map(([label, value]) => `${label}=${String(value)}`)
        .sort()
        .join(",")
      const state: object = metric.state
      const value = "count" in state ? state.count : "value" in state ? state.value : undefined
      return [labels === "" ? metric.id : `${metric.id}{${labels}}`, value]
    })
  )
)

export const without = (all: Record<string, unknown>, prefix: string) =>
  Object.fromEntries(Object.entries(all).filter(([id]) => !id.startsWith(prefix)))
