/** Lists of types in `form` that follow the schemas of the clients. An upgrade of a client that adds a type fails here. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import * as AnswerForm from "../src/aisdk/form/AnswerForm.ts"

const { resolve } = createRequire(import.meta.url)
const anthropic = readFileSync(resolve("@ai-sdk/anthropic"), "utf8")
const openai = readFileSync(resolve("@ai-sdk/openai"), "utf8")

/** The types of the union that follows `field` in the client's schema, by the indentation of the file. */
const typesOf = (source: string, field: string): ReadonlyArray<string> => {
  const union = new RegExp(`^(\t+)${field}\\("type", \\[([^]*?)^\\1\\]\\)`, "m").exec(source)
  const [, indent = "", body = ""] = union ?? []
  const members = [
    ...body.matchAll(new RegExp(`^${indent}\t(?:\ttype: z\\.literal\\("(\\w+)"\\)|(\\w+)\\(\\))`, "gm"))
  ]
  return members.flatMap(([, type, schema]) => type ?? named(source, schema) ?? []).toSorted()
}

/** The type of a schema with a name of its own. */
const named = (source: string, schema = ""): string | undefined =>
  new RegExp(`const ${schema} = \\(\\) => z\\.object\\(\\{\\s+type: z\\.literal\\("(\\w+)"\\)`).exec(
    source
  )?.[1]

/** Every word that may be a type. */
const wordsOf = (source: string) => [
  ...new Set([...source.matchAll(/"([a-z_]+)"/g)].flatMap(([, word]) => word ?? []))
]
const words = wordsOf(anthropic)

/** Types of deltas. Two events have such names, too. */
const deltas = /^(?!content_block_|message_)\w+_delta$/

const form = () => AnswerForm.of("https://example.com/v1/messages", undefined, () => {})

const passes = (event: object): boolean => form()?.event(JSON.stringify(event)) !== undefined

describe("the form of Anthropic's messages", () => {
  it("passes each block that the client reads in a stream, and no other", () => {
    const types = typesOf(anthropic, "content_block: z.discriminatedUnion")
    assert.include(types, "tool_use")
    const passed = words.filter((type) =>
      passes({ type: "content_block_start", index: 0, content_block: { type } })
    )
    assert.deepStrictEqual(passed.toSorted(), types)
  })

  it("passes each delta that the client reads, and no other", () => {
    const types = typesOf(anthropic, "delta: z.discriminatedUnion")
    assert.include(types, "text_delta")
    const passed = words.filter(
      (type) => deltas.test(type) && passes({ type: "content_block_delta", index: 0, delta: { type } })
    )
    assert.deepStrictEqual(passed.toSorted(), types)
  })

  it("passes each block that the client reads in a complete answer, and no other", () => {
    const types = typesOf(anthropic, "content: z.array\\(z.discriminatedUnion")
    assert.include(types, "tool_use")
    const usage = { input_tokens: 1, output_tokens: 1 }
    const content = words.map((type) => ({ type, input: {} }))
    const formed = form()?.whole(JSON.stringify({ type: "message", content, usage })) ?? "{}"
    const passed = JSON.parse(formed).content.map(({ type }: { readonly type: string }) => type)
    assert.deepStrictEqual(passed.toSorted(), types)
  })
})

describe("the form of Responses", () => {
  it("passes each item that the client reads in a complete answer, and no other", () => {
    const types = typesOf(openai, "output: z\\.array\\(z.discriminatedUnion")
    assert.include(types, "function_call")
    const output = wordsOf(openai).map((type) => ({ type }))
    const formed = AnswerForm.of("https://example.com/v1/responses", undefined, () => {})?.whole(
      JSON.stringify({ output })
    )
    const passed = JSON.parse(formed ?? "{}").output.map(({ type }: { readonly type: string }) => type)
    assert.deepStrictEqual(passed.toSorted(), types)
  })
})
