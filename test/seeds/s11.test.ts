/** Promises of learn-claude-code's s11 that no other test shows. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Redacted, Stream } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { Compaction, Failover, KeySource, Presets, RecoveryPolicy } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import {
  always,
  ask,
  drawing,
  inTime,
  logged,
  model,
  recorded,
  reset,
  status,
  timesOf,
  waitsOf
} from "./support.ts"

const { policy } = Presets.s11
const exact = RecoveryPolicy.withoutJitter(policy)

/** Asks once over the preset's layer and returns the lines of the log. */
const linesOf = (
  target: ScriptedModel.ScriptedModel,
  effect: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel> = ask
) =>
  Effect.gen(function* () {
    const log = logged()
    yield* inTime(
      Effect.exit(effect).pipe(
        Effect.provide(Presets.s11.layer([target], { policy: exact })),
        Effect.provide(log.layer)
      )
    )
    return log.lines
  })

describe("the log", () => {
  it.effect("002-try-escalate-log: shows the raised output limit and each continuation", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 150_000 }, (_, n) => `w${n}`).join(" ")
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "opus",
        plan: { answers: [{ text: words }] }
      })
      const lines = yield* linesOf(target)
      assert.strictEqual(lines[0], "Info: [max_tokens] escalating 8000 -> 64000")
      assert.strictEqual(lines[1], "Info: [max_tokens] continuation 1/3")
    })
  )

  it.effect("shows the raised output limit of a stream, which is continued with it", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 80_000 }, (_, n) => `w${n}`).join(" ")
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "opus",
        plan: { answers: [{ text: words }] }
      })
      const stream = Stream.runDrain(LanguageModel.streamText({ prompt: "Write." }))
      assert.deepStrictEqual(yield* linesOf(target, stream), [
        "Info: [max_tokens] escalating 8000 -> 64000",
        "Info: [max_tokens] continuation 2/3"
      ])
    })
  )

  it.effect("002-try-backoff-log: shows each retry with its number and its wait", () =>
    Effect.gen(function* () {
      const faults = [{ times: 2, fault: status(429) }, { fault: status(529) }]
      assert.deepStrictEqual(yield* linesOf(yield* model("anthropic", "opus", faults)), [
        "Info: [429 rate limit] retry 1/10, wait 0.5s",
        "Info: [429 rate limit] retry 2/10, wait 1.0s",
        "Info: [529 overloaded] retry 3/10, wait 2.0s"
      ])
    })
  )

  it.effect("002-cc-529-message: tells of the switch, with the model of FALLBACK_MODEL_ID", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const log = logged()
      const chain = [
        yield* model("anthropic", "opus", [always(status(529))]),
        yield* model("anthropic", "haiku"),
        yield* model("anthropic", "sonnet")
      ] as const
      yield* inTime(
        ask.pipe(
          Effect.provide(Presets.s11.layer(chain)),
          Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ FALLBACK_MODEL_ID: "sonnet" }))),
          Effect.provide([log.layer, layer])
        )
      )
      assert.include(log.lines, "Info: [529 x3] switching to sonnet")
      assert.deepStrictEqual(
        of("ModelChanged").map(({ message }) => message),
        ["Switched to sonnet due to high demand"]
      )
      assert.lengthOf(yield* timesOf(chain[1]), 0)
    })
  )

  it.effect("002-try-compact: shows that a conversation was compacted, or is still too long", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "opus", [always(status(413))], {
        info: { contextWindow: 4_000 }
      })
      const prompt = Prompt.make(
        Array.from({ length: 12 }, () => ({ role: "user" as const, content: "x".repeat(400) }))
      )
      const lines = yield* linesOf(target, LanguageModel.generateText({ prompt }))
      assert.lengthOf(yield* timesOf(target), 2)
      assert.include(lines, "Warn: [unrecoverable] still too long after compact")
    })
  )
})

describe("a transient failure", () => {
  // Of each retry: the shortest and the longest wait in milliseconds.
  const ranges: ReadonlyArray<readonly [number, number]> = [
    [500, 625],
    [1_000, 1_250],
    [2_000, 2_500],
    [4_000, 5_000],
    [8_000, 10_000],
    [16_000, 20_000],
    [32_000, 40_000],
    [32_000, 40_000],
    [32_000, 40_000],
    [32_000, 40_000]
  ]

  it.effect(
    "002-t-529, 002-t-formula, 002-cc-formula: is retried after min(500 × 2^n, 32000) ms and up to 25 % more",
    () =>
      Effect.gen(function* () {
        for (const code of [429, 529]) {
          for (const draw of [0, 1] as const) {
            const target = yield* model("anthropic", "opus", [always(status(code))])
            yield* inTime(Effect.exit(Effect.provide(ask, Presets.s11.layer([target])))).pipe(drawing(draw))
            assert.deepStrictEqual(
              yield* waitsOf(target),
              ranges.map((range) => range[draw])
            )
          }
        }
      })
  )
})

it.effect("002-t-jitter: twenty calls that are rejected together are retried at twenty times", () =>
  Effect.gen(function* () {
    const target = yield* model("anthropic", "opus", [{ times: 20, fault: status(429) }])
    const calls = Effect.all(
      Array.from({ length: 20 }, () => ask),
      { concurrency: "unbounded" }
    )
    yield* inTime(Effect.provide(calls, Presets.s11.layer([target])))
    const times = yield* timesOf(target)
    assert.deepStrictEqual([new Set(times.slice(0, 20)).size, new Set(times.slice(20)).size], [1, 20])
  })
)

describe("a conversation that is too long", () => {
  const long = LanguageModel.generateText({
    prompt: Prompt.make(
      Array.from({ length: 21 }, (_, n) => ({
        role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
        content: `${n} ${"x".repeat(400)}`
      }))
    )
  })
  const error = (type: string, message: string, more: object = {}) => ({
    type: "status" as const,
    status: 400,
    body: { type: "error", error: { type, message, ...more } }
  })
  const code = { code: "context_length_exceeded" }
  const signals: ReadonlyArray<readonly [string, FaultPlan.Fault]> = [
    [
      "Anthropic's words",
      error("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")
    ],
    ["the type prompt_too_long", error("prompt_too_long", "Shorten it.")],
    ["OpenAI's code", error("invalid_request_error", "Reduce the length of the messages.", code)],
    ["HTTP 413", { type: "status", status: 413, body: "" }]
  ]
  for (const [what, fault] of signals) {
    it.effect(`002-overflow-signal: is recognised by ${what}, compacted and sent again`, () =>
      Effect.gen(function* () {
        const { layer, of } = recorded()
        const target = yield* model("anthropic", "opus", [{ fault }], { info: { contextWindow: 4_000 } })
        const { text } = yield* inTime(
          Effect.provide(long, Presets.s11.layer([target], { policy: exact }))
        ).pipe(Effect.provide(layer))
        assert.strictEqual(text, "hello")
        assert.deepStrictEqual(
          of("AttemptFailed").map(({ reason }) => reason),
          ["ContextOverflow"]
        )
        const sent = (yield* target.requests).map(({ prompt }) => prompt.content.length)
        assert.deepStrictEqual([sent[0], sent.length], [21, 2])
        assert.isBelow(sent[1] ?? Infinity, 21)
      })
    )
  }

  it.effect("002-overflow-signal: is not what another refused request is", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const fault = error("invalid_request_error", "max_tokens: 100000 > 8192, the maximum of this model")
      const target = yield* model("anthropic", "opus", [{ fault }], { info: { contextWindow: 4_000 } })
      yield* Effect.exit(Effect.provide(long, Presets.s11.layer([target]))).pipe(Effect.provide(layer))
      assert.deepStrictEqual(of("CallCompacting"), [])
    })
  )

  it.effect(
    "002-overflow-after-s08, 002-try-compact: keeps less than an ordinary compaction, and the call is repeated",
    () =>
      Effect.gen(function* () {
        const { layer, of } = recorded()
        const prompt = Prompt.make(
          Array.from({ length: 20 }, (_, n) => ({
            role: "user" as const,
            content: `${n} ${"x".repeat(400)}`
          }))
        )
        const target = yield* model("anthropic", "opus", [{ fault: status(413) }], {
          info: { contextWindow: 4_000 }
        })
        yield* LanguageModel.generateText({ prompt }).pipe(
          Effect.provide(Presets.s11.layer([target], { policy: exact })),
          Effect.provide(layer)
        )
        const [, second] = yield* target.requests
        const ordinary = yield* Effect.scoped(
          Effect.flatMap(Compaction.make(), ({ shrink }) => shrink(prompt, { window: 4_000 }))
        )
        const left = second?.prompt.content.length ?? Infinity
        assert.isBelow(left, ordinary.prompt.content.length)
        assert.lengthOf(of("CallCompacting"), 1)
        assert.deepInclude(of("ContextCompacted")[0], { reactive: true, tier: "plain" })
      })
  )
})

it.effect("002-overflow-summary: a summary by the model replaces the beginning, with any other preset", () =>
  Effect.gen(function* () {
    const prompt = Prompt.make(
      Array.from({ length: 21 }, (_, n) => ({
        role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
        content: `${n} ${"x".repeat(800)}`
      }))
    )
    const target = yield* model("anthropic", "opus", [{ fault: status(413) }], {
      info: { contextWindow: 4_000 }
    })
    const { layer, of } = recorded()
    yield* LanguageModel.generateText({ prompt }).pipe(
      Effect.provide(Presets.interactive.layer([target])),
      Effect.provide(layer)
    )
    // Refused, summarised by the chain itself, and sent again.
    const sent = (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt.content))
    assert.isAtLeast(sent.length, 3)
    assert.include(sent.at(-1), "<summary>")
    assert.deepInclude(of("ContextCompacted")[0], { reactive: true })
  })
)

it.effect("002-cc-continuation: asks to resume directly, without apology and recap, in smaller pieces", () =>
  Effect.gen(function* () {
    const words = Array.from({ length: 90_000 }, (_, n) => `w${n}`).join(" ")
    const target = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "opus",
      plan: { answers: [{ text: words }] }
    })
    yield* inTime(ask.pipe(Effect.provide(Presets.s11.layer([target], { policy: exact }))))
    const last = JSON.stringify((yield* target.requests).at(-1)?.prompt.content.at(-1))
    for (const said of ["directly", "without an apology", "without a recap", "smaller pieces"]) {
      assert.include(last, said)
    }
  })
)

describe("failures beside 429 and 529", () => {
  it.effect(
    "002-t-blips: a network blip is retried by the default policy; the document handles only 429 and 529",
    () =>
      Effect.gen(function* () {
        const asked = (policy?: typeof exact) =>
          Effect.gen(function* () {
            const target = yield* model("anthropic", "opus", [{ fault: reset }])
            const layer =
              policy === undefined ? Failover.layer([target]) : Failover.layer([target], { policy })
            const exit = yield* inTime(Effect.exit(Effect.provide(ask, layer)))
            return [exit._tag, (yield* timesOf(target)).length]
          })
        assert.deepStrictEqual(yield* asked(), ["Success", 2])
        assert.deepStrictEqual(yield* asked(exact), ["Failure", 1])
      })
  )

  it.effect("002-real-more: a connection error and timeouts are retried by the default policy", () =>
    Effect.gen(function* () {
      const streamed = Stream.runDrain(LanguageModel.streamText({ prompt: "What is the plan?" }))
      for (const [fault, call] of [
        [reset, ask],
        [status(408), ask],
        [status(504), ask],
        [{ type: "stall" }, streamed],
        [{ type: "stall", after: 0 }, streamed]
      ] as const) {
        const target = yield* model("anthropic", "opus", [{ fault }])
        yield* inTime(Effect.provide(call, Failover.layer([target])))
        assert.lengthOf(yield* timesOf(target), 2)
      }
    })
  )

  it.effect("002-real-more: a cached credential of a cloud that was refused is loaded again", () =>
    Effect.gen(function* () {
      let loads = 0
      const load = Effect.sync(() => ({ value: Redacted.make(`token-${++loads}`) }))
      const target = yield* model(
        "anthropic",
        "opus",
        [{ when: { key: "token-1" }, times: "always", fault: status(401) }],
        { keys: [KeySource.refreshing("CLOUD_TOKEN", { load })] }
      )
      const { text } = yield* inTime(Effect.provide(ask, Failover.layer([target])))
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(
        (yield* target.requests).map(({ key }) => key),
        ["token-1", "token-2"]
      )
    })
  )
})
