/**
 * Whole answers that are requested as streams: their time limits, their results, and providers that refuse to stream.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Schema, Stream } from "effect"
import type { Response } from "effect/ai"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, FailoverReason, ProviderFailure, Targets } from "@outlast/agent"
import type { ModelInfo, RecoveryPolicy } from "@outlast/agent"
import { Override, refusesStreams } from "#agent/failover/call/StreamedAnswer"
import {
  answer,
  failureOf,
  finish,
  inTime,
  keepAlive,
  played,
  policy,
  recording,
  say,
  text,
  thinking,
  timed,
  toolCall
} from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const info: ModelInfo.ModelInfo = { wholeAnswers: "stream" }
const hello = say(...text.block("hello"), finish())
const never = Stream.never

/** Returns the rules of the failed attempts, and the duration of each. */
const rulesOf = (events: ReturnType<typeof recording>) =>
  events.of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed])

describe("a whole answer of a target that streams", () => {
  it.effect("keeps the limits for the first token and between tokens", () =>
    Effect.gen(function* () {
      for (const [reasoning, limit] of [
        [false, 60_000],
        [true, 180_000]
      ] as const) {
        const events = recording()
        const streams = [
          say(keepAlive, text.start(), limit - 1, keepAlive, 1, text.delta("late")),
          say(text.start(), limit - 1, text.delta("one"), limit - 1, text.delta("two"), limit + 1, finish())
        ]
        const first = played({ model: "m1", info: { ...info, reasoning }, streams })
        const second = played({ model: "m2", info: { ...info, reasoning }, streams: [hello] })
        const rows = { ...policy.rows, Timeout: { ...policy.rows.Timeout, attempts: 2 } }
        const slow = { ...policy, rows, patience: Duration.hours(1), deadline: Duration.hours(1) }
        const response = yield* inTime(
          ask.pipe(Effect.provide(Failover.layer([first, second], { policy: slow })))
        ).pipe(Effect.provide(events.layer))
        assert.strictEqual(response.text, "hello")
        assert.deepStrictEqual(rulesOf(events), [
          ["limit/first-token", limit],
          ["limit/idle", 3 * limit - 2]
        ])
      }
    })
  )

  it.effect("keeps a limit between tokens that is shorter than the one for the first token", () =>
    Effect.gen(function* () {
      const events = recording()
      const limits = { ...policy.limits, idle: Duration.seconds(3) }
      const first = played({
        model: "m1",
        info,
        streams: [Stream.concat(say(100, text.start(), text.delta("one")), never)]
      })
      const second = played({ model: "m2", info, streams: [hello] })
      yield* inTime(
        ask.pipe(
          Effect.provide(
            Failover.layer([first, second], { policy: { ...policy, limits, patience: Duration.seconds(1) } })
          )
        )
      ).pipe(Effect.provide(events.layer))
      assert.deepStrictEqual(rulesOf(events), [["limit/idle", 3_100]])
    })
  )

  it.effect("keeps the limit for the whole answer, however steadily it arrives", () =>
    Effect.gen(function* () {
      const events = recording()
      const steady = say(text.start(), ...Array.from({ length: 100 }, () => [50_000, text.delta("a")]).flat())
      const first = played({ model: "m1", info, streams: [steady] })
      const second = played({ model: "m2", info, streams: [hello] })
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([first, second], { policy })))).pipe(
        Effect.provide(events.layer)
      )
      assert.deepStrictEqual(rulesOf(events), [["limit/total", 600_000]])
    })
  )

  it.effect("costs one first-token limit when its provider is silent, and the next call no time", () =>
    Effect.gen(function* () {
      for (const call of [ask, Stream.runDrain(LanguageModel.streamText({ prompt: "hello" }))]) {
        const first = played({ model: "m1", info, streams: [never] })
        const second = played({ model: "m2", info, streams: [hello] })
        const took = yield* inTime(
          Effect.gen(function* () {
            const calls = [yield* timed(ask), yield* timed(call)]
            const [status] = yield* Effect.flatMap(Targets.Targets, ({ list }) => list)
            assert.strictEqual(status?.state, "cooling")
            return calls.map(({ took }) => took)
          }).pipe(Effect.provide(Failover.layer([first, second], { policy })))
        )
        assert.deepStrictEqual(took, [60_000, 0])
        assert.deepStrictEqual([first.requests.length, second.requests.length], [1, 2])
      }
    })
  )

  it.effect("contains the parts of its stream, with signatures and the target that answered", () =>
    Effect.gen(function* () {
      const target = played({
        info,
        streams: [
          say(
            keepAlive,
            ...thinking.block("why", "signed"),
            text.start(),
            text.delta("he"),
            1_000,
            text.delta("llo"),
            text.end(),
            { type: "tool-params-start", id: "1", name: "search" },
            { type: "tool-params-delta", id: "1", delta: "{}" },
            toolCall("1"),
            finish("tool-calls", 7)
          )
        ]
      })
      const search = Toolkit.make(Tool.make("search", { success: Schema.String }))
      const response = yield* inTime(
        LanguageModel.generateText({
          prompt: "hello",
          toolkit: Effect.provide(search, search.toLayer({ search: () => Effect.succeed("found") }))
        }).pipe(Effect.provide(Failover.layer([target], { policy })))
      )
      const by = { provider: "vendor", model: "m" }
      assert.deepStrictEqual(
        response.content.map(({ type }) => type),
        ["response-metadata", "reasoning", "text", "tool-call", "finish", "tool-result"]
      )
      assert.deepStrictEqual(response.content[1]?.metadata, { vendor: { signature: "signed" }, outlast: by })
      assert.strictEqual(response.text, "hello")
      assert.strictEqual(response.usage.outputTokens.total, 7)
      assert.deepInclude(response.content[2]?.metadata["outlast"], { target: "vendor/m" })
    })
  )

  it.effect("fails like a stream: cut, with an error part, or inside the arguments of a call", () =>
    Effect.gen(function* () {
      const events = recording()
      const begun: Response.StreamPartEncoded = { type: "tool-params-start", id: "1", name: "search" }
      const target = played({
        info,
        streams: [
          say(text.start(), text.delta("he")),
          say(text.start(), { type: "error", error: { statusCode: 500, message: "broken" } }, finish()),
          say(begun, finish("tool-calls", 5)),
          say(text.start(), text.delta("no"), finish("error", 3)),
          say(...text.block("hello"), finish("stop", 1))
        ]
      })
      const patient = { ...policy, maxAttempts: 20, retryBudget: false as const }
      const response = yield* inTime(
        ask.pipe(Effect.provide(Failover.layer([target, target], { policy: patient })))
      ).pipe(Effect.provide(events.layer))
      assert.deepStrictEqual(
        events.of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
        [
          ["Network", "stream/cut"],
          ["ServerError", "status/server"],
          ["Format", "stream/cut-arguments"],
          ["ServerError", "answer/finish-error"]
        ]
      )
      assert.strictEqual(response.text, "hello")
      // Only the known usage of the failed attempts is kept.
      assert.strictEqual(response.usage.outputTokens.total, 9)
    })
  )

  it.effect("is not requested again once a tool of the provider has begun", () =>
    Effect.gen(function* () {
      const begun: Response.StreamPartEncoded = {
        type: "tool-params-start",
        id: "1",
        name: "search",
        providerExecuted: true
      }
      const first = played({ model: "m1", info, streams: [say(begun)] })
      const second = played({ model: "m2", info, streams: [hello] })
      const failure = yield* inTime(
        failureOf(ask).pipe(Effect.provide(Failover.layer([first, second], { policy })))
      )
      assert.strictEqual(failure._tag, "ProviderFailure")
      assert.deepStrictEqual([first.requests.length, second.requests.length], [1, 0])
    })
  )

  it.effect("gets a higher limit when it was cut inside an incomplete tool call", () =>
    Effect.gen(function* () {
      const events = recording()
      const begun: Response.StreamPartEncoded = { type: "tool-params-start", id: "1", name: "search" }
      const target = played({
        info,
        streams: [say(...text.block("I search. "), begun, finish("length", 9)), hello]
      })
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy })))).pipe(
        Effect.provide(events.layer)
      )
      const nudge = target.requests[1]?.request.prompt.content.at(-1)
      assert.include(JSON.stringify(nudge), "tool")
    })
  )

  it.effect("ends its stream when the caller is interrupted, and after the finish", () =>
    Effect.gen(function* () {
      let open = 0
      const opened = (stream: Stream.Stream<Response.StreamPartEncoded>) =>
        Stream.unwrap(
          Effect.as(
            Effect.acquireRelease(
              Effect.sync(() => ++open),
              () => Effect.sync(() => --open)
            ),
            stream
          )
        )
      const target = played({
        info,
        streams: [opened(Stream.concat(hello, Stream.never)), opened(never)]
      })
      const layer = Failover.layer([target], { policy })
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* ask).text, "hello")
        assert.strictEqual(open, 0)
        const fiber = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual(open, 1)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(open, 0)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("is a plain request when the call asks for that", () =>
    Effect.gen(function* () {
      const target = played({ info, streams: [never], answers: [answer("hello")] })
      const response = yield* ask.pipe(
        Effect.provideService(Override, "request"),
        Effect.provide(Failover.layer([target], { policy }))
      )
      assert.strictEqual(response.text, "hello")
    })
  )
})

// -----------------------------------------------------------------------------
// Providers that refuse to stream
// -----------------------------------------------------------------------------

const refusedWith = (detail: string, status = 400) =>
  new ProviderFailure.ProviderFailure({
    reason: new FailoverReason.Format({ side: "request" }),
    evidence: { rule: "test", signal: "status", depth: 0, status },
    detail
  })

describe("a provider that refuses to stream", () => {
  it.effect("gets a plain request in the same attempt, and no streams afterwards", () =>
    Effect.gen(function* () {
      const events = recording()
      const streams: Array<number> = []
      const refusal = Stream.fail(refusedWith("Your organization must be verified to stream this model."))
      // The policy allows no retry at all.
      const strict: RecoveryPolicy.RecoveryPolicy = { ...policy, maxAttempts: 1 }
      const target = played({ info, streams: [refusal], answers: [answer("hello")] })
      const spec = {
        ...target,
        build: Effect.map(target.build, (model) => ({
          ...model,
          streamText: (request: Parameters<typeof model.streamText>[0]) => {
            streams.push(1)
            return model.streamText(request)
          }
        }))
      }
      const said = yield* Effect.all([ask, ask, ask]).pipe(
        Effect.provide(Failover.layer([spec], { policy: strict })),
        Effect.provide(events.layer)
      )
      assert.deepStrictEqual(
        said.map(({ text }) => text),
        ["hello", "hello", "hello"]
      )
      assert.deepStrictEqual([streams.length, target.requests.length], [1, 4])
      assert.deepStrictEqual(
        events.tags(),
        Array.from({ length: 3 }, () => ["AttemptStarted", "CallSucceeded"]).flat()
      )
    })
  )

  it("is recognized by its message", () => {
    const refusals = [
      "Your organization must be verified to stream this model. Please go to: https://platform.openai.com",
      "Unsupported value: 'stream' does not support true with this model. Supported values are: false.",
      "Streaming is not supported for this model.",
      "streaming is not currently available on this deployment",
      "This model doesn't support streaming",
      "This model doesn't support tool use in streaming mode.",
      "The model is unsupported for streaming.",
      "`stream` must be set to `false`"
    ]
    for (const detail of refusals) assert.isTrue(refusesStreams(refusedWith(detail)), detail)
    const others = [
      "Streaming is required for operations that may take longer than 10 minutes",
      "max_tokens is not supported with this model. Use max_completion_tokens.",
      "The upstream service is unavailable",
      "Unknown parameter: 'store'.",
      "messages.0.content: must not be empty"
    ]
    for (const detail of others) assert.isFalse(refusesStreams(refusedWith(detail)), detail)
    // The same words with a status of overload do not match.
    assert.isFalse(refusesStreams(refusedWith(refusals[0] ?? "", 429)))
  })
})
