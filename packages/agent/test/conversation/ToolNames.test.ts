/** Replaced tool names for a target that rejects the original ones, and their translation back. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import type { Response } from "effect/ai"
import { Chat, LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { Dialect, Portable, ToolNames } from "@outlast/agent/conversation"
import { Direct, Failover } from "@outlast/agent"
import { ForeignModel } from "@outlast/agent/failover"
import { answer, finish, played, policy, say, serverError, text } from "../support.ts"

const tool = (name: string) => Tool.make(name, { parameters: Schema.Struct({ city: Schema.String }) })
const named = (...names: ReadonlyArray<string>) => names.map(tool)
const { defaults } = Dialect

describe("tool names", () => {
  it("do not change when the target accepts them", () => {
    assert.isUndefined(ToolNames.of(named("a", "b-2"), defaults))
    assert.isUndefined(ToolNames.of([], defaults))
  })

  it("stay distinct, in any order of the tools", () => {
    const all = [
      "weather.get",
      "weather:get",
      "wéather.get",
      "天気",
      "予報",
      "x".repeat(65),
      "x".repeat(66),
      "plain"
    ]
    const forth = ToolNames.of(named(...all), defaults)
    const back = ToolNames.of(named(...all.toReversed()), defaults)
    assert.deepStrictEqual(
      new Map([...(back?.there ?? [])].toSorted()),
      new Map([...(forth?.there ?? [])].toSorted())
    )
    const theirs = [...(forth?.there.values() ?? [])]
    assert.strictEqual(new Set(theirs).size, all.length - 1)
    for (const name of theirs) assert.match(name, defaults.toolName)
    assert.isFalse(forth?.there.has("plain"))
  })

  it("stay distinct when their replacements collide, in any order", () => {
    // Both names have the same hash and the same legal characters.
    const pair = ["a/&%.$:b", "a.:/./&b"]
    const alone = pair.map((name) => ToolNames.of(named(name), defaults)?.there.get(name))
    assert.strictEqual(alone[0], alone[1])
    const forth = ToolNames.of(named(...pair), defaults)
    const back = ToolNames.of(named(...pair.toReversed()), defaults)
    assert.strictEqual(new Set(forth?.there.values()).size, 2)
    assert.deepStrictEqual(
      pair.map((name) => back?.there.get(name)),
      pair.map((name) => forth?.there.get(name))
    )
  })

  it("are the same in the conversation as in the offered tools", () => {
    const first = ToolNames.of(named("weather.get"), defaults)?.there.get("weather.get") ?? ""
    const names = ToolNames.of(named("weather.get", first), defaults)
    const prompt = Prompt.make([
      { role: "user", content: [{ type: "text", text: "Rome?" }] },
      { role: "assistant", content: [{ type: "tool-call", id: "call-1", name: "weather.get", params: {} }] }
    ])
    const ref = { id: "me/m#KEY", provider: "me", model: "m", endpoint: "", key: "KEY" }
    const said = (known: typeof names) =>
      Portable.adapt(prompt, { ref, names: known }).content.flatMap(({ content }) =>
        typeof content === "string" ? [] : content.flatMap((part) => ("name" in part ? [part.name] : []))
      )
    const offered = names?.there.get("weather.get") ?? ""
    assert.deepStrictEqual(said(names), [offered, offered])
    // A tool that is no longer offered.
    assert.deepStrictEqual(said(undefined), [first, first])
  })

  it("are never replaced by a name that is already in use", () => {
    const first = ToolNames.of(named("weather.get"), defaults)?.there.get("weather.get") ?? ""
    const second = ToolNames.of(named("weather.get", first), defaults)?.there.get("weather.get")
    assert.isDefined(second)
    assert.notStrictEqual(second, first)
  })

  it("of tools that run at a provider do not change", () => {
    const search = Tool.providerDefined({
      id: "vendor.search",
      customName: "Search",
      providerName: "web.search"
    })
    assert.isUndefined(ToolNames.of([search()], { ...defaults, toolName: /^never$/ }))
  })
})

const Kit = Toolkit.make(
  Tool.make("weather.get", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String }),
  Tool.make("plain", { success: Schema.String })
)
const Handlers = Kit.toLayer({
  "weather.get": ({ city }) => Effect.succeed(`sunny in ${city}`),
  plain: () => Effect.succeed("plain")
})

/** The replacement at the target that rejects dots. */
const theirs = ToolNames.of(Object.values(Kit.tools), defaults)?.there.get("weather.get") ?? ""
const dotted: Dialect.Dialect = { ...defaults, toolName: /^[a-z.]+$/ }

const callOf = (name: string) =>
  ({ type: "tool-call", id: "call-1", name, params: { city: "Rome" } }) satisfies Response.ToolCallPartEncoded
const streamOf = (name: string) =>
  say(
    { type: "tool-params-start", id: "call-1", name },
    { type: "tool-params-delta", id: "call-1", delta: `{"city":"Rome"}` },
    { type: "tool-params-end", id: "call-1" },
    callOf(name),
    finish("tool-calls")
  )

/** Tool names that were offered to a target, and those in its conversation. */
const seenBy = ({ requests }: ReturnType<typeof played>, n = 0) => {
  const { tools = [], prompt = Prompt.empty } = requests[n]?.request ?? {}
  const parts = prompt.content.flatMap(({ content }): ReadonlyArray<Prompt.Part> =>
    typeof content === "string" ? [] : content
  )
  return {
    offered: tools.map(({ name }) => name),
    said: parts.flatMap((part) =>
      part.type === "tool-call" || part.type === "tool-result" ? [part.name] : []
    )
  }
}

describe("a target that rejects the name of a tool", () => {
  const target = () =>
    played({
      answers: [Effect.succeed([callOf(theirs), finish("tool-calls")]), answer("Sunny.")],
      streams: [streamOf(theirs), say(...text.block("Sunny."), finish())]
    })

  it.effect("is offered another name, and its call has the program's name", () =>
    Effect.gen(function* () {
      for (const layer of [Failover.layer([target()], { policy }), Direct.layer(target())]) {
        const { toolCalls, toolResults } = yield* LanguageModel.generateText({
          prompt: "Rome?",
          toolkit: Kit
        }).pipe(Effect.provide(Layer.merge(layer, Handlers)))
        assert.deepStrictEqual(
          toolCalls.map(({ name }) => name),
          ["weather.get"]
        )
        assert.deepStrictEqual(
          toolResults.map(({ name, result }) => [name, result]),
          [["weather.get", "sunny in Rome"]]
        )
      }
    })
  )

  it.effect("has the program's name in every part of a stream", () =>
    Effect.gen(function* () {
      for (const layer of [Failover.layer([target()], { policy }), Direct.layer(target())]) {
        const parts = yield* Stream.runCollect(
          LanguageModel.streamText({ prompt: "Rome?", toolkit: Kit })
        ).pipe(Effect.provide(Layer.merge(layer, Handlers)))
        assert.deepStrictEqual(
          [...parts].flatMap((part) => ("name" in part ? [[part.type, part.name]] : [])),
          [
            ["tool-params-start", "weather.get"],
            ["tool-call", "weather.get"],
            ["tool-result", "weather.get"]
          ]
        )
      }
    })
  )

  it.effect("gets the offered names in its conversation, and so does the next target", () =>
    Effect.gen(function* () {
      const first = target()
      const chat = yield* Chat.empty
      yield* Effect.andThen(
        chat.generateText({ prompt: "Rome?", toolkit: Kit }),
        chat.generateText({ prompt: "And?", toolkit: Kit })
      ).pipe(Effect.provide(Layer.merge(Failover.layer([first], { policy }), Handlers)))
      assert.deepStrictEqual(seenBy(first, 1), { offered: [theirs, "plain"], said: [theirs, theirs] })
      // The conversation keeps the program's name.
      const second = played({ answers: [answer("Yes.")], info: { dialect: dotted } })
      yield* chat
        .generateText({ prompt: "Sure?", toolkit: Kit })
        .pipe(Effect.provide(Layer.merge(Failover.layer([second], { policy }), Handlers)))
      assert.deepStrictEqual(seenBy(second), {
        offered: ["weather.get", "plain"],
        said: ["weather.get", "weather.get"]
      })
    })
  )

  it.effect("gets its own names in each attempt", () =>
    Effect.gen(function* () {
      const taking = played({ answers: [Effect.fail(serverError)], info: { dialect: dotted } })
      const refusing = played({
        model: "n",
        answers: [Effect.succeed([callOf(theirs), finish("tool-calls")])]
      })
      const { toolCalls } = yield* LanguageModel.generateText({ prompt: "Rome?", toolkit: Kit }).pipe(
        Effect.provide(
          Layer.merge(
            Failover.layer([taking, refusing], {
              policy: {
                ...policy,
                rows: { ...policy.rows, ServerError: { ...policy.rows.ServerError, then: "move" } }
              }
            }),
            Handlers
          )
        )
      )
      assert.deepStrictEqual(
        toolCalls.map(({ name }) => name),
        ["weather.get"]
      )
      assert.deepStrictEqual(seenBy(taking).offered, ["weather.get", "plain"])
      assert.deepStrictEqual(seenBy(refusing).offered, [theirs, "plain"])
    })
  )

  it.effect("gets the tool choice with its own names", () =>
    Effect.gen(function* () {
      const asked = played({ answers: [answer("No.")] })
      const ask = (toolChoice: LanguageModel.ToolChoice<"weather.get" | "plain">) =>
        LanguageModel.generateText({ prompt: "Rome?", toolkit: Kit, toolChoice })
      yield* ask({ tool: "weather.get" }).pipe(
        Effect.andThen(ask({ mode: "required", oneOf: ["weather.get"] })),
        Effect.andThen(ask("required")),
        Effect.provide(Layer.merge(Failover.layer([asked], { policy }), Handlers))
      )
      assert.deepStrictEqual(
        asked.requests.map(({ request }) => request.toolChoice),
        [{ tool: theirs }, { mode: "required", oneOf: [theirs] }, "required"]
      )
    })
  )

  it.effect("may be a layer of another library", () =>
    Effect.gen(function* () {
      const inner = yield* LanguageModel.make({
        generateText: ({ tools }) =>
          Effect.succeed([
            callOf(tools[0]?.name ?? ""),
            finish("tool-calls")
          ] satisfies Array<Response.PartEncoded>),
        streamText: () => Stream.empty
      })
      const foreign = ForeignModel.target({
        provider: "vendor",
        model: "m",
        layer: Layer.succeed(LanguageModel.LanguageModel, inner),
        info: { dialect: defaults }
      })
      const { toolResults } = yield* LanguageModel.generateText({ prompt: "Rome?", toolkit: Kit }).pipe(
        Effect.provide(Layer.merge(Failover.layer([foreign], { policy }), Handlers))
      )
      assert.deepStrictEqual(
        toolResults.map(({ result }) => result),
        ["sunny in Rome"]
      )
    })
  )

  it.effect("gets the same tool objects when no name changes", () =>
    Effect.gen(function* () {
      const asked = played({ answers: [answer("Yes.")], info: { dialect: dotted } })
      yield* LanguageModel.generateText({ prompt: "Rome?", toolkit: Kit }).pipe(
        Effect.provide(Layer.merge(Failover.layer([asked], { policy }), Handlers))
      )
      assert.strictEqual(asked.requests[0]?.request.tools[0], Kit.tools["weather.get"])
    })
  )
})
