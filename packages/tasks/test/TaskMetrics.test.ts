import { assert, it } from "@effect/vitest"
import { Effect, Layer, Metric, Option } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { ResilienceEvents } from "@outlast/resilience"
import { TaskMetrics, Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents
const params = { item: "a book" }

const is = (id: string, tag: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state._tag === tag)
  )

it.effect("counts tasks that were submitted, began, restarted, were in doubt and ended, without ids", () => {
  const own = Agents.world()
  let isSlow = true
  const before = Effect.suspend(() =>
    own.looked.length > 0 && isSlow ? Effect.sleep("1 hour") : Effect.void
  )
  const fails = (_: number, asked: number) => (asked === 1 ? Agents.network : undefined)
  return Effect.gen(function* () {
    const { cancel, decide, resume } = yield* Tasks.Tasks
    const id = yield* Buy.submit({ params, key: "1" })
    yield* Buy.submit({ params, key: "1" })
    yield* until(is(id, "InDoubt"))
    isSlow = false
    yield* decide(id, { _tag: "DidNot" })
    yield* inTime(Buy.result(id))
    // One that is cancelled before it begins, and then resumed.
    const other = yield* Buy.submit({ params, key: "2" })
    yield* cancel(other, "ada")
    yield* resume(other)
    yield* inTime(Buy.result(other))
    const text = yield* PrometheusMetrics.format()
    const lines = text.split("\n").filter((line) => /^outlast_tasks?_/.test(line))
    assert.deepStrictEqual(lines.toSorted(), [
      'outlast_task_restarts_total{agent="buy",reason="Network"} 1',
      'outlast_tasks_ended_total{agent="buy",state="Cancelled"} 1',
      'outlast_tasks_ended_total{agent="buy",state="Done"} 2',
      'outlast_tasks_in_doubt_total{agent="buy"} 1',
      'outlast_tasks_started_total{agent="buy"} 2',
      'outlast_tasks_submitted_total{agent="buy"} 2'
    ])
  }).pipe(
    Effect.provide(
      Agents.buying.pipe(
        Layer.provide([Agents.model(own, fails), Agents.handlers(own, before)]),
        Layer.provideMerge(Tasks.layerMemory()),
        Layer.provideMerge(TaskMetrics.layer()),
        Layer.provideMerge(ResilienceEvents.layer()),
        Layer.provideMerge(Layer.succeed(Metric.MetricRegistry, new Map()))
      )
    )
  )
})
