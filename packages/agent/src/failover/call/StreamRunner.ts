/**
 * A streamed attempt in a race. Its parts are read and kept: they are few, because the first one with content ends the race,
 * and so does the limit for the first token.
 */
import type { Cause } from "effect"
import { Effect, Exit, Queue } from "effect"
import type { Response } from "effect/ai"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as End from "./AttemptEnd.ts"
import type { StreamPart } from "./PartKind.ts"
import { isProgress } from "./PartKind.ts"
import type { Problem, Runner } from "./Race.ts"
import type { StreamAttempt } from "./StreamAttempt.ts"
import * as Attempts from "./StreamAttempt.ts"

export class StreamRunner implements Runner {
  readonly opened: StreamAttempt
  readonly parts: Array<StreamPart> = []
  #end: Effect.Effect<never, ProviderFailure | Cause.Done> | undefined

  constructor(opened: StreamAttempt) {
    this.opened = opened
  }

  get attempt(): StreamAttempt["attempt"] {
    return this.opened.attempt
  }

  get isHeard(): boolean {
    this.#read()
    return this.#end !== undefined || this.parts.some(isEnough)
  }

  readonly heard: Effect.Effect<void> = Effect.suspend(() => {
    if (this.isHeard) return Effect.void
    const { ready, run, silence } = this.opened
    // What was read without content has not ended the wait.
    silence.wait(run.awake())
    return Effect.andThen(Effect.exit(Queue.peek(ready)), this.heard)
  })

  get problem(): Effect.Effect<Problem | undefined> {
    const part = this.parts.find(isEnough)
    if (part === undefined) {
      return Effect.catch(this.#end ?? Effect.undefined, (end) =>
        this.#located(Effect.succeed(Attempts.endOf(this.opened, end)))
      )
    }
    // An answer without content may be a failed one, for example a refusal.
    const end = part.type === "error" ? errorOf(part) : part.type === "finish" ? this.#endOf(part) : undefined
    return end?._tag === "Failed"
      ? this.#located(End.failureOf(end, this.attempt.target.ref, "stream"), End.usageOf(end))
      : Effect.undefined
  }

  get close(): Effect.Effect<void> {
    return Attempts.close(this.opened)
  }

  #located(failure: Effect.Effect<ProviderFailure>, usage?: Problem["usage"]): Effect.Effect<Problem> {
    return Effect.map(failure, (failure) => ({ failure: Attempts.located(this.opened, failure), usage }))
  }

  #endOf(finish: Response.FinishPartEncoded): End.AttemptEnd {
    const judge = this.opened.run.judge(this.attempt)
    for (const part of this.parts) judge.saw(part)
    return End.of(finish, { judge, hasCall: false, lacksCall: false })
  }

  /** Reads what has come. */
  #read(): void {
    for (;;) {
      const next = Queue.takeUnsafe(this.opened.ready)
      if (next === undefined) return
      if (Exit.isFailure(next)) {
        this.#end = Effect.failCause(next.cause)
        return
      }
      if (next.value !== Attempts.late) this.parts.push(...next.value)
    }
  }
}

/** Content, or the end of the answer. */
const isEnough = (part: StreamPart): boolean => isProgress(part) || part.type === "error"

const errorOf = (part: Response.ErrorPartEncoded): End.AttemptEnd => ({
  _tag: "Failed",
  part,
  problem: undefined
})
