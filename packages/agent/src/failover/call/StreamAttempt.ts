/**
 * One attempt whose stream is read: its request, its time limits, and what the consumer may see of it (`Answer`).
 *
 * The limit for the first token covers the opening of the stream. The provider's stream is read a little ahead of the
 * consumer, in a fiber of the attempt's scope.
 */
import type { Pull, Stream } from "effect"
import { Cause, Channel, Effect, Exit, Queue, Scope } from "effect"
import type { IdGenerator } from "effect/ai"
import { Network, Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import { readAhead } from "../decide/Bounds.ts"
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

/** Parts of an attempt that have arrived and have not been read yet, or {@link late}. */
type Ready = Queue.Queue<Parts, ProviderFailure | Cause.Done>

/** An attempt whose request is under way. */
export interface StreamAttempt {
  readonly attempt: Attempt
  readonly run: CallRun
  readonly answer: Answer
  readonly request: ProviderRequest
  readonly ready: Ready
  readonly scope: Scope.Closeable
  readonly silence: Silence.Silence
  readonly pace: Pace | undefined
}

/** Stands in the queue of an attempt for the news that its first token is late. Known by its identity, and never shown. */
export const late: Parts = [
  { type: "response-metadata", id: undefined, modelId: undefined, timestamp: undefined }
]

/**
 * Opens the attempt, with what the consumer has already seen of the answer. {@link begin} lets it write on in the answer.
 */
export const open = (
  run: CallRun,
  answer: Answer,
  attempt: Attempt,
  parent: Scope.Scope
): Effect.Effect<StreamAttempt, never, IdGenerator.IdGenerator> =>
  Effect.withFiber(({ context }) => {
    const { target } = attempt
    const request = run.request(attempt, answer.shown.text.all)
    const scope = Scope.forkUnsafe(parent)
    return Effect.flatMap(reading(AttemptRequest.streamText(target, request), scope), (ready) => {
      const silence = new Silence.Silence(run, attempt, context, {
        isOver: () => Queue.sizeUnsafe(ready) > 0,
        onLimit: (failure) => Queue.failCauseUnsafe(ready, Cause.fail(failure)),
        onLate: () => Queue.offerUnsafe(ready, late)
      })
      const stop = Effect.sync(() => silence.stop())
      const { slow } = run.chain.policy.limits
      const pace = slow === undefined ? undefined : new Pace(slow)
      const opened = { attempt, run, answer, request, ready, scope, silence, pace }
      return Effect.as(Scope.addFinalizer(scope, stop), opened)
    })
  })

/** The parts of the attempt are those of the answer from now on. */
export const begin = ({ answer, attempt, run }: StreamAttempt): void =>
  answer.begin(attempt, run.judge(attempt))

/** Ends the request. */
export const close = ({ scope }: StreamAttempt): Effect.Effect<void> => Scope.close(scope, Exit.void)

/** The failure as it is reported: where it happened, and nothing secret in it. */
export const located = ({ attempt, request }: StreamAttempt, failure: ProviderFailure): ProviderFailure =>
  AttemptRequest.failureAt(attempt.target, request, failure)

/** What follows when parts have come, when nothing comes any more, and when the first token is late. */
export interface Next<E> {
  readonly received: (out: ReadonlyArray<StreamPart>, isFirst: boolean) => PullOf<E>
  readonly failed: (failure: ProviderFailure) => PullOf<E>
  readonly late: PullOf<E>
}

/**
 * Waits for the provider, and hands on what the consumer may see of what came, or why nothing did. Continues with one of
 * three functions instead of returning a result: a pull costs one step less.
 */
export const pull = <E>(opened: StreamAttempt, next: Next<E>): PullOf<E> => {
  const { ready, run, silence } = opened
  const now = run.now()
  const waitedFrom = run.awake(now)
  // Parts that have already arrived need no time limit.
  if (Queue.sizeUnsafe(ready) === 0) silence.wait(waitedFrom)
  return Queue.takeAll(ready).pipe(
    Effect.matchEffect({
      onSuccess: (arrays) => {
        if (arrays[0] === late) {
          if (arrays.length === 1) return next.late
          // Something came at the same moment.
          silence.waitOn()
          return take(opened, arrays.slice(1).flat(), now, waitedFrom, next)
        }
        return take(opened, arrays.length === 1 ? arrays[0] : arrays.flat(), now, waitedFrom, next)
      },
      onFailure: (failure) => next.failed(endOf(opened, failure))
    })
  )
}

/** The failure of an attempt whose stream has ended before its finish. */
export const endOf = ({ attempt }: StreamAttempt, failure: ProviderFailure | Cause.Done): ProviderFailure =>
  Cause.isDone(failure) ? local("stream/cut", new Network(), attempt.target.ref) : failure

/**
 * Hands on what the consumer may see of parts that have come. `since` is when the wait for them began, and `waitedFrom` is
 * the same by `CallRun.awake`.
 */
export const take = <E>(
  opened: StreamAttempt,
  parts: ReadonlyArray<StreamPart>,
  since: number,
  waitedFrom: number,
  { failed, received }: Next<E>
): PullOf<E> => {
  const { answer, attempt, pace, silence } = opened
  const hadBegun = silence.hasBegun
  const out = read(opened, parts, since, waitedFrom)
  // An attempt that has ended is not slow any more.
  return pace?.isTooSlow === true && answer.end === undefined
    ? failed(local("limit/slow", new Timeout({ phase: "idle", local: true }), attempt.target.ref))
    : received(out, !hadBegun && silence.hasBegun)
}

const read = (
  { answer, attempt, pace, run, silence }: StreamAttempt,
  parts: ReadonlyArray<StreamPart>,
  since: number,
  waitedFrom: number
): ReadonlyArray<StreamPart> => {
  const { hasBegun } = silence
  const out = answer.push(parts)
  const { isAlive } = answer.shown
  if (hasBegun) pace?.read(parts, run.awake() - waitedFrom)
  if (isAlive) run.progressed(attempt, hasBegun ? since : run.now())
  silence.heard(isAlive)
  return out
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
