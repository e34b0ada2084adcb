import { assert, describe, it } from "@effect/vitest"
import { Agent, Classifier, Direct, FailoverReason, Resilient } from "@outlast/agent"
import { Rule } from "@outlast/agent/failure"
import { Backoff, CircuitBreaker, ResilienceEvents, Retry } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import type { Scope } from "effect"
import {
  Cause,
  Clock,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Ref,
  Schema,
  Stream
} from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"

class Busy extends Schema.TaggedError<Busy>()("Busy", {
  isRetryable: Schema.Boolean,
  retryAfter: Schema.optional(Schema.Duration)
}) {}

class NoSuchCity extends Schema.TaggedError<NoSuchCity>()("NoSuchCity", { city: Schema.String }) {}

/** With the tag of the breaker's own error. */
class Refused extends Schema.TaggedError<Refused>()("CircuitRefused", { circuit: Schema.String }) {}

const fields = {
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.String,
  failure: Schema.Union([Busy, NoSuchCity])
}
const Kit = Toolkit.make(
  Resilient.readonly(Tool.make("look", fields)),
  Resilient.idempotent(Tool.make("put", { ...fields, failureMode: "return" })),
  Tool.make("pay", { ...fields, failureMode: "return" }),
  Tool.make("send", fields)
)
type Name = keyof typeof Kit.tools
type Failure = Busy | NoSuchCity | AiError.AiError | AiError.AiErrorReason

const busy = new Busy({ isRetryable: true })
const policy = {
  retry: { attempts: 3, backoff: Backoff.exponential({ initial: "1 second", jitter: 0 }) }
} as const

interface Setup {
  readonly handle: (name: Name, city?: string) => Effect.Effect<Tool.HandlerResult<Tool.Any>, unknown>
  /** Names of the called handlers, with the time in seconds. */
  readonly calls: Effect.Effect<ReadonlyArray<string>>
  readonly events: Effect.Effect<ReadonlyArray<ResilienceEvents.ResilienceEvent>>
  readonly breaker: CircuitBreaker.Service
}

/** The toolkit over handlers that `handler` defines. */
const setup = (
  handler: (name: Name, call: number) => Effect.Effect<string, Failure>,
  options: Parameters<typeof Resilient.toolkit<typeof Kit.tools>>[1] = policy,
  circuits: CircuitBreaker.Options = {}
): Effect.Effect<Setup, never, Scope.Scope> =>
  Effect.gen(function* () {
    const calls = yield* Ref.make<ReadonlyArray<string>>([])
    const events = yield* Ref.make<ReadonlyArray<ResilienceEvents.ResilienceEvent>>([])
    const of = (name: Name) => () =>
      Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const before = yield* Ref.getAndUpdate(calls, (all) => [...all, `${name}@${at / 1_000}`])
        return yield* handler(name, before.filter((call) => call.startsWith(name)).length)
      })
    const Plain = Kit.toLayer({ look: of("look"), put: of("put"), pay: of("pay"), send: of("send") })
    const Breaker = CircuitBreaker.layer(circuits)
    const Tools = Resilient.toolkit(Kit, options).pipe(Layer.provide(Plain), Layer.provideMerge(Breaker))
    const context = yield* Layer.build(
      Layer.provideMerge(
        Tools,
        ResilienceEvents.layerHandler((event) => Ref.update(events, (all) => [...all, event]))
      )
    )
    const kit = yield* Effect.provideContext(Kit, context)
    return {
      handle: (name, city = "Bonn") =>
        kit.handle(name, { city }).pipe(
          Stream.unwrap,
          Stream.runLast,
          Effect.map((last) => Option.getOrThrow(last) as Tool.HandlerResult<Tool.Any>),
          Effect.provideContext(context)
        ),
      calls: Ref.get(calls),
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

describe("retries", () => {
  for (const name of ["look", "put"] as const) {
    it.effect(`call ${name} again, because it is annotated as safe`, () =>
      Effect.gen(function* () {
        const { handle, calls, events } = yield* setup((_, call) =>
          call < 2 ? Effect.fail(busy) : Effect.succeed("rain")
        )
        const exit = yield* run(handle(name))
        assert.strictEqual(Exit.isSuccess(exit) && exit.value.result, "rain")
        assert.deepStrictEqual(yield* calls, [`${name}@0`, `${name}@1`, `${name}@3`])
        assert.deepStrictEqual(
          (yield* events)
            .filter(({ _tag }) => _tag.startsWith("Retr"))
            .map((event): object => ({ ...event, at: 0 })),
          [
            { _tag: "Retrying", name: `tool/${name}`, attempt: 1, delay: 1_000, because: "failed", at: 0 },
            { _tag: "Retrying", name: `tool/${name}`, attempt: 2, delay: 2_000, because: "failed", at: 0 },
            { _tag: "RetrySucceeded", name: `tool/${name}`, attempts: 3, at: 0 }
          ]
        )
      })
    )
  }

  for (const name of ["pay", "send"] as const) {
    it.effect(`never call ${name} again, because it is not annotated, whatever the policy of all tools`, () =>
      Effect.gen(function* () {
        const { handle, calls } = yield* setup(() => Effect.fail(busy))
        const exit = yield* run(handle(name))
        if (name === "send") assert.strictEqual(yield* Effect.flip(exit), busy)
        else assert.deepInclude(Exit.isSuccess(exit) && exit.value, { isFailure: true, result: busy })
        assert.lengthOf(yield* calls, 1)
      })
    )
  }

  it.effect("return a failure as it was declared when they are used up", () =>
    Effect.gen(function* () {
      const { handle, calls } = yield* setup(() => Effect.fail(busy))
      assert.strictEqual(yield* Effect.flip(yield* run(handle("look"))), busy)
      assert.lengthOf(yield* calls, 3)
      const returned = yield* run(handle("put"))
      assert.deepInclude(Exit.isSuccess(returned) && returned.value, {
        isFailure: true,
        result: busy,
        failureOrigin: "handler"
      })
    })
  )

  it.effect("do not repeat a failure that is the tool's answer", () =>
    Effect.gen(function* () {
      const failure = new NoSuchCity({ city: "Atlantis" })
      const { handle, calls, breaker } = yield* setup(() => Effect.fail(failure))
      for (let i = 0; i < 6; i++) assert.strictEqual(yield* Effect.flip(yield* run(handle("look"))), failure)
      assert.lengthOf(yield* calls, 6)
      assert.strictEqual((yield* breaker.state("tool/look")).phase, "closed")
    })
  )

  it.effect("wait as long as the failure states, up to maxRetryAfter", () =>
    Effect.gen(function* () {
      const { handle, calls } = yield* setup(
        (_, call) =>
          Effect.fail(new Busy({ isRetryable: true, retryAfter: Duration.seconds(call === 0 ? 20 : 50) })),
        { retry: { ...policy.retry, maxRetryAfter: "30 seconds" } }
      )
      yield* run(handle("look"))
      const [first, second, ...rest] = (yield* calls).map((call) => Number(call.split("@")[1]))
      assert.strictEqual(first, 0)
      assert.isAtLeast(second ?? 0, 20)
      assert.isAtMost(second ?? 0, 22)
      assert.deepStrictEqual(rest, [])
    })
  )

  it.effect("classify an error of a provider with the classifier", () =>
    Effect.gen(function* () {
      const limited = new AiError.RateLimitError({ retryAfter: Duration.seconds(5) })
      const refused = new AiError.AuthenticationError({ kind: "InvalidKey" })
      const { handle, calls } = yield* setup((name, call) =>
        name === "put" ? Effect.fail(refused) : call === 0 ? Effect.fail(limited) : Effect.succeed("rain")
      )
      assert.isTrue(Exit.isSuccess(yield* run(handle("look"))))
      assert.isAtLeast(Number((yield* calls)[1]?.split("@")[1]), 5)
      yield* run(handle("put"))
      assert.lengthOf(yield* calls, 3)
    })
  )

  it.effect("classify with the rules of the program, and count a timeout as a class of its own", () =>
    Effect.gen(function* () {
      const seats = Rule.text({
        id: "test/seats",
        why: "The tool has a fixed number of seats.",
        phrases: ["no free seats"],
        reason: new FailoverReason.Overloaded()
      })
      const reason = new AiError.UnknownError({ description: "no free seats" })
      const full = AiError.make({ module: "Seats", method: "look", reason })
      const { handle, calls } = yield* setup((name) => (name === "look" ? Effect.fail(full) : Effect.never), {
        retry: { ...policy.retry, attemptsPerClass: { Timeout: 1 } }
      }).pipe(Effect.provide(Classifier.layerWith([seats])))
      yield* run(handle("look"))
      assert.lengthOf(yield* calls, 3)
      yield* run(handle("put"))
      assert.lengthOf(yield* calls, 4)
    })
  )

  it.effect("call the handler anew for each attempt", () =>
    Effect.gen(function* () {
      let called = 0
      const Own = Toolkit.make(
        Resilient.readonly(Tool.make("ask", { success: Schema.String, failure: Busy }))
      )
      const layer = Resilient.toolkit(Own, policy).pipe(
        // Decides when it is called, and not when its Effect runs.
        Layer.provide(
          Own.toLayer({ ask: () => (++called === 1 ? Effect.fail(busy) : Effect.succeed("rain")) })
        ),
        Layer.provide(CircuitBreaker.layer())
      )
      const call = Effect.flatMap(Own, (kit) => Effect.flatMap(kit.handle("ask", {}), Stream.runDrain))
      assert.isTrue(Exit.isSuccess(yield* run(Effect.provide(call, layer))))
      assert.strictEqual(called, 2)
    })
  )

  it.effect("follow `classify`, of all tools or of one", () =>
    Effect.gen(function* () {
      const { handle, calls } = yield* setup(() => Effect.fail(busy), {
        ...policy,
        classify: () => Retry.stop,
        tools: { put: { classify: ({ _tag }) => (_tag === "Busy" ? Retry.again() : Retry.stop) } }
      })
      yield* run(handle("look"))
      assert.lengthOf(yield* calls, 1)
      yield* run(handle("put"))
      assert.lengthOf(yield* calls, 4)
    })
  )

  it.effect("have a deadline, and can be turned off, for all tools or for one", () =>
    Effect.gen(function* () {
      const short = yield* setup(() => Effect.fail(busy), {
        retry: { ...policy.retry, deadline: "2 seconds" }
      })
      yield* run(short.handle("look"))
      assert.deepStrictEqual(yield* short.calls, ["look@0", "look@1"])
      const off = yield* setup(() => Effect.fail(busy), { retry: false, tools: { put: policy } })
      yield* run(off.handle("look"))
      yield* run(off.handle("put"))
      assert.lengthOf(yield* off.calls, 4)
      const one = yield* setup(() => Effect.fail(busy), { ...policy, tools: { look: { retry: false } } })
      yield* run(one.handle("look"))
      assert.lengthOf(yield* one.calls, 1)
    })
  )

  it("throw for a tool that is not annotated, even if its type was lost", () => {
    const untyped = { tools: { pay: policy } } as {}
    assert.throws(
      () => Resilient.toolkit(Kit, untyped),
      RangeError,
      "tools.pay.retry needs a tool that is annotated"
    )
    // The annotation alone is enough.
    const Annotated = Toolkit.make(Tool.make("look", fields).annotate(Tool.Readonly, true))
    assert.doesNotThrow(() => Resilient.toolkit(Annotated, { tools: { look: policy } } as {}))
  })
})

describe("timeouts", () => {
  it.effect("end each attempt, and tell the model of a tool that returns its failures", () =>
    Effect.gen(function* () {
      const { handle, calls, events } = yield* setup(() => Effect.never, { ...policy, timeout: "10 seconds" })
      const exit = yield* run(handle("put"))
      assert.deepStrictEqual(yield* calls, ["put@0", "put@11", "put@23"])
      const reason = "The tool put gave no result within 10s and was stopped."
      assert.deepInclude(Exit.isSuccess(exit) && exit.value, {
        isFailure: true,
        encodedResult: { type: "execution-interrupted", reason }
      })
      const timeout: object | undefined = (yield* events).find(({ _tag }) => _tag === "ToolTimeout")
      assert.deepInclude(timeout, { tool: "put", limit: 10_000 })
    })
  )

  it.effect("of a tool that is not annotated say that its effect is unknown", () =>
    Effect.gen(function* () {
      const { handle, calls } = yield* setup(() => Effect.never, {
        tools: { pay: { timeout: "10 seconds" } }
      })
      const exit = yield* run(handle("pay"))
      assert.lengthOf(yield* calls, 1)
      assert.include(JSON.stringify(exit), "Whether it had an effect is not known.")
    })
  )

  it.effect('fail as an AiError with failureMode "error"', () =>
    Effect.gen(function* () {
      const { handle } = yield* setup(() => Effect.never, { timeout: "10 seconds" })
      const error = yield* Effect.flip(yield* run(handle("send")))
      assert(error instanceof Resilient.ToolFailed && AiError.isAiError(error))
      assert.isFalse(error.isRetryable)
      assert.strictEqual(error.failure._tag, "ToolTimedOut")
      assert.strictEqual(error.method, "send.handle")
    })
  )

  it.effect("are a minute by default, and none for `false`", () =>
    Effect.gen(function* () {
      const { handle } = yield* setup(() => Effect.never, { tools: { pay: { timeout: false } } })
      const paying = yield* Effect.forkChild(handle("pay"))
      const sending = yield* Effect.forkChild(Effect.exit(handle("send")))
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(sending.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.isFailure(yield* Fiber.join(sending)))
      yield* TestClock.adjust("1 day")
      assert.isUndefined(paying.pollUnsafe())
      yield* Fiber.interrupt(paying)
    })
  )
})

describe("circuits", () => {
  it.effect("open for each tool alone; then the model is told, and the handler is not called", () =>
    Effect.gen(function* () {
      const { handle, calls, breaker } = yield* setup(() => Effect.fail(busy))
      for (let i = 0; i < 5; i++) yield* run(handle("pay"), 0)
      assert.strictEqual((yield* breaker.state("tool/pay")).phase, "open")
      const refused = yield* handle("pay")
      assert.lengthOf(yield* calls, 5)
      assert.isTrue(refused.isFailure)
      assert.match(
        JSON.stringify(refused.encodedResult),
        /execution-denied.*The tool pay kept failing and was not called\. Try it again in \S+.* at the earliest/
      )
      assert.strictEqual((yield* breaker.state("tool/send")).phase, "closed")
      yield* run(handle("send"), 0)
      assert.lengthOf(yield* calls, 6)
    })
  )

  it.effect('fail as an AiError with failureMode "error"', () =>
    Effect.gen(function* () {
      const { handle, breaker, calls } = yield* setup(() => Effect.succeed("ok"))
      yield* breaker.trip("tool/send", "30 seconds")
      const error = yield* Effect.flip(handle("send"))
      assert(error instanceof Resilient.ToolFailed && error.failure._tag === "ToolRefused")
      assert.strictEqual(error.failure.circuit, "tool/send")
      assert.strictEqual(
        Option.getOrUndefined(Option.map(Option.fromNullishOr(error.failure.retryAfter), Duration.toSeconds)),
        30
      )
      assert.lengthOf(yield* calls, 0)
    })
  )

  it.effect("are not taken for a circuit of the handler's own, whose refusal stays unchanged", () =>
    Effect.gen(function* () {
      const Own = Toolkit.make(Tool.make("ask", { success: Schema.String, failure: Refused }))
      const refused = new Refused({ circuit: "its own" })
      const layer = Resilient.toolkit(Own).pipe(
        Layer.provide(Own.toLayer({ ask: () => Effect.fail(refused) })),
        Layer.provide(CircuitBreaker.layer())
      )
      const call = Effect.flatMap(Own, (kit) => Effect.flatMap(kit.handle("ask", {}), Stream.runDrain))
      assert.strictEqual(yield* Effect.flip(Effect.provide(call, layer)), refused)
    })
  )

  it.effect("use the given name, or are turned off", () =>
    Effect.gen(function* () {
      const { handle, breaker } = yield* setup(() => Effect.fail(busy), {
        retry: false,
        tools: { pay: { circuit: "https://bank.example" }, send: { circuit: false } }
      })
      for (let i = 0; i < 6; i++) {
        yield* run(handle("pay"), 0)
        yield* run(handle("send"), 0)
      }
      const names = (yield* breaker.list).map(({ circuit }) => circuit)
      assert.deepStrictEqual(names, ["https://bank.example"])
      const none = yield* setup(() => Effect.fail(busy), { circuits: false })
      for (let i = 0; i < 6; i++) yield* run(none.handle("pay"), 0)
      assert.deepStrictEqual(yield* none.breaker.list, [])
    })
  )

  it.effect("count defects, which stay unchanged and are not retried", () =>
    Effect.gen(function* () {
      const { handle, calls, breaker } = yield* setup(() => Effect.die(new Error("broken")))
      const exit = yield* run(handle("look"))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.lengthOf(yield* calls, 1)
      for (let i = 0; i < 4; i++) yield* run(handle("look"), 0)
      assert.strictEqual((yield* breaker.state("tool/look")).phase, "open")
    })
  )
})

it.effect("an interruption ends the handler and the retries, and does not count for the circuit", () =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<void>()
    let interrupted = 0
    const { handle, calls, breaker } = yield* setup(() =>
      Deferred.succeed(begun, undefined).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Effect.sync(() => interrupted++))
      )
    )
    const fiber = yield* Effect.forkChild(handle("look"))
    yield* Deferred.await(begun)
    yield* Fiber.interrupt(fiber)
    assert.strictEqual(interrupted, 1)
    yield* TestClock.adjust("1 hour")
    assert.lengthOf(yield* calls, 1)
    assert.strictEqual((yield* breaker.state("tool/look")).failures, 0)
  })
)

it.effect("parallel calls are retried independently", () =>
  Effect.gen(function* () {
    const { handle, calls } = yield* setup(
      (_, call) => (call < 10 ? Effect.fail(busy) : Effect.succeed(`call ${call}`)),
      policy,
      { trip: { consecutive: { failures: 100 } } }
    )
    const exit = yield* run(
      Effect.all(
        Array.from({ length: 10 }, () => handle("look")),
        { concurrency: "unbounded" }
      )
    )
    assert(Exit.isSuccess(exit))
    assert.lengthOf(new Set(exit.value.map(({ result }) => result)), 10)
    assert.lengthOf(yield* calls, 20)
  })
)

it.effect("an agent continues after a tool's failure", () =>
  Effect.gen(function* () {
    const model = yield* ScriptedModel.make({
      provider: "openai",
      model: "gpt-4.1",
      plan: {
        answers: [
          {
            toolCalls: [
              { name: "pay", params: { city: "Bonn" } },
              { name: "send", params: { city: "Bonn" } }
            ]
          },
          { text: "I could not pay." }
        ]
      }
    })
    const Tools = Resilient.toolkit(Kit, { timeout: "10 seconds" }).pipe(
      Layer.provide(
        Kit.toLayer({
          look: () => Effect.never,
          put: () => Effect.never,
          pay: () => Effect.never,
          send: () => Effect.never
        })
      ),
      Layer.provide(CircuitBreaker.layer())
    )
    const exit = yield* run(
      Agent.run({ prompt: "Pay.", toolkit: Kit }).pipe(Effect.provide([Tools, Direct.layer(model)]))
    )
    assert.strictEqual(Exit.isSuccess(exit) && exit.value.text, "I could not pay.")
    const told = JSON.stringify((yield* model.requests)[1]?.prompt)
    assert.include(told, "The tool pay gave no result within 10s")
    assert.include(told, "The tool send gave no result within 10s")
  })
)

it("out-of-range options throw where they are written", () => {
  assert.throws(
    () => Resilient.toolkit(Kit, { timeout: 0 }),
    RangeError,
    "Resilient.toolkit: timeout must be a duration of at least 1ms"
  )
  assert.throws(() => Resilient.toolkit(Kit, { retry: { attempts: 0 } }), RangeError, "attempts")
  assert.throws(
    () => Resilient.toolkit(Kit, { tools: { fly: {} } } as {}),
    RangeError,
    "tools.fly is not a tool"
  )
})
