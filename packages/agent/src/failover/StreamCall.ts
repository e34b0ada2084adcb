/**
 * One streamed call: attempts until one reaches its complete finish, shown to the consumer as one answer.
 *
 * What may be shown is `StreamGate`'s matter; here are the time limits and the way from one attempt to the
 * next. The limit for the first token covers the opening of the stream; the limit between tokens counts only
 * while we wait for the provider, never while the consumer is busy. An attempt is closed, its request aborted,
 * before the next one begins.
 */
import type { Pull } from "effect"
import { Cause, Channel, Duration, Effect, Exit, Queue, Scope, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { CallFailure } from "../failure/CallFailure.ts"
import * as Classifier from "../failure/Classifier.ts"
import { Network, ServerError, Timeout } from "../failure/FailoverReason.ts"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import { local } from "../failure/ProviderFailure.ts"
import { failureAt, requestOf } from "./AttemptRequest.ts"
import type { Attempt, Chain } from "./CallRun.ts"
import { CallRun } from "./CallRun.ts"
import * as Conversation from "./Conversation.ts"
import type { ProviderRequest } from "./ProviderModel.ts"
import { StreamGate } from "./StreamGate.ts"

type Part = Response.StreamPartEncoded
type Parts = readonly [Part, ...Array<Part>]
type PullOf<E> = Pull.Pull<Parts, E, void, IdGenerator.IdGenerator>

/** Parts of an attempt that are read before the consumer asks for them, at most. */
const readAhead = 64

/**
 * The parts of one answer, whatever number of attempts it takes. What the call fails with goes through
 * `toError` here: mapping the stream's errors outside would cost every pull.
 */
export const streamText = <E>(
  chain: Chain,
  options: LanguageModel.ProviderOptions,
  toError: (failure: CallFailure) => E
): Stream.Stream<Part, E, IdGenerator.IdGenerator> =>
  Stream.fromChannel(
    Channel.fromTransform((_, scope) =>
      Effect.gen(function* () {
        const run = yield* CallRun.make(chain)
        yield* Scope.addFinalizer(scope, run.abandoned)
        const request = yield* requestOf(options)
        const gate = new StreamGate(run.requested)
        const open = (attempt: Attempt) => Opened.make(run, gate, attempt, request(attempt.target), scope)
        let opened = yield* run
          .advance({ _tag: "Started" })
          .pipe(Effect.mapError(toError), Effect.flatMap(open))

        const pull: PullOf<E> = Effect.suspend(() => {
          if (gate.finish !== undefined) return Cause.done()
          return gate.failed === undefined
            ? opened.pull(received, failed)
            : Effect.flatMap(failureOf(gate.failed, opened.attempt.target.ref.provider), failed)
        })
        const received = (out: ReadonlyArray<Part>): PullOf<E> => {
          const { seam } = gate
          if (seam === undefined) return shown(out)
          gate.seam = undefined
          return Effect.andThen(run.joined(opened.attempt, seam), shown(out))
        }
        const shown = (out: ReadonlyArray<Part>): PullOf<E> => {
          if (gate.finish !== undefined) return finished(out, gate.finish)
          return isShown(out) ? Effect.succeed(out) : pull
        }
        const finished = (out: ReadonlyArray<Part>, finish: Response.FinishPartEncoded): PullOf<E> =>
          Effect.map(run.succeeded(opened.attempt, finish), (costUsd) => {
            const last = gate.priced(finish, costUsd)
            const [head, ...tail] = out
            return head === undefined ? [last] : [head, ...tail, last]
          })
        const failed = (failure: ProviderFailure): PullOf<E> =>
          opened.close.pipe(
            Effect.andThen(
              run.failed(opened.attempt, opened.located(failure), gate.commit, usageOf(gate.failed))
            ),
            Effect.mapError(toError),
            Effect.flatMap(open),
            Effect.flatMap((next) => {
              opened = next
              return pull
            })
          )
        return pull
      })
    )
  )

/** An attempt whose request is under way. */
class Opened {
  readonly attempt: Attempt
  readonly #run: CallRun
  readonly #gate: StreamGate
  readonly #request: ProviderRequest
  readonly #upstream: PullOf<ProviderFailure>
  readonly #scope: Scope.Closeable
  readonly #firstToken: number
  readonly #idle: number
  #begun = false
  /** Milliseconds waited for the provider since it last sent something. */
  #silent = 0

  private constructor(
    run: CallRun,
    gate: StreamGate,
    attempt: Attempt,
    request: ProviderRequest,
    upstream: PullOf<ProviderFailure>,
    scope: Scope.Closeable
  ) {
    const { limits } = run.chain.policy
    const reasons = attempt.target.model.info.reasoning === true
    this.attempt = attempt
    this.#run = run
    this.#gate = gate
    this.#request = request
    this.#upstream = upstream
    this.#scope = scope
    this.#firstToken = Duration.toMillis(reasons ? limits.firstTokenReasoning : limits.firstToken)
    this.#idle = Duration.toMillis(reasons ? limits.idleReasoning : limits.idle)
  }

  /** Opens the attempt, with what the consumer has already seen of the answer. */
  static readonly make = (
    run: CallRun,
    gate: StreamGate,
    attempt: Attempt,
    plain: ProviderRequest,
    parent: Scope.Scope
  ): Effect.Effect<Opened, never, IdGenerator.IdGenerator> =>
    Effect.suspend(() => {
      const request =
        // Some providers refuse an assistant message of blanks; there is nothing in it to continue.
        gate.text.trim() === ""
          ? plain
          : { ...plain, prompt: Conversation.continued(plain.prompt, gate.text, run.chain.policy.nudge) }
      gate.begin(attempt.answered)
      const scope = Scope.forkUnsafe(parent)
      return Effect.map(
        reading(attempt.target.model.streamText(request), scope),
        (upstream) => new Opened(run, gate, attempt, request, upstream, scope)
      )
    })

  /** Ends the request. */
  get close(): Effect.Effect<void> {
    return Scope.close(this.#scope, Exit.void)
  }

  /** The failure as it is reported: where it happened, and nothing secret in it. */
  located(failure: ProviderFailure): ProviderFailure {
    return failureAt(this.attempt.target, this.#request, failure)
  }

  /** Waits for the provider, and hands on what the consumer may see of what came, or why nothing did. */
  pull<E>(
    received: (out: ReadonlyArray<Part>) => PullOf<E>,
    failed: (failure: ProviderFailure) => PullOf<E>
  ): PullOf<E> {
    const waitedFrom = this.#run.now()
    const phase = this.#begun ? "idle" : "first-token"
    const { ref } = this.attempt.target
    return this.#upstream.pipe(
      Effect.timeoutOrElse({
        duration: Math.max(0, (this.#begun ? this.#idle : this.#firstToken) - this.#silent),
        orElse: () => Effect.fail(local(`limit/${phase}`, new Timeout({ phase, local: true }), ref))
      }),
      Effect.matchEffect({
        onSuccess: (parts) => received(this.#read(parts, waitedFrom)),
        onFailure: (failure) =>
          failed(Cause.isDone(failure) ? local("stream/cut", new Network(), ref) : failure)
      })
    )
  }

  #read(parts: Parts, waitedFrom: number): ReadonlyArray<Part> {
    this.#gate.alive = false
    const out = this.#gate.push(parts)
    if (this.#gate.alive) {
      this.#begun = true
      this.#silent = 0
    } else this.#silent += this.#run.now() - waitedFrom
    return out
  }
}

/**
 * Reads a provider's stream in a fiber of `scope`, a little ahead of the consumer. Parts that are ready together
 * are taken together: the time limit, and everything behind us, costs per batch and not per part.
 */
const reading = (
  stream: Stream.Stream<Part, ProviderFailure, IdGenerator.IdGenerator>,
  scope: Scope.Scope
): Effect.Effect<PullOf<ProviderFailure>, never, IdGenerator.IdGenerator> =>
  Effect.gen(function* () {
    const ready = yield* Queue.bounded<Part, ProviderFailure | Cause.Done>(readAhead)
    // The opening of the stream is part of it: it must not escape the limit for the first token.
    const all = Effect.flatMap(Channel.toPullScoped(stream.channel, scope), (upstream) => {
      const rest: PullOf<ProviderFailure> = Effect.flatMap(upstream, (parts) =>
        Effect.flatMap(Queue.offerAll(ready, parts), () => rest)
      )
      return rest
    })
    yield* Effect.forkIn(
      Effect.catchCause(all, (cause) => Queue.failCause(ready, cause)),
      scope,
      { startImmediately: true }
    )
    return Queue.takeAll(ready)
  })

const isShown = (parts: ReadonlyArray<Part>): parts is Parts => parts.length > 0

/** What a failed attempt is known to have taken. */
const usageOf = (part: StreamGate["failed"]): Response.FinishPartEncoded["usage"] | undefined =>
  part?.type === "finish" ? part.usage : undefined

/** What a part that ends an attempt says. */
const failureOf = (
  part: NonNullable<StreamGate["failed"]>,
  provider: string
): Effect.Effect<ProviderFailure> =>
  part.type === "finish"
    ? Effect.succeed(local("stream/finish-error", new ServerError(), undefined))
    : Classifier.failure(part.error, { provider })
