/**
 * One execution of a task by the engine: its steps, its waits, and what its status says.
 *
 * A wait for a person suspends the task: nothing of it stays in memory.
 */
import type { Duration } from "effect"
import { Clock, Context, Effect, Exit, Fiber, Schema, Semaphore } from "effect"
import { DurableDeferred, Workflow } from "effect/workflow"
import { WorkflowInstance } from "effect/workflow/WorkflowEngine"
import type { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import type { Row, Run, Steps } from "../store/TaskStore.ts"
import { agentOf, waitingFor } from "../store/TaskStore.ts"
import type { EffectRecord, TaskState } from "../state/TaskState.ts"
import type { Control } from "./Control.ts"
import type { Definition } from "./Definition.ts"
import type { Wake } from "../workflow/TaskWorkflow.ts"
import { deferred } from "../workflow/TaskWorkflow.ts"
import type { Trial } from "./Trial.ts"
import type { WorkerCore } from "./WorkerCore.ts"

type Engine = WorkflowEngine | WorkflowInstance

/** The result of a step that has none. */
const doneJson = Schema.fromJsonString(Schema.toCodecJson(Schema.Void))

export interface Options {
  readonly worker: WorkerCore
  readonly row: Row
  readonly control: Control
  readonly definition: Definition
  readonly engine: Context.Context<Engine>
  readonly trial: Trial
  /** Effects that earlier executions of the task have begun. */
  readonly intents: ReadonlyArray<EffectRecord>
  /** Results of the steps that were carried out before this execution began. */
  readonly stored: Steps
}

/** The result of a step is not one that this version can read. */
export class UnreadableStep extends Error {}

/**
 * Another process has claimed the task. Where the lease of this one is over, the engine ends this execution, and the
 * other process has the task. Where it was the other one whose lease was over, this one takes the task back, and begins
 * it again.
 */
export const lost = (
  { holds, store }: WorkerCore,
  run: Run,
  state: TaskState
): Effect.Effect<never, never, WorkflowInstance> =>
  Effect.gen(function* () {
    yield* Effect.sleep(learns)
    const instance = yield* WorkflowInstance
    if (holds(instance.executionId)) {
      yield* store.claim(run.id, run.generation, run.runner)
      yield* store.park(run, state)
    }
    return yield* Workflow.suspend(instance)
  })

/** The engine learns within this time that a lease is over: `ClusterEngine` renews and asks more often. */
const learns: Duration.Input = "10 seconds"

export type Execution = ReturnType<typeof make>

export const make = (options: Options) => {
  const { worker, row, control, engine, trial } = options
  const { store } = worker
  const { id, generation, runner } = control.run
  /** One wait at a time: a row has one. */
  const waits = Semaphore.makeUnsafe(1)
  const inEngine = Effect.provideContext(engine)
  const instance = Context.get(engine, WorkflowInstance)

  const handedBack = Effect.suspend(() => {
    control.silent()
    return store.park(control.run, waitingFor(agentOf(row)))
  })

  /** Hands the task back: it goes on where a worker resumes it. */
  const parked = Effect.gen(function* () {
    yield* handedBack
    // Waits for the steps that are under way.
    yield* Workflow.wrapActivityResult(Effect.succeed(true), () => true)
    return yield* Workflow.suspend(instance)
  }).pipe(inEngine)

  /** A worker that stops, or whose lease is over, begins no further step. */
  const boundary = Effect.suspend(() =>
    worker.isDraining() || !worker.holds(instance.executionId) ? parked : Effect.void
  )

  const isLost = inEngine(
    Effect.suspend(() => {
      control.silent()
      return lost(worker, control.run, waitingFor(agentOf(row)))
    })
  )

  /**
   * Carries out a step. A worker that stops takes down its agents first, which may interrupt the step from within: then the
   * task is handed back. Any other interruption from within is a mistake of the step's code.
   */
  const guarded = <A, R>(name: string, execute: Effect.Effect<A, never, R>): Effect.Effect<A, never, R> =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(execute)
      const exit = yield* Effect.onInterrupt(Fiber.await(fiber), () => Fiber.interrupt(fiber))
      if (!Exit.hasInterrupts(exit) || instance.suspended) return yield* exit
      if (!worker.isDraining() && worker.definitionOf(row) !== undefined) {
        return yield* Effect.die(new Error(`The step ${name} has interrupted itself.`))
      }
      yield* handedBack
      return yield* Workflow.suspend(instance)
    })

  /** A step of the task: its stored result, or the result of `execute`, once it is stored. */
  const recorded = <A, R>(
    name: string,
    json: Schema.Codec<A, string>,
    execute: Effect.Effect<A, never, R>
  ): Effect.Effect<A, never, R> => {
    const read = (text: string): Effect.Effect<A> =>
      Effect.mapError(
        Schema.decodeUnknownEffect(json)(text),
        (error) => new UnreadableStep(String(error))
      ).pipe(Effect.orDie)
    const carriedOut = (execute: Effect.Effect<A, never, R>) =>
      Effect.gen(function* () {
        const reply = Schema.encodeSync(json)(yield* guarded(name, execute))
        const stored = yield* store.record({ task: id, generation, name, reply, runner })
        if (typeof stored !== "string") return yield* isLost
        // As a later execution will read it.
        return yield* read(stored)
      })
    return Effect.andThen(
      boundary,
      Effect.suspend(() => {
        const known = options.stored.get(name)
        if (known !== undefined) {
          options.stored.delete(name)
          return read(known)
        }
        return trial.step(name, execute, (execute) =>
          // The worker may have stopped while the step waited.
          Effect.andThen(
            boundary,
            // A wait that suspends the task waits for the steps that are under way.
            Workflow.wrapActivityResult(carriedOut(execute), () => false)
          )
        )
      })
      // The engine is provided: what is left is the context of `execute`.
    ).pipe(inEngine)
  }

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
        recorded(
          `wait/${name}`,
          doneJson,
          Effect.gen(function* () {
            control.silent()
            const at = yield* Clock.currentTimeMillis
            yield* store.wait({ ...control.run, name, state, at })
            yield* said
          })
        ),
        woken(name)
      )
    )

  return {
    ...options,
    recorded,
    isLost,
    says,
    running: (turn: number) => says({ _tag: "Running", turn, worker: worker.name }),
    woken,
    waitForPerson
  }
}
