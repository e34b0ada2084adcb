/**
 * Answers that end normally but count as failures: refused, empty, or only thinking. Whole and streamed.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, RecoveryPolicy } from "@outlast/agent"
import { RefusedAnswers } from "#agent/failover/decide/AnswerEnd"
import {
  answer,
  failureOf,
  finish,
  inTime,
  played,
  policy,
  recording,
  say,
  text,
  textOf,
  thinking,
  toolCall
} from "../support.ts"

const question = [{ role: "user", content: "What is the plan?" }] as const
const results = [
  ...question,
  {
    role: "assistant",
    content: [{ type: "tool-call", id: "1", name: "search", params: {}, providerExecuted: false }]
  },
  {
    role: "tool",
    content: [{ type: "tool-result", id: "1", name: "search", result: "done", isFailure: false }]
  }
] as const

const fallback = {
  ...policy,
  rows: {
    ...policy.rows,
    ContentPolicy: { ...RecoveryPolicy.base, then: "move" as const, to: ["m2"] }
  }
}

/** The same answer as a whole and as a stream. */
interface Said {
  readonly whole: ReadonlyArray<Response.PartEncoded>
  readonly stream: ReadonlyArray<Response.StreamPartEncoded>
}

const thought: Said = {
  whole: [{ type: "reasoning", text: "so then" }],
  stream: thinking.block("so then", "s")
}
const nothing: Said = { whole: [], stream: [] }
const blank: Said = { whole: [{ type: "text", text: "" }], stream: [text.start(), text.end()] }
const called: Said = { whole: [toolCall("1")], stream: [toolCall("1")] }

const options = {
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

for (const way of ["whole", "streamed"] as const) {
  const ask = (prompt: LanguageModel.GenerateTextOptions<{}>["prompt"]) =>
    way === "whole"
      ? Effect.map(LanguageModel.generateText({ prompt, ...options }), (response) => response.text)
      : Effect.map(Stream.runCollect(LanguageModel.streamText({ prompt, ...options })), textOf)
  const target = (model: string, said: ReadonlyArray<readonly [Said, Response.FinishPartEncoded]>) =>
    played({
      model,
      answers: said.map(([{ whole }, end]) => Effect.succeed([...whole, end])),
      streams: said.map(([{ stream }, end]) => say(...stream, end))
    })
  const good: Said = { whole: [{ type: "text", text: "good" }], stream: text.block("good") }

  describe(`an answer, ${way},`, () => {
    it.effect("that the provider refused is ContentPolicy, and goes to the policy's fallback", () =>
      Effect.gen(function* () {
        const first = target("m", [[nothing, finish("content-filter", 3)]])
        const second = target("m2", [[good, finish()]])
        const { layer, of } = recording()
        const said = yield* ask(question).pipe(
          Effect.provide(Failover.layer([first, second], { policy: fallback })),
          Effect.provide(layer)
        )
        assert.strictEqual(said, "good")
        assert.deepStrictEqual(
          of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
          [["ContentPolicy", "answer/refused"]]
        )
        assert.deepStrictEqual([first.requests.length, second.requests.length], [1, 1])
      })
    )

    it.effect("that the provider refused fails the call when the policy has no fallback", () =>
      Effect.gen(function* () {
        const first = target("m", [[good, finish("content-filter")]])
        const second = target("m2", [[good, finish()]])
        const failed = yield* failureOf(ask(question)).pipe(
          Effect.provide(Failover.layer([first, second], { policy }))
        )
        assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContentPolicy")
        assert.strictEqual(second.requests.length, 0)
      })
    )

    it.effect("that the provider refused is delivered without tool calls on request", () =>
      Effect.gen(function* () {
        const refused: Said = {
          whole: [...good.whole, toolCall("1")],
          stream: [...good.stream, toolCall("1")]
        }
        const first = target("m", [[refused, finish("content-filter", 3)]])
        const asked = { prompt: question, ...options }
        type Answer = Effect.Effect<ReadonlyArray<Response.AnyPart>, unknown, LanguageModel.LanguageModel>
        const answer: Answer =
          way === "whole"
            ? Effect.map(LanguageModel.generateText(asked), ({ content }) => content)
            : Stream.runCollect(LanguageModel.streamText(asked))
        const { layer, of } = recording()
        const parts = yield* answer.pipe(
          Effect.provideService(RefusedAnswers, "deliver"),
          Effect.provide(Failover.layer([first], { policy })),
          Effect.provide(layer)
        )
        const end = parts.at(-1)
        assert(end?.type === "finish")
        assert.strictEqual(end.reason, "content-filter")
        assert.strictEqual(end.usage.outputTokens.total, 3)
        assert.include(
          parts.map(({ type }) => type),
          way === "whole" ? "text" : "text-delta"
        )
        assert.notInclude(
          parts.map(({ type }) => type),
          "tool-call"
        )
        // The program gets an answer although the policy gave up.
        assert.lengthOf(of("CallGaveUp"), 1)
        assert.lengthOf(of("CallSucceeded"), 0)
      })
    )

    const empties = {
      "without content and without tokens": [nothing, finish("stop", 0), "answer/empty"],
      "of an empty text without tokens": [blank, finish("stop", 0), "answer/empty"],
      "of thinking alone": [thought, finish("stop", 40), "answer/thinking-only"]
    } as const
    for (const [what, [said, end, rule]] of Object.entries(empties)) {
      it.effect(`${what} is asked for again`, () =>
        Effect.gen(function* () {
          const model = target("m", [
            [said, end],
            [good, finish()]
          ])
          const { layer, of } = recording()
          const text = yield* inTime(
            ask(question).pipe(Effect.provide(Failover.layer([model], { policy })))
          ).pipe(Effect.provide(layer))
          assert.strictEqual(text, "good")
          assert.deepStrictEqual(
            of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
            [["Format", rule]]
          )
        })
      )

      it.effect(`${what} is legal behind the results of tools`, () =>
        Effect.gen(function* () {
          const model = target("m", [[said, end]])
          const text = yield* ask(results).pipe(Effect.provide(Failover.layer([model], { policy })))
          assert.deepStrictEqual([text, model.requests.length], ["", 1])
        })
      )
    }

    it.effect("that is empty but used tokens, or that only calls a tool, is accepted", () =>
      Effect.gen(function* () {
        for (const [said, end] of [
          [nothing, finish("stop", 2)],
          [called, finish("tool-calls", 0)]
        ] as const) {
          const model = target("m", [[said, end]])
          yield* ask(question).pipe(Effect.provide(Failover.layer([model], { policy })))
          assert.strictEqual(model.requests.length, 1)
        }
      })
    )

    it.effect("that continues a cut one may be empty, because the model may have nothing to add", () =>
      Effect.gen(function* () {
        const half: Said = { whole: [{ type: "text", text: "All of it" }], stream: text.block("All of it") }
        const model = target("m", [
          [half, finish("length", 600)],
          [nothing, finish("stop", 0)]
        ])
        const said = yield* ask(question).pipe(Effect.provide(Failover.layer([model], { policy })))
        assert.deepStrictEqual([said, model.requests.length], ["All of it", 2])
      })
    )
  })
}

it.effect("an object that arrives without content is requested again", () =>
  Effect.gen(function* () {
    const model = played({
      answers: [Effect.succeed([finish("stop", 0)]), answer('{"city":"Paris"}', "stop", 9)]
    })
    const { value } = yield* inTime(
      LanguageModel.generateObject({ prompt: "Where?", schema: Schema.Struct({ city: Schema.String }) }).pipe(
        Effect.provide(Failover.layer([model], { policy }))
      )
    )
    assert.deepStrictEqual(value, { city: "Paris" })
  })
)
