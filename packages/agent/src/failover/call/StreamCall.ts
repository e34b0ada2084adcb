/**
 * One streamed call: attempts until one reaches its complete finish, shown to the consumer as one answer.
 *
 * `StreamGate` decides which parts may be shown. This module has the time limits, and moves from one attempt to the
 * next. The limit for the first token covers the opening of the stream; the limit between tokens counts only
 * while we wait for the provider, never while the consumer is busy. An attempt is closed, its request aborted,
 * before the next one begins.
 */
import type { Context, Pull } from "effect"
import { Cause, Channel, Duration, Effect, Exit, Queue, Scope, Stream } from "effect"
import type { AiError, IdGenerator, LanguageModel, Response } from "effect/ai"
import * as WindowFull from "../../conversation/WindowFull.ts"
import type { CallFailure } from "../../failure/reasons/CallFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import * as Classifier from "../../failure/Classifier.ts"
import { Format, Network, ServerError, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { isWrongObject, local } from "../../failure/reasons/ProviderFailure.ts"
import { isRefused, RefusedAnswers } from "../decide/AnswerEnd.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { Attempt } from "./Attempt.ts"
import { CallRun } from "./CallRun.ts"
import type { Chain } from "../chain/Chain.ts"
import type { ObjectFormat } from "./ObjectAnswer.ts"
import * as ObjectAnswer from "./ObjectAnswer.ts"
import * as Alarm from "../target/Alarm.ts"
import type { ProviderRequest } from "../target/ProviderModel.ts"
import type { SlowStream } from "../decide/RecoveryPolicy.ts"
import type { AttemptEnd, Cut } from "./StreamGate.ts"
import { StreamGate, usageOf } from "./StreamGate.ts"
import * as StrictCalls from "./StrictCalls.ts"
import * as Surface from "./Surface.ts"

type Part = Response.StreamPartEncoded
type Parts = readonly [Part, ...Array<Part>]
type PullOf<E> = Pull.Pull<Parts, E, void, IdGenerator.IdGenerator>

/** Parts of an attempt that have arrived and have not been read yet. */
type Ready = Queue.Queue<Parts, ProviderFailure | Cause.Done>

/** Arrays of parts of an attempt, as the provider sends them, that are read before the consumer asks, at most. */
const readAhead = 64

/**
 * The parts of one answer, whatever number of attempts it takes. Failures of the call are mapped by
 * `toError`, and mistakes of the model by `mistaken`. Mapping the errors of the stream outside would cost every pull.
 */
export const streamText = <E>(
  chain: Chain,
  options: LanguageModel.ProviderOptions,
  toError: (failure: CallFailure, object?: string) => E,
  mistaken: (mistake: AiError.AiErrorReason) => E
): Stream.Stream<Part, E, IdGenerator.IdGenerator> =>
  Stream.fromChannel(
    Channel.fromTransform((_, scope) =>
      Effect.gen(function* () {
        const surface = yield* Surface.taken
        const { format } = surface
        const asked = format === undefined ? options : { ...options, responseFormat: format }
        const deliversRefused = (yield* RefusedAnswers) === "deliver"
        const run = yield* Effect.withFiber((fiber) =>
          Effect.succeed(new CallRun(chain, asked, surface, true, fiber))
        )
        yield* Scope.addFinalizer(scope, run.abandoned)
        const gate = new StreamGate(run.requested, run.midStream, format !== undefined)
        const open = (attempt: Attempt) => Opened.make(run, gate, attempt, scope)
        let opened = yield* run.begin.pipe(
          Effect.mapError((failure) => toError(failure)),
          Effect.flatMap(open)
        )
        /** The attempt that produced the last shown part. */
        let author = opened.attempt
        /** The consumer has been given something of the answer, and it was not taken back. */
        let isGiven = false
        /** The text of an answer that is not the object that was asked for, if that is what failed last. */
        let wrong: string | undefined

        const pull: PullOf<E> = Effect.suspend(() => {
          const { end } = gate
          if (end === undefined) return opened.pull(received, failed)
          if (end._tag === "Whole") return Cause.done()
          return end._tag === "Cut"
            ? cut(end)
            : Effect.flatMap(failureOf(end, opened.attempt.target.ref), failed)
        })
        const received = (out: ReadonlyArray<Part>, isFirst: boolean): PullOf<E> => {
          const { seam } = gate
          const told = isFirst ? run.answers(opened.attempt) : undefined
          const next = shown(out, told !== undefined)
          const joined = seam === undefined ? next : Effect.andThen(run.joined(opened.attempt, seam), next)
          return told === undefined ? joined : Effect.andThen(told, joined)
        }
        const shown = (out: ReadonlyArray<Part>, hasNews: boolean): PullOf<E> => {
          const { finish } = gate
          if (finish !== undefined) {
            return format === undefined || !ObjectAnswer.isDue(out)
              ? finished(out, finish)
              : judged(format, out, finish)
          }
          if (isShown(out)) isGiven = true
          return shownOr(hasNews ? [...news(), ...out] : out)
        }
        const judged = (
          format: ObjectFormat,
          out: ReadonlyArray<Part>,
          finish: Response.FinishPartEncoded
        ): PullOf<E> =>
          Effect.matchEffect(ObjectAnswer.read(format, gate.text), {
            onSuccess: () => finished(out, finish),
            onFailure: (problem) => {
              // Shown text cannot be taken back: the consumer checks the object and decides.
              if (isGiven && !surface.rewindable) return finished(out, finish)
              wrong = gate.text
              gate.refuse(isGiven)
              return failed(ObjectAnswer.failure(problem, opened.attempt.target.ref))
            }
          })
        const finished = (out: ReadonlyArray<Part>, finish: Response.FinishPartEncoded): PullOf<E> =>
          Effect.flatMap(run.succeeded(opened.attempt, finish.usage), (costUsd) => {
            const mistake = StrictCalls.mistakeIn(options, out)
            if (mistake !== undefined) return Effect.fail(mistaken(mistake))
            const last = gate.priced(finish, costUsd)
            const [head, ...tail] = [...news(), ...out]
            return Effect.succeed(head === undefined ? [last] : [head, ...tail, last])
          })
        const failed = (failure: ProviderFailure): PullOf<E> => {
          if (gate.commit === "text") author = opened.attempt
          if (!isWrongObject(failure)) wrong = undefined
          const { attempt, silence } = opened
          const { end } = gate
          const next = opened.close.pipe(
            Effect.andThen(run.failed(attempt, opened.located(failure), gate.commit, usageOf(end), silence))
          )
          return Effect.matchEffect(next, {
            onSuccess: goOn,
            onFailure: (given) =>
              deliversRefused && end?._tag === "Failed" && end.part.type === "finish" && isRefused(failure)
                ? shownOr(gate.deliverRefused(end.part, attempt.answered, run.costOfFailed(attempt)))
                : Effect.fail(toError(given, wrong))
          })
        }
        const cut = ({ finish, inToolCall }: Cut): PullOf<E> => {
          author = opened.attempt
          const { commit, gained } = gate
          const hasText = commit === "text"
          const byWindow = WindowFull.isMarked(finish)
          const report = { commit, usage: finish.usage, inToolCall, characters: gained, hasText, byWindow }
          return opened.close.pipe(
            Effect.andThen(run.cut(opened.attempt, report)),
            Effect.mapError((failure) => toError(failure)),
            Effect.flatMap(goOn)
          )
        }
        /** Opens the next attempt, or ends the answer as cut as it is. */
        const goOn = (next: Attempt | undefined): PullOf<E> => {
          if (next === undefined) {
            return Effect.flatMap(run.succeeded(author, undefined), (costUsd) =>
              shownOr(gate.deliverCut(author.answered, costUsd))
            )
          }
          const void_ = next.rewind ? gate.rewind() : next.apart ? gate.close() : []
          if (next.rewind) isGiven = false
          const said = [...void_, ...news()]
          return Effect.flatMap(open(next), (begun) => {
            opened = begun
            return shownOr(said)
          })
        }
        const shownOr = (out: ReadonlyArray<Part>): PullOf<E> => (isShown(out) ? Effect.succeed(out) : pull)
        /** Changes of model, as parts, where the consumer can be told of them. */
        const news = (): ReadonlyArray<Part> => {
          const notices = run.takeNotices()
          return surface.rewindable ? notices.map(Surface.carrier) : nothing
        }
        return pull
      })
    )
  )

const nothing: ReadonlyArray<Part> = []

/**
 * An attempt whose request is under way. {@link Opened.pull} continues with one of two functions instead of returning a
 * result: a pull costs one step less.
 */
class Opened {
  readonly attempt: Attempt
  readonly #run: CallRun
  readonly #gate: StreamGate
  readonly #request: ProviderRequest
  readonly #ready: Ready
  readonly #scope: Scope.Closeable
  readonly #firstToken: number
  readonly #idle: number
  readonly #slow: SlowStream | undefined
  /** The context of the fiber that opened the attempt. Another fiber may read the attempt after that one has ended. */
  readonly #context: Context.Context<never>
  /** Calls the alarm off, while one is set. */
  #callOff: (() => void) | undefined
  /** When the current wait for the provider began, by `CallRun.awake`. */
  #waitingSince: number | undefined
  #begun = false
  /** Milliseconds waited for the provider since it last sent something. */
  #silent = 0
  /** Milliseconds waited for the provider, and characters that came, since the pace was last looked at. */
  #waited = 0
  #characters = 0
  #tooSlow = false

  private constructor(
    run: CallRun,
    gate: StreamGate,
    attempt: Attempt,
    request: ProviderRequest,
    ready: Ready,
    scope: Scope.Closeable,
    context: Context.Context<never>
  ) {
    this.#context = context
    const { limits } = run.chain.policy
    const reasons = attempt.target.model.info.reasoning === true
    this.attempt = attempt
    this.#run = run
    this.#gate = gate
    this.#request = request
    this.#ready = ready
    this.#scope = scope
    this.#firstToken = Duration.toMillis(reasons ? limits.firstTokenReasoning : limits.firstToken)
    this.#idle = Duration.toMillis(reasons ? limits.idleReasoning : limits.idle)
    this.#slow = limits.slow
  }

  /** Opens the attempt, with what the consumer has already seen of the answer. */
  static readonly make = (
    run: CallRun,
    gate: StreamGate,
    attempt: Attempt,
    parent: Scope.Scope
  ): Effect.Effect<Opened, never, IdGenerator.IdGenerator> =>
    Effect.withFiber(({ context }) => {
      const request = run.request(attempt, gate.text)
      gate.begin(attempt.answered, attempt.maker, run.judge(attempt))
      const scope = Scope.forkUnsafe(parent)
      return Effect.flatMap(reading(AttemptRequest.streamText(attempt.target, request), scope), (ready) => {
        const opened = new Opened(run, gate, attempt, request, ready, scope, context)
        return Effect.as(
          Scope.addFinalizer(
            scope,
            Effect.sync(() => opened.#disarm())
          ),
          opened
        )
      })
    })

  /** Milliseconds of waiting for the provider that are left before its limit. */
  get #left(): number {
    return (this.#begun ? this.#idle : this.#firstToken) - this.#silent
  }

  /** Sets one alarm for many waits: a wait that begins later sets it anew when it rings too early. */
  #arm(millis: number): void {
    this.#callOff = Alarm.set(this.#context, Math.max(0, millis), () => {
      this.#callOff = undefined
      // Parts that arrived in time are about to be read.
      if (this.#waitingSince === undefined || Queue.sizeUnsafe(this.#ready) > 0) return
      const left = this.#left - (this.#run.awake() - this.#waitingSince)
      if (left > 0) this.#arm(left)
      else Queue.failCauseUnsafe(this.#ready, Cause.fail(this.#late))
    })
  }

  #disarm(): void {
    this.#callOff?.()
    this.#callOff = undefined
  }

  get #late(): ProviderFailure {
    const phase = this.#begun ? "idle" : "first-token"
    return local(`limit/${phase}`, new Timeout({ phase, local: true }), this.attempt.target.ref)
  }

  /** Milliseconds that the call has waited for the provider since it last sent something. */
  get silence(): number {
    return this.#silent + (this.#waitingSince === undefined ? 0 : this.#run.awake() - this.#waitingSince)
  }

  /** Ends the request. */
  get close(): Effect.Effect<void> {
    return Scope.close(this.#scope, Exit.void)
  }

  /** The failure as it is reported: where it happened, and nothing secret in it. */
  located(failure: ProviderFailure): ProviderFailure {
    return AttemptRequest.failureAt(this.attempt.target, this.#request, failure)
  }

  /** Waits for the provider, and hands on what the consumer may see of what came, or why nothing did. */
  pull<E>(
    received: (out: ReadonlyArray<Part>, isFirst: boolean) => PullOf<E>,
    failed: (failure: ProviderFailure) => PullOf<E>
  ): PullOf<E> {
    const now = this.#run.now()
    const waitedFrom = this.#run.awake(now)
    const { ref } = this.attempt.target
    // Parts that have already arrived need no time limit.
    if (Queue.sizeUnsafe(this.#ready) === 0) {
      this.#waitingSince = waitedFrom
      if (this.#callOff === undefined) this.#arm(this.#left)
    }
    return Queue.takeAll(this.#ready).pipe(
      Effect.matchEffect({
        onSuccess: (arrays) => {
          const hadBegun = this.#begun
          const out = this.#read(arrays.length === 1 ? arrays[0] : arrays.flat(), now, waitedFrom)
          // An attempt that has ended is not slow any more.
          if (!this.#tooSlow || this.#gate.end !== undefined) return received(out, !hadBegun && this.#begun)
          const slow = local("limit/slow", new Timeout({ phase: "idle", local: true }), ref)
          return failed(slow)
        },
        onFailure: (failure) =>
          failed(Cause.isDone(failure) ? local("stream/cut", new Network(), ref) : failure)
      })
    )
  }

  /** `since` is when the wait for these parts began, and `waitedFrom` is the same by `CallRun.awake`. */
  #read(parts: ReadonlyArray<Part>, since: number, waitedFrom: number): ReadonlyArray<Part> {
    this.#waitingSince = undefined
    const out = this.#gate.push(parts)
    if (this.#slow !== undefined) this.#pace(this.#slow, parts, waitedFrom)
    if (this.#gate.alive) {
      this.#run.progressed(this.#begun ? since : this.#run.now())
      // The limit between tokens may be the shorter one.
      if (!this.#begun) this.#disarm()
      this.#begun = true
      this.#silent = 0
    } else this.#silent += this.#run.awake() - waitedFrom
    return out
  }

  /** Looks at how fast it comes, once in each span of waiting for the provider. */
  #pace({ charactersPerSecond, over }: SlowStream, parts: ReadonlyArray<Part>, waitedFrom: number): void {
    if (!this.#begun) return
    const span = Duration.toMillis(over)
    this.#waited += this.#run.awake() - waitedFrom
    for (const part of parts) if ("delta" in part) this.#characters += part.delta.length
    if (this.#waited < span) return
    this.#tooSlow = this.#characters < (charactersPerSecond * this.#waited) / 1_000
    this.#waited = 0
    this.#characters = 0
  }
}

/**
 * Reads a provider's stream in a fiber of `scope`, a little ahead of the consumer. Parts that are ready together
 * are taken together: the time limit, and everything behind us, costs per batch and not per part.
 */
const reading = (
  stream: Stream.Stream<Part, ProviderFailure, IdGenerator.IdGenerator>,
  scope: Scope.Scope
): Effect.Effect<Ready, never, IdGenerator.IdGenerator> =>
  Effect.gen(function* () {
    const ready = yield* Queue.bounded<Parts, ProviderFailure | Cause.Done>(readAhead)
    // The opening of the stream is part of it: it must not escape the limit for the first token.
    const all = Effect.flatMap(Channel.toPullScoped(stream.channel, scope), (upstream) => {
      const rest: PullOf<ProviderFailure> = Effect.flatMap(upstream, (parts) => {
        // Mostly there is room, and then it costs no Effect.
        if (Queue.offerUnsafe(ready, parts)) return rest
        return Effect.flatMap(Queue.offer(ready, parts), () => rest)
      })
      return rest
    })
    yield* Effect.forkIn(
      Effect.catchCause(all, (cause) => Queue.failCause(ready, cause)),
      scope,
      { startImmediately: true }
    )
    return ready
  })

const isShown = (parts: ReadonlyArray<Part>): parts is Parts => parts.length > 0

/** The failure that the end of an attempt says. */
const failureOf = (
  { part, problem }: Extract<AttemptEnd, { readonly _tag: "Failed" }>,
  target: TargetRef
): Effect.Effect<ProviderFailure> => {
  if (problem !== undefined) return Effect.succeed(problem)
  if (part.type === "error") return Classifier.failure(part.error, { target, waits: true })
  return Effect.succeed(
    part.reason === "error"
      ? local("stream/finish-error", new ServerError(), undefined)
      : local(
          "stream/cut-arguments",
          new Format({ side: "response" }),
          undefined,
          "The arguments of a tool call were cut."
        )
  )
}
