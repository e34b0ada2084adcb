import { assert, describe, it } from "@effect/vitest"
import { Outlast, Resilient } from "@outlast/agent"
import { Backoff, CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import type { Scope } from "effect"
import { Clock, Duration, Effect, Exit, Fiber, Layer, Option, Ref } from "effect"
import { AiError, EmbeddingModel } from "effect/ai"
import { TestClock } from "effect/testing"

interface Request {
  readonly inputs: ReadonlyArray<string>
  /** Time of the request in seconds. */
  readonly at: number
}

interface Setup {
  readonly model: EmbeddingModel.EmbeddingModel
  readonly requests: Effect.Effect<ReadonlyArray<Request>>
  readonly events: Effect.Effect<ReadonlyArray<string>>
  readonly breaker: CircuitBreaker.Service
}

const policy: NonNullable<Parameters<typeof Resilient.embedding>[1]> = {
  provider: "acme",
  backoff: Backoff.exponential({ initial: "1 second", jitter: 0 })
}

const failed = (reason: AiError.AiErrorReason) =>
  AiError.make({ module: "Acme", method: "embedMany", reason })
const broken = failed(new AiError.InternalProviderError({ description: "Oops, internal error" }))

/** A model whose n-th request fails with `fault(n)`. */
const setup = (
  fault: (n: number) => Effect.Effect<void, AiError.AiError>,
  options: typeof policy = policy
): Effect.Effect<Setup, never, Scope.Scope> =>
  Effect.gen(function* () {
    const requests = yield* Ref.make<ReadonlyArray<Request>>([])
    const events = yield* Ref.make<ReadonlyArray<string>>([])
    const plain = yield* EmbeddingModel.make({
      embedMany: ({ inputs }) =>
        Effect.gen(function* () {
          const at = (yield* Clock.currentTimeMillis) / 1_000
          const before = yield* Ref.getAndUpdate(requests, (all) => [...all, { inputs, at }])
          yield* fault(before.length)
          return { results: inputs.map((input) => [input.length]), usage: { inputTokens: inputs.length } }
        })
    })
    const Events = ResilienceEvents.layerHandler(({ _tag }) => Ref.update(events, (all) => [...all, _tag]))
    const context = yield* Layer.build(
      Resilient.layerEmbedding(options).pipe(
        Layer.provide(Layer.succeed(EmbeddingModel.EmbeddingModel, plain)),
        Layer.provideMerge(CircuitBreaker.layer()),
        Layer.provideMerge(Events)
      )
    )
    const model = yield* Effect.provideContext(EmbeddingModel.EmbeddingModel, context)
    return {
      model: {
        ...model,
        embed: (input) => Effect.provideContext(model.embed(input), context),
        embedMany: (inputs) => Effect.provideContext(model.embedMany(inputs), context)
      },
      requests: Ref.get(requests),
      events: Ref.get(events),
      breaker: yield* Effect.provideContext(CircuitBreaker.CircuitBreaker, context)
    }
  })

const run = <A, E>(self: Effect.Effect<A, E>, time: Duration.Input = "1 hour") =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(self))
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  })

const failureOf = (exit: Exit.Exit<unknown, unknown>) =>
  Effect.map(Effect.flip(exit), (error) => {
    assert(AiError.isAiError(error))
    assert.isFalse(error.isRetryable)
    return Option.getOrThrow(Outlast.failureOf(error))
  })

describe("Resilient.embedding", () => {
  it.effect("waits as long as a 429 asks", () =>
    Effect.gen(function* () {
      const limited = failed(new AiError.RateLimitError({ retryAfter: Duration.seconds(20) }))
      const { model, requests, events, breaker } = yield* setup((n) =>
        n === 0 ? Effect.fail(limited) : Effect.void
      )
      const exit = yield* run(model.embedMany(["a", "bb"]))
      assert(Exit.isSuccess(exit))
      assert.deepStrictEqual(
        exit.value.embeddings.map(({ vector }) => vector),
        [[1], [2]]
      )
      assert.strictEqual(exit.value.usage.inputTokens, 2)
      const [first, second] = yield* requests
      assert.strictEqual(first?.at, 0)
      assert.isTrue(second !== undefined && second.at >= 20 && second.at <= 22)
      assert.deepStrictEqual(
        (yield* events).filter((tag) => tag.startsWith("Retr")),
        ["Retrying", "RetrySucceeded"]
      )
      assert.strictEqual((yield* breaker.state("embedding/acme")).failures, 0)
    })
  )

  it.effect("fails at once when a 429 asks for more than maxRetryAfter", () =>
    Effect.gen(function* () {
      const limited = failed(new AiError.RateLimitError({ retryAfter: Duration.minutes(2) }))
      const { model, requests } = yield* setup(() => Effect.fail(limited))
      const failure = yield* failureOf(yield* run(model.embedMany(["a"]), 0))
      assert(failure._tag === "ProviderFailure")
      assert.strictEqual(failure.reason._tag, "RateLimit")
      assert.strictEqual(failure.retryAfter && Duration.toMinutes(failure.retryAfter), 2)
      assert.lengthOf(yield* requests, 1)
    })
  )

  it.effect("keeps batches: concurrent calls are one request, and the request is retried", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup((n) => (n < 2 ? Effect.fail(broken) : Effect.void))
      const inputs = ["a", "bb", "ccc"]
      const exit = yield* run(
        Effect.forEach(inputs, (input) => model.embed(input), { concurrency: "unbounded" })
      )
      assert.deepStrictEqual(Exit.isSuccess(exit) && exit.value.map(({ vector }) => vector), [[1], [2], [3]])
      assert.deepStrictEqual(yield* requests, [
        { inputs, at: 0 },
        { inputs, at: 1 },
        { inputs, at: 3 }
      ])
    })
  )

  it.effect("fails all calls of a batch when the attempts are used up", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup(() => Effect.fail(broken))
      const exit = yield* run(
        Effect.forEach(["a", "bb"], (input) => Effect.flip(model.embed(input)), { concurrency: "unbounded" })
      )
      assert(Exit.isSuccess(exit))
      for (const error of exit.value) assert.isTrue(Option.isSome(Outlast.failureOf(error)))
      assert.lengthOf(yield* requests, 3)
    })
  )

  it.effect("does not retry a permanent failure, and does not quote the embedded text", () =>
    Effect.gen(function* () {
      const secret = "the very secret sentence"
      const refused = failed(new AiError.InvalidRequestError({ description: `Cannot embed: ${secret}` }))
      const { model, requests, breaker } = yield* setup(() => Effect.fail(refused))
      for (let i = 0; i < 6; i++) {
        const failure = yield* failureOf(yield* run(model.embed(secret)))
        assert.notInclude(JSON.stringify(failure) + failure.message, "secret")
      }
      assert.lengthOf(yield* requests, 6)
      assert.strictEqual((yield* breaker.state("embedding/acme")).phase, "closed")
    })
  )

  it.effect("limits the time of each attempt", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup((n) => (n === 0 ? Effect.never : Effect.void), {
        ...policy,
        timeout: "5 seconds"
      })
      assert.isTrue(Exit.isSuccess(yield* run(model.embedMany(["a"]))))
      assert.deepStrictEqual(
        (yield* requests).map(({ at }) => at),
        [0, 6]
      )
    })
  )

  it.effect("has a time limit of a minute by default, and none for `false`", () =>
    Effect.gen(function* () {
      const unlimited = yield* setup(() => Effect.never, { ...policy, timeout: false })
      const fiber = yield* Effect.forkChild(unlimited.model.embedMany(["a"]))
      const { model } = yield* setup(() => Effect.never, { ...policy, attempts: 1 })
      const failure = yield* failureOf(yield* run(model.embedMany(["a"]), "1 minute"))
      assert.strictEqual(failure._tag === "ProviderFailure" && failure.reason._tag, "Timeout")
      yield* TestClock.adjust("1 day")
      assert.isUndefined(fiber.pollUnsafe())
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("starts no attempt after the deadline", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup(() => Effect.fail(broken), {
        ...policy,
        attempts: 10,
        deadline: "4 seconds"
      })
      assert.isTrue(Exit.isFailure(yield* run(model.embedMany(["a"]))))
      assert.deepStrictEqual(
        (yield* requests).map(({ at }) => at),
        [0, 1, 3]
      )
    })
  )

  it.effect("opens its circuit, and reports it", () =>
    Effect.gen(function* () {
      const { model, requests, breaker } = yield* setup(() => Effect.fail(broken), { ...policy, attempts: 1 })
      for (let i = 0; i < 5; i++) yield* run(model.embedMany(["a"]), 0)
      assert.strictEqual((yield* breaker.state("embedding/acme")).phase, "open")
      const failure = yield* failureOf(yield* run(model.embed("a"), 0))
      assert(failure._tag === "ProviderFailure")
      assert.strictEqual(failure.evidence.rule, "circuit/refused")
      assert.isDefined(failure.retryAfter)
      assert.lengthOf(yield* requests, 5)
    })
  )

  it.effect("uses the given circuit, or none", () =>
    Effect.gen(function* () {
      const named = yield* setup(() => Effect.fail(broken), { ...policy, circuit: "https://acme.example" })
      yield* run(named.model.embedMany(["a"]))
      assert.strictEqual((yield* named.breaker.state("https://acme.example")).failures, 3)
      const none = yield* setup(() => Effect.fail(broken), { ...policy, circuit: false })
      for (let i = 0; i < 6; i++) yield* run(none.model.embedMany(["a"]))
      assert.deepStrictEqual(yield* none.breaker.list, [])
    })
  )

  it.effect("stops with its caller: no attempt follows", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup(() => Effect.fail(broken))
      const fiber = yield* Effect.forkChild(model.embed("a"))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(yield* requests, 1)
      const direct = yield* Effect.forkChild(model.embedMany(["a"]))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(direct)
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(yield* requests, 2)
    })
  )

  it.effect("continues for a batch while one of its callers waits", () =>
    Effect.gen(function* () {
      const { model, requests } = yield* setup((n) => (n < 2 ? Effect.fail(broken) : Effect.void))
      const gone = yield* Effect.forkChild(model.embed("a"))
      const waits = yield* Effect.forkChild(model.embed("bb"))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(gone)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual((yield* Fiber.join(waits)).vector, [2])
      assert.lengthOf(yield* requests, 3)
    })
  )

  it("throws for out-of-range options where they are written", () => {
    const model = {} as EmbeddingModel.EmbeddingModel
    assert.throws(
      () => Resilient.embedding(model, { timeout: 0 }),
      RangeError,
      "Resilient.embedding: timeout must be a duration of at least 1ms"
    )
    assert.throws(() => Resilient.embedding(model, { attempts: 0 }), RangeError, "attempts")
  })
})
