/** Text that is not well-formed Unicode: half a surrogate pair in any part of a request. */
import { assert, describe, it } from "@effect/vitest"
import { Agent, Failover } from "@outlast/agent"
import { toAiSdk } from "@outlast/providers"
import { generateText, jsonSchema, tool } from "ai"
import { Effect, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { policy } from "../services/Hasty.ts"
import type { Vendor } from "./Asked.ts"
import { vendors } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const half = "half \ud83d of a pair"

/** The last half of a text that a stream cut. */
const prompt = Prompt.make([
  { role: "system", content: half },
  { role: "user", content: [{ type: "text", text: half }] },
  {
    role: "assistant",
    content: [
      { type: "text", text: half },
      {
        type: "tool-call",
        id: "id \udc00",
        name: "look\ud83d",
        params: { [`key ${half}`]: { deep: [half] } }
      }
    ]
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        id: "id \udc00",
        name: "look\ud83d",
        isFailure: false,
        result: { [half]: half, list: [half] }
      }
    ]
  },
  { role: "user", content: [{ type: "text", text: "well-formed: 😀" }] }
])

const Kit = Toolkit.make(
  Tool.make("act", {
    description: half,
    parameters: Schema.Struct({ how: Schema.String }),
    success: Schema.Unknown
  })
)

/** True when neither a text of the body nor JSON inside of a text has half a pair. */
const isWellFormed = (value: unknown): boolean => {
  if (typeof value === "string") {
    if (!value.isWellFormed()) return false
    return !/^[[{"]/.test(value) || !/\\u[dD][89a-fA-F]/.test(value)
  }
  if (typeof value !== "object" || value === null) return true
  return Object.entries(value).every(([key, inner]) => key.isWellFormed() && isWellFormed(inner))
}

const ok = (vendor: Vendor) => Replies.send[vendor]({ text: "ok", end: Replies.ends[vendor].stop, tokens: 4 })

/** A server that refuses what is not well-formed, as strict ones do. */
const strict = (vendor: Vendor) =>
  RawServer.start((response, hit) =>
    isWellFormed(hit.body)
      ? ok(vendor)(response, hit)
      : RawServer.json(response, 400, { error: { message: "Invalid body: not valid Unicode" } })
  )

describe("text with half a surrogate pair (a prompt, a name, arguments, a result, a key)", () => {
  for (const vendor of Object.keys(vendors) as ReadonlyArray<Vendor>) {
    it.live(`leaves as well-formed text: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* strict(vendor)
        const target = vendors[vendor](server.url)({})
        const { text } = yield* LanguageModel.generateText({ prompt, toolkit: Kit }).pipe(
          Effect.provide(Failover.layer([target], { policy })),
          Effect.provide(Kit.toLayer({ act: () => Effect.succeed(half) }))
        )
        assert.strictEqual(text, "ok")
        assert.strictEqual(server.hits.length, 1)
        assert.include(JSON.stringify(server.hits[0]?.body), "😀")
      })
    )

    it.live(`leaves as well-formed text for a program of the AI SDK: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* strict(vendor)
        const model = toAiSdk(Failover.layer([vendors[vendor](server.url)({})], { policy }))
        const { text } = yield* Effect.promise(() =>
          generateText({
            model,
            system: half,
            messages: [
              { role: "user", content: half },
              {
                role: "assistant",
                content: [
                  { type: "tool-call", toolCallId: "c\ud83d", toolName: "act", input: { [half]: half } }
                ]
              },
              {
                role: "tool",
                content: [
                  {
                    type: "tool-result",
                    toolCallId: "c\ud83d",
                    toolName: "act",
                    output: { type: "json", value: { [half]: [half] } }
                  }
                ]
              }
            ],
            tools: {
              act: tool({ description: half, inputSchema: jsonSchema({ type: "object", properties: {} }) })
            }
          })
        )
        yield* Effect.promise(() => model.dispose())
        assert.strictEqual(text, "ok")
        assert.strictEqual(server.hits.length, 1)
      })
    )
  }

  it.live(
    "leaves as well-formed text when a tool of an agent returns it, in a class and without a prototype",
    () =>
      Effect.gen(function* () {
        const results = [
          half,
          { [half]: half },
          new Map([[half, 1]]),
          new Classed(),
          new Date(0),
          cyclic(),
          10n,
          undefined
        ]
        const server = yield* RawServer.start((response, { body }, n) =>
          !isWellFormed(body)
            ? RawServer.json(response, 400, { error: { message: "not valid Unicode" } })
            : RawServer.events(
                response,
                n < results.length
                  ? [
                      RawServer.chat.call(0, `call_${n}`, "act", JSON.stringify({ how: `${half} ${n}` })),
                      RawServer.chat.finish("tool_calls"),
                      RawServer.chat.done
                    ]
                  : [RawServer.chat.text("ok"), RawServer.chat.finish("stop"), RawServer.chat.done]
              )
        )
        let n = 0
        const { text } = yield* Agent.run({ prompt: half, toolkit: Kit }).pipe(
          Effect.provide(Failover.layer([vendors.chat(server.url)({})], { policy })),
          Effect.provide(Kit.toLayer({ act: () => Effect.sync(() => results[n++]) }))
        )
        assert.strictEqual(text, "ok")
        assert.strictEqual(server.hits.length, results.length + 1)
      })
  )
})

/** A cycle without a prototype: it has neither JSON nor a text. */
const cyclic = (): object => {
  const cycle: Record<string, unknown> = Object.assign(Object.create(null), { a: half })
  cycle["self"] = cycle
  return cycle
}

/** Its fields become plain JSON only when the request is written. */
class Classed {
  readonly text = half
}
