/**
 * Any JSON in place of any part of a request is translated, or refused by name: nothing throws.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { of } from "#gateway/target/Translated"
import { chat } from "#gateway/wire/chat/Chat"
import { messages } from "#gateway/wire/messages/Messages"
import { responses } from "#gateway/wire/responses/Responses"
import { Untranslatable } from "#gateway/wire/Translation"
import { runs, seed } from "../../../test/sweeps.ts"

const png = "data:image/png;base64,iVBORw0KGgo="
const schema = { type: "object", properties: { a: { type: "number" } } }

const requests = {
  chat: {
    model: "m",
    messages: [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image_url", image_url: { url: png } }
        ]
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }]
      },
      { role: "tool", tool_call_id: "c", content: "one" }
    ],
    tools: [{ type: "function", function: { name: "look", parameters: schema } }],
    tool_choice: "auto",
    stop: ["END"],
    response_format: { type: "json_schema", json_schema: { name: "x", schema } }
  },
  messages: {
    model: "m",
    max_tokens: 9,
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    messages: [
      {
        role: "user",
        content: [{ type: "document", title: "t", source: { type: "url", url: "https://a.example/b.pdf" } }]
      },
      { role: "assistant", content: [{ type: "tool_use", id: "t", name: "look", input: { a: 1 } }] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "one" }] }]
      }
    ],
    tools: [{ name: "look", input_schema: schema }],
    tool_choice: { type: "auto" },
    thinking: { type: "enabled", budget_tokens: 2_000 }
  },
  responses: {
    model: "m",
    instructions: "Be brief.",
    input: [
      { role: "user", content: [{ type: "input_image", image_url: png }] },
      { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "one" }
    ],
    tools: [
      { type: "function", name: "look", parameters: schema },
      { type: "namespace", name: "n", tools: [{ type: "custom", name: "c" }] }
    ],
    reasoning: { effort: "low" },
    text: { format: { type: "json_object" } }
  }
}

type Json = { readonly [name: string]: unknown }
type Path = ReadonlyArray<string>

/** All places in a value. */
const pathsIn = (value: unknown, at: Path = []): ReadonlyArray<Path> =>
  typeof value === "object" && value !== null
    ? [at, ...Object.entries(value).flatMap(([name, each]) => pathsIn(each, [...at, name]))]
    : [at]

const changed = (value: unknown, [name, ...rest]: Path, to: unknown): unknown => {
  if (name === undefined) return to
  const object: Json = { ...(value as Json) } // The path leads through objects and arrays only.
  const next = { ...object, [name]: changed(object[name], rest, to) }
  return Array.isArray(value) ? Object.values(next) : next
}

const json = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    "",
    "data:,%",
    "https://",
    "file:///etc",
    [],
    {},
    -1,
    1e308,
    true
  ),
  fc.string(),
  fc.jsonValue()
)

describe("any request", () => {
  for (const wire of [chat, messages, responses]) {
    const { translator } = wire
    if (translator === undefined) continue
    const whole = requests[wire.name as keyof typeof requests]
    it(`of ${wire.title} is translated, or refused by name`, () => {
      const paths = pathsIn(whole).slice(1)
      fc.assert(
        fc.property(fc.constantFrom(...paths), json, (path, to) => {
          const body = changed(whole, path, to) as Json // The path is not empty.
          translator.refuses(body)
          const result = of(translator, body)
          if (result instanceof Untranslatable) assert.match(result.message, /^The field \S/)
          else assert.isArray(result.asked.prompt.content)
        }),
        { numRuns: runs(4_000), seed }
      )
    })
  }
})
