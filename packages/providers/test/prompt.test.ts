import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { Prompt } from "effect/ai"
import { Tool } from "effect/ai"
import type * as Spec from "../src/aisdk/Spec.ts"
import * as Tools from "#providers/aisdk/SpecTools"
import type { Client } from "./client.ts"
import { setup } from "./client.ts"
import * as Support from "./support.ts"

const sentBy = (prompt: Prompt.RawInput, client?: Client) =>
  Effect.gen(function* () {
    const { spec, calls } = setup(client)
    yield* Support.generate(spec, prompt)
    return calls[0]?.prompt ?? []
  })

describe("the prompt", () => {
  const files: Prompt.RawInput = [
    {
      role: "user",
      content: [
        { type: "file", mediaType: "image/png", data: new Uint8Array([1]) },
        { type: "file", mediaType: "image/png", data: "AQ==" },
        {
          type: "file",
          mediaType: "image/png",
          data: new URL("https://example.com/a.png"),
          fileName: "a.png"
        },
        { type: "file", mediaType: "image/png", data: "https://example.com/b.png" },
        { type: "file", mediaType: "image/png", data: new URL("data:image/png;base64,AQ==") },
        { type: "file", mediaType: "text/plain", data: "data:text/plain,a%20b" }
      ]
    }
  ]
  const a = new URL("https://example.com/a.png")
  const b = new URL("https://example.com/b.png")
  const expected = [new Uint8Array([1]), "AQ==", a, b, "AQ==", new TextEncoder().encode("a b")]

  it.effect("has files in the form of version 3", () =>
    Effect.gen(function* () {
      const [message] = yield* sentBy(files, { version: "v3" })
      const parts = message?.content as ReadonlyArray<Spec.FilePart>
      assert.deepStrictEqual(
        parts.map(({ data }) => data),
        expected
      )
      assert.strictEqual(parts[2]?.filename, "a.png")
    })
  )

  it.effect("has files in the form of version 4", () =>
    Effect.gen(function* () {
      const [message] = yield* sentBy(files)
      const parts = message?.content as ReadonlyArray<Spec.FilePart>
      assert.deepStrictEqual(
        parts.map(({ data }) => data),
        expected.map((data): Spec.FileData =>
          data instanceof URL ? { type: "url", url: data } : { type: "data", data }
        )
      )
    })
  )

  it.effect("has every option except Outlast's own", () =>
    Effect.gen(function* () {
      const options = { acme: { cache: true }, outlast: { target: "a" }, empty: null }
      const sent = yield* sentBy([
        { role: "system", content: "be brief", options },
        { role: "user", content: [{ type: "text", text: "hello", options }], options },
        {
          role: "assistant",
          options,
          content: [
            { type: "reasoning", text: "", options: { acme: { signature: "s" }, outlast: { a: 1 } } },
            { type: "text", text: "hi", options },
            { type: "tool-call", id: "1", name: "t", params: {}, options }
          ]
        },
        {
          role: "tool",
          content: [{ type: "tool-result", id: "1", name: "t", isFailure: false, result: 1, options }]
        }
      ])
      const json = JSON.stringify(sent)
      assert.notInclude(json, "outlast")
      assert.notInclude(json, "empty")
      assert.lengthOf(json.match(/"cache":true/g) ?? [], 7)
      assert.include(json, '"providerOptions":{"acme":{"signature":"s"}}')
    })
  )

  it.effect("has no empty texts and no empty messages, except signed ones", () =>
    Effect.gen(function* () {
      const signed = { type: "text", text: "", options: { acme: { signature: "s" } } } as const
      const sent = yield* sentBy([
        {
          role: "user",
          content: [
            { type: "text", text: "" },
            { type: "text", text: "a" }
          ]
        },
        { role: "system", content: "" },
        { role: "assistant", content: [{ type: "text", text: "" }] },
        { role: "assistant", content: [{ type: "text", text: "\n\n" }] },
        { role: "assistant", content: [{ type: "reasoning", text: "" }] },
        { role: "assistant", content: [signed] },
        { role: "user", content: "" }
      ])
      assert.deepStrictEqual(
        sent.map(({ role, content }) => [role, content.length]),
        [
          ["user", 1],
          ["assistant", 1],
          ["user", 1]
        ]
      )
    })
  )

  const outputs = (version: "v3" | "v4") =>
    Effect.gen(function* () {
      const image = { type: "file", mediaType: "image/png", data: new Uint8Array([1]) } as const
      const page = { type: "file", mediaType: "text/plain", data: new URL("https://example.com/a") } as const
      const result = (id: string, fields: object) =>
        ({ type: "tool-result", id, name: "t", isFailure: false, result: null, ...fields }) as const
      const sent = yield* sentBy(
        [
          {
            role: "tool",
            content: [
              result("text", { result: "sunny" }),
              result("json", { result: { a: 1 } }),
              result("none", { result: undefined }),
              result("failed", { isFailure: true, result: "no" }),
              result("failedJson", { isFailure: true, result: { a: 1 } }),
              result("files", { modelOutput: [{ type: "text", text: "a picture" }, image, page] }),
              result("words", { modelOutput: [{ type: "text", text: "only words" }] }),
              result("failedFiles", {
                isFailure: true,
                modelOutput: [{ type: "text", text: "half a picture" }, image]
              })
            ]
          }
        ],
        { version }
      )
      const parts = (sent[0]?.content ?? []) as ReadonlyArray<Spec.ToolResultPart>
      return parts.map(({ output }) => output)
    })
  const plain = [
    { type: "text", value: "sunny" },
    { type: "json", value: { a: 1 } },
    { type: "json", value: null },
    { type: "error-text", value: "no" },
    { type: "error-json", value: { a: 1 } }
  ]
  const words = [
    { type: "text", value: "only words" },
    { type: "error-text", value: "half a picture\n[image/png omitted]" }
  ]

  it.effect("has tool results in the form of version 3", () =>
    Effect.gen(function* () {
      const value = [
        { type: "text", text: "a picture" },
        { type: "image-data", mediaType: "image/png", data: "AQ==" },
        { type: "file-url", url: "https://example.com/a" }
      ]
      assert.deepStrictEqual(yield* outputs("v3"), [...plain, { type: "content", value }, ...words] as never)
    })
  )

  it.effect("has tool results in the form of version 4", () =>
    Effect.gen(function* () {
      const value = [
        { type: "text", text: "a picture" },
        { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1]) } },
        {
          type: "file",
          mediaType: "text/plain",
          data: { type: "url", url: new URL("https://example.com/a") }
        }
      ]
      assert.deepStrictEqual(yield* outputs("v4"), [...plain, { type: "content", value }, ...words] as never)
    })
  )

  it.effect("keeps white space beside words, and drops it beside calls alone", () =>
    Effect.gen(function* () {
      const blank = { type: "text", text: "\n\n" } as const
      const call = { type: "tool-call", id: "1", name: "t", params: {} } as const
      const sent = yield* sentBy([
        { role: "assistant", content: [blank, { type: "text", text: "a" }] },
        { role: "assistant", content: [{ type: "reasoning", text: "hm" }, blank, call] },
        { role: "assistant", content: [blank, call] }
      ])
      assert.deepStrictEqual(
        sent.map(({ content }) => (content as ReadonlyArray<Spec.AssistantPart>).map(({ type }) => type)),
        [["text", "text"], ["reasoning", "text", "tool-call"], ["tool-call"]]
      )
    })
  )

  it.effect("has an object for the arguments of every call", () =>
    Effect.gen(function* () {
      const call = (params: unknown) => ({ type: "tool-call", id: "1", name: "t", params }) as const
      const sent = yield* sentBy([{ role: "assistant", content: [call({ a: 1 }), call("half"), call([1])] }])
      assert.deepStrictEqual(
        ((sent[0]?.content ?? []) as ReadonlyArray<Spec.ToolCallPart>).map(({ input }) => input),
        [{ a: 1 }, { rawInvalidInput: "half" }, { rawInvalidInput: [1] }]
      )
    })
  )

  it.effect("fails the attempt, without a defect, if it cannot be written as JSON", () =>
    Effect.gen(function* () {
      const prompt: Prompt.RawInput = [
        { role: "assistant", content: [{ type: "tool-call", id: "1", name: "t", params: { n: 1n } }] }
      ]
      const { spec } = setup({
        open: () => Promise.reject(new Error("cannot send"))
      })
      const { failure } = yield* Support.collect(spec, prompt)
      assert.strictEqual(failure?.detail, "cannot send")
    })
  )

  it.effect("has the provider's own tools and approvals, and none of the program's", () =>
    Effect.gen(function* () {
      const approval = (approvalId: string) =>
        ({ type: "tool-approval-response", approvalId, approved: true }) as const
      const sent = yield* sentBy([
        {
          role: "assistant",
          content: [
            { type: "tool-call", id: "1", name: "search", params: { q: "a" }, providerExecuted: true },
            {
              type: "tool-result",
              id: "1",
              name: "search",
              isFailure: false,
              result: "found",
              providerExecuted: true
            },
            { type: "tool-approval-request", approvalId: "theirs", toolCallId: "1" },
            { type: "tool-call", id: "2", name: "rm", params: {} },
            { type: "tool-approval-request", approvalId: "ours", toolCallId: "2" }
          ]
        },
        { role: "tool", content: [approval("ours"), approval("theirs")] },
        { role: "tool", content: [approval("ours")] }
      ])
      assert.deepStrictEqual(
        sent[0]?.content as never,
        [
          {
            type: "tool-call",
            toolCallId: "1",
            toolName: "search",
            input: { q: "a" },
            providerExecuted: true
          },
          {
            type: "tool-result",
            toolCallId: "1",
            toolName: "search",
            output: { type: "json", value: "found" }
          },
          { type: "tool-call", toolCallId: "2", toolName: "rm", input: {} }
        ] as never
      )
      assert.deepStrictEqual(
        sent[1]?.content as never,
        [{ type: "tool-approval-response", approvalId: "theirs", approved: true }] as never
      )
      assert.lengthOf(sent, 2)
    })
  )
})

describe("the schema of an object", () => {
  const strict = (schema: Schema.Top): boolean =>
    Tools.jsonFormat({ type: "json", objectName: "o", schema } as never).strict

  it("is strict when strict decoding accepts it", () => {
    const city = Schema.Struct({
      name: Schema.String,
      people: Schema.Int,
      capital: Schema.NullOr(Schema.String)
    })
    assert.isTrue(strict(city))
    assert.isTrue(strict(Schema.Struct({ cities: Schema.Array(city), kind: Schema.Literals(["a", "b"]) })))
  })

  it.each([
    ["an optional property", Schema.Struct({ a: Schema.optionalKey(Schema.String) })],
    ["a tuple", Schema.Struct({ a: Schema.Tuple([Schema.String, Schema.Finite]) })],
    ["a length", Schema.Struct({ a: Schema.String.check(Schema.isMinLength(3)) })],
    ["anything", Schema.Struct({ a: Schema.Unknown })],
    ["a record", Schema.Struct({ a: Schema.Record(Schema.String, Schema.String) })],
    [
      "an optional property behind the name of a keyword",
      Schema.Struct({ default: Schema.Struct({ a: Schema.optionalKey(Schema.String) }) })
    ]
  ] as const)("is not with %s", (_, schema) => {
    assert.isFalse(strict(schema))
  })

  it("closes objects under property names that are keywords, and leaves data unchanged", () => {
    const { schema } = Tools.jsonFormat({
      type: "json",
      objectName: "o",
      schema: Schema.Struct({ enum: Schema.Struct({ a: Schema.String }) })
    } as never)
    const inner = (schema as { properties: { enum: object } }).properties.enum
    assert.propertyVal(inner, "additionalProperties", false)
  })

  it("is closed for a strict tool", () => {
    const parameters = Schema.Struct({ a: Schema.Struct({ b: Schema.String }) })
    const lax = Tools.tool(Tool.make("lax", { parameters }))
    const tool = Tools.tool(Tool.make("strict", { parameters }).annotate(Tool.Strict, true))
    const open = JSON.stringify(lax).match(/"additionalProperties":false/g) ?? []
    assert.isBelow(open.length, 2)
    assert.lengthOf(JSON.stringify(tool).match(/"additionalProperties":false/g) ?? [], 2)
  })
})

describe("the call", () => {
  it.effect("has tools, provider options, limit and headers", () =>
    Effect.gen(function* () {
      const { spec, calls } = setup()
      const add = Tool.make("add", {
        description: "adds",
        parameters: Schema.Struct({ a: Schema.Finite }),
        success: Schema.Finite
      })
      const search = Tool.providerDefined({
        id: "acme.search",
        customName: "AcmeSearch",
        providerName: "search",
        args: Schema.Struct({ maxUses: Schema.Finite })
      })({ maxUses: 3 })
      yield* Support.generate(spec, "hello", { tools: [add, search], toolChoice: { tool: "add" } })
      yield* Support.generate(spec, "hello", { maxOutputTokens: undefined })
      const [first, second] = calls
      assert.deepStrictEqual(
        first?.tools as never,
        [
          {
            type: "function",
            name: "add",
            description: "adds",
            inputSchema: Tool.getJsonSchema(add)
          },
          { type: "provider", id: "acme.search", name: "AcmeSearch", args: { maxUses: 3 } }
        ] as never
      )
      assert.deepStrictEqual(first?.toolChoice, { type: "tool", toolName: "add" })
      assert.deepStrictEqual(first?.providerOptions, { acme: { speed: "fast" } })
      assert.strictEqual(first?.maxOutputTokens, 1_000)
      assert(second !== undefined)
      assert.notProperty(second, "maxOutputTokens")
      assert.notProperty(second, "tools")
      assert.notProperty(second, "toolChoice")
    })
  )
})
