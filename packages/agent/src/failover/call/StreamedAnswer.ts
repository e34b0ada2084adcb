/**
 * One attempt for a whole answer, asked for as a stream, so that the limits for the first token and between tokens
 * hold.
 *
 * The parts are folded into what a request would have given (`Fold`), and handed on at the end: nothing of a failed
 * attempt is shown. A provider that refuses to stream is asked again with a request, within the same attempt, and the
 * chain remembers it for that target.
 */
import { Cause, Channel, Context, Duration, Effect, Latch } from "effect"
import type { Fiber, Pull } from "effect"
import type { IdGenerator, Response } from "effect/ai"
import * as Classifier from "../../failure/Classifier.ts"
import { Network, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { Attempt } from "./Attempt.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { CallRun } from "./CallRun.ts"
import type { Commit } from "../decide/CallState.ts"
import type { Target } from "../chain/Chain.ts"
import { Fold } from "./Fold.ts"
import { Lateness } from "./Lateness.ts"
import type { StreamPart } from "./PartKind.ts"
import { isProgress, isProviders } from "./PartKind.ts"
import * as Silence from "./Silence.ts"
import type { WholeAnswers } from "../../conversation/ModelInfo.ts"
import { watched } from "../target/Timed.ts"

type Parts = Array<Response.PartEncoded>
type Asked<E> = Effect.Effect<Parts, E | ProviderFailure, IdGenerator.IdGenerator>

/** An answer is late, and still under way: `answer` waits for it. A call that ends before it interrupts it. */
export class StillRunning {
  readonly answer: Effect.Effect<Parts, ProviderFailure, IdGenerator.IdGenerator>

  constructor(answer: Effect.Effect<Parts, ProviderFailure, IdGenerator.IdGenerator>) {
    this.answer = answer
  }

  static fail(
    run: CallRun,
    answer: StillRunning["answer"],
    fiber: Fiber.Fiber<unknown, unknown>
  ): Effect.Effect<never, StillRunning> {
    run.goesOn(fiber)
    return Effect.fail(new StillRunning(answer))
  }
}

/** Overrules {@link ModelInfo.wholeAnswers} for the calls around which it is provided. Default: nothing. */
export const Override: Context.Reference<WholeAnswers | undefined> = Context.Reference<
  WholeAnswers | undefined
>("@outlast/agent/failover/call/StreamedAnswer/Override", { defaultValue: () => undefined })

export class StreamedAnswer {
  readonly #run: CallRun
  readonly #attempt: Attempt
  readonly #target: Target
  readonly #request: AttemptRequest.AttemptRequest
  readonly #limits: Silence.Limits
  readonly #fold = new Fold()
  #commit: Commit = "nothing"
  #hasBegun = false
  /** When the last content came, by `CallRun.awake`, as all times here. */
  #progressAt: number | undefined
  #answers: Latch.Latch | undefined

  constructor(run: CallRun, attempt: Attempt, request: AttemptRequest.AttemptRequest) {
    this.#run = run
    this.#attempt = attempt
    this.#target = attempt.target
    this.#request = request
    this.#limits = Silence.limitsOf(run, attempt.target)
  }

  /** True once the first content has come. */
  get isAnswering(): boolean {
    return this.#progressAt !== undefined
  }

  /** Completes when the first content has come. */
  get answers(): Effect.Effect<void> {
    this.#answers ??= Latch.makeUnsafe(this.isAnswering)
    return this.#answers.await
  }

  /** A tool that the provider runs itself has had its effect once it began. Nothing else is seen before the end. */
  get commit(): Commit {
    return this.#commit
  }

  /** The answer ends inside the arguments of a tool call. */
  get lacksCall(): boolean {
    return this.#fold.lacksCall
  }

  /**
   * The parts of the answer. Fails with {@link StillRunning} when its first content is late. `requested` asks for them with
   * a request instead.
   */
  ask(requested: () => Asked<never>): Asked<StillRunning> {
    const orRequested = (failure: ProviderFailure): Asked<never> => {
      if (this.#hasBegun || !refusesStreams(failure)) return Effect.fail(failure)
      this.#run.chain.memory.refusesStreams.add(this.#target.ref.id)
      return requested()
    }
    return Effect.catch(this.#watched, (failure): Asked<StillRunning> =>
      failure instanceof StillRunning
        ? Effect.fail(new StillRunning(Effect.catch(failure.answer, orRequested)))
        : orRequested(failure)
    )
  }

  get #watched(): Asked<StillRunning> {
    return Effect.suspend(() => {
      const startedAt = this.#run.awake()
      const lateness = new Lateness(this.#run, this.#attempt, "firstToken")
      return watched(
        this.#read,
        () => this.#left(startedAt),
        () => this.#late(startedAt),
        {
          untilLate: () => (this.isAnswering ? Infinity : lateness.left(this.#run.awake() - startedAt)),
          orLate: (running, fiber) => StillRunning.fail(this.#run, running, fiber)
        }
      )
    })
  }

  /** Reads up to the finish, and closes the stream. */
  get #read(): Asked<never> {
    const { channel } = AttemptRequest.streamText(this.#target, this.#request)
    return Effect.scopedWith((scope) =>
      Effect.flatMap(Channel.toPullScoped(channel, scope), (pull) => {
        const rest: Pull.Pull<Parts, ProviderFailure, void, IdGenerator.IdGenerator> = Effect.flatMap(
          pull,
          (parts) => this.#take(parts) ?? rest
        )
        return rest
      })
    ).pipe(
      Effect.mapError((failure) =>
        Cause.isDone(failure) ? local("stream/cut", new Network(), this.#target.ref) : failure
      )
    )
  }

  /** How the attempt ends with these parts, if it does. */
  #take(parts: ReadonlyArray<StreamPart>): Effect.Effect<Parts, ProviderFailure> | undefined {
    let hasProgress = false
    for (const part of parts) {
      if (part.type === "error") {
        const target = this.#target.ref
        return Effect.flatMap(Classifier.failure(part.error, { target, waits: true }), Effect.fail)
      }
      this.#hasBegun = true
      this.#fold.push(part)
      if (part.type === "finish") return Effect.succeed(this.#fold.parts)
      if (isProviders(part)) this.#commit = "tool"
      hasProgress ||= isProgress(part)
    }
    if (hasProgress) {
      const now = this.#run.now()
      this.#progressAt = this.#run.awake(now)
      this.#answers?.openUnsafe()
      this.#run.progressed(this.#attempt, now)
    }
    return undefined
  }

  /** When the limit of the whole answer is over. */
  #end(startedAt: number): number {
    return startedAt + Duration.toMillis(this.#run.chain.policy.limits.total)
  }

  /** When the limit for the first token, or the next, is over. */
  #next(startedAt: number): number {
    return this.#progressAt === undefined
      ? startedAt + this.#limits.firstToken
      : this.#progressAt + this.#limits.idle
  }

  /**
   * Milliseconds until the nearest of the three limits, or until it must be asked for again: the first content replaces
   * the limit for the first token by the one between tokens, which may be the shorter one.
   */
  #left(startedAt: number): number {
    const left = Math.min(this.#next(startedAt), this.#end(startedAt)) - this.#run.awake()
    return Math.min(left, this.#limits.idle)
  }

  /** Fails with the nearest of the three limits. */
  #late(startedAt: number): Effect.Effect<never, ProviderFailure> {
    if (this.#end(startedAt) <= this.#next(startedAt)) return overTotal(this.#run, this.#attempt, true)
    return Effect.fail(Silence.failure(this.#target, this.#progressAt !== undefined))
  }
}

/** The limit of a whole answer is over. `isTold`: without progress, nothing has come. */
export const overTotal = (
  run: CallRun,
  attempt: Attempt,
  isTold: boolean
): Effect.Effect<never, ProviderFailure> => {
  const { ref } = attempt.target
  const silent = isTold && !run.isHeard(attempt)
  const timeout = new Timeout({ phase: "total", local: true, ...(silent ? { silent } : {}) })
  return Effect.fail(local("limit/total", timeout, ref))
}

/**
 * True when the provider refuses the request because it is a stream: the organisation is not verified for it (OpenAI),
 * or the model has no streams (Bedrock and others).
 */
export const refusesStreams = ({ evidence: { status }, detail }: ProviderFailure): boolean =>
  status !== undefined && refusals.has(status) && refusal.test(detail)

const refusals: ReadonlySet<number> = new Set([400, 403, 404, 405, 422, 501])

const refusal = new RegExp(
  [
    String.raw`verified to stream`,
    // "Streaming is not supported", "'stream' does not support true with this model"
    String.raw`\bstream(?:ing)?\b[^.]{0,40}(?:not|n't)(?: \w+)? (?:support|allow|permit|available|enabled)`,
    // "does not support streaming", "doesn't support tool use in streaming mode"
    String.raw`(?:not|n't)(?: \w+)? (?:support|allow|permit)\w* [^.]{0,30}\bstream(?:ing)?\b`,
    String.raw`unsupported[^.]{0,30}\bstream(?:ing)?\b`,
    String.raw`\bstream\W{1,4}(?:must|should|has to|needs to) be (?:set to )?\W?false`
  ].join("|"),
  "i"
)
