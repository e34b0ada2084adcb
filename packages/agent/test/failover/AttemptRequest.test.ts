/**
 * The parts of effect/ai's options that a target receives.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Option, Stream } from "effect"
import { AiError, LanguageModel, Prompt, Response, ResponseIdTracker } from "effect/ai"
import { Failover, FailoverReason, Outlast, ProviderFailure } from "@outlast/agent"
import { Wording } from "@outlast/agent/conversation"
import * as Conversation from "#agent/failover/call/Conversation"
import { failure, finish, played, policy, say, text } from "../support.ts"

const metadata: Response.ResponseMetadataPartEncoded = { type: "response-metadata", id: "response-1" }
const whole: Array<Response.PartEncoded> = [metadata, { type: "text", text: "one" }, finish()]
const streamed = say(metadata, ...text.block("one"), finish())

/** A conversation before and after an answer and a question. effect/ai tracks it by its messages. */
const first = Prompt.make("first")
const second = Prompt.concat(
  first,
  Prompt.make([
    { role: "assistant", content: [{ type: "text", text: "one" }] },
    { role: "user", content: [{ type: "text", text: "second" }] }
  ])
)

const tracked = Effect.provideServiceEffect(ResponseIdTracker.ResponseIdTracker, ResponseIdTracker.make)

const surfaces = [
  (prompt: Prompt.Prompt) => Effect.asVoid(LanguageModel.generateText({ prompt })),
  (prompt: Prompt.Prompt) => Stream.runDrain(LanguageModel.streamText({ prompt }))
]

it.effect(
  "effect/ai on its own sends an incremental request first, and a whole one when that is refused",
  () =>
    Effect.gen(function* () {
      // Without this effect the tests below would prove nothing.
      const ids: Array<string | undefined> = []
      const model = yield* LanguageModel.make({
        generateText: ({ previousResponseId }) =>
          Effect.suspend(() => {
            ids.push(previousResponseId)
            if (previousResponseId === undefined) return Effect.succeed(whole)
            const reason = new AiError.InvalidRequestError({})
            return Effect.fail(AiError.make({ module: "Vendor", method: "generateText", reason }))
          }),
        streamText: () => streamed
      })
      yield* tracked(
        Effect.andThen(model.generateText({ prompt: first }), model.generateText({ prompt: second }))
      )
      assert.deepStrictEqual(ids, [undefined, "response-1", undefined])
    })
)

it.effect("a value that JSON cannot represent does not turn a failure into a defect", () =>
  Effect.gen(function* () {
    const prompt = Prompt.make([
      { role: "user", content: "how many?" },
      {
        role: "assistant",
        content: [{ type: "tool-call", id: "1", name: "count", params: {}, providerExecuted: false }]
      },
      {
        role: "tool",
        content: [{ type: "tool-result", id: "1", name: "count", isFailure: false, result: 1n }]
      }
    ])
    const said = failure(new FailoverReason.Format({ side: "request" }))
    const detail = "A bigint cannot be sent."
    const target = played({
      answers: [Effect.fail(new ProviderFailure.ProviderFailure({ ...said, detail }))]
    })
    const call = Effect.provide(LanguageModel.generateText({ prompt }), Failover.layer([target], { policy }))
    assert.include((yield* Effect.flip(call)).message, detail)
  })
)

it("the arguments of a tool call count as text of the prompt", () => {
  const call = (content: string) =>
    Prompt.fromResponseParts([
      Response.makePart("tool-call", {
        id: "1",
        name: "write",
        params: { path: "a.ts", content },
        providerExecuted: false
      })
    ])
  const little = Conversation.estimate(call(""))
  assert.strictEqual(Conversation.estimate(call("x".repeat(4_000))), little + 1_000)
  assert.include(Conversation.texts(call("const answer = 42")).join(), "const answer = 42")
})

it.effect("every target gets the whole prompt, even after an earlier response with an id", () =>
  Effect.gen(function* () {
    for (const call of surfaces) {
      const target = played({ answers: [Effect.succeed(whole)], streams: [streamed] })
      yield* tracked(Effect.andThen(call(first), call(second))).pipe(
        Effect.provide(Failover.layer([target], { policy }))
      )
      const sent = target.requests.map(({ request }) => [
        request.prompt.content.length,
        request.previousResponseId,
        request.incrementalPrompt
      ])
      assert.deepStrictEqual(sent, [
        [1, undefined, undefined],
        [3, undefined, undefined]
      ])
    }
  })
)

it.effect("effect/ai does not repeat a refused request, and its failure is not changed", () =>
  Effect.gen(function* () {
    const malformed = failure(new FailoverReason.Format({ side: "request" }))
    for (const call of surfaces) {
      const target = played({
        answers: [Effect.succeed(whole), Effect.fail(malformed)],
        streams: [streamed, Stream.fail(malformed)]
      })
      const error = yield* tracked(Effect.andThen(call(first), Effect.flip(call(second)))).pipe(
        Effect.provide(Failover.layer([target], { policy }))
      )
      assert.strictEqual(target.requests.length, 2)
      const failed = Option.getOrThrow(Outlast.failureOf(error))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Format")
    }
  })
)

it("a prompt is sent without our own metadata and without unfinished thinking", () => {
  const ours = { outlast: { partial: true }, vendor: { kept: true } }
  const thought = { type: "reasoning", text: "lost", options: { outlast: { partial: true } } } as const
  const prompt = Prompt.make([
    { role: "system", content: "s", options: ours },
    { role: "user", content: [{ type: "text", text: "u", options: ours }], options: ours },
    { role: "assistant", content: [thought] },
    { role: "assistant", content: [thought, { type: "text", text: "a", options: ours }] },
    {
      role: "tool",
      content: [{ type: "tool-result", id: "1", name: "t", isFailure: false, result: 1, options: ours }]
    }
  ])
  const sent = Conversation.strip(prompt.content)
  assert.deepStrictEqual(
    sent.map(({ role, content }) => [role, content.length]),
    [
      ["system", 1],
      ["user", 1],
      ["assistant", 1],
      ["tool", 1]
    ]
  )
  const printed = JSON.stringify(sent)
  assert.notInclude(printed, "outlast")
  assert.notInclude(printed, "lost")
  assert.strictEqual(printed.split('"kept":true').length - 1, 5)
  assert.strictEqual(Conversation.strip(sent), sent)
})

it.effect("notes in place of content use the policy's words, also after a compaction", () =>
  Effect.gen(function* () {
    const german = { ...Wording.defaults, goOn: "Weiter." }
    const overflow = failure(new FailoverReason.ContextOverflow({}))
    const asked = (text: string) =>
      Prompt.make([
        { role: "user", content: [{ type: "text", text }] },
        { role: "assistant", content: [{ type: "text", text: "one" }] }
      ])
    for (const [wording, said] of [
      [german, "Weiter."],
      [undefined, "Go on."]
    ] as const) {
      const target = played({ answers: [Effect.fail(overflow), Effect.succeed(whole)] })
      const options = { policy: { ...policy, wording }, compact: () => Effect.succeed(asked("short")) }
      yield* LanguageModel.generateText({ prompt: asked("long ".repeat(1_000)) }).pipe(
        Effect.provide(Failover.layer([target], options))
      )
      assert.deepStrictEqual(
        target.requests.map(({ request }) => Conversation.texts(request.prompt).at(-1)),
        [said, said]
      )
    }
  })
)
