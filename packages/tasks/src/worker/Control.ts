/** Knowledge of this process about a task that it runs, beside the stored row: the cancellation and the latest state. */
import { Deferred, Effect, Exit } from "effect"
import type { EffectRecord, TaskState } from "../state/TaskState.ts"
import type { Report, Row, Run } from "../store/TaskStore.ts"

export class Control {
  readonly run: Run
  readonly #cancelled = Deferred.makeUnsafe<void>()
  #by: string | undefined
  #report: Report | undefined
  #isDirty = false
  restarts: number
  /** Effects that have begun and whose replies are not known, by their keys. */
  readonly unknown = new Map<string, EffectRecord>()

  constructor({ id, generation, restarts, cancelBy }: Row, runner: string) {
    this.run = { id, generation, runner }
    this.restarts = restarts
    if (cancelBy !== undefined) this.cancel(cancelBy)
  }

  cancel(by: string): void {
    this.#by ??= by
    Deferred.doneUnsafe(this.#cancelled, Exit.void)
  }

  get cancelBy(): string | undefined {
    return this.#by
  }

  /** Completes when the task is cancelled. */
  readonly cancelled: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.#cancelled))

  /** Sets the state of the task, which the next flush stores. */
  says(state: TaskState, at: number): void {
    this.#report = { ...this.run, state, since: at, restarts: this.restarts }
    this.#isDirty = true
  }

  /** The state that is stored counts from here on. */
  silent(): void {
    this.#report = undefined
    this.#isDirty = false
  }

  get report(): Report | undefined {
    return this.#report
  }

  /** The report, if it was not stored yet. */
  flush(): Report | undefined {
    if (!this.#isDirty) return undefined
    this.#isDirty = false
    return this.#report
  }
}
