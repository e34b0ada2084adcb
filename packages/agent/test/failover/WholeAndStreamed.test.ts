/**
 * One answer, asked for as a whole by a request, as a whole by a stream, and as a stream: the content, the requests and
 * the end are the same, whatever its attempts say.
 *
 * A plan has attempts that end before they show anything, or are cut by the output limit. They are the ones whose text
 * is continued in each way. (Behind text that was seen, an interrupted stream goes on where a whole answer is repeated.)
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Failover } from "@outlast/agent"
import type { ModelInfo } from "@outlast/agent"
import { Fold } from "#agent/failover/call/Fold"
import { RefusedAnswers } from "#agent/failover/decide/AnswerEnd"
import * as Sweeps from "../../../../test/sweeps.ts"
import type { Part } from "../support.ts"
import { finish, inTime, keepAlive, played, policy, say, text, thinking, toolCall } from "../support.ts"

type Plan = ReadonlyArray<ReadonlyArray<Part>>

const folded = (parts: ReadonlyArray<Part>): Array<Response.PartEncoded> => {
  const fold = new Fold()
  fold.pushAll(parts)
  return fold.parts
}

const options = {
  prompt: "What is the plan?",
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

/** Every cut answer is continued, as often as it takes. */
const truncation = { raiseTo: 1, raises: 0, continuations: 20, poorGains: 20, minGain: 0, start: undefined }
const patient = { ...policy, truncation, maxAttempts: 20, retryBudget: false } as const

const ways = ["requested", "streamed inside", "streamed"] as const

/** The content of the answer, its end, and the messages of each request. */
const answered = (plan: Plan, way: (typeof ways)[number]) => {
  const info: ModelInfo.ModelInfo = { wholeAnswers: way === "streamed inside" ? "stream" : "request" }
  const target = played({
    info,
    answers: plan.map((parts) => Effect.succeed(folded(parts))),
    streams: plan.map((parts) => say(...parts))
  })
  const ask: Effect.Effect<ReadonlyArray<Response.AnyPart>, unknown, LanguageModel.LanguageModel> = way ===
  "streamed"
    ? Effect.map(
        Stream.runCollect(LanguageModel.streamText(options)),
        // A decoded part has what an encoded one has.
        (parts) =>
          folded(parts as ReadonlyArray<Part>) as ReadonlyArray<unknown> as ReadonlyArray<Response.AnyPart>
      )
    : Effect.map(LanguageModel.generateText(options), ({ content }) => content)
  return Effect.gen(function* () {
    const content = yield* inTime(
      ask.pipe(
        Effect.provideService(RefusedAnswers, "deliver"),
        Effect.provide(Failover.layer([target], { policy: patient })),
        Effect.orElseSucceed(() => [])
      )
    )
    return {
      content: content.flatMap(plain),
      sent: target.requests.map(({ request }) =>
        request.prompt.content.slice(1).map(({ content }) => content)
      )
    }
  })
}

/** The content of a part, and what it says about its signature. */
const plain = (part: Response.AnyPart): ReadonlyArray<unknown> => {
  const { continued, partial } = (part.metadata["outlast"] ?? {}) as Record<string, unknown>
  switch (part.type) {
    case "text":
    case "reasoning":
      // An empty text is no content, and may stand elsewhere.
      if (part.text === "") return []
      return [[part.type, part.text, continued ?? partial ?? false]]
    case "tool-call":
      return [[part.type, part.id, continued ?? false]]
    case "finish":
      return [[part.type, part.reason, part.usage.outputTokens.total]]
    case "response-metadata":
      return []
    default:
      return [[part.type]]
  }
}

const isSame = (plan: Plan) =>
  Effect.gen(function* () {
    const [first, ...others] = yield* Effect.forEach(ways, (way) => answered(plan, way))
    for (const [i, other] of others.entries()) assert.deepStrictEqual(other, first, ways[i + 1])
    return first?.content ?? []
  })

/** Virtual time, and no warning that a chain is built in each call. */
const surroundings = Layer.merge(TestClock.layer(), Logger.layer([]))

const cut = finish("length", 600)
const source: Part = { type: "source", sourceType: "url", id: "s", url: "https://example.com", title: "s" }
const begun: Part = { type: "tool-params-start", id: "c", name: "search" }
const params: Part = { type: "tool-params-delta", id: "c", delta: '{"q":' }

const named: Record<string, readonly [Plan, ReadonlyArray<unknown>]> = {
  "reasoning that is cut twice is shown once, and is never sent again": [
    [
      [thinking.start(), thinking.delta("I think so"), cut],
      [thinking.start(), thinking.delta("I think so"), cut],
      [...thinking.block("I think so and so on", "s"), ...text.block("Done."), finish()]
    ],
    [
      ["reasoning", "I think so and so on", true],
      ["text", "Done.", true],
      ["finish", "stop", 1_201]
    ]
  ],
  "reasoning that goes on behind a cut is one block": [
    [
      [thinking.start(), thinking.delta("I think"), cut],
      [...thinking.block(" so.", "s"), ...text.block("Done."), finish()]
    ],
    [
      ["reasoning", "I think so.", true],
      ["text", "Done.", true],
      ["finish", "stop", 601]
    ]
  ],
  "a text that repeats its end behind a cut": [
    [
      [...text.block("The quick brown fox jumps over the la"), cut],
      [...text.block("brown fox jumps over the lazy dog."), finish()]
    ],
    [
      ["text", "The quick brown fox jumps over the lazy dog.", true],
      ["finish", "stop", 601]
    ]
  ],
  "a continuation that thinks first": [
    [
      [...thinking.block("First.", "s"), ...text.block("One, "), cut],
      [...thinking.block("Then.", "t"), ...text.block("two."), toolCall("1"), finish("tool-calls")]
    ],
    [
      ["reasoning", "First.", false],
      ["text", "One, two.", true],
      ["reasoning", "Then.", true],
      ["tool-call", "1", true],
      ["finish", "tool-calls", 601]
    ]
  ],
  "a call that is cut inside its arguments, and text behind a call": [
    [
      [...text.block("So: "), begun, params, toolCall("c"), ...text.block("no", "1"), cut],
      [...text.block("yes"), toolCall("d"), ...text.block(", no", "1"), finish("tool-calls")]
    ],
    [
      ["text", "So: ", false],
      ["text", "yes", true],
      ["tool-call", "d", true],
      ["text", ", no", true],
      ["finish", "tool-calls", 601]
    ]
  ],
  "an answer that the provider refused": [
    [[...text.block("Half"), toolCall("1"), ...text.block(" of it", "1"), finish("content-filter")]],
    [
      ["text", "Half", false],
      ["text", " of it", false],
      ["finish", "content-filter", 1]
    ]
  ],
  "failures before any content": [
    [
      [keepAlive, text.start(), finish("error", 7)],
      [toolCall("1"), source],
      [source, ...text.block("Done."), finish()]
    ],
    [["source"], ["text", "Done.", false], ["finish", "stop", 8]]
  ]
}

describe("a whole answer and a stream are the same", () => {
  for (const [name, [plan, expected]] of Object.entries(named)) {
    it.effect(name, () => Effect.map(isSame(plan), (content) => assert.deepStrictEqual(content, expected)))
  }

  const words = fc.constantFrom("", "a", " b. ", "I think so", "The quick brown fox jumps over it. ", "\n")
  const said = fc.array(words, { minLength: 1, maxLength: 3 })
  const block: fc.Arbitrary<(n: number) => ReadonlyArray<Part>> = fc.oneof(
    fc.constantFrom<Part>(keepAlive, source).map((part) => () => [part]),
    said.map((all) => (n: number): ReadonlyArray<Part> => [
      text.start(`${n}`),
      ...all.map((each) => text.delta(each, `${n}`)),
      text.end(`${n}`)
    ]),
    // A whole answer does not show that its thinking never ended.
    said.map((all) => (n: number): ReadonlyArray<Part> => [
      thinking.start(`${n}`),
      ...all.map((each) => thinking.delta(each, `${n}`)),
      thinking.end("s", `${n}`)
    ]),
    fc.boolean().map((providerExecuted) => (n: number): ReadonlyArray<Part> => [
      toolCall(`${n}`, { providerExecuted })
    ])
  )
  const content = fc.array(block, { maxLength: 4 }).map((blocks) => blocks.flatMap((make, n) => make(n)))
  const failed = fc.constantFrom<ReadonlyArray<Part>>(
    [finish("error", 3)],
    [keepAlive, text.start("9"), finish("error", 3)],
    [source, toolCall("9"), finish("error", 3)]
  )
  const attempt = fc.oneof(
    content.map((parts) => [...parts, cut]),
    failed
  )
  const plan = fc
    .tuple(fc.array(attempt, { maxLength: 3 }), content, content)
    .map(([before, start, rest]): Plan => [
      ...before,
      [...start, ...text.block("So it is.", "9"), ...rest, finish("stop", 5)]
    ])

  it("whatever the attempts say", () =>
    fc.assert(
      fc.asyncProperty(plan, (plan) =>
        Effect.runPromise(Effect.asVoid(Effect.provide(isSame(plan), surroundings)))
      ),
      { numRuns: Sweeps.runs(1_000), seed: Sweeps.seed }
    ))
})
