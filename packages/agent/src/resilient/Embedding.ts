/**
 * An effect/ai `EmbeddingModel` with retries, a circuit, a time limit and a deadline.
 *
 * Batches stay batches: concurrent calls of `embed` are one request, and the request is retried, not each call.
 * Failures are classified as those of language models, so a provider's Retry-After is used. They leave as
 * `CallFailed`: `Outlast.failureOf(error)` returns the typed failure, and a surrounding retry does not repeat it.
 *
 * A rate limit does not count for the circuit, because the provider is healthy.
 *
 * **Limits.** There is one provider and one key, because vectors of another model would not be comparable. Batches
 * are not split.
 *
 * **Example** (Behind the model of a provider)
 *
 * ```ts
 * const Embeddings = Resilient.layerEmbedding({ provider: "openai", deadline: "1 minute" }).pipe(
 *   Layer.provide(ProviderEmbeddings),
 *   Layer.provide(CircuitBreaker.layer())
 * )
 * ```
 */
import { Cause, Deferred, Duration, Effect, Exit, Layer, RequestResolver } from "effect"
import type { AiError } from "effect/ai"
import { EmbeddingModel } from "effect/ai"
import { CircuitBreaker, Retry } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import { fromFailure } from "../failure/reasons/CallFailed.ts"
import type { CallFailed } from "../failure/reasons/CallFailed.ts"
import * as Classifier from "../failure/Classifier.ts"
import * as WellFormed from "../conversation/WellFormed.ts"
import { ServerError, Timeout } from "../failure/reasons/FailoverReason.ts"
import { briefly, local, ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import { timed } from "../failover/target/Timed.ts"
import * as Passing from "./Passing.ts"
import * as Kind from "../options/Kind.ts"
import type { RetryPolicy } from "./Toolkit.ts"
import { circuit, circuitBreaker, retryChecks } from "./Toolkit.ts"

/** Options of retries: see `Retry.Options`. The classes are the tags of reasons. */
export interface Policy extends RetryPolicy {
  /** Name of the provider, for example `openai`. Some sentences mean different things from different providers. */
  readonly provider?: string | undefined
  /** Time limit of one attempt. Default 1 minute; `false`: none. */
  readonly timeout?: Duration.Input | false | undefined
  /** Name of the circuit. Default `embedding/<provider>`; `false`: no circuit. */
  readonly circuit?: string | false | undefined
}

export const defaults = { provider: "default", timeout: "1 minute" } as const

const checks: Check.Checks<Policy> = {
  ...retryChecks,
  provider: Kind.name,
  timeout: Kind.orFalse(Kind.positiveDuration),
  circuit
}

const isModel = Kind.having(
  "an EmbeddingModel, as EmbeddingModel.make gives it",
  "embed",
  "embedMany",
  "resolver"
)

/** Wraps a model. Throws an `InvalidOption` (a `RangeError`) for an option that is unknown or out of range. */
export const embedding = (
  model: EmbeddingModel.EmbeddingModel,
  policy: Policy = {}
): Effect.Effect<EmbeddingModel.EmbeddingModel, never, CircuitBreaker.CircuitBreaker> => {
  Check.fields("Resilient.embedding", policy, checks)
  isModel("Resilient.embedding", "model", model)
  const guard = guardOf(policy)
  return Effect.map(circuitBreaker, (breaker) => {
    const resilient = <A>(
      method: string,
      inputs: ReadonlyArray<string>,
      request: Effect.Effect<A, AiError.AiError>
    ): Effect.Effect<A, CallFailed> =>
      Effect.provideService(guard(method, inputs, request), CircuitBreaker.CircuitBreaker, breaker)
    const callers = makeCallers()
    const { batchKey, collectWhile, delay, preCheck } = model.resolver
    const resolver = RequestResolver.makeWith<EmbeddingModel.EmbeddingRequest>({
      // The same function object, because Effect's runtime looks up by it how keys compare.
      batchKey,
      collectWhile,
      delay,
      preCheck,
      runAll: (entries, key) =>
        callers.whileWaiting(
          entries.map(({ request }) => request),
          resilient(
            "embed",
            entries.map(({ request }) => request.input),
            Effect.suspend(() => model.resolver.runAll(entries, key))
          )
        )
    })
    return EmbeddingModel.EmbeddingModel.of({
      [EmbeddingModel.TypeId]: EmbeddingModel.TypeId,
      resolver,
      embed: (input) =>
        Effect.suspend(() => {
          const request = new EmbeddingModel.EmbeddingRequest({ input: WellFormed.of(input) })
          return Effect.onInterrupt(Effect.request(request, resolver), () => callers.gone(request))
        }),
      embedMany: (inputs) => {
        const sent = WellFormed.of(inputs)
        return resilient("embedMany", sent, model.embedMany(sent))
      }
    })
  })
}

/** The layer of {@link embedding}. Provide the plain model to it. */
export const layerEmbedding = (
  policy?: Policy
): Layer.Layer<
  EmbeddingModel.EmbeddingModel,
  never,
  EmbeddingModel.EmbeddingModel | CircuitBreaker.CircuitBreaker
> =>
  Layer.effect(
    EmbeddingModel.EmbeddingModel,
    Effect.flatMap(
      MissingService.get(
        EmbeddingModel.EmbeddingModel,
        "EmbeddingModel",
        "the layer of your provider's embedding model"
      ),
      (model) => embedding(model, policy)
    )
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

/**
 * Counts the callers that wait for a batch. Effect continues a batch after all its callers were interrupted; with
 * retries, those attempts would be wasted.
 */
const makeCallers = () => {
  const batches = new WeakMap<EmbeddingModel.EmbeddingRequest, Batch>()
  return {
    whileWaiting: <E>(
      requests: ReadonlyArray<EmbeddingModel.EmbeddingRequest>,
      self: Effect.Effect<void, E>
    ): Effect.Effect<void, E> =>
      Effect.suspend(() => {
        const batch = { waiting: requests.length, abandoned: Deferred.makeUnsafe<void>() }
        for (const request of requests) batches.set(request, batch)
        return Effect.raceFirst(self, Effect.andThen(Deferred.await(batch.abandoned), Effect.interrupt))
      }),
    gone: (request: EmbeddingModel.EmbeddingRequest): Effect.Effect<void> =>
      Effect.sync(() => {
        const batch = batches.get(request)
        if (batch !== undefined && --batch.waiting === 0) Deferred.doneUnsafe(batch.abandoned, Exit.void)
      })
  }
}

interface Batch {
  waiting: number
  readonly abandoned: Deferred.Deferred<void>
}

const guardOf = (policy: Policy) => {
  const { circuit, provider, timeout = defaults.timeout, ...retry } = policy
  const name = `embedding/${provider ?? defaults.provider}`
  const limit = timeout === false ? undefined : Duration.fromInputUnsafe(timeout)
  const retried = Retry.with({
    ...retry,
    name,
    classify: Passing.verdict,
    ...(circuit === false ? undefined : { breaker: { circuit: circuit ?? name, classify: forCircuit } })
  })
  return <A>(
    method: string,
    inputs: ReadonlyArray<string>,
    request: Effect.Effect<A, AiError.AiError>
  ): Effect.Effect<A, CallFailed, CircuitBreaker.CircuitBreaker> => {
    const classified = Effect.catch(request, (error) =>
      Effect.flatMap(
        Classifier.failure(error, { provider, waits: true, secrets: { prompt: inputs } }),
        (failure) => Effect.fail(failure)
      )
    )
    const attempt =
      limit === undefined || !Duration.isFinite(limit)
        ? classified
        : timed(classified, limit, () =>
            Effect.fail(local("limit/total", new Timeout({ phase: "total", local: true }), undefined))
          )
    return Effect.mapError(retried(attempt), ({ failure }) =>
      fromFailure(method, failure instanceof ProviderFailure ? failure : refused(failure))
    )
  }
}

/** Converts a rejection by the circuit to a failure of the provider, which is why the circuit is open. */
const refused = ({
  message,
  retryAfter
}: {
  readonly message: string
  readonly retryAfter?: Duration.Duration | undefined
}) =>
  new ProviderFailure({
    reason: new ServerError(),
    evidence: { rule: "circuit/refused", signal: "local", depth: 0 },
    retryAfter,
    detail: message
  })

const forCircuit: CircuitBreaker.Classify = (exit) => {
  const outcome = CircuitBreaker.classify(exit)
  if (outcome.counts !== "failure" || Exit.isSuccess(exit) || Cause.hasDies(exit.cause)) return outcome
  const failure = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (!(failure instanceof ProviderFailure)) return outcome
  const passes = Passing.verdict(failure).retry && failure.reason._tag !== "RateLimit"
  return passes
    ? { counts: "failure", retryAfter: failure.retryAfter, what: briefly(failure) }
    : { counts: "ignored" }
}
