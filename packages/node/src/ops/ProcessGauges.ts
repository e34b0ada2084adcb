/** Figures of the process for `/metrics`, under the names that dashboards for Node know. */
import { Effect } from "effect"
import type { Scope } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import type { Gauge } from "./Prometheus.ts"

const nanos = 1_000_000_000

/** Milliseconds between two samples of the event loop. */
const resolution = 20

/** Reads the figures. The delay of the event loop is that since the last read. */
export const make = (info: {
  readonly name: string
  readonly version: string
}): Effect.Effect<() => ReadonlyArray<Gauge>, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const delay = monitorEventLoopDelay({ resolution })
        delay.enable()
        return delay
      }),
      (delay) => Effect.sync(() => delay.disable())
    ),
    (delay) => () => {
      const { heapTotal, heapUsed, rss } = process.memoryUsage()
      // Each sample is the time between two ticks of the timer.
      const seconds = (value: number): number =>
        Number.isFinite(value) ? Math.max(0, value / nanos - resolution / 1_000) : 0
      const gauges: ReadonlyArray<Gauge> = [
        {
          name: "outlast_build_info",
          help: "1, with the versions as labels",
          value: 1,
          labels: { ...info, node: process.versions.node }
        },
        { name: "process_uptime_seconds", help: "Age of the process", value: process.uptime() },
        { name: "process_resident_memory_bytes", help: "Resident memory", value: rss },
        { name: "nodejs_heap_size_used_bytes", help: "Heap in use", value: heapUsed },
        { name: "nodejs_heap_size_total_bytes", help: "Heap that is allocated", value: heapTotal },
        {
          name: "nodejs_eventloop_lag_p50_seconds",
          help: "Median delay of the event loop since the last scrape",
          value: seconds(delay.percentile(50))
        },
        {
          name: "nodejs_eventloop_lag_p99_seconds",
          help: "99th percentile of the delay of the event loop since the last scrape",
          value: seconds(delay.percentile(99))
        },
        {
          name: "nodejs_eventloop_lag_max_seconds",
          help: "Longest delay of the event loop since the last scrape",
          value: seconds(delay.max)
        }
      ]
      delay.reset()
      return gauges
    }
  )
