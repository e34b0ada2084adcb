/** Calls whose pieces servers leave out, or send in another form, over raw servers. A call that is clear runs once. */
import { assert, describe, it } from "@effect/vitest"
import { jsonSchema, streamText, tool } from "ai"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Failover } from "@outlast/agent"
import { toAiSdk } from "@outlast/providers"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import type { Vendor } from "./Asked.ts"
import { policy, vendors } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"

const { chat, claude } = RawServer

const Read = Toolkit.make(
  Tool.make("read", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
)
const path = "päth"
const args = JSON.stringify({ path })

const base = { id: "resp_1", object: "response", created_at: 1, model: "m" }
const item = {
  type: "function_call",
  id: "fc_1",
  call_id: "c1",
  name: "read",
  arguments: args,
  status: "completed"
}
const usage = { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
const created = { type: "response.created", response: { ...base, status: "in_progress", output: [] } }
const added = {
  type: "response.output_item.added",
  output_index: 0,
  item: { ...item, status: "in_progress", arguments: "" }
}
const place = { item_id: "fc_1", output_index: 0 }
const deltas = [args.slice(0, 5), args.slice(5)].map((delta) => ({
  type: "response.function_call_arguments.delta",
  ...place,
  delta
}))
const argsDone = { type: "response.function_call_arguments.done", ...place, arguments: args }
const done = (changed: object = {}) => ({
  type: "response.output_item.done",
  output_index: 0,
  item: { ...item, ...changed }
})
const completed = (...output: ReadonlyArray<object>) => ({
  type: "response.completed",
  response: { ...base, status: "completed", output, usage }
})

const piece = (call: object) => chat.delta({ tool_calls: [{ index: 0, ...call }] })
const call = (id: unknown, name: string | null, text: string) =>
  piece({ ...(id === undefined ? {} : { id }), type: "function", function: { name, arguments: text } })
const finish = [chat.finish("tool_calls"), chat.usage(5, 7), chat.done]

/** The event without these fields, and without those of its item. */
const without = (event: object, ...names: ReadonlyArray<string>): object =>
  JSON.parse(JSON.stringify(event, (name, value) => (names.includes(name) ? undefined : value)))

const text = {
  type: "response.output_text.delta",
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta: "I read."
}

const forms: Record<string, readonly [Vendor, ReadonlyArray<object | string>]> = {
  "no end of the call (NousResearch/hermes-agent#92764)": [
    "responses",
    [created, added, ...deltas, argsDone, completed()]
  ],
  "no end of the call, and no end of its arguments": ["responses", [created, added, ...deltas, completed()]],
  "no end of the call, which comes with the last event": [
    "responses",
    [created, added, ...deltas, completed(item)]
  ],
  "only the last event, behind text": ["responses", [created, text, completed(item)]],
  "an end without a name (router-for-me/CLIProxyAPI#1004)": [
    "responses",
    [created, added, ...deltas, argsDone, done({ name: "" }), completed()]
  ],
  "an end without arguments": [
    "responses",
    [created, added, ...deltas, done({ arguments: "" }), completed()]
  ],
  "arguments only with the last event (OpenRouterTeam/ai-sdk-provider#336)": [
    "responses",
    [created, added, { ...argsDone, arguments: "" }, done({ arguments: "" }), completed(item)]
  ],
  "too few pieces, and an end without arguments": [
    "responses",
    [
      created,
      added,
      ...deltas.slice(0, 1),
      { ...argsDone, arguments: "" },
      done({ arguments: "" }),
      completed(item)
    ]
  ],
  "too few pieces, and an end with no more of them": [
    "responses",
    [created, added, ...deltas.slice(0, 1), done({ arguments: args.slice(0, 5) }), completed(item)]
  ],
  "an end with half of its arguments, alone": [
    "responses",
    [created, done({ arguments: args.slice(0, 5) }), completed(item)]
  ],
  "no ids of items (Oaklight/llm-rosetta#56)": [
    "responses",
    [created, added, ...deltas, argsDone, done(), completed()].map((each) => without(each, "id", "item_id"))
  ],
  "no indices of items": [
    "responses",
    [created, added, ...deltas, argsDone, done(), completed()].map((each) => without(each, "output_index"))
  ],
  "no end of its block": [
    "anthropic",
    [
      claude.start,
      claude.block(0, { type: "tool_use", id: "c1", name: "read", input: {} }),
      claude.json(0, args.slice(0, 5)),
      claude.json(0, args.slice(5)),
      claude.delta("tool_use"),
      claude.end
    ]
  ],
  "a complete message": [
    "anthropic",
    [
      {
        ...claude.start.message,
        content: [{ type: "tool_use", id: "c1", name: "read", input: { path } }],
        stop_reason: "tool_use"
      }
    ]
  ],
  "a complete message at its beginning, behind text": [
    "anthropic",
    [
      {
        ...claude.start,
        message: {
          ...claude.start.message,
          content: [
            { type: "text", text: "I read." },
            { type: "tool_use", id: "c1", name: "read", input: { path } }
          ],
          stop_reason: "tool_use"
        }
      },
      claude.end
    ]
  ],
  "an id that is a number": ["chat", [call(7, "read", args), ...finish]],
  "a name that follows": [
    "chat",
    [
      call("c1", null, ""),
      call(undefined, "read", args.slice(0, 5)),
      piece({ function: { arguments: args.slice(5) } }),
      ...finish
    ]
  ],
  "all arguments so far in each piece": [
    "chat",
    [
      call("c1", "read", args.slice(0, 3)),
      ...[5, 9, 12, args.length, args.length].map((end) =>
        piece({ function: { arguments: args.slice(0, end) } })
      ),
      ...finish
    ]
  ],
  "all arguments so far in each piece, with its id and name": [
    "chat",
    [1, 10, args.length]
      .map((end) => call("c1", "read", args.slice(0, end)))
      .concat(chat.finish("tool_calls"))
  ],
  "arguments in a text of JSON": ["chat", [call("c1", "read", JSON.stringify(args)), ...finish]],
  "arguments in a fence": ["chat", [call("c1", "read", `\`\`\`json\n${args}\n\`\`\``), ...finish]]
}

describe("a call that has", () => {
  for (const [what, [vendor, events]] of Object.entries(forms)) {
    it.live(`${what} is made once`, () =>
      Effect.gen(function* () {
        const server = yield* RawServer.start((response) => RawServer.events(response, events))
        const seen: Array<string> = []
        const told = ResilienceEvents.layerHandler(({ _tag }) => Effect.sync(() => void seen.push(_tag)))
        const chain = [vendors[vendor](server.url)({})] as const
        const paths = yield* LanguageModel.streamText({
          prompt: "Read.",
          toolkit: Read,
          disableToolCallResolution: true
        }).pipe(
          Stream.runFold(
            (): Array<string> => [],
            (all, part) => (part.type === "tool-call" ? [...all, part.params.path] : all)
          ),
          Effect.provide(Failover.layer(chain, { policy })),
          Effect.provide([told, Warnings.layerOff])
        )
        assert.deepStrictEqual(paths, [path])
        assert.include(seen, "AnswerRepaired")
        const inputs: Array<unknown> = []
        yield* Effect.promise(async () => {
          const model = toAiSdk(Layer.provide(Failover.layer(chain, { policy }), Warnings.layerOff))
          const read = tool({ inputSchema: jsonSchema({ type: "object" }), execute: async () => "text" })
          const { stream } = streamText({ model, prompt: "Read.", tools: { read } })
          for await (const part of stream) if (part.type === "tool-call") inputs.push(part.input)
          await model.dispose()
        })
        assert.deepStrictEqual(inputs, [{ path }])
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }

  it.live("an object with the same first key inside of it is made as it is", () =>
    Effect.gen(function* () {
      const pieces = ['{"path":', '{"path":', '"a"}', "}"]
      const server = yield* RawServer.start((response) =>
        RawServer.events(response, [
          call("c1", "read", ""),
          ...pieces.map((text) => piece({ function: { arguments: text } })),
          ...finish
        ])
      )
      const inputs: Array<unknown> = []
      yield* Effect.promise(async () => {
        const chain = [vendors.chat(server.url)({})] as const
        const model = toAiSdk(Layer.provide(Failover.layer(chain, { policy }), Warnings.layerOff))
        const read = tool({ inputSchema: jsonSchema({ type: "object" }), execute: async () => "text" })
        const { stream } = streamText({ model, prompt: "Read.", tools: { read } })
        for await (const part of stream) if (part.type === "tool-call") inputs.push(part.input)
        await model.dispose()
      })
      assert.deepStrictEqual(inputs, [{ path: { path: "a" } }])
    })
  )

  it.live("no arguments at all, in an answer that was cut, is not made", () =>
    Effect.gen(function* () {
      const cut = {
        type: "response.incomplete",
        response: {
          ...base,
          status: "incomplete",
          incomplete_details: { reason: "max_output_tokens" },
          output: [],
          usage
        }
      }
      const server = yield* RawServer.start((response) =>
        RawServer.events(response, [created, added, ...deltas, cut])
      )
      const calls = yield* LanguageModel.streamText({
        prompt: "Read.",
        toolkit: Read,
        disableToolCallResolution: true
      }).pipe(
        Stream.filter(({ type }) => type === "tool-call"),
        Stream.runCollect,
        Effect.orElseSucceed(() => []),
        Effect.provide(Failover.layer([vendors.responses(server.url)({})], { policy })),
        Effect.provide(Warnings.layerOff)
      )
      assert.lengthOf(calls, 0)
    })
  )
})
