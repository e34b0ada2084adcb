/** Failures with status 200: a refused answer, an empty one, thinking alone, or a disguised error. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { RecoveryPolicy } from "@outlast/agent"
import type { Vendor } from "./Asked.ts"
import { asked, policy, reasonOf, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

/** The example of docs/lookup/policy.md: refused content goes to one model that may take it. */
const fallback: RecoveryPolicy.RecoveryPolicy = {
  ...policy,
  rows: {
    ...policy.rows,
    ContentPolicy: { ...RecoveryPolicy.base, then: "move", to: ["gpt-5.1"] }
  }
}

const good = Replies.send.compatible({ text: "Here it is.", end: "stop", tokens: 4 })

const refused = (vendor: Vendor, end: string, text = "") => ({
  vendor,
  send: Replies.send[vendor]({ text, end, tokens: 3 })
})

const refusals = {
  "Claude's refusal without content (NousResearch/hermes-agent#43084)": refused("anthropic", "refusal"),
  "Claude's refusal after text (vercel/ai#8412)": refused("anthropic", "refusal", "I can"),
  "OpenAI's content_filter": refused("chat", "content_filter"),
  "the content_filter of an OpenAI-compatible server": refused("compatible", "content_filter"),
  "the content_filter of OpenAI Responses": refused("responses", "content_filter"),
  "Gemini's prompt feedback without a candidate (2389-research/tracker#543)": {
    vendor: "google",
    send: Replies.body({
      promptFeedback: { blockReason: "PROHIBITED_CONTENT" },
      usageMetadata: { promptTokenCount: 5, totalTokenCount: 5 }
    })
  },
  ...Object.fromEntries(
    [
      "SAFETY",
      "RECITATION",
      "PROHIBITED_CONTENT",
      "BLOCKLIST",
      "SPII",
      "IMAGE_SAFETY",
      "IMAGE_PROHIBITED_CONTENT",
      "IMAGE_RECITATION"
    ].map((end) => [`Gemini's ${end} (maximhq/bifrost#2590)`, refused("google", end)])
  )
} as const satisfies Record<
  string,
  { readonly vendor: Vendor; readonly send: ReturnType<typeof Replies.body> }
>

describe("content that a provider refuses with status 200", () => {
  for (const [what, { vendor, send }] of Object.entries(refusals)) {
    for (const way of ways) {
      it.live(`goes to the policy's fallback: ${what}, ${way} (can1357/oh-my-pi#2290)`, () =>
        Effect.gen(function* () {
          const server = yield* RawServer.start((response, hit) =>
            (hit.body.model === "gpt-5.1" ? good : send)(response, hit)
          )
          const chain = [
            vendors[vendor](server.url),
            vendors.compatible(server.url, "gpt-4"),
            vendors.compatible(server.url, "gpt-5.1")
          ] as const
          const came = yield* asked(way, chain, { policy: fallback })
          assert.isUndefined(came.failure)
          assert.isTrue(came.text.endsWith("Here it is."), came.text)
          assert.deepStrictEqual(came.failures, ["ContentPolicy"])
          assert.strictEqual(server.hits.length, 2)
        })
      )
    }
    it.live(`fails the call as refused content without a fallback: ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start(send)
        const came = yield* asked("request", [vendors[vendor](server.url), vendors.compatible(server.url)])
        assert.strictEqual(reasonOf(came), "ContentPolicy")
        assert.strictEqual(server.hits.length, 1)
      })
    )
  }
})

const empties: Readonly<Record<string, readonly [Vendor, Partial<Replies.Reply>]>> = {
  "Claude's empty content (anthropics/anthropic-sdk-typescript#459)": ["anthropic", { tokens: 0 }],
  "Gemini's STOP without parts (ahmadrosid/nakama#1189)": ["google", { tokens: 0 }],
  "a chat completion of nothing (tbphp/gpt-load#232)": ["chat", { tokens: 0 }],
  "a compatible completion of nothing (Portkey-AI/gateway#1303)": ["compatible", { tokens: 0 }],
  "Claude's thinking alone": ["anthropic", { thinking: "so then", tokens: 40 }],
  "Gemini's thoughts alone (google-gemini/gemini-cli#22633)": ["google", { thinking: "so then", tokens: 40 }],
  "reasoning_content alone": ["compatible", { thinking: "so then", tokens: 40 }]
}

describe("an answer without content", () => {
  for (const [what, [vendor, reply]] of Object.entries(empties)) {
    for (const way of ways) {
      it.live(`is requested again: ${what}, ${way}`, () =>
        Effect.gen(function* () {
          const end = Replies.ends[vendor].stop
          const bad = Replies.send[vendor]({ text: "", tokens: 0, ...reply, end })
          const whole = Replies.send[vendor]({ text: "Here it is.", tokens: 4, end })
          const server = yield* RawServer.start((response, hit, n) => (n === 0 ? bad : whole)(response, hit))
          const came = yield* asked(way, [vendors[vendor](server.url)])
          assert.deepStrictEqual([came.text, came.failures], ["Here it is.", ["Format"]])
        })
      )
    }
  }
})

const disguised = {
  "429": [{ error: { code: 429, message: "Provider returned error" } }, "RateLimit"],
  "502": [{ error: { code: 502, message: "Provider returned error" } }, "Overloaded"],
  "402": [{ error: { code: 402, message: "Insufficient credits" } }, "Billing"],
  insufficient_quota: [
    {
      error: { message: "You exceeded your quota.", type: "insufficient_quota", code: "insufficient_quota" }
    },
    "Billing"
  ]
} as const

describe("an error object in a body with status 200", () => {
  for (const [code, [error, reason]] of Object.entries(disguised)) {
    for (const vendor of ["anthropic", "chat", "compatible", "google", "responses"] as const) {
      for (const way of ways) {
        for (const form of way === "request" ? (["body"] as const) : (["event", "body"] as const)) {
          it.live(`counts by its code: ${code}, ${vendor}, ${way}, ${form} (vercel/ai#2698)`, () =>
            Effect.gen(function* () {
              const server = yield* RawServer.start((response, hit) =>
                form === "event" && Replies.isStream(hit)
                  ? RawServer.events(response, [error, "[DONE]"])
                  : RawServer.json(response, 200, error)
              )
              const once = { ...policy, maxAttempts: 1 }
              const came = yield* asked(way, [vendors[vendor](server.url)], { policy: once })
              assert.deepStrictEqual([came.failures, came.text], [[reason], ""])
            })
          )
        }
      }
    }
  }
})
