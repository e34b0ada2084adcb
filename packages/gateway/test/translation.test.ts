/**
 * Requests for targets that do not speak the caller's wire format: what they say there, what is named as left out, and what
 * is refused.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway } from "@outlast/gateway"
import * as Answers from "./Answers.ts"
import type { Format, WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const models: Readonly<Record<Format, string>> = {
  chat: "gpt-4.1",
  messages: "claude-sonnet-4-5",
  responses: "gpt-5.1",
  gemini: "gemini-2.5-flash"
}

const well =
  (format: Format): Vendor.Answer =>
  (response) =>
    Vendor.stream(response, Answers.stream(format, { id: "one", text: ["Hello ", "world."] }).join(""))

interface Asked {
  readonly status: number
  readonly dropped: ReadonlyArray<string>
  /** The body of the answer. */
  readonly text: string
  /** What each target got. */
  readonly sent: ReadonlyArray<ReadonlyArray<any>>
}

/** Asks with a stream, over targets of these formats. */
const ask = (wire: WireName, more: object, ...formats: readonly [Format, ...Array<Format>]) =>
  Effect.gen(function* () {
    const vendors = yield* Effect.forEach(formats, (format) => Vendor.start(well(format)))
    const [first, ...rest] = formats.map((format, i) =>
      Vendor.target(format, vendors[i] ?? assert.fail("no vendor"), models[format])
    )
    const chain = [first ?? assert.fail("no target"), ...rest] as const
    const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
    const request = Vendor.request(wire, { stream: true, ...more })
    const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, request))
    const text = yield* Effect.promise(() => answer.text())
    const dropped = answer.headers.get("x-outlast-dropped")?.split(",") ?? []
    const sent = vendors.map(({ hits }) => hits.map(({ body }) => body))
    return { status: answer.status, dropped, text, sent } satisfies Asked
  })

/** The request that one target of a format gets. */
const sentTo = (format: Format, wire: WireName, more: object) =>
  Effect.map(ask(wire, more, format), ({ dropped, sent, status, text }) => {
    assert.strictEqual(status, 200, text)
    return { body: sent[0]?.[0], dropped }
  })

const png = "iVBORw0KGgo="
const schema = {
  type: "object",
  properties: { a: { type: "number" } },
  required: ["a"],
  additionalProperties: false
}

const lookChat = { type: "function", function: { name: "look", description: "Looks.", parameters: schema } }
const lookMessages = { name: "look", description: "Looks.", input_schema: schema }
const lookResponses = { type: "function", name: "look", description: "Looks.", parameters: schema }

describe("keys and headers", () => {
  const headers: Readonly<Record<Format, readonly [name: string, value: string]>> = {
    chat: ["authorization", `Bearer ${Vendor.secret}`],
    responses: ["authorization", `Bearer ${Vendor.secret}`],
    messages: ["x-api-key", Vendor.secret],
    gemini: ["x-goog-api-key", Vendor.secret]
  }

  it.effect.each([
    ["messages", "chat"],
    ["messages", "responses"],
    ["chat", "messages"],
    ["chat", "gemini"]
  ] as const)("%s over %s: the target gets its own key, and nothing of the caller", ([wire, format]) =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(well(format))
      const chain = [Vendor.target(format, vendor)] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain } } })
      const own = {
        authorization: "Bearer callers-own-key",
        "x-api-key": "callers-own-key",
        cookie: "session=1",
        "anthropic-beta": "context-management-2025-06-27",
        "openai-organization": "org_caller"
      }
      const request = Vendor.request(wire, { stream: true })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, request, own))
      assert.strictEqual(answer.status, 200)
      const [hit] = vendor.hits
      const [name, value] = headers[format]
      assert.strictEqual(hit?.headers[name], value)
      assert.notMatch(JSON.stringify(hit?.headers), /callers-own-key|session=1|context-management|org_caller/)
    })
  )
})

describe("settings", () => {
  it.effect("of Chat Completions reach Anthropic", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("messages", "chat", {
        max_completion_tokens: 500,
        temperature: 0.5,
        stop: "END",
        user: "u1",
        parallel_tool_calls: false,
        tools: [lookChat],
        tool_choice: { type: "function", function: { name: "look" } },
        seed: 7,
        logit_bias: { 1: 2 }
      })
      assert.deepInclude(body, {
        model: "claude-sonnet-4-5",
        max_tokens: 500,
        temperature: 0.5,
        stop_sequences: ["END"],
        metadata: { user_id: "u1" },
        tool_choice: { type: "tool", name: "look", disable_parallel_tool_use: true }
      })
      assert.deepInclude(body.tools[0], lookMessages)
      assert.sameMembers(dropped, ["seed", "logit_bias"])
    })
  )

  it.effect("of Chat Completions reach Gemini", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("gemini", "chat", {
        max_tokens: 500,
        temperature: 0.5,
        top_p: 0.9,
        stop: ["END", "STOP"],
        seed: 7,
        user: "u1",
        tools: [lookChat],
        tool_choice: "required"
      })
      assert.deepInclude(body.generationConfig, {
        maxOutputTokens: 500,
        temperature: 0.5,
        topP: 0.9,
        stopSequences: ["END", "STOP"],
        seed: 7
      })
      assert.deepEqual(body.toolConfig.functionCallingConfig.mode, "ANY")
      assert.strictEqual(body.tools[0].functionDeclarations[0].name, "look")
      assert.deepStrictEqual(dropped, ["user"])
    })
  )

  it.effect("of Messages reach Chat Completions", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("chat", "messages", {
        max_tokens: 500,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 5,
        stop_sequences: ["END"],
        metadata: { user_id: "u1" },
        tools: [lookMessages],
        tool_choice: { type: "any", disable_parallel_tool_use: true },
        context_management: { edits: [] }
      })
      assert.deepInclude(body, {
        temperature: 0.5,
        top_p: 0.9,
        max_tokens: 500,
        stop: ["END"],
        user: "u1",
        parallel_tool_calls: false,
        tool_choice: "required"
      })
      assert.deepStrictEqual(body.tools, [lookChat])
      assert.sameMembers(dropped, ["top_k", "context_management"])
    })
  )

  it.effect("of Responses reach Anthropic", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("messages", "responses", {
        instructions: "Be brief.",
        max_output_tokens: 500,
        temperature: 0.5,
        tools: [lookResponses],
        tool_choice: { type: "function", name: "look" },
        include: ["reasoning.encrypted_content"],
        truncation: "auto",
        prompt_cache_key: "k",
        store: false
      })
      assert.deepInclude(body, {
        max_tokens: 500,
        temperature: 0.5,
        tool_choice: { type: "tool", name: "look" }
      })
      assert.deepStrictEqual(body.system, [{ type: "text", text: "Be brief." }])
      assert.sameMembers(dropped, ["include", "truncation", "prompt_cache_key"])
    })
  )

  it.effect.each([
    ["chat", { reasoning_effort: "low" }],
    ["responses", { reasoning: { effort: "low" } }]
  ] as const)("%s: an effort becomes a budget within the limit", ([wire, more]) =>
    Effect.gen(function* () {
      const limit = { max_completion_tokens: 10_000, max_output_tokens: 10_000 }
      const { body } = yield* sentTo("messages", wire, { ...more, ...limit })
      assert.strictEqual(body.thinking.type, "enabled")
      assert.isBelow(body.thinking.budget_tokens, 10_000)
      assert.strictEqual(body.max_tokens, 10_000)
    })
  )

  it.effect("chat: the limit holds in the older field, where the newer one is null", () =>
    Effect.gen(function* () {
      const limit = { max_completion_tokens: null, max_tokens: 7 }
      const { body } = yield* sentTo("messages", "chat", limit)
      assert.strictEqual(body.max_tokens, 7)
    })
  )

  it.effect.each([
    [{ thinking: { type: "enabled", budget_tokens: 2_000 } }, "low"],
    [{ thinking: { type: "enabled", budget_tokens: 20_000 } }, "high"],
    [{ thinking: { type: "adaptive" }, output_config: { effort: "medium" } }, "medium"],
    [{ thinking: { type: "disabled" } }, "none"]
  ] as const)("a budget becomes an effort: %o", ([more, effort]) =>
    Effect.gen(function* () {
      const { body } = yield* sentTo("responses", "messages", { ...more, max_tokens: 32_000 })
      assert.strictEqual(body.reasoning.effort, effort)
    })
  )

  it.effect.each([
    ["chat", "messages", "user", { user: "u".repeat(65) }],
    ["messages", "chat", "metadata.user_id", { metadata: { user_id: "u".repeat(65) } }],
    ["messages", "responses", "metadata.user_id", { metadata: { user_id: "u".repeat(65) } }]
  ] as const)(
    "%s over %s: %s longer than OpenAI takes goes to Anthropic alone",
    ([wire, format, field, more]) =>
      Effect.gen(function* () {
        const { body, dropped } = yield* sentTo(format, wire, more)
        assert.strictEqual(body.user, undefined)
        assert.strictEqual(body.metadata?.user_id?.length, format === "messages" ? 65 : undefined)
        assert.strictEqual(dropped.includes(field), format !== "messages")
      })
  )

  it.effect.each([
    ["chat", ["temperature", "stop", "reasoning_effort", "tool_choice", "response_format"]],
    ["messages", ["temperature", "stop_sequences", "tool_choice", "output_config.effort"]],
    ["responses", ["top_p", "tool_choice", "reasoning.effort", "text.format"]]
  ] as const)("%s: are named where their value has no meaning: %o", ([wire, names]) =>
    Effect.gen(function* () {
      const more = {
        temperature: "0.2",
        top_p: wire === "responses" ? true : 1,
        stop: 5,
        stop_sequences: "x",
        reasoning_effort: "utmost",
        reasoning: { effort: "utmost" },
        output_config: { effort: "utmost" },
        tool_choice: wire === "messages" ? { type: "some" } : "some",
        response_format: { type: "xml" },
        text: { format: { type: "xml" } }
      }
      const { dropped } = yield* sentTo("gemini", wire, more)
      assert.includeMembers([...dropped], [...names])
    })
  )

  it.effect("name the wish for single calls where the target has no such setting", () =>
    Effect.gen(function* () {
      const tool_choice = { type: "auto", disable_parallel_tool_use: true }
      const more = { tools: [lookMessages], tool_choice }
      const gemini = yield* sentTo("gemini", "messages", more)
      assert.deepStrictEqual(gemini.dropped, ["tool_choice.disable_parallel_tool_use"])
      const chat = yield* sentTo("chat", "messages", more)
      assert.strictEqual(chat.body.parallel_tool_calls, false)
      assert.deepStrictEqual(chat.dropped, [])
    })
  )

  it.effect("ask OpenAI to show its thinking only for a caller that sees it", () =>
    Effect.gen(function* () {
      const chat = yield* sentTo("responses", "chat", { reasoning_effort: "high" })
      assert.deepStrictEqual(chat.body.reasoning, { effort: "high" })
      const thinking = { type: "enabled", budget_tokens: 20_000 }
      const shown = yield* sentTo("responses", "messages", { max_tokens: 32_000, thinking })
      assert.deepStrictEqual(shown.body.reasoning, { effort: "high", summary: "auto" })
      const hidden = { type: "adaptive", display: "omitted" }
      const more = { thinking: hidden, output_config: { effort: "high" } }
      const omitted = yield* sentTo("responses", "messages", more)
      assert.deepStrictEqual(omitted.body.reasoning, { effort: "high" })
    })
  )

  it.effect("ask for an object of a schema", () =>
    Effect.gen(function* () {
      const format = { name: "point", schema, strict: true }
      const chat = { response_format: { type: "json_schema", json_schema: format } }
      const anthropic = yield* sentTo("messages", "chat", chat)
      assert.deepStrictEqual(anthropic.body.output_config.format, { type: "json_schema", schema })
      const gemini = yield* sentTo("gemini", "chat", chat)
      assert.strictEqual(gemini.body.generationConfig.responseMimeType, "application/json")
      const openai = yield* sentTo("chat", "messages", {
        output_config: { format: { type: "json_schema", schema } }
      })
      assert.deepInclude(openai.body.response_format.json_schema, { schema, strict: true })
      const asked = { text: { format: { type: "json_schema", ...format } } }
      const own = yield* sentTo("chat", "responses", asked)
      assert.deepInclude(own.body.response_format.json_schema, format)
    })
  )
})

describe("the conversation", () => {
  const call = { id: "call_1", type: "function", function: { name: "look", arguments: '{"a": 1}' } }
  const other = { id: "call_2", type: "function", function: { name: "look", arguments: '{"a": 2}' } }
  const talk = [
    { role: "system", content: "Be brief." },
    { role: "developer", content: [{ type: "text", text: "Be kind." }] },
    { role: "user", content: [{ type: "text", text: "Look twice." }] },
    { role: "assistant", content: "I look.", reasoning_content: "Hm.", tool_calls: [call, other] },
    { role: "tool", tool_call_id: "call_1", content: "one" },
    { role: "tool", tool_call_id: "call_2", content: [{ type: "text", text: "two" }] },
    { role: "user", content: "And?" }
  ]

  it.effect("of Chat Completions reaches Anthropic, results first and together", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("messages", "chat", { messages: talk, tools: [lookChat] })
      assert.deepStrictEqual(body.system, [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." }
      ])
      const [, assistant, results] = body.messages
      assert.deepStrictEqual(assistant.content, [
        { type: "text", text: "I look." },
        { type: "tool_use", id: "call_1", name: "look", input: { a: 1 } },
        { type: "tool_use", id: "call_2", name: "look", input: { a: 2 } }
      ])
      assert.deepStrictEqual(
        results.content.map(({ content, tool_use_id, type }: any) => [type, tool_use_id, content]),
        [
          ["tool_result", "call_1", "one"],
          ["tool_result", "call_2", "two"],
          ["text", undefined, undefined]
        ]
      )
      assert.deepStrictEqual(dropped, ["messages.reasoning_content"])
    })
  )

  it.effect("of Messages reaches Responses, without thinking, with errors and images of tools", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("responses", "messages", {
        system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
        tools: [lookMessages],
        messages: [
          { role: "user", content: "Look." },
          {
            role: "assistant",
            content: [
              { type: "thinking", thinking: "Hm.", signature: "s" },
              { type: "text", text: "I look." },
              { type: "tool_use", id: "toolu_1", name: "look", input: { a: 1 } },
              { type: "tool_use", id: "toolu_2", name: "look", input: { a: 2 } }
            ]
          },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "toolu_1", content: "not there", is_error: true },
              {
                type: "tool_result",
                tool_use_id: "toolu_2",
                is_error: true,
                content: [
                  { type: "text", text: "a picture" },
                  { type: "image", source: { type: "base64", media_type: "image/png", data: png } }
                ]
              },
              { type: "text", text: "And?" }
            ]
          },
          { role: "system", content: "Now in French." }
        ]
      })
      const kinds = body.input.map(({ role, type }: any) => role ?? type)
      assert.deepStrictEqual(kinds, [
        "developer",
        "user",
        "assistant",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "user",
        "developer"
      ])
      assert.include(JSON.stringify(body.input[5].output), "not there")
      assert.deepStrictEqual(
        body.input[6].output.map(({ text, type }: any) => text ?? type),
        ["The tool failed.", "a picture", "input_image"]
      )
      assert.notInclude(JSON.stringify(body), "Hm.")
      assert.sameMembers(dropped, ["cache_control", "messages.thinking"])
    })
  )

  it.effect("of Responses reaches Anthropic, without reasoning of OpenAI", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("messages", "responses", {
        tools: [lookResponses],
        input: [
          { type: "message", role: "developer", content: [{ type: "input_text", text: "Be brief." }] },
          { role: "user", content: [{ type: "input_text", text: "Look." }] },
          { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "secret" },
          {
            type: "message",
            id: "msg_1",
            role: "assistant",
            content: [{ type: "output_text", text: "I look." }]
          },
          { type: "function_call", id: "fc_1", call_id: "call_1", name: "look", arguments: '{"a":1}' },
          { type: "function_call_output", call_id: "call_1", output: "one" }
        ]
      })
      assert.deepStrictEqual(
        body.messages.map(({ content, role }: any) => [role, content.map(({ type }: any) => type)]),
        [
          ["user", ["text"]],
          ["assistant", ["text", "tool_use"]],
          ["user", ["tool_result"]]
        ]
      )
      assert.notInclude(JSON.stringify(body), "secret")
      assert.deepStrictEqual(dropped, ["input.reasoning"])
    })
  )

  it.effect("keeps marks for the prompt cache at Anthropic", () =>
    Effect.gen(function* () {
      const cache_control = { type: "ephemeral", ttl: "1h" }
      const { body, dropped } = yield* sentTo("messages", "chat", {
        messages: [{ role: "user", content: [{ type: "text", text: "Long.", cache_control }] }]
      })
      assert.deepStrictEqual(body.messages[0].content[0].cache_control, cache_control)
      assert.deepStrictEqual(dropped, [])
    })
  )
})

describe("images", () => {
  const ofChat = (url: string) => ({
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }]
  })

  it.effect("go on as content", () =>
    Effect.gen(function* () {
      const inline = ofChat(`data:image/png;base64,${png}`)
      const anthropic = yield* sentTo("messages", "chat", inline)
      const source = { type: "base64", media_type: "image/png", data: png }
      assert.deepStrictEqual(anthropic.body.messages[0].content[0].source, source)
      const gemini = yield* sentTo("gemini", "chat", inline)
      const inlineData = { mimeType: "image/png", data: png }
      assert.deepStrictEqual(gemini.body.contents[0].parts[0].inlineData, inlineData)
      const openai = yield* sentTo("responses", "messages", {
        messages: [{ role: "user", content: [{ type: "image", source }] }]
      })
      assert.strictEqual(openai.body.input[0].content[0].image_url, `data:image/png;base64,${png}`)
    })
  )

  it.effect("go on by URL, and nobody here fetches it", () =>
    Effect.gen(function* () {
      const host = yield* Vendor.start((response) => Vendor.json(response, 200, {}))
      const url = `${host.url}/cat`
      const anthropic = yield* sentTo("messages", "chat", ofChat(url))
      assert.deepStrictEqual(anthropic.body.messages[0].content[0].source, { type: "url", url })
      const openai = yield* sentTo("responses", "chat", ofChat(url))
      assert.strictEqual(openai.body.input[0].content[0].image_url, url)
      const image = { type: "image", source: { type: "url", url } }
      const chat = yield* sentTo("chat", "messages", { messages: [{ role: "user", content: [image] }] })
      assert.strictEqual(chat.body.messages[0].content[0].image_url.url, url)
      const result = { type: "tool_result", tool_use_id: "t", content: [image] }
      const used = yield* sentTo("chat", "messages", {
        tools: [lookMessages],
        messages: [
          { role: "user", content: "Look." },
          { role: "assistant", content: [{ type: "tool_use", id: "t", name: "look", input: {} }] },
          { role: "user", content: [result] }
        ]
      })
      assert.include(JSON.stringify(used.body.messages.slice(2)), url)
      const gemini = yield* sentTo("gemini", "chat", ofChat(`${url}.png`))
      assert.deepStrictEqual(gemini.body.contents[0].parts[0].fileData, {
        mimeType: "image/png",
        fileUri: `${url}.png`
      })
      assert.lengthOf(host.hits, 0)
    })
  )

  it.effect("by URL are refused where no target takes them, and go to one that does", () =>
    Effect.gen(function* () {
      const host = yield* Vendor.start((response) => Vendor.json(response, 200, {}))
      const only = yield* ask("chat", ofChat(`${host.url}/cat`), "gemini")
      assert.strictEqual(only.status, 400)
      assert.include(only.text, "The field messages has an image by URL, which google does not fetch.")
      const both = yield* ask("chat", ofChat(`${host.url}/cat`), "gemini", "messages")
      assert.strictEqual(both.status, 200)
      assert.deepStrictEqual(
        both.sent.map((bodies) => bodies.length),
        [0, 1]
      )
      assert.lengthOf(host.hits, 0)
    })
  )

  it.effect("are named where the model reads none", () =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start(well("messages"))
      const target = Vendor.target("messages", vendor, "claude-sonnet-4-5", {
        capabilities: { images: false }
      })
      const gateway = yield* Gateway.make({ routes: { route: { chain: [target] } } })
      const asked = Vendor.request("chat", { stream: true, ...ofChat(`data:image/png;base64,${png}`) })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "chat", asked))
      assert.strictEqual(answer.headers.get("x-outlast-dropped"), "image")
    })
  )
})

describe("what no other format has", () => {
  const refused: ReadonlyArray<readonly [WireName, string, object]> = [
    ["chat", "n", { n: 2 }],
    ["chat", "logprobs", { logprobs: true }],
    ["chat", "modalities", { modalities: ["text", "audio"], audio: { voice: "x" } }],
    ["chat", "web_search_options", { web_search_options: {} }],
    ["chat", "functions", { functions: [{ name: "look" }] }],
    ["messages", "mcp_servers", { mcp_servers: [{ type: "url", url: "https://a.example", name: "a" }] }],
    ["responses", "previous_response_id", { previous_response_id: "resp_1" }],
    ["responses", "conversation", { conversation: "conv_1" }],
    ["responses", "top_logprobs", { top_logprobs: 3 }]
  ]

  it.effect.each(refused)("%s: %s is refused, and asked of targets that have it", ([wire, field, more]) =>
    Effect.gen(function* () {
      const [format = "gemini"] = (["messages", "chat"] as const).filter((format) => format !== wire)
      const none = yield* ask(wire, more, format)
      assert.strictEqual(none.status, 400, none.text)
      assert.include(none.text, `The field ${field} has no counterpart in other formats.`)
      const one = yield* ask(wire, more, format, wire)
      assert.strictEqual(one.status, 200, one.text)
      assert.deepStrictEqual(
        one.sent.map((bodies) => bodies.length),
        [0, 1]
      )
    })
  )

  it.effect("is asked of them alone also after other requests of the route", () =>
    Effect.gen(function* () {
      const vendors = yield* Effect.forEach(["messages", "chat"] as const, (format) =>
        Effect.map(Vendor.start(well(format)), (vendor) => ({ format, vendor }))
      )
      const [a, b] = vendors.map(({ format, vendor }) => Vendor.target(format, vendor, models[format]))
      const chain = [a ?? assert.fail("no target"), b ?? assert.fail("no target")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      for (const n of [1, 2, 1]) {
        const request = Vendor.request("chat", { stream: true, n })
        const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "chat", request))
        yield* Effect.promise(() => answer.text())
      }
      assert.deepStrictEqual(
        vendors.map(({ vendor }) => vendor.hits.length),
        [2, 1]
      )
    })
  )

  const inside: ReadonlyArray<readonly [WireName, string, object]> = [
    ["chat", "messages[0].content[0]", { messages: [{ role: "user", content: [{ type: "video_url" }] }] }],
    [
      "chat",
      "messages[0].content[0].file.file_id",
      { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "file-1" } }] }] }
    ],
    [
      "messages",
      "messages[0].content[0].source",
      { messages: [{ role: "user", content: [{ type: "image", source: { type: "file", file_id: "f" } }] }] }
    ],
    [
      "chat",
      "messages[0].content[0].image_url.url",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///a.png" } }] }] }
    ],
    [
      "messages",
      "messages[0].content[0].source.url",
      { messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "a.png" } }] }] }
    ],
    ["chat", "max_tokens", { max_tokens: 1.5 }],
    ["chat", "max_completion_tokens", { max_completion_tokens: -1 }],
    ["messages", "max_tokens", { max_tokens: 0 }],
    ["responses", "max_output_tokens", { max_output_tokens: "5" }],
    ["responses", "input[0]", { input: [{ type: "item_reference", id: "rs_1" }] }],
    ["chat", "tools", { tools: [{ type: "web_search" }] }],
    ["messages", "tools", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["responses", "tools", { tools: [{ type: "web_search" }] }],
    [
      "responses",
      "tool_choice",
      { tools: [lookResponses, { type: "web_search" }], tool_choice: { type: "web_search" } }
    ]
  ]

  it.effect.each(inside)("%s: %s is refused by name, with an error of the format", ([wire, field, more]) =>
    Effect.gen(function* () {
      const [format = "gemini"] = (["messages", "chat"] as const).filter((format) => format !== wire)
      const { sent, status, text } = yield* ask(wire, more, format)
      assert.strictEqual(status, 400, text)
      const { error, type } = JSON.parse(text)
      assert.isTrue(error.message.startsWith(`The field ${field} `), error.message)
      assert.strictEqual(error.type, "invalid_request_error")
      assert.strictEqual(type, wire === "messages" ? "error" : undefined)
      assert.deepStrictEqual(sent, [[]])
    })
  )

  it.effect("of tools is left out beside functions, by name", () =>
    Effect.gen(function* () {
      const { body, dropped } = yield* sentTo("messages", "responses", {
        tools: [lookResponses, { type: "web_search" }]
      })
      assert.deepStrictEqual(
        body.tools.map(({ name }: any) => name),
        ["look"]
      )
      assert.deepStrictEqual(dropped, ["tools.web_search"])
    })
  )

  it.effect("is named at the end of a stream that a target of another format continues", () =>
    Effect.gen(function* () {
      const first = yield* Vendor.start((response, { socket }) => {
        Vendor.stream(
          response,
          Answers.stream("chat", { id: "one", text: ["Hello "] })
            .slice(0, 2)
            .join(""),
          true
        )
        setImmediate(() => socket.destroy())
      })
      const second = yield* Vendor.start((response) =>
        Vendor.stream(response, Answers.stream("messages", { id: "two", text: ["world."] }).join(""))
      )
      const chain = [Vendor.target("chat", first, "a"), Vendor.target("messages", second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const request = Vendor.request("chat", { stream: true, logit_bias: { 1: 2 } })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "chat", request))
      assert.isNull(answer.headers.get("x-outlast-dropped"))
      const text = yield* Effect.promise(() => answer.text())
      assert.include(text, ": x-outlast-dropped: logit_bias\n")
      assert.include(text, ": x-outlast-target: anthropic/b#")
    })
  )

  it.effect("is named in a header of bounded length, without control characters", () =>
    Effect.gen(function* () {
      const fields = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`${"x".repeat(99)}\n${i}`, 1]))
      const { dropped } = yield* sentTo("messages", "chat", { ...fields, "ü,\n": 1 })
      assert.isAtMost(dropped.length, 41)
      assert.isAtMost(dropped.join(",").length, 4_000)
    })
  )
})

describe("the type of a whole answer", () => {
  it.effect("is that of the gateway's own body", () =>
    Effect.gen(function* () {
      const body = {
        type: "message",
        content: [{ type: "text", text: "Hi." }],
        stop_reason: "end_turn",
        usage: { input_tokens: 1, output_tokens: 1 }
      }
      const vendor = yield* Vendor.start((response) =>
        Vendor.json(response, 200, body, {
          "content-type": "application/json; charset=us-ascii",
          "request-id": "req_7"
        })
      )
      const gateway = yield* Gateway.make({
        routes: { route: { chain: [Vendor.target("messages", vendor)] } }
      })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "chat", Vendor.request("chat")))
      assert.strictEqual(answer.headers.get("content-type"), "application/json")
      assert.strictEqual(answer.headers.get("request-id"), "req_7")
    })
  )
})

describe("errors of a target of another format", () => {
  it.effect("never take the place of that of a target that speaks the caller's", () =>
    Effect.gen(function* () {
      const error = {
        error: { message: "Invalid value for 'stop'.", type: "invalid_request_error", code: "x" }
      }
      const first = yield* Vendor.start((response) => Vendor.json(response, 400, error))
      const second = yield* Vendor.start((response) =>
        Vendor.json(response, 400, {
          type: "error",
          error: { type: "invalid_request_error", message: "No." }
        })
      )
      const chain = [Vendor.target("chat", first, "a"), Vendor.target("messages", second, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, "chat", Vendor.request("chat")))
      assert.strictEqual(answer.status, 400)
      assert.deepStrictEqual(yield* Effect.promise(() => answer.json()), error)
      assert.lengthOf(second.hits, 1)
    })
  )

  it.effect.each([
    [
      "chat",
      "messages",
      { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
      529,
      503
    ],
    ["messages", "chat", { error: { message: "No", type: "invalid_request_error", code: "x" } }, 400, 400],
    [
      "responses",
      "messages",
      { type: "error", error: { type: "rate_limit_error", message: "Slow" } },
      429,
      429
    ]
  ] as const)("%s over %s", ([wire, format, error, from, to]) =>
    Effect.gen(function* () {
      const vendor = yield* Vendor.start((response) => Vendor.json(response, from, error))
      const chain = [Vendor.target(format, vendor)] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, Vendor.request(wire)))
      assert.strictEqual(answer.status, to)
      assert.strictEqual(answer.headers.get("x-should-retry"), "false")
      const body: any = yield* Effect.promise(() => answer.json())
      assert.strictEqual(body.type, wire === "messages" ? "error" : undefined)
      assert.isString(body.error.message)
    })
  )
})
