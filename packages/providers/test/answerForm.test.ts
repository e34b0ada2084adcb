import { assert, describe, it } from "@effect/vitest"
import * as AnswerForm from "../src/aisdk/form/AnswerForm.ts"
import * as Chat from "../src/aisdk/form/Chat.ts"
import * as Gemini from "../src/aisdk/form/Gemini.ts"

describe("the form of an answer", () => {
  it("does not parse events in order for blanks after their colons", () => {
    const fine = {
      index: 0,
      content: "x",
      function_call: null,
      usage: null,
      a: { prompt_tokens: 5, x_tokens: null }
    }
    const spaced = JSON.stringify(fine, null, 1).replaceAll("\n", " ").replaceAll(": ", ":  ")
    const chat = new Chat.Chat(() => {})
    assert.isFalse(chat.mayDiffer(spaced))
    assert.isFalse(Gemini.mayDiffer(spaced))
    assert.isTrue(chat.mayDiffer(spaced.replace("5", "-5")))
    assert.isTrue(chat.mayDiffer(spaced.replace('"usage":  null', '"usage":  1')))
  })

  it("accepts an answer of Responses that has only thinking, twice", () => {
    const repairs: Array<string> = []
    const form = AnswerForm.of("https://example.com/v1/responses", undefined, (repair) =>
      repairs.push(repair)
    )
    const item = { type: "reasoning", id: "rs_1", summary: [] }
    const body = JSON.stringify({ output: [item, item] })
    assert.strictEqual(form?.whole(body), JSON.stringify({ output: [item] }))
    assert.deepStrictEqual(repairs, ["duplicate"])
  })
})
