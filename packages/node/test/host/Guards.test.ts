/** Guards at the entrance: requirements of tools, and empty events. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric } from "effect"
import * as fc from "fast-check"
import { Inbound, Requirements } from "@outlast/node/host"
import { ResilienceEvents } from "@outlast/resilience"

describe("Requirements", () => {
  it.effect("skips items whose variables are missing or empty, with a warning and an event", () => {
    const lines: Array<string> = []
    const events: Array<object> = []
    const items = [
      { name: "search", requires: { env: ["SEARCH_KEY", "SEARCH_URL", "HOME"] }, tool: 1 },
      { name: "mail", requires: { env: ["MAIL_KEY"] }, tool: 2 },
      { name: "files", tool: 3 },
      { name: "clock", requires: {}, tool: 4 }
    ]
    return Effect.gen(function* () {
      const usable = yield* Requirements.met(items, { HOME: "/root", SEARCH_URL: " ", MAIL_KEY: "secret" })
      assert.deepStrictEqual(
        usable.map(({ tool }) => tool),
        [2, 3, 4]
      )
      assert.deepStrictEqual(lines, [
        "Skipped `search`: the environment variables SEARCH_KEY, SEARCH_URL are not set."
      ])
      assert.deepStrictEqual(events, [
        { _tag: "RequirementMissing", name: "search", missing: ["SEARCH_KEY", "SEARCH_URL"], at: 0 }
      ])
    }).pipe(
      Effect.provide(
        Layer.merge(
          Logger.layer([Logger.make(({ message }) => lines.push(String(message)))]),
          ResilienceEvents.layerHandler((event) => Effect.sync(() => events.push(event)))
        )
      )
    )
  })

  it.effect("reads the environment of the process, and rejects a manifest that is wrong", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        Requirements.missingOf({ name: "a", requires: { env: ["PATH", "NO_SUCH_1"] } }),
        ["NO_SUCH_1"]
      )
      const odd = [{ name: "a", requires: { env: "KEY" } }] as unknown as ReadonlyArray<Requirements.Item>
      assert.include(
        String(yield* Effect.exit(Requirements.met(odd))),
        "Requirements: requires.env must be a list of names"
      )
    })
  )
})

describe("Inbound", () => {
  const count = (outcome: string) =>
    Effect.map(
      Metric.value(Metric.withAttributes(Inbound.events, { source: "telegram", outcome })),
      ({ count }) => Number(count)
    )

  it.effect("counts events, and drops those with neither text nor media", () =>
    Effect.gen(function* () {
      const verdicts = yield* Effect.forEach(
        [
          { text: "hello" },
          { media: ["photo"] },
          { text: " \n", media: [] },
          {},
          { text: null, media: null },
          { reaction: "👍" }
        ],
        (content) => Inbound.accept("telegram", content)
      )
      assert.deepStrictEqual(verdicts, [true, true, false, false, false, false])
      assert.strictEqual(yield* count("accepted"), 2)
      assert.strictEqual(yield* count("empty"), 4)
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it("takes any JSON", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("text", "media", "other"), fc.jsonValue()), (event) => {
        const hasText = typeof event["text"] === "string" && event["text"].trim() !== ""
        const hasMedia = Array.isArray(event["media"]) && event["media"].length > 0
        assert.strictEqual(Inbound.isEmpty(event as Inbound.Content), !hasText && !hasMedia)
      })
    )
  })
})
