/**
 * Answers of targets that do not speak the caller's wire format, as the vendors' own clients read them.
 */
import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import type { ServerResponse } from "node:http"
import OpenAI from "openai"
import type { ProviderModel } from "@outlast/agent"
import { Gateway } from "@outlast/gateway"
import { AiSdk } from "@outlast/providers"
import * as Answers from "./Answers.ts"
import { readers } from "./Clients.ts"
import { streamed, valuesIn, whole } from "./Said.ts"
import type { Format, WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const wires = ["chat", "messages", "responses"] as const
const formats: ReadonlyArray<Format> = [...wires, "gemini"]
const pairs = wires.flatMap((wire) =>
  formats.filter((format) => format !== wire).map((format) => [wire, format] as const)
)

const over = (format: Format, answer: Vendor.Answer, more: object = {}) =>
  Effect.gen(function* () {
    const vendor = yield* Vendor.start(answer)
    const chain = [Vendor.target(format, vendor)] as const
    const route = { chain, policy: Vendor.impatient, ...more }
    return { gateway: yield* Gateway.make({ routes: { route } }), vendor }
  })

const asked = (gateway: Gateway.Gateway, wire: WireName, more: object = {}) =>
  Effect.promise(async () => {
    const answer = await Vendor.ask(gateway.fetch, wire, Vendor.request(wire, more))
    return { answer, text: await answer.text() }
  })

const events = (format: Format, values: ReadonlyArray<object>): string =>
  Vendor.events(
    format,
    values.map((value) => JSON.stringify(value))
  )

describe.each(pairs)("%s over %s", (wire, format) => {
  const shape = { id: "one", thinking: "I see.", text: ["Rivers ", "bend."], call: ['{"a"', ":1.0}"] }

  it.effect("is a stream that the vendor's client reads", () =>
    Effect.gen(function* () {
      const { gateway } = yield* over(format, (response) =>
        Vendor.stream(response, Answers.stream(format, shape).join(""))
      )
      const read = yield* Effect.promise(() => readers[wire](gateway.fetch))
      assert.strictEqual(read.text, "Rivers bend.")
      // Gemini has no text of arguments. Anthropic's client reads them.
      assert.strictEqual(read.call, format === "gemini" || wire === "messages" ? '{"a":1}' : '{"a":1.0}')
      assert.strictEqual(read.outputTokens, 7)
    })
  )

  it.effect("is a whole answer that the vendor's client reads", () =>
    Effect.gen(function* () {
      const { gateway } = yield* over(format, (response) =>
        // Every target of Outlast may be asked with a stream for a whole answer, but the gateway asks as the caller does.
        Vendor.json(response, 200, wholeOf(format))
      )
      const read = yield* Effect.promise(() => wholeReaders[wire](gateway.fetch))
      assert.deepInclude(read, { text: "Rivers bend.", call: '{"a":1}', input: 12, cached: 4, output: 9 })
    })
  )
})

const wholeOf = (format: Format): object => {
  const call = { name: "look", arguments: '{"a":1}' }
  switch (format) {
    case "chat":
      return {
        id: "one",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [
          {
            index: 0,
            message: {
              role: "assistant",
              content: "Rivers bend.",
              tool_calls: [{ id: "call_1", type: "function", function: call }]
            },
            finish_reason: "tool_calls"
          }
        ],
        usage: {
          prompt_tokens: 12,
          completion_tokens: 9,
          total_tokens: 21,
          prompt_tokens_details: { cached_tokens: 4 }
        }
      }
    case "messages":
      return {
        id: "one",
        type: "message",
        role: "assistant",
        model: "m",
        content: [
          { type: "text", text: "Rivers bend." },
          { type: "tool_use", id: "toolu_1", name: "look", input: { a: 1 } }
        ],
        stop_reason: "tool_use",
        usage: { input_tokens: 8, cache_read_input_tokens: 4, output_tokens: 9 }
      }
    case "responses":
      return {
        id: "one",
        object: "response",
        created_at: 1,
        model: "m",
        status: "completed",
        output: [
          {
            id: "msg_1",
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: "Rivers bend.", annotations: [] }]
          },
          { id: "fc_1", type: "function_call", call_id: "call_1", status: "completed", ...call }
        ],
        usage: {
          input_tokens: 12,
          input_tokens_details: { cached_tokens: 4 },
          output_tokens: 9,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: 21
        }
      }
    case "gemini":
      return {
        candidates: [
          {
            content: {
              role: "model",
              parts: [{ text: "Rivers bend." }, { functionCall: { name: "look", args: { a: 1 } } }]
            },
            finishReason: "STOP"
          }
        ],
        usageMetadata: {
          promptTokenCount: 12,
          cachedContentTokenCount: 4,
          candidatesTokenCount: 9,
          totalTokenCount: 21
        }
      }
  }
}

type Fetch = typeof globalThis.fetch
const turn = [{ role: "user" as const, content: "Hello" }]

const wholeReaders: Readonly<Record<WireName, (fetch: Fetch) => Promise<object>>> = {
  chat: async (fetch) => {
    const client = new OpenAI({ apiKey: "none", baseURL: "http://gateway/v1", fetch })
    const { choices, id, usage } = await client.chat.completions.create({ model: "route", messages: turn })
    const [choice] = choices
    const [call] = choice?.message.tool_calls ?? []
    assert.match(id, /^chatcmpl-/)
    assert.strictEqual(choice?.finish_reason, "tool_calls")
    return {
      text: choice?.message.content,
      call: call?.type === "function" ? call.function.arguments : undefined,
      input: usage?.prompt_tokens,
      cached: usage?.prompt_tokens_details?.cached_tokens,
      output: usage?.completion_tokens
    }
  },
  messages: async (fetch) => {
    const client = new Anthropic({ apiKey: "none", baseURL: "http://gateway", fetch })
    const message = await client.messages.create({ model: "route", max_tokens: 100, messages: turn })
    const { content, id, stop_reason, usage } = message
    const call = content.find((block) => block.type === "tool_use")
    assert.match(id, /^msg_/)
    assert.strictEqual(stop_reason, "tool_use")
    return {
      text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
      call: JSON.stringify(call?.input),
      input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
      cached: usage.cache_read_input_tokens,
      output: usage.output_tokens
    }
  },
  responses: async (fetch) => {
    const client = new OpenAI({ apiKey: "none", baseURL: "http://gateway/v1", fetch })
    const { id, output, output_text, status, usage } = await client.responses.create({
      model: "route",
      input: "Hello"
    })
    const call = output.find((item) => item.type === "function_call")
    assert.match(id, /^resp_/)
    assert.strictEqual(status, "completed")
    return {
      text: output_text,
      call: call?.arguments,
      input: usage?.input_tokens,
      cached: usage?.input_tokens_details.cached_tokens,
      output: usage?.output_tokens
    }
  }
}

describe("calls of tools", () => {
  it.effect("by turns become blocks that do not interleave", () =>
    Effect.gen(function* () {
      const chunk = (delta: object, finish_reason: string | null = null) => ({
        id: "one",
        object: "chat.completion.chunk",
        created: 1,
        model: "m",
        choices: [{ index: 0, delta, finish_reason }]
      })
      const piece = (index: number, given: string, begin?: string) => {
        const named = begin === undefined ? {} : { id: begin, type: "function" }
        const own = { ...(begin === undefined ? {} : { name: "look" }), arguments: given }
        return chunk({ tool_calls: [{ index, ...named, function: own }] })
      }
      const { gateway } = yield* over("chat", (response) =>
        Vendor.stream(
          response,
          `${events("chat", [
            chunk({ role: "assistant", content: "I look." }),
            piece(0, '{"a"', "call_1"),
            piece(1, '{"a":', "call_2"),
            piece(0, ":1}"),
            piece(1, "2}"),
            chunk({}, "tool_calls")
          ])}data: [DONE]\n\n`
        )
      )
      const { text } = yield* asked(gateway, "messages", { stream: true })
      assert.deepStrictEqual(
        valuesIn(text).flatMap(({ index, type }) => (index === undefined ? [] : [`${type} ${index}`])),
        [
          "content_block_start 0",
          "content_block_delta 0",
          "content_block_stop 0",
          "content_block_start 1",
          "content_block_delta 1",
          "content_block_delta 1",
          "content_block_stop 1",
          "content_block_start 2",
          "content_block_delta 2",
          "content_block_delta 2",
          "content_block_stop 2"
        ]
      )
      assert.deepStrictEqual(streamed("messages", text).calls, [
        ["look", '{"a":1}'],
        ["look", '{"a":2}']
      ])
    })
  )

  it.effect("keep the text of their arguments, digits and all", () =>
    Effect.gen(function* () {
      const call = ['{"a": 1.0, ', '"b":12345678901234567890}']
      for (const [wire, format] of pairs.filter(([, format]) => format !== "gemini")) {
        const { gateway } = yield* over(format, (response) =>
          Vendor.stream(response, Answers.stream(format, { id: "one", text: [], call }).join(""))
        )
        const { text } = yield* asked(gateway, wire, { stream: true })
        assert.deepStrictEqual(
          streamed(wire, text).calls,
          [["look", call.join("")]],
          `${wire} over ${format}`
        )
      }
    })
  )

  it.effect.each(["messages", "responses"] as const)("%s: without arguments have an empty object", (wire) =>
    Effect.gen(function* () {
      const { gateway } = yield* over("chat", (response, { body }) => {
        const call = { id: "c", type: "function", function: { name: "look", arguments: "" } }
        const message = { role: "assistant", content: null, tool_calls: [call] }
        const choices = [{ index: 0, message, finish_reason: "tool_calls" }]
        if (body.stream !== true) return Vendor.json(response, 200, { id: "one", model: "m", choices })
        Vendor.stream(response, Answers.stream("chat", { id: "one", text: [], call: [""] }).join(""))
      })
      const stream = yield* asked(gateway, wire, { stream: true })
      assert.deepStrictEqual(streamed(wire, stream.text).calls, [["look", "{}"]])
      const { text } = yield* asked(gateway, wire)
      assert.include(text, wire === "messages" ? '"input":{}' : '"arguments":"{}","status":"completed"')
    })
  )

  const unreadable =
    (finish: string) =>
    (response: ServerResponse, { body }: Vendor.Hit) => {
      const call = { id: "c", type: "function", function: { name: "look", arguments: '{"a":' } }
      const message = { role: "assistant", content: null, tool_calls: [{ index: 0, ...call }] }
      const choice = { index: 0, finish_reason: finish }
      if (body.stream !== true) {
        return Vendor.json(response, 200, { id: "one", model: "m", choices: [{ ...choice, message }] })
      }
      const chunk = { id: "one", object: "chat.completion.chunk", created: 1, model: "m" }
      const choices = [{ ...choice, delta: message }]
      Vendor.stream(response, events("chat", [{ ...chunk, choices }]) + "data: [DONE]\n\n")
    }

  it.effect.each([true, false])("without an object are asked for again for Messages, stream: %s", (stream) =>
    Effect.gen(function* () {
      const bad = yield* Vendor.start(unreadable("tool_calls"))
      const good = yield* Vendor.start((response) => {
        const answer = Answers.stream("messages", { id: "one", text: [], call: ['{"a":1}'] })
        if (stream) return Vendor.stream(response, answer.join(""))
        const content = [{ type: "tool_use", id: "t", name: "look", input: { a: 1 } }]
        const usage = { input_tokens: 1, output_tokens: 1 }
        const stop_reason = "tool_use"
        Vendor.json(response, 200, {
          id: "m",
          type: "message",
          role: "assistant",
          content,
          stop_reason,
          usage
        })
      })
      const chain = [Vendor.target("chat", bad, "a"), Vendor.target("messages", good, "b")] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
      const { answer, text } = yield* asked(gateway, "messages", { stream })
      assert.strictEqual(answer.status, 200, text)
      assert.strictEqual(answer.headers.get("x-outlast-attempts"), "2")
      const alone = yield* over("chat", unreadable("tool_calls"))
      const failed = yield* asked(alone.gateway, "messages", { stream })
      assert.include(failed.text, "a tool call that has arguments that are no JSON object")
    })
  )

  it.effect.each([true, false])("that the limit cut are left out for Messages, stream: %s", (stream) =>
    Effect.gen(function* () {
      const { gateway } = yield* over("chat", unreadable("length"))
      const { text } = yield* asked(gateway, "messages", { stream })
      assert.include(text, '"stop_reason":"max_tokens"')
      assert.notInclude(text, "tool_use")
    })
  )

  it.effect("of a namespace, and with any text as input, have the form that the caller expects", () =>
    Effect.gen(function* () {
      const values: Array<object> = [
        {
          type: "message_start",
          message: {
            id: "m",
            type: "message",
            role: "assistant",
            content: [],
            usage: { input_tokens: 1, output_tokens: 1 }
          }
        },
        ...["mail__send", "patch"].flatMap((name, index) => [
          {
            type: "content_block_start",
            index,
            content_block: { type: "tool_use", id: `toolu_${index}`, name, input: {} }
          },
          {
            type: "content_block_delta",
            index,
            delta: { type: "input_json_delta", partial_json: '{"input":"*** Begin"}' }
          },
          { type: "content_block_stop", index }
        ]),
        { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 5 } },
        { type: "message_stop" }
      ]
      const { gateway, vendor } = yield* over("messages", (response) =>
        Vendor.stream(response, events("messages", values))
      )
      const send = { type: "function", name: "send", parameters: { type: "object", properties: {} } }
      const tools = [
        { type: "namespace", name: "mail", description: "Mail.", tools: [send] },
        { type: "custom", name: "patch", description: "Patches." }
      ]
      const input = [
        { role: "user", content: "Patch." },
        { type: "custom_tool_call", call_id: "call_0", name: "patch", input: "*** Old" },
        { type: "custom_tool_call_output", call_id: "call_0", output: "done" }
      ]
      const { text } = yield* asked(gateway, "responses", { stream: true, tools, input })
      assert.deepStrictEqual(
        vendor.hits[0]?.body.tools.map(({ name }: any) => name),
        ["mail__send", "patch"]
      )
      assert.deepStrictEqual(vendor.hits[0]?.body.messages[1].content[0].input, { input: "*** Old" })
      const values_ = valuesIn(text)
      const { output } = values_.findLast(({ type }) => type === "response.completed").response
      assert.deepInclude(output[0], {
        type: "function_call",
        namespace: "mail",
        name: "send",
        arguments: '{"input":"*** Begin"}'
      })
      assert.deepInclude(output[1], { type: "custom_tool_call", name: "patch", input: "*** Begin" })
      assert.isTrue(values_.some(({ type }) => type === "response.custom_tool_call_input.done"))
    })
  )

  it.effect("flow as they come where the route says so", () =>
    Effect.gen(function* () {
      const all = Answers.stream("messages", { id: "one", text: [], call: ['{"a"', ":1}"] })
      const { gateway } = yield* over(
        "messages",
        // The answer never ends.
        (response) => Vendor.stream(response, all.slice(0, 3).join(""), true),
        { toolArguments: "flow" }
      )
      const answer = yield* Effect.promise(() =>
        Vendor.ask(gateway.fetch, "chat", Vendor.request("chat", { stream: true }))
      )
      const reader = (answer.body ?? assert.fail("no body")).getReader()
      let text = ""
      while (!text.includes('"arguments":"{\\"a\\""')) {
        const { value } = yield* Effect.promise(() => reader.read())
        text += new TextDecoder().decode(value)
      }
      assert.notInclude(text, 'finish_reason":"tool_calls')
      yield* Effect.promise(() => reader.cancel())
    })
  )
})

describe("thinking of another vendor", () => {
  it.effect.each([
    ["messages", "responses"],
    ["responses", "messages"]
  ] as const)("%s: is shown, and never sent back", ([wire, format]) =>
    Effect.gen(function* () {
      const { gateway, vendor } = yield* over(format, (response) =>
        Vendor.stream(
          response,
          Answers.stream(format, { id: "one", thinking: "Hm.", text: ["So."] }).join("")
        )
      )
      const { text } = yield* asked(gateway, wire, { stream: true })
      assert.include(text, "Hm.")
      const values = valuesIn(text)
      const items =
        wire === "responses"
          ? values.findLast(({ type }) => type === "response.completed").response.output
          : [
              {
                role: "assistant",
                content: [
                  {
                    type: "thinking",
                    thinking: "Hm.",
                    signature: values.find(({ delta }) => delta?.type === "signature_delta").delta.signature
                  },
                  { type: "text", text: "So." }
                ]
              }
            ]
      const own = yield* Vendor.start((response) =>
        Vendor.stream(response, Answers.stream(wire, { id: "two", text: ["ok"] }).join(""))
      )
      const speaking = yield* Gateway.make({ routes: { route: { chain: [Vendor.target(wire, own)] } } })
      const field = wire === "responses" ? "input" : "messages"
      const more = { stream: true, [field]: [...items, { role: "user", content: "On." }] }
      yield* asked(speaking, wire, more)
      assert.notInclude(own.hits[0]?.text, "Hm.")
      assert.include(own.hits[0]?.text, "So.")
      yield* asked(gateway, wire, more)
      assert.notInclude(vendor.hits[1]?.text, "Hm.")
    })
  )
})

describe("a target that speaks no format of its own", () => {
  const usage = {
    inputTokens: { total: 3, noCache: 3, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: 2, text: 2, reasoning: undefined }
  }

  it.effect.each(wires)("%s: a client of the AI SDK gets the request, and answers it", (wire) =>
    Effect.gen(function* () {
      const seen: Array<object> = []
      const finishReason = { unified: "stop", raw: "stop" } as const
      const client: AiSdk.SpecModel = {
        specificationVersion: "v4",
        provider: "mine",
        modelId: "m",
        doGenerate: async (options) => {
          seen.push(options)
          const warnings = [{ type: "unsupported", feature: "topP" } as const]
          return { content: [{ type: "text", text: "Hi." }], finishReason, usage, warnings }
        },
        doStream: async (options) => {
          seen.push(options)
          const parts = [
            { type: "stream-start", warnings: [] },
            { type: "text-start", id: "0" },
            { type: "text-delta", id: "0", delta: "Hi." },
            { type: "text-end", id: "0" },
            { type: "finish", finishReason, usage }
          ] as const
          return { stream: ReadableStream.from(parts) }
        }
      }
      const chain = [AiSdk.model({ provider: "mine", model: "m", create: () => client })] as const
      const gateway = yield* Gateway.make({ routes: { route: { chain } } })
      const { answer, text } = yield* asked(gateway, wire, { top_p: 0.5, temperature: 0.2 })
      assert.strictEqual(whole(wire, JSON.parse(text)).text, "Hi.")
      assert.include(answer.headers.get("x-outlast-dropped"), "top_p")
      assert.deepInclude(seen[0], { temperature: 0.2, topP: 0.5 })
      const { text: events } = yield* asked(gateway, wire, {
        stream: true,
        stream_options: { include_usage: true }
      })
      assert.deepInclude(streamed(wire, events), { text: "Hi.", end: "stop", input: 3, output: 2 })
    })
  )

  it.effect.each(wires)("%s: a hand-written model gets the conversation, and answers it", (wire) =>
    Effect.gen(function* () {
      const finish = {
        type: "finish",
        reason: "tool-calls",
        usage: {
          inputTokens: { total: 3, uncached: 3, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 2, text: 2, reasoning: undefined }
        },
        response: undefined
      } as const
      const call = { type: "tool-call", id: "c1", name: "look", params: { a: 1 } } as const
      const model: ProviderModel.ProviderModel = {
        info: {},
        generateText: () => Effect.succeed([{ type: "text", text: "Hi." }, call, finish]),
        streamText: () =>
          Stream.make(
            { type: "text-start", id: "0" },
            { type: "text-delta", id: "0", delta: "Hi." },
            { type: "text-end", id: "0" },
            call,
            finish
          )
      }
      const target = { provider: "mine", model: "m", endpoint: "", keys: [], build: Effect.succeed(model) }
      const gateway = yield* Gateway.make({ routes: { route: { chain: [target] } } })
      const said = { text: "Hi.", calls: [["look", '{"a":1}']], end: "calls" } as const
      const { text } = yield* asked(gateway, wire)
      assert.deepInclude(whole(wire, JSON.parse(text)), said)
      const { text: events } = yield* asked(gateway, wire, { stream: true })
      assert.deepInclude(streamed(wire, events), said)
    })
  )
})

describe("usage of a stream", () => {
  it.effect("of Chat Completions is sent only if it is asked for", () =>
    Effect.gen(function* () {
      const { gateway } = yield* over("messages", (response) =>
        Vendor.stream(response, Answers.stream("messages", { id: "one", text: ["ok"] }).join(""))
      )
      const without = yield* asked(gateway, "chat", { stream: true })
      assert.notInclude(without.text, "usage")
      const withUsage = yield* asked(gateway, "chat", {
        stream: true,
        stream_options: { include_usage: true }
      })
      assert.deepInclude(streamed("chat", withUsage.text), { input: 5, output: 7 })
    })
  )
})

describe("a response of another format", () => {
  it.effect.each([true, false])(
    "is refused as the previous one, because no vendor knows it: stream %s",
    (stream) =>
      Effect.gen(function* () {
        const vendor = yield* Vendor.start((response) => Vendor.json(response, 500, {}))
        const other = yield* Vendor.start((response) =>
          stream
            ? Vendor.stream(response, Answers.stream("messages", { id: "one", text: ["ok"] }).join(""))
            : Vendor.json(response, 200, wholeOf("messages"))
        )
        const chain = [
          Vendor.target("responses", vendor, "a"),
          Vendor.target("messages", other, "b")
        ] as const
        const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
        const { text } = yield* asked(gateway, "responses", { stream })
        const { id } = stream ? valuesIn(text)[0].response : JSON.parse(text)
        const { answer, text: said } = yield* asked(gateway, "responses", { previous_response_id: id })
        assert.strictEqual(answer.status, 400)
        assert.include(said, "no vendor knows its id")
      })
  )
})
