/**
 * Begins a task here, and finds out whether it kills its process.
 *
 * The row of a task names the process that carries out its steps. A process that stops in good order takes its name off.
 * So a task that begins with the name of a process that is gone has lost it, and counts one death more. The first step
 * that is recorded clears the count. A task without deaths costs one statement each time that it begins, and none for
 * its steps.
 */
import { Effect, Exit, Scope } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import * as Deaths from "../restart/Deaths.ts"
import type { FailReason } from "../state/TaskState.ts"
import type { Row, Run } from "../store/TaskStore.ts"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import { StepEnded } from "./Definition.ts"
import type { WorkerCore } from "./WorkerCore.ts"

type Past = Pick<Deaths.Deaths, "boots" | "lonely">

export class Trial {
  readonly #worker: WorkerCore
  readonly #run: Run
  #past: Past
  /** The time alone, until it closes. */
  #solitude: Scope.Closeable | undefined
  /** Deaths before this beginning. */
  readonly deaths: number
  /** The step that has killed its process alone, and does not run again. */
  readonly condemned: string | undefined

  constructor(worker: WorkerCore, run: Run, past: Past = Deaths.none, condemned?: string) {
    this.#worker = worker
    this.#run = run
    this.#past = past
    this.deaths = past.boots.length
    this.condemned = condemned
  }

  /** Carries out a step by `run`, beside the others or alone. `execute` is what `run` does where nothing is stored. */
  step<A, R, S>(
    name: string,
    execute: Effect.Effect<A, never, R>,
    run: (execute: Effect.Effect<A, never, R>) => Effect.Effect<A, never, S>
  ): Effect.Effect<A, never, S> {
    return Effect.suspend(() => {
      let hasRun = false
      const noted = Effect.suspend(() => {
        hasRun = true
        // Without its beginning a run has no conversation to end with.
        if (this.#solitude === undefined || name === "start") return execute
        return Effect.andThen(this.#store(name), execute)
      })
      return this.#worker.alone.step(
        this,
        Effect.tap(run(noted), () => (hasRun ? this.#recorded : Effect.void))
      )
    })
  }

  /** Begins, a suspect alone. */
  begin<A>(isSuspect: boolean, read: Effect.Effect<A>): Effect.Effect<A, never, Scope.Scope> {
    const { alone, store } = this.#worker
    return Effect.gen({ self: this }, function* () {
      if (isSuspect) yield* this.#enter()
      const begun = Effect.suspend(() => store.begin(this.#run, this.#now(this.condemned)))
      const known = yield* alone.step(this, Effect.andThen(begun, read))
      if (this.#solitude !== undefined) {
        yield* Effect.sleep(Deaths.alone(this.deaths)).pipe(Effect.andThen(this.#left), Effect.forkScoped)
      }
      return known
    })
  }

  /** Alone from now on, unless the steps under way take too long. */
  #enter(): Effect.Effect<void, never, Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      const own = yield* Scope.fork(yield* Effect.scope)
      const isAlone = yield* Scope.provide(this.#worker.alone.enter(this), own)
      if (isAlone) this.#solitude = own
      else yield* Scope.close(own, Exit.void)
    })
  }

  /** A step is recorded: the deaths before it were not those of the next one. */
  readonly #recorded: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#past.boots.length === 0) return Effect.void
    this.#past = Deaths.none
    return this.#left
  })

  /** The others run beside it again. */
  readonly #left: Effect.Effect<void> = Effect.suspend(() => {
    const solitude = this.#solitude
    this.#solitude = undefined
    const opened = solitude === undefined ? Effect.void : Scope.close(solitude, Exit.void)
    return Effect.andThen(this.#store(), opened)
  })

  #now(step?: string): Deaths.Deaths | undefined {
    const { boots, lonely } = this.#past
    if (boots.length === 0) return undefined
    // A condemned step stays so where its process is killed before its end is recorded.
    const alone = this.#solitude !== undefined || this.condemned !== undefined
    return { boots, lonely, alone, ...(step === undefined ? {} : { step }) }
  }

  #store(step?: string): Effect.Effect<void> {
    return Effect.suspend(() => this.#worker.store.setDeaths(this.#run, this.#now(step)))
  }
}

/** Begins a task, with what `read` returns. Fails where its process died alone before its next step began. */
export const begin = <A>(worker: WorkerCore, row: Row, read: Effect.Effect<A>) =>
  Effect.gen(function* () {
    const { boot, holders } = worker
    const hasDied = (other: string): Effect.Effect<boolean> =>
      holders === undefined || other === boot ? Effect.succeed(other !== boot) : holders.hasDied(other)
    const before = row.deaths ?? Deaths.none
    // A worker that was taken for dead may be back.
    const boots = yield* Effect.filter(before.boots, hasDied)
    const died = row.boot !== undefined && (yield* hasDied(row.boot)) ? row.boot : undefined
    const judged = Deaths.judge({ ...before, boots }, died)
    const { verdict } = judged
    const deaths = judged.boots.length
    if (died !== undefined && verdict._tag !== "Free") {
      const condemned = verdict._tag === "Condemned"
      yield* ResilienceEvents.publishNow<TaskEvent>({
        _tag: "TaskKilledProcess",
        task: row.task,
        deaths,
        condemned
      })
    }
    if (verdict._tag === "Condemned" && verdict.step === undefined) {
      return yield* Effect.fail(new StepEnded({ reason: killed(deaths, undefined, "The task") }))
    }
    const step = verdict._tag === "Condemned" ? verdict.step : undefined
    const trial = new Trial(worker, { id: row.id, generation: row.generation, runner: boot }, judged, step)
    return { trial, known: yield* trial.begin(verdict._tag === "Suspect", read) }
  })

/** The failure of a step that has killed its process. `what`: its subject, for people. */
export const killed = (deaths: number, step: string | undefined, what: string): FailReason => ({
  _tag: "KilledItsProcess",
  ...(step === undefined ? {} : { step }),
  deaths,
  message: `${what} ended its process ${deaths} times in a row, ${
    step === undefined ? "before its next step began" : `in step \`${step}\``
  }, at last with nothing beside it. Look in the log of the process for memory that ran out, a crash of native code or \`process.exit\`, and repair that first.`
})
