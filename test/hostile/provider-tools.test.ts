/** Tools that the provider runs itself: web search, and those of MCP servers. Each server fails first. */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { Agent, Direct, KeySource, Outlast } from "@outlast/agent"
import { OpenAi } from "@outlast/providers"
import type { ModelMessage, ToolSet } from "ai"
import { generateText, jsonSchema, streamText, tool } from "ai"
import { Effect, Redacted, Schema, Stream } from "effect"
import type { Response, Toolkit } from "effect/ai"
import { LanguageModel, Prompt, Tool } from "effect/ai"
import * as Models from "./Models.ts"
import * as Raw from "./RawServer.ts"
import * as Replies from "./Replies.ts"

beforeAll(() => {
  // Warnings are asserted, not printed.
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })
})

const { claude } = Raw

const searched = [
  { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "rivers" } },
  {
    type: "web_search_tool_result",
    tool_use_id: "srvtoolu_1",
    content: [
      {
        type: "web_search_result",
        url: "https://rivers.example/",
        title: "Rivers",
        encrypted_content: "ZW5j",
        page_age: null
      }
    ]
  },
  { type: "mcp_tool_use", id: "mcptoolu_1", name: "lookup", server_name: "atlas", input: { river: 1 } },
  {
    type: "mcp_tool_result",
    tool_use_id: "mcptoolu_1",
    is_error: false,
    content: [{ type: "text", text: "The Ob." }]
  }
]

/** Claude searches, asks an MCP server, and answers. */
const claudeSays: Replies.Send = (response, hit) => {
  const content = [...searched, { type: "text", text: "The Ob." }]
  if (!Replies.isStream(hit)) {
    return Raw.json(response, 200, { ...claude.start.message, content, stop_reason: "end_turn" })
  }
  const blocks = searched.flatMap((block, i) => {
    const { input, ...rest } = block
    return block.type === "server_tool_use"
      ? [claude.block(i, { ...rest, input: {} }), claude.json(i, JSON.stringify(input)), claude.stop(i)]
      : [claude.block(i, block), claude.stop(i)]
  })
  const last = searched.length
  Raw.events(response, [
    claude.start,
    ...blocks,
    claude.block(last),
    claude.text(last, "The Ob."),
    claude.stop(last),
    claude.delta("end_turn"),
    claude.end
  ])
}

const output = [
  {
    type: "web_search_call",
    id: "ws_1",
    status: "completed",
    action: { type: "search", query: "rivers", sources: [] }
  },
  {
    type: "mcp_call",
    id: "mcp_1",
    status: "completed",
    server_label: "atlas",
    name: "lookup",
    arguments: '{"river":1}',
    output: "The Ob.",
    error: null,
    approval_request_id: null
  },
  {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text: "The Ob.", annotations: [] }]
  }
]

/** An answer of Responses with these items. */
const responding =
  (items: ReadonlyArray<object & { readonly type: string }>): Replies.Send =>
  (response, hit) => {
    const whole = {
      id: "resp_1",
      object: "response",
      created_at: 1,
      model: "m",
      status: "completed",
      incomplete_details: null,
      output: items,
      usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
    }
    if (!Replies.isStream(hit)) return Raw.json(response, 200, whole)
    Raw.events(response, [
      { type: "response.created", response: { ...whole, status: "in_progress", output: [] } },
      ...items.flatMap((item, output_index) => [
        {
          type: "response.output_item.added",
          output_index,
          item: item.type === "message" ? { ...item, content: [] } : { ...item, status: "in_progress" }
        },
        ...(item.type === "message"
          ? [
              {
                type: "response.output_text.delta",
                item_id: "msg_1",
                output_index,
                content_index: 0,
                delta: "The Ob."
              }
            ]
          : []),
        { type: "response.output_item.done", output_index, item }
      ]),
      { type: "response.completed", response: whole }
    ])
  }

const keys = [KeySource.value("K", Redacted.make("sk-0123456789abcdef"))]
/** With `store`, because the client sends calls of MCP tools back as references to stored items, or not at all. */
const responsesTarget = ({ url }: Raw.RawServer) =>
  OpenAi.model("gpt-4.1", { keys, baseUrl: `${url}/v1`, providerOptions: { store: true } })

/** A server that fails with the first request, and then answers. */
const serving = (says: Replies.Send) =>
  Raw.start((response, hit, n) =>
    n === 0 ? Raw.json(response, 503, { error: { message: "Overloaded" } }) : says(response, hit)
  )

interface Vendor {
  readonly says: Replies.Send
  readonly target: typeof Models.claudeTarget
  /** The tools that the provider ran. */
  readonly ran: ReadonlyArray<string>
  readonly tools: ToolSet
  readonly toolkit: Toolkit.WithHandler<Record<string, Tool.Any>>
  /** The calls that the next request repeats, in the vendor's form. */
  readonly native: ReadonlyArray<string>
}

const run = (id: `${string}.${string}`): ToolSet[string] =>
  tool({
    type: "provider",
    isProviderExecuted: true,
    id,
    args: {},
    inputSchema: jsonSchema({}),
    outputSchema: jsonSchema({})
  })

const provided = (id: `${string}.${string}`, name: string) =>
  Tool.providerDefined({
    id,
    customName: name,
    providerName: name,
    parameters: Schema.Unknown,
    success: Schema.Unknown
  })()

/** Without handlers: the provider runs them. */
const kitOf = (...tools: ReadonlyArray<Tool.Any>): Vendor["toolkit"] => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
  handle: () => Effect.die("The provider runs it.")
})

const vendors: Readonly<Record<string, Vendor>> = {
  Anthropic: {
    says: claudeSays,
    target: Models.claudeTarget,
    ran: ["web_search", "lookup"],
    tools: { web_search: run("anthropic.web_search_20250305") },
    toolkit: kitOf(provided("anthropic.web_search_20250305", "web_search")),
    native: ["server_tool_use", "web_search_tool_result", "mcp_tool_use", "mcp_tool_result"]
  },
  "OpenAI Responses": {
    says: responding(output),
    target: responsesTarget,
    ran: ["web_search", "mcp.lookup"],
    tools: { web_search: run("openai.web_search") },
    toolkit: kitOf(provided("openai.web_search", "web_search")),
    // OpenAI stores the call, and the request refers to it by id.
    native: ["ws_1", "mcp_1"]
  }
}

interface Part {
  readonly type: string
  readonly providerExecuted?: boolean | undefined
}

/** The calls and results of an answer, each as `call name` or `result name`. */
const usesIn = (parts: ReadonlyArray<Part>): ReadonlyArray<string> =>
  parts.flatMap((part) => {
    if (part.type !== "tool-call" && part.type !== "tool-result") return []
    assert.strictEqual(part.providerExecuted, true)
    const name = "toolName" in part ? part.toolName : "name" in part ? part.name : ""
    return [`${part.type} ${String(name)}`]
  })

describe("a tool that the provider runs", () => {
  for (const [vendor, { says, target, ran, tools, toolkit, native }] of Object.entries(vendors)) {
    const uses = ran.flatMap((name) => [`tool-call ${name}`, `tool-result ${name}`])
    const bodyOf = ({ hits }: Raw.RawServer) => JSON.stringify(hits.at(-1)?.body)

    for (const declared of [true, false]) {
      const name = declared ? "declared" : "not declared"
      const offered = declared ? tools : {}
      const kit = declared ? toolkit : kitOf()

      it.live(`${vendor}, ${name}: passes through toAiSdk, and stays native in the next turn`, () =>
        Effect.gen(function* () {
          for (const streams of [false, true]) {
            const server = yield* serving(says)
            const model = yield* Models.served(target(server))
            const call = { model, prompt: "Which river?", tools: offered }
            const { content, messages } = yield* Effect.promise(async () => {
              const result = streams ? streamText(call) : await generateText(call)
              return { content: await result.content, messages: await result.responseMessages }
            })
            assert.deepStrictEqual(usesIn(content), uses)
            const plain: Array<ModelMessage> = JSON.parse(
              JSON.stringify(messages, (field, value) => (field === "outlast" ? undefined : value))
            )
            for (const history of [messages, plain]) {
              yield* Effect.promise(() =>
                generateText({
                  model,
                  tools: offered,
                  messages: [
                    { role: "user", content: "Which river?" },
                    ...history,
                    { role: "user", content: "And then?" }
                  ]
                })
              )
              for (const word of native) assert.include(bodyOf(server), word)
              assert.notInclude(bodyOf(server), "was used with")
            }
          }
        })
      )

      it.live(`${vendor}, ${name}: passes through effect/ai, and stays native in the next turn`, () =>
        Effect.gen(function* () {
          for (const streams of [false, true]) {
            const server = yield* serving(says)
            const asked = { prompt: "Which river?", toolkit: kit }
            yield* Effect.gen(function* () {
              const parts: ReadonlyArray<Response.AnyPart> = streams
                ? yield* Stream.runCollect(LanguageModel.streamText(asked))
                : (yield* LanguageModel.generateText(asked)).content
              assert.deepStrictEqual(usesIn(parts), uses)
              const prompt = Prompt.concat(Prompt.fromResponseParts(parts), "And then?")
              yield* LanguageModel.generateText({ prompt, toolkit: kit })
              for (const word of native) assert.include(bodyOf(server), word)
              assert.notInclude(bodyOf(server), "was used with")
            }).pipe(Effect.provide(Models.layerOf(target(server))))
          }
        })
      )
    }

    it.live(`${vendor}: an agent continues with its results, and Outlast.streamText shows them`, () =>
      Effect.gen(function* () {
        const server = yield* serving(says)
        yield* Effect.gen(function* () {
          const { text, transcript } = yield* Agent.run({ prompt: "Which river?" })
          assert.strictEqual(text, "The Ob.")
          yield* Agent.run({ prompt: Prompt.concat(transcript.prompt, "And then?") })
          for (const word of native) assert.include(bodyOf(server), word)
          const parts = yield* Stream.runCollect(Outlast.streamText({ prompt: "Which river?" }))
          assert.deepStrictEqual(usesIn(parts), uses)
        }).pipe(Effect.provide(Models.layerOf(target(server))))
      })
    )

    it.live(`${vendor}: Direct.layer gives its calls and results`, () =>
      Effect.gen(function* () {
        const server = yield* Raw.start(says)
        const { content } = yield* LanguageModel.generateText({ prompt: "Which river?" }).pipe(
          Effect.provide(Direct.layer(target(server)))
        )
        assert.deepStrictEqual(usesIn(content), uses)
      })
    )

    it.live(`${vendor}: its calls become text for a model of another vendor`, () =>
      Effect.gen(function* () {
        const server = yield* serving(says)
        const other = yield* serving(Replies.send.chat({ text: "Yes.", end: "stop", tokens: 1 }))
        const { content } = yield* LanguageModel.generateText({ prompt: "Which river?" }).pipe(
          Effect.provide(Models.layerOf(target(server)))
        )
        const prompt = Prompt.concat(Prompt.fromResponseParts(content), "And then?")
        yield* LanguageModel.generateText({ prompt }).pipe(
          Effect.provide(Models.layerOf(Models.chatTarget(other)))
        )
        for (const tool of ran) assert.include(bodyOf(other), `[${tool} was used with`)
        assert.include(bodyOf(other), "The Ob.")
      })
    )
  }
})

describe("an approval of a tool that the provider runs", () => {
  const request = {
    type: "mcp_approval_request",
    id: "mcpr_1",
    server_label: "atlas",
    name: "lookup",
    arguments: '{"river":1}'
  }

  for (const approved of [true, false]) {
    it.live(`of the AI SDK reaches the provider, ${approved ? "given" : "denied"}`, () =>
      Effect.gen(function* () {
        for (const streams of [false, true]) {
          const server = yield* serving(responding([request]))
          const model = yield* Models.served(responsesTarget(server))
          const asked: ModelMessage = { role: "user", content: "Which river?" }
          const call = { model, messages: [asked] }
          const { content, messages } = yield* Effect.promise(async () => {
            const result = streams ? streamText(call) : await generateText(call)
            return { content: await result.content, messages: await result.responseMessages }
          })
          const wanted = content.find(({ type }) => type === "tool-approval-request")
          assert(wanted?.type === "tool-approval-request")
          const answer: ModelMessage = {
            role: "tool",
            content: [
              {
                type: "tool-approval-response",
                approvalId: wanted.approvalId,
                approved,
                providerExecuted: true
              }
            ]
          }
          yield* Effect.promise(() => generateText({ model, messages: [asked, ...messages, answer] }))
          assert.deepInclude(server.hits.at(-1)?.body.input, {
            type: "mcp_approval_response",
            approval_request_id: "mcpr_1",
            approve: approved
          })
        }
      })
    )
  }
})
