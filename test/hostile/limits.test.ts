/** Output limits that a provider refuses, and answers that an output limit cuts, through the real clients. */
import { assert, describe, it } from "@effect/vitest"
import { Agent, Failover } from "@outlast/agent"
import { Warnings } from "@outlast/resilience"
import { Effect, Layer } from "effect"
import { Prompt } from "effect/ai"
import type { Vendor, Way } from "./Asked.ts"
import { asked, policy, reasonOf, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import type { Hit } from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const openai = (message: string, param: string | null = null, code: string | null = null) => ({
  error: { message, type: "invalid_request_error", param, code }
})

interface Refusal {
  readonly vendor: Vendor
  readonly status?: number
  readonly body: object
  readonly limit: number
}

const refusals: Readonly<Record<string, Refusal>> = {
  "OpenAI (diffbot/code-gpt-docs#284)": {
    vendor: "chat",
    body: openai(
      "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
      "max_tokens"
    ),
    limit: 16_384
  },
  "OpenAI with a code": {
    vendor: "chat",
    body: openai(
      "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
      "max_tokens",
      "invalid_value"
    ),
    limit: 16_384
  },
  "OpenAI Responses": {
    vendor: "responses",
    body: openai(
      "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 64000 instead.",
      "max_output_tokens"
    ),
    limit: 16_384
  },
  "Anthropic (anthropics/claude-code#24451)": {
    vendor: "anthropic",
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message: "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-x"
      }
    },
    limit: 8_192
  },
  "Bedrock (vercel/ai#2772)": {
    vendor: "compatible",
    body: {
      message:
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."
    },
    limit: 4_096
  },
  "Gemini (stackblitz-labs/bolt.diy#955)": {
    vendor: "google",
    body: {
      error: {
        code: 400,
        message:
          "Unable to submit request because it has a maxOutputTokens value of 64000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.",
        status: "INVALID_ARGUMENT"
      }
    },
    limit: 8_192
  },
  "Groq (Alishahryar1/free-claude-code#955)": {
    vendor: "compatible",
    body: openai(
      "max_completion_tokens must be less than or equal to 40960, the maximum value for max_completion_tokens is less than the context_window for this model",
      "max_completion_tokens"
    ),
    limit: 40_960
  },
  "DeepSeek (deepseek-ai/DeepSeek-V3#69)": {
    vendor: "compatible",
    body: openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    limit: 8_192
  },
  "Mistral (openclaw/openclaw#53006)": {
    vendor: "compatible",
    status: 422,
    body: {
      object: "error",
      message: {
        detail: [
          {
            type: "less_than_equal",
            loc: ["body", "max_tokens"],
            msg: "Input should be less than or equal to 16384",
            input: 64_000
          }
        ]
      },
      type: "invalid_request_error",
      param: null,
      code: null
    },
    limit: 16_384
  },
  "vLLM (claude-code-best/claude-code#272)": {
    vendor: "compatible",
    body: openai(
      "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 tokens and your request has 24235 input tokens (64000 > 64001 - 24235). None"
    ),
    limit: 64_001 - 24_235 - 1_000
  }
}

const limitsOf = (hits: ReadonlyArray<Hit>) => hits.map(Replies.limitOf)

describe("an output limit that the provider refuses", () => {
  for (const [who, { vendor, status = 400, body, limit }] of Object.entries(refusals)) {
    for (const way of ways) {
      it.live(`is lowered to the maximum in the error, and the request is repeated: ${who}, ${way}`, () =>
        Effect.gen(function* () {
          const good = Replies.send[vendor]({
            text: "Here it is.",
            end: Replies.ends[vendor].stop,
            tokens: 4
          })
          const server = yield* RawServer.start((response, hit) =>
            (Replies.limitOf(hit) ?? 0) > limit ? RawServer.json(response, status, body) : good(response, hit)
          )
          const came = yield* asked(way, [vendors[vendor](server.url)], { limit: 64_000 })
          assert.deepStrictEqual([came.text, reasonOf(came)], ["Here it is.", undefined])
          assert.deepStrictEqual(limitsOf(server.hits), [64_000, limit])
        })
      )
    }
  }
})

const cutAt = 8_000
const half = (vendor: Vendor) =>
  Replies.send[vendor]({ text: "One, two, ", end: Replies.ends[vendor].length, tokens: cutAt })
const rest = (vendor: Vendor) =>
  Replies.send[vendor]({ text: "three.", end: Replies.ends[vendor].stop, tokens: 2 })
const whole = (vendor: Vendor) =>
  Replies.send[vendor]({ text: "One, two, three.", end: Replies.ends[vendor].stop, tokens: cutAt + 2 })

/** The cut answer, then what `refuse` sends to every request with a higher limit, then the rest. */
const raised = (vendor: Vendor, way: Way, refuse: (response: Parameters<typeof RawServer.json>[0]) => void) =>
  Effect.gen(function* () {
    const server = yield* RawServer.start((response, hit, n) =>
      n === 0
        ? half(vendor)(response, hit)
        : (Replies.limitOf(hit) ?? 0) > cutAt
          ? refuse(response)
          : rest(vendor)(response, hit)
    )
    const came = yield* asked(way, [vendors[vendor](server.url)], { limit: cutAt })
    return { came, limits: limitsOf(server.hits) }
  })

const everyone = Object.keys(vendors) as ReadonlyArray<Vendor> // Object.keys forgets the names

describe("an answer that the output limit cut", () => {
  for (const vendor of everyone) {
    for (const way of ways) {
      it.live(`gets a higher limit: ${vendor}, ${way}`, () =>
        Effect.gen(function* () {
          // Shown text is continued, not requested again.
          const next = way === "stream" ? rest(vendor) : whole(vendor)
          const server = yield* RawServer.start((response, hit, n) =>
            (n === 0 ? half(vendor) : next)(response, hit)
          )
          const came = yield* asked(way, [vendors[vendor](server.url)], { limit: cutAt })
          assert.deepStrictEqual([came.text, came.finish], ["One, two, three.", "stop"])
          assert.deepStrictEqual(limitsOf(server.hits), [cutAt, 64_000])
        })
      )

      it.live(`continues at the old limit when the raised one is refused: ${vendor}, ${way}`, () =>
        Effect.gen(function* () {
          const { came, limits } = yield* raised(vendor, way, (response) =>
            RawServer.json(response, 400, openai("max_tokens is too large for this model", "max_tokens"))
          )
          assert.deepStrictEqual([came.text, came.finish], ["One, two, three.", "stop"])
          assert.deepStrictEqual(limits, [cutAt, 64_000, cutAt])
        })
      )

      it.live(`continues at the old limit when the account cannot pay for more: ${vendor}, ${way}`, () =>
        Effect.gen(function* () {
          // anomalyco/opencode#12219: OpenRouter counts the whole limit against the credits.
          const message =
            "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 8500."
          const { came, limits } = yield* raised(vendor, way, (response) =>
            RawServer.json(response, 402, { error: { message, code: 402 } })
          )
          assert.deepStrictEqual([came.text, came.finish], ["One, two, three.", "stop"])
          assert.deepStrictEqual(limits, [cutAt, 64_000, cutAt])
        })
      )

      it.live(`is delivered when every later attempt fails: ${vendor}, ${way}`, () =>
        Effect.gen(function* () {
          const server = yield* RawServer.start((response, hit, n) =>
            n === 0
              ? half(vendor)(response, hit)
              : RawServer.json(response, 503, { error: { message: "Service unavailable", code: 503 } })
          )
          const came = yield* asked(way, [vendors[vendor](server.url), vendors.compatible(server.url)], {
            limit: cutAt,
            policy: { ...policy, whenAllOut: "fail" }
          })
          assert.deepStrictEqual(
            [came.text, came.finish, reasonOf(came)],
            ["One, two, ", "length", undefined]
          )
        })
      )
    }
  }
})

describe("a request that is larger than what the only key may send", () => {
  const groq = (requested: number) =>
    `Request too large for model \`x\` in organization \`o\` on tokens per minute (TPM): Limit 6000, Requested ${requested}, please reduce your message size and try again.`
  const tooLong: ReadonlyArray<
    readonly [of: Vendor, status: number, limit: number, (requested: number) => string]
  > = [
    ["chat", 413, 6_000, groq],
    ["chat", 429, 6_000, groq],
    // Gentleman-Programming/gentle-ai#97
    ["anthropic", 429, 200_000, () => "Extra usage is required for long context requests."]
  ]
  for (const [vendor, status, limit, said] of tooLong) {
    it.live(`is compacted by an agent: ${vendor}, HTTP ${status}, ${limit} tokens`, () =>
      Effect.gen(function* () {
        let refused = 0
        const server = yield* RawServer.start((response, hit) => {
          const tokens = Math.round(JSON.stringify(hit.body.messages).length / 4)
          const error = { type: "rate_limit_error", code: "rate_limit_exceeded", message: said(tokens) }
          if (tokens > limit) refused += 1
          return tokens > limit
            ? RawServer.json(response, status, { type: "error", error })
            : Replies.send[vendor]({ text: "ok", end: Replies.ends[vendor].stop, tokens: 1 })(response, hit)
        })
        const words = "word ".repeat(limit / 30)
        const prompt = Prompt.make(
          Array.from({ length: 40 }, (_, i): ReadonlyArray<Prompt.MessageEncoded> => [
            { role: "user", content: `${i} ${words}` },
            { role: "assistant", content: `Read ${i}.` }
          ])
            .flat()
            .concat([{ role: "user", content: "And now?" }])
        )
        const { text } = yield* Agent.run({ prompt, compaction: { window: 1_000_000 } }).pipe(
          Effect.provide(
            Failover.layer([vendors[vendor](server.url)({})], { policy }).pipe(
              Layer.provideMerge(Warnings.layerOff)
            )
          )
        )
        assert.strictEqual(text, "ok")
        // The other requests summarise.
        assert.isAtMost(refused, 2)
      })
    )
  }
})
