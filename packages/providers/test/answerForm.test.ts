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

  it("leaves out no block that the client of Anthropic reads in a complete answer", () => {
    const repairs: Array<string> = []
    const form = AnswerForm.of("https://example.com/v1/messages", undefined, (repair) => repairs.push(repair))
    const usage = { input_tokens: 1, output_tokens: 1 }
    const content = [
      { type: "text", text: "x" },
      { type: "container_upload", file_id: "f" }
    ]
    const body = JSON.stringify({ type: "message", content, usage })
    assert.strictEqual(form?.whole(body), body)
    assert.deepStrictEqual(repairs, [])
  })

  it("reads two calls of Responses with one index, each once", () => {
    const form = AnswerForm.of("https://example.com/v1/responses", undefined, () => {})
    const call = (id: string) => ({
      type: "function_call",
      id,
      call_id: `call_${id}`,
      name: "look",
      arguments: `{"id":"${id}"}`,
      status: "completed"
    })
    const place = (id: string) => ({ item_id: id, output_index: 0 })
    const sent = ["a", "b"].flatMap((id) => [
      { type: "response.output_item.added", output_index: 0, item: { ...call(id), arguments: "" } },
      { type: "response.function_call_arguments.delta", ...place(id), delta: call(id).arguments },
      { type: "response.output_item.done", output_index: 0, item: { ...call(id), arguments: "" } }
    ])
    const last = { type: "response.completed", response: { output: [call("a"), call("b")] } }
    const events = [...sent, last].flatMap((event) => form?.event(JSON.stringify(event)) ?? [])
    const ends = events.flatMap((data) => {
      const { item, type } = JSON.parse(data)
      return type === "response.output_item.done" ? [item.arguments] : []
    })
    assert.deepStrictEqual(ends, [call("a").arguments, call("b").arguments])
  })

  it("adds the rest of a text of Responses behind deltas of any length and with any escapes", () => {
    const url = "https://example.com/v1/responses"
    const encode = (event: object) => Buffer.from(JSON.stringify(event)).toString("latin1")
    const deltas = ['"a\\', '\\\\"', "é\u{1f30a}", "\n\\".repeat(5_000_000)]
    const form = AnswerForm.of(url, undefined, () => {})
    for (const delta of deltas) {
      form?.event(encode({ type: "response.output_text.delta", item_id: "m", delta }))
    }
    const done = { type: "response.output_text.done", item_id: "m", text: `${deltas.join("")}, é"` }
    const data = form?.event(encode(done))
    assert(typeof data === "string")
    assert.strictEqual(JSON.parse(Buffer.from(data, "latin1").toString()).delta, ', é"')
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
