/**
 * Lets the steps of a worker run beside each other, and a suspect alone.
 *
 * A suspect closes the worker to further steps and waits until those under way have ended. Where that takes long, the
 * worker opens again for as long as it was closed, and the suspect waits longer the next time: steps that take half an
 * hour hold up the others for no more than half of the time. A suspect that was not alone after two minutes runs beside
 * the others: one of them may wait for its result.
 */
import { Effect, Latch, Option, Semaphore } from "effect"
import type { Duration, Scope } from "effect"

/** How long a suspect waits for the steps under way, one time after the other. */
const patience: ReadonlyArray<Duration.Input> = ["5 seconds", "10 seconds", "20 seconds"]
/** How long a suspect waits for the suspects before it. */
const turn: Duration.Input = "1 minute"

export interface Options {
  /** True while a handler runs whose step does not wait for it any more. */
  readonly isBusy: () => boolean
  readonly isDraining: () => boolean
  /** Completes when the worker stops: then no step waits here. */
  readonly draining: Effect.Effect<void>
}

export class Alone {
  readonly #options: Options
  /** One suspect at a time. */
  readonly #turn = Semaphore.makeUnsafe(1)
  readonly #opened = Latch.makeUnsafe(true)
  #underWay = 0
  #holder: object | undefined
  /** True while a step of the suspect is under way: its next one waits as the others do. */
  #isHolderBusy = false

  constructor(options: Options) {
    this.#options = options
  }

  /** Carries out a step of a task, as soon as no other task is alone here. */
  step<A, E, R>(task: object, run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const { draining, isDraining } = this.#options
    const isClosed = () =>
      this.#holder !== undefined && (this.#holder !== task || this.#isHolderBusy) && !isDraining()
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen({ self: this }, function* () {
        while (isClosed()) yield* restore(Effect.raceFirst(Latch.await(this.#opened), draining))
        const isHolder = this.#holder === task
        if (isHolder) this.#isHolderBusy = true
        this.#underWay++
        return yield* Effect.ensuring(
          restore(run),
          Effect.sync(() => {
            this.#underWay--
            if (isHolder) this.#isHolderBusy = false
          })
        )
      })
    )
  }

  /** Waits until nothing is under way, and keeps it so until the scope closes. False where that took too long. */
  enter(task: object): Effect.Effect<boolean, never, Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      const hasTurn = yield* Effect.timeoutOption(Semaphore.takeScoped(this.#turn, 1), turn)
      if (Option.isNone(hasTurn)) return false
      const open = Effect.sync(() => {
        this.#holder = undefined
        this.#isHolderBusy = false
        this.#opened.openUnsafe()
      })
      yield* Effect.addFinalizer(() => open)
      for (const wait of patience) {
        this.#holder = task
        this.#opened.closeUnsafe()
        if (Option.isSome(yield* Effect.timeoutOption(this.#idle, wait))) return true
        yield* open
        yield* Effect.sleep(wait)
      }
      return false
    })
  }

  readonly #idle: Effect.Effect<void> = Effect.gen({ self: this }, function* () {
    while (this.#underWay > 0 || this.#options.isBusy()) yield* Effect.sleep("50 millis")
  })
}
