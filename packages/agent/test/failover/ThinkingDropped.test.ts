/**
 * Thinking that a provider refuses is left out, and the call continues.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Prompt } from "effect/ai"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason } from "@outlast/agent"
import { Dialect } from "@outlast/agent/conversation"
import type { Played } from "../support.ts"
import { answer, failure, inTime, played, policy, recording } from "../support.ts"

const refuses = Effect.fail(failure(new FailoverReason.Format({ side: "request", thinking: true })))

const user = (text: string): Prompt.UserMessageEncoded => ({
  role: "user",
  content: [{ type: "text", text }]
})
const thought = (text: string): Prompt.AssistantMessageEncoded => ({
  role: "assistant",
  content: [
    { type: "reasoning", text },
    { type: "text", text: "Hello." }
  ]
})
const ask = (...prompt: ReadonlyArray<Prompt.MessageEncoded>) => LanguageModel.generateText({ prompt })

/** Returns the thinking in each request to a target. */
const sent = ({ requests }: Played) =>
  requests.map(({ request }) =>
    request.prompt.content.flatMap(({ role, content }) =>
      role === "assistant" ? content.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])) : []
    )
  )

describe("thinking that the provider refuses", () => {
  it.effect("is left out of the rest of its conversation, and not of another that begins alike", () =>
    Effect.gen(function* () {
      const target = played({
        info: { dialect: { ...Dialect.defaults, thinking: "plain" } },
        answers: [refuses, answer("1"), answer("2"), answer("3"), answer("4")]
      })
      const { layer, of } = recording()
      const refused = [user("hi"), thought("A"), user("more"), thought("B"), user("more")]
      yield* inTime(
        Effect.all([
          ask(...refused),
          ask(...refused, thought("C"), user("more")),
          ask(user("hi"), thought("D"), user("more")),
          // A branch from before the refusal.
          ask(user("hi"), thought("A"), user("less"))
        ]).pipe(Effect.provide(Failover.layer([target], { policy })), Effect.provide(layer))
      )
      assert.deepStrictEqual(sent(target), [["A", "B"], [], [], ["D"], ["A"]])
      assert.deepStrictEqual(
        of("ThinkingDropped").map(({ call, dropped }) => [call, dropped]),
        [
          [1, 2],
          [2, 3]
        ]
      )
    })
  )
})
