import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { LanguageModel } from "effect/ai"
import { EventLine, Failover, Outlast } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { inTime, key, policy, rateLimited, status } from "../support.ts"

const logged = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
  return { lines, layer: Logger.layer([logger]) }
}

const chain = Effect.gen(function* () {
  const plan = { answers: [{ text: "hello" }] }
  const info = { price: { input: 3, output: 15 } }
  const first = yield* ScriptedModel.make({
    provider: "anthropic",
    model: "m1",
    keys: [key("KEY_A"), key("KEY_B")],
    info,
    plan: { ...plan, faults: [{ fault: rateLimited(3) }, { fault: status(401) }] }
  })
  const second = yield* ScriptedModel.make({
    provider: "openai",
    model: "m2",
    keys: [key("KEY_C")],
    plan: { ...plan, faults: [{ fault: status(500) }] }
  })
  return Failover.layer([first, second], { policy })
})

const ask = LanguageModel.generateText({ prompt: "a very private question" })

describe("Outlast.layerLog", () => {
  for (const [title, under] of [
    ["without a layer of events", Outlast.layerLog()],
    ["over a layer of events", Outlast.layerLog().pipe(Layer.provideMerge(ResilienceEvents.layer()))]
  ] as const) {
    it.effect(`writes one line an attempt, and nothing twice, ${title}`, () =>
      Effect.gen(function* () {
        const log = logged()
        const model = yield* chain
        yield* inTime(
          ask.pipe(Effect.provide(model.pipe(Layer.provideMerge(under))), Effect.provide(log.layer))
        )
        assert.deepStrictEqual(log.lines, [
          "Info: → anthropic/m1#KEY_A",
          "Warn: ✗ RateLimit (HTTP 429), retry after 3.0 s: anthropic/m1#KEY_A, rule limit/per-time",
          "Info:   key+model of anthropic/m1#KEY_A is out for 3.0 s: RateLimit",
          "Info: → anthropic/m1#KEY_B, attempt 2 after 0.0 s: RateLimit (HTTP 429, rule limit/per-time)",
          "Error: ✗ Auth (HTTP 401): anthropic/m1#KEY_B, rule code/key",
          "Info:   key of anthropic/m1#KEY_B is out for 600 s: Auth",
          "Info: → openai/m2#KEY_C, attempt 3 after 0.0 s: Auth (HTTP 401, rule code/key)",
          "Warn: ✗ ServerError (HTTP 500): openai/m2#KEY_C, rule transport/crashed",
          "Info: … waiting 1.0 s before the next attempt: openai/m2#KEY_C",
          "Info: → openai/m2#KEY_C, attempt 4 after 1.0 s: ServerError (HTTP 500, rule transport/crashed)",
          "Warn:   Switched to m2: m1 refused the key.",
          "Info: ✓ m2"
        ])
      })
    )
  }
})

describe("EventLine.of", () => {
  it("describes an unknown event by its tag and its subject", () => {
    const target = { id: "openai/m2#KEY_C" }
    assert.deepStrictEqual(
      [
        { _tag: "CallAnswered", at: 0, target },
        { _tag: "PermitWaiting", at: 0, target, delay: 1_500 },
        { _tag: "Odd", at: 0 }
      ].map((event) => EventLine.of(event)?.text),
      ["  call answered: openai/m2#KEY_C", "  permit waiting: openai/m2#KEY_C, 1.5 s", "  odd"]
    )
  })

  it("returns one line for a message of several lines", () => {
    const event = { _tag: "CallGaveUp", at: 0, call: 1, attempt: 1, message: "No target.\n  a: refused" }
    assert.deepStrictEqual(EventLine.of(event), { level: "Warn", text: "✗ No target. a: refused" })
  })
})
