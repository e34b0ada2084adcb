/** Providers that say "not now": rate limits in all forms of "when", keys that are dead, quotas that are empty. */
import { describe } from "@effect/vitest"
import { Effect } from "effect"
import type { Schema } from "effect"
import type { FaultPlan } from "@outlast/testing"
import { say, status } from "./programs.ts"
import type { Wire } from "./Scenario.ts"
import { key, place, tells, wires } from "./Scenario.ts"

const answers = [{ text: "The roof is leaking." }]
const said = "The roof is leaking."

const always = (when: FaultPlan.When, fault: FaultPlan.Fault): FaultPlan.Step => ({
  when,
  times: "always",
  fault
})
const once = (when: FaultPlan.When, fault: FaultPlan.Fault): FaultPlan.Step => ({ when, fault })

/** The other provider. */
const other = (wire: Wire): Wire => (wire === "anthropic" ? "openai" : "anthropic")

describe("a storm of 429s that name the wait", () => {
  const date = "Wed, 21 Oct 2026 07:28:00 GMT"
  const google = (...details: ReadonlyArray<Schema.Json>) => ({
    error: { code: 429, message: "Resource exhausted.", status: "RESOURCE_EXHAUSTED", details: [...details] }
  })
  const openai = (message: string) => ({
    error: { message, type: "requests", param: null, code: "rate_limit_exceeded" }
  })
  const forms: ReadonlyArray<
    readonly [
      name: string,
      wire: Wire,
      headers: Readonly<Record<string, string>>,
      body: Schema.Json | undefined,
      wait: number
    ]
  > = [
    ...wires.map((wire) => ["in seconds", wire, { "retry-after": "30" }, undefined, 30_000] as const),
    [
      "as an HTTP date",
      "anthropic",
      { date, "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT" },
      undefined,
      30_000
    ],
    ["in milliseconds", "openai", { "retry-after-ms": "12500", "retry-after": "99" }, undefined, 12_500],
    ["in milliseconds, as Azure says it", "openai", { "x-ms-retry-after-ms": "12500" }, undefined, 12_500],
    [
      "as the reset of a limit",
      "openai",
      { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "30s" },
      undefined,
      30_000
    ],
    [
      "as a time in RFC 3339",
      "anthropic",
      {
        date,
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:30Z"
      },
      undefined,
      30_000
    ],
    [
      "as RetryInfo (dcdpr/jp#1061, googleapis/python-genai#2114)",
      "google",
      {},
      google({ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "45.837906927s" }),
      45_838
    ],
    [
      "in prose",
      "responses",
      {},
      openai("Rate limit reached for gpt-5 on tokens per min. Please try again in 12.42s."),
      12_420
    ]
  ]
  for (const [name, wire, headers, body, wait] of forms) {
    tells(`${name}: ${wire}`, {
      chain: [place(wire, "A")],
      plan: { faults: [{ times: 2, fault: status(429, headers, body) }], answers },
      program: say,
      expect: {
        result: said,
        took: 2 * wait,
        asked: ["A", "A", "A"],
        lines: [
          "AttemptStarted A",
          "AttemptFailed A RateLimit",
          `CallWaiting A backoff +${wait}`,
          "AttemptStarted A",
          "AttemptFailed A RateLimit",
          `CallWaiting A backoff +${wait}`,
          "AttemptStarted A",
          "CallSucceeded A"
        ]
      }
    })
  }

  tells("that is too long is not slept (anomalyco/opencode#21960, #25733, #20126: retrying in three weeks)", {
    chain: [place("anthropic", "A")],
    plan: { faults: [always({}, status(429, { "retry-after": "1814400" }))], answers },
    program: say,
    expect: { result: { failed: "AllTargetsOut" }, took: 0, asked: ["A"] }
  })

  tells("that is too long is a reason to go elsewhere", {
    chain: [place("anthropic", "A"), place("openai", "B")],
    plan: { faults: [always(key("A"), status(429, { "retry-after": "3600" }))], answers },
    program: Effect.all([say, say]),
    expect: { result: [said, said], took: 0, asked: ["A", "B", "B"] }
  })

  tells("of nothing is now", {
    chain: [place("anthropic", "A")],
    plan: { faults: [once({}, status(429, { "retry-after": "0" }))], answers },
    program: say,
    expect: { result: said, asked: ["A", "A"] }
  })
})

describe("keys", () => {
  for (const wire of wires) {
    tells(`one dead, one throttled: ${wire}`, {
      chain: [place(wire, "A", "B")],
      plan: {
        faults: [always(key("A"), status(401)), once(key("B"), status(429, { "retry-after": "20" }))],
        answers
      },
      program: say,
      expect: {
        result: said,
        took: 20_000,
        asked: ["A", "B", "B"],
        lines: [
          "AttemptStarted A",
          "AttemptFailed A Auth",
          "TargetSwitched B Auth",
          "AttemptStarted B",
          "AttemptFailed B RateLimit",
          "CallWaiting B backoff +20000",
          "AttemptStarted B",
          "CallSucceeded B"
        ]
      }
    })

    tells(`a limited one is left at once for another: ${wire}`, {
      chain: [place(wire, "A", "B"), place(other(wire), "C")],
      plan: { faults: [once(key("A"), status(429, { "retry-after": "20" }))], answers },
      program: say,
      expect: { result: said, took: 0, asked: ["A", "B"] }
    })
  }

  tells("all limited: the soonest is waited for (BerriAI/litellm#3646, OrcaRouter-Lite#121)", {
    chain: [place("anthropic", "A", "B", "C")],
    plan: {
      faults: [
        once(key("A"), status(429, { "retry-after": "30" })),
        once(key("B"), status(429, { "retry-after": "10" })),
        once(key("C"), status(429, { "retry-after": "20" }))
      ],
      answers
    },
    program: say,
    expect: { result: said, took: 10_000, asked: ["A", "B", "C", "B"] }
  })

  tells("all dead: nothing is waited for", {
    chain: [place("anthropic", "A", "B"), place("google", "C")],
    plan: { faults: [always({}, status(401))], answers },
    program: say,
    expect: { result: { failed: "AllTargetsOut" }, took: 0, asked: ["A", "B", "C"] }
  })

  const quota = {
    error: {
      message: "You exceeded your current quota, please check your plan and billing details.",
      type: "insufficient_quota",
      param: null,
      code: "insufficient_quota"
    }
  }
  tells("an empty quota is no rate limit (2389-research/tracker#547)", {
    chain: [place("openai", "A", "B")],
    plan: { faults: [always({}, status(429, { "retry-after": "1" }, quota))], answers },
    program: say,
    expect: {
      result: { failed: "AllTargetsOut" },
      took: 0,
      asked: ["A", "B"],
      lines: [
        "AttemptStarted A",
        "AttemptFailed A Billing",
        "TargetSwitched B Billing",
        "AttemptStarted B",
        "AttemptFailed B Billing",
        "CallGaveUp AllTargetsOut"
      ]
    }
  })
})
