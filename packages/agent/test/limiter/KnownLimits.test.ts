import { assert, describe, it } from "vitest"
import * as Known from "#agent/limiter/KnownLimits"

const call = (tokens = 0, output = 0): Known.Amount => ({ requests: 1, input: tokens, output })
const freeAt = (headers: unknown, amount = call(), now = 0) =>
  Known.freeAt(Known.learn(Known.empty, headers, 0), amount, now)

const openai = {
  "x-ratelimit-limit-requests": "60",
  "x-ratelimit-remaining-requests": "0",
  "x-ratelimit-reset-requests": "1m0s",
  "x-ratelimit-limit-tokens": "150000",
  "x-ratelimit-remaining-tokens": "149984",
  "x-ratelimit-reset-tokens": "6ms"
}
const anthropic = {
  date: "Thu, 21 Aug 2025 12:40:29 GMT",
  "anthropic-ratelimit-requests-limit": "50",
  "anthropic-ratelimit-requests-remaining": "49",
  "anthropic-ratelimit-requests-reset": "2025-08-21T12:40:31Z",
  "anthropic-ratelimit-input-tokens-limit": "30000",
  "anthropic-ratelimit-input-tokens-remaining": "10000",
  "anthropic-ratelimit-input-tokens-reset": "2025-08-21T12:41:09Z",
  "anthropic-ratelimit-output-tokens-limit": "8000",
  "anthropic-ratelimit-output-tokens-remaining": "0",
  "anthropic-ratelimit-output-tokens-reset": "2025-08-21T12:41:29Z"
}
const without = (headers: Readonly<Record<string, string>>, part: string) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !name.includes(part)))

describe("limits that a provider names", () => {
  it("refill evenly until the reset (OpenAI: durations)", () => {
    // One of sixty per minute.
    assert.strictEqual(freeAt(openai), 1_000)
    assert.strictEqual(freeAt(openai, call(), 400), 1_000)
    assert.strictEqual(freeAt(openai, call(), 1_500), 1_500)
  })

  it("refill evenly until the reset (Anthropic: instants relative to the response date, input and output apart)", () => {
    const noOutput = without(anthropic, "output")
    assert.strictEqual(freeAt(noOutput, call(10_000)), 0)
    // 20,000 in 40 seconds.
    assert.strictEqual(freeAt(noOutput, call(15_000)), 10_000)
    assert.strictEqual(freeAt(noOutput, call(5_000, 10_000)), 0)
    // 8,000 in 60 seconds. Every answer has at least one token.
    assert.strictEqual(freeAt(anthropic, call(0, 4_000)), 30_000)
    assert.strictEqual(freeAt(anthropic, call()), 7.5)
  })

  it("count input and output for a total of tokens", () => {
    const total = {
      "x-ratelimit-limit-tokens": "1000",
      "x-ratelimit-remaining-tokens": "500",
      "x-ratelimit-reset-tokens": "500"
    }
    assert.strictEqual(freeAt(total, call(300, 200)), 0)
    assert.strictEqual(freeAt(total, call(300, 201)), 1_000)
  })

  it("decrease with calls sent in between, and increase with cancelled ones", () => {
    let known = Known.learn(Known.empty, { ...openai, "x-ratelimit-remaining-requests": "2" }, 0)
    for (let i = 0; i < 2; i++) known = Known.take(known, call())
    assert.isAbove(Known.freeAt(known, call(), 0), 0)
    known = Known.take(known, { requests: -1, input: 0, output: 0 })
    assert.strictEqual(Known.freeAt(known, call(), 0), 0)
  })

  it("do not increase with the cancellation of a call that they count already", () => {
    const known = Known.take(Known.learn(Known.empty, openai, 0), { requests: -1, input: 0, output: 0 })
    assert.strictEqual(Known.freeAt(known, call(), 0), 1_000)
  })

  it("end at their reset", () => {
    let known = Known.learn(Known.empty, openai, 0)
    for (let i = 0; i < 500; i++) known = Known.take(known, call(1_000))
    assert.strictEqual(Known.freeAt(known, call(), 0), 60_000)
    assert.isFalse(Known.isOver(known, 59_999))
    assert.isTrue(Known.isOver(known, 60_000))
    assert.strictEqual(Known.freeAt(known, call(), 60_000), 60_000)
  })

  it("let a call that is larger than the limit wait for all of it", () => {
    assert.strictEqual(freeAt(without(anthropic, "output"), call(90_000)), 40_000)
    const full = {
      "x-ratelimit-limit-tokens": "1000",
      "x-ratelimit-remaining-tokens": "1000",
      "x-ratelimit-reset-tokens": "30s"
    }
    assert.strictEqual(freeAt(full, call(5_000)), 0)
  })

  it("without a maximum are a count that applies until the reset", () => {
    const unlimited = {
      "x-ratelimit-remaining-requests": "1",
      "x-ratelimit-reset-requests": "30s"
    }
    const known = Known.take(Known.learn(Known.empty, unlimited, 0), call())
    assert.strictEqual(Known.freeAt(known, call(), 0), 30_000)
  })

  it("replace each other by kind", () => {
    const first = Known.learn(Known.empty, openai, 0)
    const second = Known.learn(
      first,
      { ...without(openai, "tokens"), "x-ratelimit-remaining-requests": "9" },
      0
    )
    assert.strictEqual(Known.freeAt(second, call(), 0), 0)
    assert.strictEqual(second.tokens, first.tokens)
  })

  it("are read from headers in any form", () => {
    for (const headers of [new Headers(openai), new Map(Object.entries(openai)), Object.entries(openai)]) {
      assert.strictEqual(freeAt(headers), 1_000)
    }
  })

  it("that are unreadable change nothing", () => {
    const odd = [
      undefined,
      null,
      42,
      {},
      { ...openai, "x-ratelimit-remaining-requests": "-1", "x-ratelimit-remaining-tokens": "many" },
      { ...without(openai, "tokens"), "x-ratelimit-reset-requests": "soon" },
      // An instant without a response date.
      without(anthropic, "date"),
      without(openai, "remaining"),
      without(openai, "reset")
    ]
    for (const headers of odd) {
      assert.strictEqual(Known.learn(Known.empty, headers, 0), Known.empty, JSON.stringify(headers))
    }
    assert.strictEqual(freeAt({ ...openai, "x-ratelimit-limit-requests": "lots" }), 60_000)
    // A reset after a month is no reason to hold calls back.
    const month = { ...openai, "x-ratelimit-limit-requests": "", "x-ratelimit-reset-requests": "30d" }
    assert.strictEqual(freeAt(month), 86_400_000)
  })
})
