/** What a guard counts of an answer, alone and around another guard. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, Outlast, SafetyGuard } from "@outlast/agent"
import { finish, inTime, played, policy, serverError, text } from "../support.ts"
import { endless, Kit, model, over, stopOf, tools } from "./support.ts"

type Part = Response.StreamPartEncoded

/** Streams that begin with a part, and end well. */
const streaming = (...parts: ReadonlyArray<Part>) =>
  played({ streams: [Stream.fromIterable([...parts, finish()])] })

const search: Part = {
  type: "tool-call",
  id: "s1",
  name: "web_search",
  params: { q: "x" },
  providerExecuted: true
}

const kinds: Readonly<Record<string, ReadonlyArray<Part>>> = {
  "a further text": [text.start("b"), text.delta("a", "b"), text.end("b")],
  "a thought": [
    { type: "reasoning-start", id: "r" },
    { type: "reasoning-delta", id: "r", delta: "hm" },
    { type: "reasoning-end", id: "r" }
  ],
  "a file": [{ type: "file", mediaType: "image/png", data: "AAAA" }],
  "a source": [{ type: "source", sourceType: "url", id: "u", url: "https://example.com/", title: "x" }]
}

const answered = (limits: SafetyGuard.Options, parts: ReadonlyArray<Part>) =>
  Stream.runDrain(LanguageModel.streamText({ prompt: "x" })).pipe(
    SafetyGuard.run(limits),
    Effect.provide(Failover.layer([streaming(...parts)], { policy })),
    Effect.exit
  )

/** The smallest limit under which the answer is not stopped. */
const leastOf = (limit: "events" | "toolCalls", parts: ReadonlyArray<Part>) =>
  Effect.gen(function* () {
    for (let n = 1; n < 9; n++) {
      if (Exit.isSuccess(yield* answered({ [limit]: n }, parts))) return n
    }
    return assert.fail("it is always stopped")
  })

const plain = [text.start(), text.delta("a"), text.end()]

describe("an answer that streams", () => {
  for (const [what, parts] of Object.entries(kinds)) {
    it.effect(`counts ${what} as one event`, () =>
      Effect.gen(function* () {
        const without = yield* leastOf("events", plain)
        assert.strictEqual(yield* leastOf("events", [...parts, ...plain]), without + 1)
      })
    )
  }

  it.effect("counts a call that the provider runs itself", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* leastOf("toolCalls", [{ ...search, id: "s0" }, ...plain]), 1)
      assert.strictEqual(yield* leastOf("toolCalls", [{ ...search, id: "s0" }, search, ...plain]), 2)
    })
  )
})

describe("a guard around a guard", () => {
  const turns = Effect.gen(function* () {
    for (let turn = 0; turn < 9; turn++) yield* LanguageModel.generateText({ prompt: "x", toolkit: Kit })
  })

  for (const [who, outer, inner] of [
    ["outer", 2, 9],
    ["inner", 9, 2]
  ] as const) {
    it.effect(`the ${who} one has no room: the run stops, and the other has counted what ran`, () =>
      Effect.gen(function* () {
        const { layer, ran } = tools()
        const target = yield* model(endless)
        const outside = yield* SafetyGuard.make({ toolCalls: outer })
        const inside = yield* SafetyGuard.make({ toolCalls: inner })
        const stop = yield* turns.pipe(inside.run, outside.run, stopOf, Effect.provide([layer, over(target)]))
        assert.deepStrictEqual([stop.reason, stop.limit, ran.length], ["max_tool_calls", 2, 2])
        for (const { report } of [outside, inside]) {
          assert.strictEqual((yield* report).counts.toolCalls, 2)
        }
      })
    )
  }
})

describe("text that is taken back", () => {
  it.effect("is no part of the transcript of a stop", () =>
    Effect.gen(function* () {
      const void_ = "A first beginning."
      const broken = Stream.concat(
        Stream.fromIterable([text.start(), text.delta(void_)]),
        Stream.fail(serverError)
      )
      const whole = Stream.fromIterable([
        ...text.block("All is well."),
        search,
        { ...search, id: "s2" },
        finish()
      ])
      const chain = [played({ streams: [broken] }), played({ model: "n", streams: [whole] })] as const
      const { transcript } = yield* Stream.runDrain(
        Outlast.streamText({ prompt: "x", midStream: "restart" })
      ).pipe(
        SafetyGuard.run({ toolCalls: 1 }),
        stopOf,
        Effect.provide(Failover.layer(chain, { policy })),
        inTime
      )
      assert.notInclude(JSON.stringify(transcript.prompt), void_)
      assert.include(JSON.stringify(transcript.prompt), "All is well.")
    })
  )
})
