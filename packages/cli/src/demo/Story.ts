/**
 * The answers of the fake models in the demo, and its faults.
 *
 * Keys have the values `key-1` and `key-2` (Anthropic) and `key-3` (OpenAI), so that a plan can target them.
 */
import { Effect, Random } from "effect"
import type { FaultPlan } from "@outlast/testing"

export const keys = { anthropic: ["key-1", "key-2"], openai: ["key-3"] } as const

/** One answer per turn of the conversation. */
export const answers: ReadonlyArray<FaultPlan.Answer> = [
  { text: "I will look at what is there first.", toolCalls: [{ name: "list_files", params: {} }] },
  {
    text: "Now the code, its test, and what the test says.",
    toolCalls: [
      { name: "read_file", params: { path: "src/cart.mjs" } },
      { name: "read_file", params: { path: "test/cart.test.mjs" } },
      { name: "run_tests", params: {} }
    ]
  },
  {
    text: "The test passes a percentage, 15 for fifteen percent, but discount takes it for a fraction: it multiplies by one minus 15. It has to divide by a hundred first.",
    toolCalls: [
      {
        name: "edit_file",
        params: { path: "src/cart.mjs", find: "(1 - percent)", replace: "(1 - percent / 100)" }
      }
    ]
  },
  { text: "That should be it. The tests will tell.", toolCalls: [{ name: "run_tests", params: {} }] },
  {
    text: "Mended: discount in src/cart.mjs took the percentage for a fraction. It now divides by 100, and all four tests pass."
  }
]

const overloaded = { type: "status", status: 529 } as const
const unavailable = { type: "status", status: 503 } as const
const rateLimited = (seconds: number) =>
  ({ type: "status", status: 429, headers: { "retry-after": String(seconds) } }) as const

/**
 * The default faults: a rate limit, a revoked key, an outage, two cut streams and an overload. The retries of the AI
 * SDK get over the rate limit. They do not cover a stream that has begun.
 */
export const plan: FaultPlan.FaultPlan = {
  answers,
  faults: [
    // The first key is rate limited after its first answer, works again, and breaks off mid-stream.
    { when: { key: "key-1" }, skip: 1, fault: rateLimited(3) },
    { when: { key: "key-1" }, skip: 2, fault: { type: "reset", after: 12 } },
    // The second key was revoked.
    { when: { key: "key-2" }, times: "always", fault: { type: "status", status: 401 } },
    // The other provider is down for a moment, breaks off mid-stream, and is overloaded.
    { when: { provider: "openai" }, fault: unavailable },
    { when: { provider: "openai" }, skip: 1, fault: { type: "reset", after: 12 } },
    { when: { provider: "openai" }, skip: 2, fault: overloaded }
  ]
}

/** Faults that a seed may draw. At most one key is refused, because no call can succeed when all keys are. */
const drawn: ReadonlyArray<FaultPlan.Step> = [
  { fault: rateLimited(1) },
  { fault: rateLimited(3) },
  { fault: overloaded },
  { fault: unavailable },
  { fault: { type: "status", status: 500 } },
  { when: { key: "key-2" }, fault: { type: "status", status: 401 } },
  { fault: { type: "reset" } },
  { fault: { type: "reset", after: 6 } },
  { fault: { type: "cut", after: 3 } },
  { fault: { type: "stream-error", after: 2, error: { type: "overloaded_error", message: "Overloaded" } } }
]

/** Draws five faults from a seed. The same seed gives the same faults. */
export const seeded = (seed: number): Effect.Effect<FaultPlan.FaultPlan> =>
  Effect.gen(function* () {
    const faults: Array<FaultPlan.Step> = []
    for (let i = 0; i < 5; i++) {
      const step = drawn[yield* Random.nextIntBetween(0, drawn.length, { halfOpen: true })]
      const skip = yield* Random.nextIntBetween(0, 3, { halfOpen: true })
      if (step !== undefined) faults.push({ ...step, skip })
    }
    return { answers, faults }
  }).pipe(Random.withSeed(String(seed)))
