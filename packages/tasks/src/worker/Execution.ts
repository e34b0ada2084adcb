/**
 * One execution of a task by the engine: its activities, its waits, and what its status says.
 *
 * A wait for a person suspends the task: nothing of it stays in memory.
 */
import { Clock, Effect, Option, Schedule, Schema, Semaphore } from "effect"
import type { Context } from "effect"
import { Activity, DurableDeferred, Workflow } from "effect/workflow"
import { WorkflowInstance } from "effect/workflow/WorkflowEngine"
import type { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import type { Replies } from "../cluster/EngineRows.ts"
import type { Row } from "../store/TaskStore.ts"
import { agentOf, waitingFor } from "../store/TaskStore.ts"
import type { EffectRecord, TaskState } from "../state/TaskState.ts"
import type { Control } from "./Control.ts"
import type { Definition } from "./Definition.ts"
import type { Wake } from "../workflow/TaskWorkflow.ts"
import { deferred } from "../workflow/TaskWorkflow.ts"
import type { WorkerCore } from "./WorkerCore.ts"

type Engine = WorkflowEngine | WorkflowInstance

export interface Options {
  readonly worker: WorkerCore
  readonly row: Row
  readonly control: Control
  readonly definition: Definition
  readonly engine: Context.Context<Engine>
  /** Effects that earlier executions of the task have begun. */
  readonly intents: ReadonlyArray<EffectRecord>
  /** Results that the engine had stored when this execution began, read at once. Each is used once. */
  readonly stored: Replies
}

/** A result that was read at once. One that does not decode is left to the engine. */
const storedIn = <A>(stored: Replies, name: string, success: Schema.Codec<A, unknown>): Option.Option<A> => {
  if (!stored.has(name)) return Option.none()
  const value = stored.get(name)
  stored.delete(name)
  return Schema.decodeUnknownOption(Schema.toCodecJson(success))(value)
}

export type Execution = ReturnType<typeof make>

export const make = (options: Options) => {
  const { worker, row, control, engine } = options
  const { store } = worker
  const { id, generation } = row
  /** One wait at a time: a row has one. */
  const waits = Semaphore.makeUnsafe(1)
  const inEngine = Effect.provideContext(engine)

  /** Hands the task back: it goes on where a worker resumes it. */
  const parked = Effect.gen(function* () {
    control.silent()
    yield* store.park(id, generation, waitingFor(agentOf(row)))
    // Waits for the steps that are under way.
    yield* Workflow.wrapActivityResult(Effect.succeed(true), () => true)
    return yield* Workflow.suspend(yield* WorkflowInstance)
  }).pipe(inEngine)

  /** A worker that stops begins no further step. */
  const boundary = Effect.suspend(() => (worker.isDraining() ? parked : Effect.void))

  const activity = <A, R>(
    name: string,
    success: Schema.Codec<A, unknown>,
    execute: Effect.Effect<A, never, R>
  ): Effect.Effect<A, never, R> =>
    Effect.andThen(
      boundary,
      Effect.suspend(() => {
        const known = storedIn(options.stored, name, success)
        if (Option.isSome(known)) return Effect.succeed(known.value)
        return Effect.provideContext(
          Activity.make({ name, success, execute, interruptRetryPolicy: Schedule.recurs(0) }),
          engine
        )
      })
      // The schemas need no services, and the engine is provided: what is left is that of `execute`.
    ) as Effect.Effect<A, never, R>

  const says = (state: TaskState) => Effect.map(Clock.currentTimeMillis, (now) => control.says(state, now))

  /** Waits until a person, the clock or a cancellation ends the wait of this name, which the row has. */
  const woken = (name: string): Effect.Effect<Wake> => inEngine(DurableDeferred.await(deferred(name)))

  /** Waits for a person, who reads the state. `said` is carried out once, when the wait begins. */
  const waitForPerson = (
    name: string,
    state: TaskState,
    said: Effect.Effect<void> = Effect.void
  ): Effect.Effect<Wake> =>
    Semaphore.withPermits(
      waits,
      1,
      Effect.andThen(
        activity(
          `wait/${name}`,
          Schema.Void,
          Effect.gen(function* () {
            control.silent()
            const at = yield* Clock.currentTimeMillis
            yield* store.wait({ id, generation, name, state, at })
            yield* said
          })
        ),
        woken(name)
      )
    )

  return {
    ...options,
    activity,
    says,
    running: (turn: number) => says({ _tag: "Running", turn, worker: worker.name }),
    woken,
    waitForPerson
  }
}
