/** Waits for the restart of a task whose model is gone. A wait above a minute suspends the task. */
import { Clock, Effect, Random, Schema } from "effect"
import type { AgentFailed } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import * as Restart from "../restart/Restart.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { TaskState } from "../state/TaskState.ts"
import type { Execution } from "./Execution.ts"
import type { Wake } from "../workflow/TaskWorkflow.ts"
import { wakeJson } from "../workflow/TaskWorkflow.ts"

/** Waits up to this many milliseconds stay in memory. */
const inMemory = 60_000

const drawJson = Schema.fromJsonString(Schema.Struct({ restart: Schema.Finite, wait: Schema.Finite }))

const begunJson = Schema.fromJsonString(
  Schema.Union([
    Schema.TaggedStruct("Until", { until: Schema.Finite }),
    /** Too many tasks wait for a restart. */
    Schema.TaggedStruct("Full", {})
  ])
)

export class Restarting {
  readonly #execution: Execution
  #count = 0

  constructor(execution: Execution) {
    this.#execution = execution
  }

  /** Restarts of this generation so far. */
  get count(): number {
    return this.#count
  }

  /** Waits for a restart. `no`: the failure ends the task. */
  after(reason: AgentFailed.Reason, turn: number): Effect.Effect<"no" | "again" | "cancelled"> {
    const { recorded, control, definition, row, running, woken, worker } = this.#execution
    return Effect.gen({ self: this }, function* () {
      const restarts = this.#count
      const { max } = definition.restarts
      if (restarts >= max || !Restart.mayPass(reason)) return "no"
      const restart = restarts + 1
      // The draw is stored: a replay waits until the same time.
      const { wait } = yield* recorded(
        `restart/${restart}/draw`,
        drawJson,
        Effect.map(Random.next, (draw) => {
          const decision = Restart.decide(definition.restarts, restarts, reason, draw)
          return { restart, wait: decision._tag === "Restart" ? decision.wait : 0 }
        })
      )
      const name = `restart/${restart}`
      const begun = yield* recorded(
        name,
        begunJson,
        Effect.gen(function* () {
          control.silent()
          control.restarts = restart
          const at = yield* Clock.currentTimeMillis
          const until = at + wait
          const why = Restart.kindOf(reason)
          const state: TaskState = { _tag: "WaitingUntil", until, restart, of: max, reason: why }
          const { task } = row
          const asked = { ...control.run, name, state, at, dueAt: until, restarts: restart }
          if (!(yield* worker.store.waitForRestart(asked, worker.maxRestarting))) {
            return { _tag: "Full" } as const
          }
          yield* ResilienceEvents.publishNow<TaskEvent>({
            _tag: "TaskRestarting",
            task,
            restart,
            reason: why,
            delay: wait
          })
          return { _tag: "Until", until } as const
        })
      )
      if (begun._tag === "Full") return "no"
      this.#count = restart
      control.restarts = restart
      const wake = yield* wait > inMemory ? woken(name) : this.#asleep(name, begun.until)
      yield* running(turn)
      return wake._tag === "Cancelled" ? "cancelled" : "again"
    })
  }

  /** Sleeps outside of a step: a worker that stops parks the task at once, and the row keeps the time. */
  #asleep(name: string, until: number): Effect.Effect<Wake> {
    const { recorded, control, row, worker } = this.#execution
    return Effect.gen(function* () {
      const left = Math.max(0, until - (yield* Clock.currentTimeMillis))
      yield* Effect.raceAll([Effect.sleep(left), control.cancelled, worker.draining])
      return yield* recorded(
        `${name}/sleep`,
        wakeJson,
        Effect.gen(function* () {
          yield* worker.store.woken(row.id, row.generation, name)
          return control.cancelBy === undefined ? { _tag: "Due" } : { _tag: "Cancelled" }
        })
      )
    })
  }
}
