/**
 * One attempt whose stream is read: its request, its time limits, and what the consumer may see of it (`Answer`).
 *
 * The limit for the first token covers the opening of the stream. The provider's stream is read a little ahead of the
 * consumer, in a fiber of the attempt's scope.
 */
import type { Pull } from "effect"
import { Cause, Channel, Effect, Exit, Queue, Scope, Stream } from "effect"
import type { IdGenerator } from "effect/ai"
import { Network, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { ProviderRequest } from "../target/ProviderModel.ts"
import type { Answer } from "./Answer.ts"
import type { Attempt } from "./Attempt.ts"
import * as AttemptRequest from "./AttemptRequest.ts"
import type { CallRun } from "./CallRun.ts"
import { Pace } from "./Pace.ts"
import type { StreamPart } from "./PartKind.ts"
import * as Silence from "./Silence.ts"

export type Parts = readonly [StreamPart, ...Array<StreamPart>]
export type PullOf<E> = Pull.Pull<Parts, E, void, IdGenerator.IdGenerator>

/** Parts of an attempt that have arrived and have not been read yet. */
type Ready = Queue.Queue<Parts, ProviderFailure | Cause.Done>

/** Arrays of parts of an attempt, as the provider sends them, that are read before the consumer asks, at most. */
const readAhead = 64

/** {@link StreamAttempt.pull} continues with one of two functions instead of returning a result: a pull costs one step less. */
export class StreamAttempt {
  readonly attempt: Attempt
  readonly #run: CallRun
  readonly #answer: Answer
  readonly #request: ProviderRequest
  readonly #ready: Ready
  readonly #scope: Scope.Closeable
  readonly #silence: Silence.Silence
  readonly #pace: Pace | undefined

  private constructor(
    run: CallRun,
    answer: Answer,
    attempt: Attempt,
    request: ProviderRequest,
    ready: Ready,
    scope: Scope.Closeable,
    silence: Silence.Silence
  ) {
    const { slow } = run.chain.policy.limits
    this.attempt = attempt
    this.#run = run
    this.#answer = answer
    this.#request = request
    this.#ready = ready
    this.#scope = scope
    this.#silence = silence
    this.#pace = slow === undefined ? undefined : new Pace(slow)
  }

  /** Opens the attempt, with what the consumer has already seen of the answer. */
  static readonly make = (
    run: CallRun,
    answer: Answer,
    attempt: Attempt,
    parent: Scope.Scope
  ): Effect.Effect<StreamAttempt, never, IdGenerator.IdGenerator> =>
    Effect.withFiber(({ context }) => {
      const { target } = attempt
      const request = run.request(attempt, answer.text)
      answer.begin(attempt, run.judge(attempt))
      const scope = Scope.forkUnsafe(parent)
      return Effect.flatMap(reading(AttemptRequest.streamText(target, request), scope), (ready) => {
        const silence = new Silence.Silence(
          run,
          Silence.limitsOf(run, target),
          context,
          () => Queue.sizeUnsafe(ready) > 0,
          () => Queue.failCauseUnsafe(ready, Cause.fail(Silence.failure(target, silence.hasBegun)))
        )
        const stop = Effect.sync(() => silence.stop())
        return Effect.as(
          Scope.addFinalizer(scope, stop),
          new StreamAttempt(run, answer, attempt, request, ready, scope, silence)
        )
      })
    })

  /** Milliseconds that the call has waited for the provider since it last sent something. */
  get silence(): number {
    return this.#silence.millis
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
    received: (out: ReadonlyArray<StreamPart>, isFirst: boolean) => PullOf<E>,
    failed: (failure: ProviderFailure) => PullOf<E>
  ): PullOf<E> {
    const now = this.#run.now()
    const waitedFrom = this.#run.awake(now)
    const { ref } = this.attempt.target
    // Parts that have already arrived need no time limit.
    if (Queue.sizeUnsafe(this.#ready) === 0) this.#silence.wait(waitedFrom)
    return Queue.takeAll(this.#ready).pipe(
      Effect.matchEffect({
        onSuccess: (arrays) => {
          const hadBegun = this.#silence.hasBegun
          const out = this.#read(arrays.length === 1 ? arrays[0] : arrays.flat(), now, waitedFrom)
          // An attempt that has ended is not slow any more.
          if (this.#pace?.isTooSlow !== true || this.#answer.end !== undefined)
            return received(out, !hadBegun && this.#silence.hasBegun)
          const slow = local("limit/slow", new Timeout({ phase: "idle", local: true }), ref)
          return failed(slow)
        },
        onFailure: (failure) =>
          failed(Cause.isDone(failure) ? local("stream/cut", new Network(), ref) : failure)
      })
    )
  }

  /** `since` is when the wait for these parts began, and `waitedFrom` is the same by `CallRun.awake`. */
  #read(parts: ReadonlyArray<StreamPart>, since: number, waitedFrom: number): ReadonlyArray<StreamPart> {
    const { hasBegun } = this.#silence
    const out = this.#answer.push(parts)
    if (hasBegun) this.#pace?.read(parts, this.#run.awake() - waitedFrom)
    if (this.#answer.alive) this.#run.progressed(hasBegun ? since : this.#run.now())
    this.#silence.heard(waitedFrom, this.#answer.alive)
    return out
  }
}

/** Parts that are ready together are taken together: the time limit, and everything behind us, costs per batch and not per part. */
const reading = (
  stream: Stream.Stream<StreamPart, ProviderFailure, IdGenerator.IdGenerator>,
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
