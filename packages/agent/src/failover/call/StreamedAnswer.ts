/**
 * One attempt for a whole answer, asked for as a stream, so that the limits for the first token and between tokens
 * hold.
 *
 * The parts are folded into what a request would have given (`Fold`), and handed on at the end: nothing of a failed
 * attempt is shown. A provider that refuses to stream is asked again with a request, within the same attempt, and the
 * chain remembers it for that target.
 */
import { Cause, Channel, Context, Duration, Effect } from "effect"
import type { Pull } from "effect"
import type { IdGenerator, Response } from "effect/ai"
import * as Classifier from "../../failure/Classifier.ts"
import { Format, Network, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { CallRun } from "./CallRun.ts"
import type { Commit } from "../decide/CallState.ts"
import type { Target } from "../chain/Chain.ts"
import * as Fold from "./Fold.ts"
import type { WholeAnswers } from "../../conversation/ModelInfo.ts"
import { limited } from "../target/Timed.ts"
import type { Usage } from "../../conversation/Usage.ts"

type StreamPart = Response.StreamPartEncoded
type Parts = Array<Response.PartEncoded>
type Asked = Effect.Effect<Parts, ProviderFailure, IdGenerator.IdGenerator>

/** Overrules {@link ModelInfo.wholeAnswers} for the calls around which it is provided. Default: nothing. */
export const Override: Context.Reference<WholeAnswers | undefined> = Context.Reference<
  WholeAnswers | undefined
>("@outlast/agent/failover/call/StreamedAnswer/Override", { defaultValue: () => undefined })

export class StreamedAnswer {
  readonly #run: CallRun
  readonly #target: Target
  readonly #request: AttemptRequest.AttemptRequest
  readonly #firstToken: number
  readonly #idle: number
  #parts: Array<StreamPart> = []
  /** When the last content came, by `CallRun.awake`, as all times here. */
  #progressAt: number | undefined

  constructor(run: CallRun, target: Target, request: AttemptRequest.AttemptRequest) {
    const { limits } = run.chain.policy
    const reasons = target.model.info.reasoning === true
    this.#run = run
    this.#target = target
    this.#request = request
    this.#firstToken = Duration.toMillis(reasons ? limits.firstTokenReasoning : limits.firstToken)
    this.#idle = Duration.toMillis(reasons ? limits.idleReasoning : limits.idle)
  }

  /** A tool that the provider runs itself has had its effect once it began. Nothing else is seen before the end. */
  get commit(): Commit {
    return this.#parts.some((part) => part.type.startsWith("tool-") && Fold.isProviders(part))
      ? "tool"
      : "nothing"
  }

  /** What the attempt has taken, if its finish came. */
  get usage(): Usage | undefined {
    const last = this.#parts.at(-1)
    return last?.type === "finish" ? last.usage : undefined
  }

  /** The answer ends inside the arguments of a tool call. */
  get lacksCall(): boolean {
    return Fold.lacksCall(this.#parts)
  }

  /** The parts of the answer. `requested` asks for them with a request instead. */
  ask(requested: () => Asked): Asked {
    const { memory } = this.#run.chain
    const { id } = this.#target.ref
    return Effect.catch(
      Effect.suspend(() => {
        const startedAt = this.#run.awake()
        return limited(
          this.#read,
          () => this.#left(startedAt),
          () => this.#late(startedAt)
        )
      }),
      (failure) => {
        if (this.#parts.length > 0 || !refusesStreams(failure)) return Effect.fail(failure)
        memory.refusesStreams.add(id)
        return requested()
      }
    )
  }

  /** Reads up to the finish, and closes the stream. */
  get #read(): Asked {
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
    let isProgress = false
    for (const part of parts) {
      if (part.type === "error") {
        const target = this.#target.ref
        return Effect.flatMap(Classifier.failure(part.error, { target, waits: true }), Effect.fail)
      }
      this.#parts.push(part)
      if (part.type === "finish") return this.#finished(part)
      isProgress ||= Fold.isProgress(part)
    }
    if (isProgress) {
      const now = this.#run.now()
      this.#progressAt = this.#run.awake(now)
      this.#run.progressed(now)
    }
    return undefined
  }

  #finished({ reason }: Response.FinishPartEncoded): Effect.Effect<Parts, ProviderFailure> {
    // An answer that says itself that it was cut, or that it failed, is judged by that.
    const isJudged = reason === "length" || reason === "content-filter" || reason === "error"
    if (isJudged || !this.lacksCall) return Effect.succeed(Fold.fold(this.#parts))
    const detail = "The arguments of a tool call were cut."
    return Effect.fail(
      local("stream/cut-arguments", new Format({ side: "response" }), this.#target.ref, detail)
    )
  }

  /** When the limit of the whole answer is over. */
  #end(startedAt: number): number {
    return startedAt + Duration.toMillis(this.#run.chain.policy.limits.total)
  }

  /** When the limit for the first token, or the next, is over. */
  #next(startedAt: number): number {
    return this.#progressAt === undefined ? startedAt + this.#firstToken : this.#progressAt + this.#idle
  }

  /**
   * Milliseconds until the nearest of the three limits, or until it must be asked for again: the first content replaces
   * the limit for the first token by the one between tokens, which may be the shorter one.
   */
  #left(startedAt: number): number {
    const left = Math.min(this.#next(startedAt), this.#end(startedAt)) - this.#run.awake()
    return Math.min(left, this.#idle)
  }

  /** Fails with the nearest of the three limits. */
  #late(startedAt: number): Effect.Effect<never, ProviderFailure> {
    if (this.#end(startedAt) <= this.#next(startedAt)) return overTotal(this.#run, this.#target, true)
    const phase = this.#progressAt === undefined ? "first-token" : "idle"
    return Effect.fail(local(`limit/${phase}`, new Timeout({ phase, local: true }), this.#target.ref))
  }
}

/** The limit of a whole answer is over. `isTold`: without progress, nothing has come. */
export const overTotal = (
  run: CallRun,
  { ref }: Target,
  isTold: boolean
): Effect.Effect<never, ProviderFailure> => {
  const silent = isTold && !run.isHeard
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
