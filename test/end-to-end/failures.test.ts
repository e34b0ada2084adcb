/**
 * Failures as a user meets them: real HTTP, real SSE, real clients.
 */
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Option, Redacted, Ref, Schema, Stream, Tracer } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, Failover, KeySource, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"

const secret = "sk-ant-planted-0123456789"
const key = (name: string, value = secret) => KeySource.value(name, Redacted.make(value))

/** A policy without waits: a failure that would wait ends the call at once. */
const impatient: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  deadline: RecoveryPolicy.interactive.shortWait,
  maxAttempts: 1
}

const claude = (server: FakeProvider.FakeProvider, keys = [key("KEY_A")]) =>
  Anthropic.model("claude-sonnet-4-5", { baseUrl: server.baseUrl("anthropic"), keys })
const gpt = (server: FakeProvider.FakeProvider) =>
  OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("KEY_C", "key-c")] })

const sentence = "The quick brown fox jumps over the lazy dog, and nobody minds."
const plan = (...faults: ReadonlyArray<FaultPlan.Step>): FaultPlan.FaultPlan => ({
  answers: [{ text: sentence }],
  faults
})

describe("a user's program over real providers", () => {
  it.effect("is answered by another provider when the first refuses its key, in text and stream", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: plan({
          when: { provider: "anthropic" },
          times: "always",
          fault: { type: "status", status: 401 }
        })
      })
      yield* Effect.gen(function* () {
        const response = yield* LanguageModel.generateText({ prompt: "x" })
        assert.strictEqual(response.text, sentence)
        const by = Option.getOrThrow(Outlast.answeredBy(response.content))
        assert.deepInclude(by, {
          requested: "anthropic/claude-sonnet-4-5#KEY_A",
          target: "openai/gpt-4.1#KEY_C"
        })
        assert.isAbove(by.costUsd ?? 0, 0)
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "x" }))
        assert.strictEqual(
          parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join(""),
          sentence
        )
      }).pipe(Effect.provide(Failover.layer([claude(server), gpt(server)])))
      assert.deepStrictEqual(
        (yield* server.requests).map(({ provider }) => provider),
        ["anthropic", "openai", "openai"]
      )
    })
  )

  it.effect("gets the rest of a broken sentence from another provider", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: plan(
          { fault: { type: "reset", after: 5 } },
          { when: { provider: "anthropic" }, times: "always", fault: { type: "status", status: 401 } }
        )
      })
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "x" })).pipe(
        Effect.provide(
          Failover.layer([claude(server), gpt(server)], {
            policy: { ...RecoveryPolicy.interactive, rows: withoutBackoff }
          })
        )
      )
      assert.strictEqual(
        parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join(""),
        sentence
      )
      assert.strictEqual(parts.filter((part) => part.type === "text-start").length, 1)
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(parts)).target, "openai/gpt-4.1#KEY_C")
    })
  )
})

/** The default rows, moving on at once instead of waiting a second in real time. */
const withoutBackoff = {
  ...RecoveryPolicy.interactive.rows,
  Network: { ...RecoveryPolicy.interactive.rows.Network, then: "move" as const, attempts: 1 }
}

describe("ends in a typed error that says what to do, with the transcript in it", () => {
  const run = (chain: readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]) =>
    Agent.run({ prompt: "the planted prompt of the user" }).pipe(
      Effect.provide(Failover.layer(chain, { policy: impatient }))
    )

  it.effect("a server that is killed in the middle of a stream", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: plan({ fault: { type: "stall", after: 4 } }) })
      const seen = yield* Ref.make(0)
      const error = yield* Agent.stream({ prompt: "x" }).pipe(
        Stream.tap((part) =>
          part.type === "text-delta"
            ? Effect.andThen(
                Ref.update(seen, (n) => n + 1),
                server.kill
              )
            : Effect.void
        ),
        Stream.runDrain,
        Effect.flip,
        Effect.provide(Failover.layer([claude(server)], { policy: impatient }))
      )
      assert.isAbove(yield* Ref.get(seen), 0)
      assert.strictEqual(error._tag, "AgentFailed")
      assert.isTrue(error.reason._tag === "ProviderFailure" && error.reason.reason._tag === "Network")
      assert.include(error.message, `Check that ${server.baseUrl("anthropic")} can be reached`)
      // The question, and the text that was shown.
      assert.strictEqual(error.transcript.prompt.content.length, 2)
    })
  )

  it.effect("a key that is not set", () =>
    Effect.gen(function* () {
      const spec = Anthropic.model("claude-sonnet-4-5", { keys: ["OUTLAST_TEST_KEY_THAT_IS_NOT_SET"] })
      const error = yield* Effect.flip(run([spec]))
      assert.strictEqual(error._tag, "ChainError")
      assert.include(error.message, "Set OUTLAST_TEST_KEY_THAT_IS_NOT_SET to a valid key")
    })
  )

  it.effect("an unknown model", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: plan(), models: { anthropic: ["claude-opus-4-5"] } })
      const error = yield* Effect.flip(run([claude(server)]))
      assert.strictEqual(error._tag, "AgentFailed")
      assert.include(error.message, "Check the name claude-sonnet-4-5")
    })
  )

  it.effect("a base URL that refuses connections", () =>
    Effect.gen(function* () {
      const port = yield* freePort
      const spec = Anthropic.model("claude-sonnet-4-5", {
        baseUrl: `http://127.0.0.1:${port}/v1`,
        keys: [key("KEY_A")]
      })
      const error = yield* Effect.flip(run([spec]))
      assert.strictEqual(error._tag, "AgentFailed")
      assert.include(error.message, "ECONNREFUSED")
      assert.include(error.message, `Check that http://127.0.0.1:${port}/v1 can be reached`)
      assert.strictEqual(error._tag === "AgentFailed" && error.transcript.prompt.content.length, 1)
    })
  )

  it.effect("without key and prompt, in any printed form", () =>
    Effect.gen(function* () {
      const echo = `Incorrect API key provided: ${secret}. You sent: the planted prompt of the user`
      const body = { type: "error", error: { type: "authentication_error", message: echo } }
      const server = yield* FakeProvider.make({
        plan: plan({ times: "always", fault: { type: "status", status: 401, body } })
      })
      const events: Array<unknown> = []
      const watch = ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event)))
      const exit = yield* Effect.exit(run([claude(server)])).pipe(Effect.provide(watch))
      assert.isTrue(Exit.isFailure(exit))
      const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
      const error = Cause.squash(cause)
      const printed = [
        inspect(error, { depth: 20, showHidden: true }),
        String(error),
        JSON.stringify(error),
        Cause.pretty(cause),
        inspect(cause, { depth: 20 }),
        inspect(events, { depth: 20 })
      ].join("\n")
      assert.notInclude(printed, secret)
      assert.notInclude(printed, "planted prompt")
    })
  )
})

const Note = Toolkit.make(
  Tool.make("note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
)

describe("spans", () => {
  it.effect("have neither keys nor prompts nor parameters of tools in them", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const server = yield* FakeProvider.make({
        plan: {
          answers: [
            { toolCalls: [{ name: "note", params: { text: "the planted note" } }] },
            { text: "done" }
          ],
          faults: [{ when: { key: secret }, times: "always", fault: { type: "status", status: 401 } }]
        }
      })
      const live = Note.toLayer({ note: () => Effect.succeed("noted") })
      const outcome = yield* Agent.run({ prompt: "the planted prompt of the user", toolkit: Note }).pipe(
        Effect.provide([live, Failover.layer([claude(server), gpt(server)])]),
        Effect.provideService(Tracer.Tracer, tracer)
      )
      assert.strictEqual(outcome.toolCalls, 1)
      assert.include(
        spans.map(({ name }) => name),
        "execute_tool note"
      )
      // The fields of a span that exporters send. An exit is sent only if it is a failure.
      const exported = spans.map(({ name, attributes, events, status }) => ({
        name,
        attributes,
        events,
        cause:
          status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : undefined
      }))
      const printed = inspect(exported, { depth: 20 })
      assert.notInclude(printed, secret)
      assert.notInclude(printed, "planted")
    })
  )
})

describe("an interrupted run", () => {
  const Wait = Toolkit.make(Tool.make("wait", { success: Schema.String }))

  it.effect("closes its HTTP request, whole answers and streams alike", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: plan({ times: "always", fault: { type: "stall" } }) })
      const layer = Failover.layer([claude(server)])
      for (const program of [
        Effect.asVoid(Agent.run({ prompt: "x" })),
        Stream.runDrain(Agent.stream({ prompt: "x" }))
      ]) {
        const before = (yield* server.requests).length
        const arrived = yield* server.arrivals.pipe(Stream.drop(before), Stream.runHead, Effect.forkChild)
        const fiber = yield* program.pipe(Effect.provide(layer), Effect.forkChild)
        yield* Fiber.join(arrived)
        yield* Fiber.interrupt(fiber)
        yield* closed(server, before)
      }
    })
  )

  it.effect("leaves no tool running", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ toolCalls: [{ name: "wait", params: {} }] }] }
      })
      const started = yield* Deferred.make<void>()
      const released = yield* Deferred.make<void>()
      const live = Wait.toLayer({
        wait: () =>
          Deferred.succeed(started, undefined).pipe(
            Effect.andThen(Effect.never),
            Effect.onInterrupt(() => Deferred.succeed(released, undefined))
          )
      })
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Wait }).pipe(
        Effect.provide([live, Failover.layer([claude(server)])]),
        Effect.forkChild
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(yield* Deferred.isDone(released))
    })
  )
})

/** Ends when the server has seen the client close the request. */
const closed = (server: FakeProvider.FakeProvider, index: number) =>
  Effect.gen(function* () {
    while ((yield* server.requests)[index]?.closedByClient !== true) yield* nextTurn
    assert.isTrue((yield* server.requests)[index]?.closedByClient)
  })

/** Lets the event loop poll its sockets. */
const nextTurn = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** A port without a listener. */
const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    // A server that listens on a port has an address of this kind.
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})
