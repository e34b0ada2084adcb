/** Arguments of tool calls in very many pieces: they are held until the finish, and must not leave as many parts. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Failover } from "@outlast/agent"
import * as Calls from "./Calls.ts"
import * as RawServer from "./RawServer.ts"
import { chat, claude } from "./RawServer.ts"

const pieces = Array.from({ length: 3_000 }, (_, n) => `${n},`)
const args = `{"n":[${pieces.join("")}0]}`
const all = [`{"n":[`, ...pieces, "0]}"]

const chatEvents = [
  chat.call(0, "call_1", "f", ""),
  ...all.map((piece) => chat.args(0, piece)),
  chat.finish("tool_calls"),
  chat.done
]
const item = { type: "function_call", id: "fc_1", call_id: "call_1", name: "f" }
const response = { id: "r", object: "response", created_at: 1, model: "m", output: [], usage: null }

const streams: {
  readonly [V in Exclude<keyof typeof Calls.vendors, "google">]: ReadonlyArray<object | string>
} = {
  chat: chatEvents,
  compatible: chatEvents,
  anthropic: [
    claude.start,
    claude.block(0, { type: "tool_use", id: "call_1", name: "f", input: {} }),
    ...all.map((piece) => claude.json(0, piece)),
    claude.stop(0),
    claude.delta("tool_use"),
    claude.end
  ],
  responses: [
    { type: "response.created", response: { ...response, status: "in_progress" } },
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...item, status: "in_progress", arguments: "" }
    },
    ...all.map((delta) => ({
      type: "response.function_call_arguments.delta",
      item_id: "fc_1",
      output_index: 0,
      delta
    })),
    {
      type: "response.function_call_arguments.done",
      item_id: "fc_1",
      output_index: 0,
      arguments: args
    },
    {
      type: "response.output_item.done",
      output_index: 0,
      item: { ...item, status: "completed", arguments: args }
    },
    {
      type: "response.completed",
      response: {
        ...response,
        status: "completed",
        output: [{ ...item, status: "completed", arguments: args }],
        usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
      }
    }
  ]
}

describe("a tool call in thousands of pieces", () => {
  for (const [name, events] of Object.entries(streams)) {
    const vendor = name as keyof typeof streams // Object.entries forgets the names
    it.live(`leaves as one piece when it is complete: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response) => RawServer.events(response, events))
        const parts = yield* LanguageModel.streamText({
          prompt: "hello",
          toolkit: Toolkit.make(
            Tool.make("f", { parameters: Schema.Struct({ n: Schema.Array(Schema.Number) }) })
          ),
          disableToolCallResolution: true
        }).pipe(Stream.runCollect, Effect.provide(Failover.layer([Calls.vendors[vendor](server.url)])))
        const deltas = parts.flatMap((part) => (part.type === "tool-params-delta" ? [part.delta] : []))
        const calls = parts.flatMap((part) => (part.type === "tool-call" ? [part.params.n.length] : []))
        assert.deepStrictEqual(calls, [3_001])
        assert.deepStrictEqual(deltas, [args])
      })
    )
  }
})
