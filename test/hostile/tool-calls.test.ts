/** Invalid tool calls of a model, and duplicate call ids, over raw servers. */
import { assert, describe, it } from "@effect/vitest"
import { Agent } from "@outlast/agent"
import type { ToolCallRepairFunction, ToolSet } from "ai"
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai"
import { Effect, Schema, Stream } from "effect"
import { AiError, LanguageModel, Tool, Toolkit } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import type { ServerResponse } from "node:http"
import * as Calls from "./Calls.ts"
import * as Models from "./Models.ts"
import * as Raw from "./RawServer.ts"

/** A call that the AI SDK passes to `repairToolCall`. */
type Repair = Parameters<ToolCallRepairFunction<ToolSet>>[0]

interface Called {
  readonly id: string
  readonly name: string
  readonly args: string
  /** The finish reason of its answer. Default `tool_calls`. */
  readonly end?: string
}

/** An answer with these calls, or with a text, as the request wants it. */
const answer = (response: ServerResponse, hit: Raw.Hit, said: ReadonlyArray<Called> | string): void => {
  const calls = typeof said === "string" ? [] : said
  const text = typeof said === "string" ? said : null
  const reason = calls.length > 0 ? (calls.find(({ end }) => end !== undefined)?.end ?? "tool_calls") : "stop"
  if (hit.body.stream === true) {
    Raw.events(response, [
      ...(text === null ? [] : [Raw.chat.text(text)]),
      // Arguments in two pieces.
      ...calls.flatMap(({ id, name, args }, i) => [
        Raw.chat.call(i, id, name, args.slice(0, 3)),
        Raw.chat.args(i, args.slice(3))
      ]),
      Raw.chat.finish(reason),
      Raw.chat.usage(5, 7),
      Raw.chat.done
    ])
  } else {
    Raw.json(response, 200, {
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [
        {
          index: 0,
          finish_reason: reason,
          message: {
            role: "assistant",
            content: text,
            tool_calls: calls.map(({ id, name, args }) => ({
              id,
              type: "function",
              function: { name, arguments: args }
            }))
          }
        }
      ],
      usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }
    })
  }
}

/** A server that gives these answers in turn. */
const saying = (...answers: ReadonlyArray<ReadonlyArray<Called> | string>) =>
  Raw.start((response, hit, n) => answer(response, hit, answers[n] ?? "Done."))

const Weather = Tool.make("weather", {
  description: "The weather in a city",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.String
})
const Search = Tool.dynamic("search", {
  description: "A tool whose schema is JSON Schema",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  success: Schema.String
})
const Kit = Toolkit.make(Weather, Search)

const world = () => {
  const ran: Array<unknown> = []
  const events: Array<string> = []
  const handlers = Kit.toLayer({
    weather: ({ city }) => Effect.sync(() => `Rain in ${city}, the ${ran.push(city)}. time`),
    search: (params) => Effect.sync(() => `Found, the ${ran.push(params)}. time`)
  })
  const layer = ResilienceEvents.layerHandler((event) => Effect.sync(() => events.push(event._tag)))
  return { ran, events, handlers, layer }
}

const ways = {
  "Agent.run": Effect.asVoid(Agent.run({ prompt: "Go.", toolkit: Kit })),
  "Agent.stream": Stream.runDrain(Agent.stream({ prompt: "Go.", toolkit: Kit }))
}

const good: Called = { id: "call_good", name: "weather", args: '{"city":"Oslo"}' }

/** Mistakes of a model, and the expected error for the model. */
const mistakes: Readonly<Record<string, readonly [Called, string]>> = {
  // lightdash/lightdash#23264, langchain-ai/langchain-litellm#260, keurcien/auxilia#108.
  "arguments that are no JSON": [{ ...good, args: '{"city": ,' }, "not valid JSON"],
  "arguments that were cut": [{ ...good, args: '{"city":"Os' }, "not valid JSON"],
  "arguments that were cut before the finish reason `stop`": [
    { ...good, args: '{"city":"Os', end: "stop" },
    "not valid JSON"
  ],
  "arguments of another schema": [{ ...good, args: '{"town":"Oslo"}' }, 'at ["city"]'],
  "arguments that are no object": [{ ...good, args: '"Oslo"' }, "Expected object"],
  "arguments of another JSON Schema": [{ ...good, name: "search", args: '{"city":7}' }, 'at ["city"]'],
  "text for a tool with a JSON Schema": [{ ...good, name: "search", args: "Oslo" }, "not valid JSON"],
  // OpenHands/OpenHands#5111, lightdash/lightdash#26925.
  "a tool that does not exist": [{ ...good, name: "whether" }, "The tools are: weather, search"]
}

describe("an invalid tool call of a model", () => {
  for (const [what, [wrong, told]] of Object.entries(mistakes)) {
    for (const [way, program] of Object.entries(ways)) {
      it.live(`${way} tells the model of ${what}, runs the other calls and goes on`, () =>
        Effect.gen(function* () {
          const { ran, events, handlers, layer } = world()
          const server = yield* saying([{ ...wrong, id: "call_wrong" }, good], [good])
          yield* program.pipe(
            Effect.provide([handlers, Models.layerOf(Models.chatTarget(server))]),
            Effect.provide(layer)
          )
          assert.deepStrictEqual(ran, ["Oslo", "Oslo"])
          assert.lengthOf(server.hits, 3)
          const results = server.hits[1]?.body.messages.filter(
            ({ role }: { role: string }) => role === "tool"
          )
          assert.strictEqual(results[0].tool_call_id, "call_wrong")
          assert.include(String(results[0].content).replaceAll("\\", ""), told)
          for (const tag of ["AttemptFailed", "CooldownOpened"]) assert.notInclude(events, tag)
        })
      )
    }
  }

  const asked = { prompt: "Go.", toolkit: Kit } as const
  const resolving = {
    generateText: Effect.asVoid(LanguageModel.generateText(asked)),
    streamText: Stream.runDrain(LanguageModel.streamText(asked))
  }
  for (const [way, program] of Object.entries(resolving)) {
    for (const [what, [wrong]] of Object.entries(mistakes)) {
      if (what === "arguments of another JSON Schema") continue
      it.live(`${way} of effect/ai fails with its own error for ${what}, after one request`, () =>
        Effect.gen(function* () {
          const { ran, events, handlers, layer } = world()
          const server = yield* saying([wrong])
          const error = yield* program.pipe(
            Effect.provide([handlers, Models.layerOf(Models.chatTarget(server))]),
            Effect.provide(layer),
            Effect.flip
          )
          assert(AiError.isAiError(error))
          assert.strictEqual(
            error.reason._tag,
            what === "a tool that does not exist" ? "ToolNotFoundError" : "ToolParameterValidationError"
          )
          assert.lengthOf(server.hits, 1)
          assert.deepStrictEqual(ran, [])
          assert.notInclude(events, "AttemptFailed")
        })
      )
    }
  }

  const weather = (ran: Array<string>) =>
    tool({
      inputSchema: jsonSchema<{ city: string }>(
        {
          type: "object",
          properties: { city: { type: "string" } },
          required: ["city"]
        },
        {
          validate: (value) =>
            typeof value === "object" && value !== null && "city" in value
              ? { success: true, value: { city: String(value.city) } }
              : { success: false, error: new Error("no city") }
        }
      ),
      execute: async ({ city }) => `Rain in ${city}, the ${ran.push(city)}. time`
    })

  for (const [what, [wrong]] of Object.entries(mistakes)) {
    if (wrong.name === "search") continue
    for (const whole of [true, false]) {
      it.live(
        `${whole ? "generateText" : "streamText"} of the AI SDK gets ${what} as it came, and repairs it`,
        () =>
          Effect.gen(function* () {
            const server = yield* saying([wrong])
            const model = yield* Models.served(Models.chatTarget(server))
            const ran: Array<string> = []
            const raw: Array<string> = []
            const options = {
              model,
              prompt: "Go.",
              tools: { weather: weather(ran) },
              stopWhen: isStepCount(3),
              repairToolCall: async ({ toolCall }: Repair) => {
                raw.push(toolCall.input)
                return { ...toolCall, toolName: "weather", input: '{"city":"Bergen"}' }
              }
            }
            const text = whole
              ? (yield* Effect.promise(() => generateText(options))).text
              : yield* Effect.promise(async () => streamText(options).text)
            assert.strictEqual(text, "Done.")
            assert.deepStrictEqual(raw, [wrong.args])
            assert.deepStrictEqual(ran, ["Bergen"])
            assert.lengthOf(server.hits, 2)
          })
      )
    }
  }

  it.live("is an invalid call of the AI SDK without a repair, and the model reads the reason", () =>
    Effect.gen(function* () {
      const server = yield* saying([{ ...good, args: '{"city":"Os' }])
      const model = yield* Models.served(Models.chatTarget(server))
      const ran: Array<string> = []
      const { steps } = yield* Effect.promise(() =>
        generateText({ model, prompt: "Go.", tools: { weather: weather(ran) }, stopWhen: isStepCount(3) })
      )
      const call = steps[0]?.toolCalls[0]
      assert.deepInclude(call, { invalid: true, input: '{"city":"Os' })
      assert.deepStrictEqual(ran, [])
      const result = server.hits[1]?.body.messages.at(-1)
      assert.strictEqual(result.role, "tool")
      assert.include(result.content, "JSON parsing failed")
    })
  )
})

describe("duplicate ids of tool calls", () => {
  const call = (id: string, city: string): Called => ({ id, name: "weather", args: JSON.stringify({ city }) })
  const idsIn = (hit: Raw.Hit | undefined): ReadonlyArray<readonly [string, string]> =>
    hit?.body.messages.flatMap((message: { tool_calls?: Array<{ id: string }>; tool_call_id?: string }) => [
      ...(message.tool_calls ?? []).map(({ id }) => ["call", id] as const),
      ...(message.tool_call_id === undefined ? [] : [["result", message.tool_call_id] as const])
    ]) ?? []

  // Same id twice in one answer: NousResearch/hermes-agent#67777, vectorize-io/hindsight#4250 (empty, too).
  // Counted from 0 in each turn: NousResearch/hermes-agent#111443, can1357/oh-my-pi#2055.
  const turns = [
    [call("call_0", "Oslo"), call("call_0", "Bergen")],
    [call("call_0", "Bonn"), call("", "Lima"), call("", "Rome")]
  ]
  const cities = ["Oslo", "Bergen", "Bonn", "Lima", "Rome"]

  for (const [way, program] of Object.entries(ways)) {
    it.live(`${way} keeps calls and results together, each under an id of its own`, () =>
      Effect.gen(function* () {
        const { ran, handlers } = world()
        const server = yield* saying(...turns)
        yield* program.pipe(Effect.provide([handlers, Models.layerOf(Models.chatTarget(server))]))
        assert.deepStrictEqual(ran.toSorted(), cities.toSorted())
        const ids = idsIn(server.hits[2])
        const calls = ids.filter(([kind]) => kind === "call").map(([, id]) => id)
        const results = ids.filter(([kind]) => kind === "result").map(([, id]) => id)
        assert.strictEqual(new Set(calls).size, 5)
        assert.deepStrictEqual(results, calls)
        const contents = server.hits[2]?.body.messages
          .filter(({ role }: { role: string }) => role === "tool")
          .map(({ content }: { content: string }) => /Rain in (\w+)/.exec(content)?.[1])
        assert.deepStrictEqual(contents, cities)
        // The first call keeps its id, so the prompt cache stays valid.
        assert.strictEqual(calls[0], "call_0")
      })
    )
  }

  for (const whole of [true, false]) {
    it.live(`${whole ? "generateText" : "streamText"} of the AI SDK gets each call under its own id`, () =>
      Effect.gen(function* () {
        const server = yield* saying(...turns)
        const model = yield* Models.served(Models.chatTarget(server))
        const ran: Array<string> = []
        const options = {
          model,
          prompt: "Go.",
          stopWhen: isStepCount(4),
          tools: {
            weather: tool({
              inputSchema: jsonSchema<{ city: string }>({ type: "object" }),
              execute: async ({ city }) => `Rain in ${city}, the ${ran.push(city)}. time`
            })
          }
        }
        const steps = whole
          ? (yield* Effect.promise(() => generateText(options))).steps
          : yield* Effect.promise(async () => streamText(options).steps)
        const results = steps.flatMap(({ toolResults }) => toolResults)
        assert.deepStrictEqual(ran.toSorted(), cities.toSorted())
        assert.strictEqual(new Set(results.map(({ toolCallId }) => toolCallId)).size, 5)
        for (const { input, output } of results) {
          assert.include(String(output), `in ${Object.values(Object(input)).join()},`)
        }
      })
    )
  }
})

describe("thinking before a tool call", () => {
  const events = [
    Raw.claude.start,
    Raw.claude.block(0, { type: "thinking", thinking: "", signature: "" }),
    { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm." } },
    { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2ln" } },
    Raw.claude.stop(0),
    Raw.claude.block(1, { type: "tool_use", id: "toolu_1", name: "weather", input: {} }),
    Raw.claude.json(1, '{"city":"Oslo"}'),
    Raw.claude.stop(1),
    Raw.claude.delta("tool_use"),
    Raw.claude.end
  ]

  it.live("ends before the call, in the provider's order", () =>
    Effect.gen(function* () {
      const server = yield* Raw.start((response) => Raw.events(response, events))
      const { types } = yield* Calls.aiSdkStream([Calls.vendors.anthropic(server.url)])
      const shown = types.filter((type) => type !== "custom")
      assert.deepStrictEqual(shown, [
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-end",
        "tool-call",
        "finish"
      ])
    })
  )
})
