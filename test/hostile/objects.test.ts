/** Objects as real servers send them, over raw servers: fenced, in prose, cut, of another schema, in pieces. */
import { assert, describe, it } from "@effect/vitest"
import { Outlast } from "@outlast/agent"
import {
  generateObject,
  generateText,
  jsonSchema,
  NoObjectGeneratedError,
  Output,
  streamObject,
  streamText
} from "ai"
import { Effect, Schema, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import type { ServerResponse } from "node:http"
import { beforeAll } from "vitest"
import * as Models from "./Models.ts"
import * as Raw from "./RawServer.ts"

beforeAll(() => {
  // Warnings are asserted, not printed.
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })
})

const City = Schema.Struct({ name: Schema.String, people: Schema.Finite })
const city = { name: "Oslo", people: 700_000 }
const good = JSON.stringify(city)
const schema = jsonSchema<typeof city>({
  type: "object",
  properties: { name: { type: "string" }, people: { type: "number" } },
  required: ["name", "people"],
  additionalProperties: false
})

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }

/** A complete answer, or a stream of `pieces` of it. */
const answer = (response: ServerResponse, hit: Raw.Hit, pieces: ReadonlyArray<string>): void => {
  if (hit.body.stream === true) {
    return Raw.events(response, [
      ...pieces.map(Raw.chat.text),
      Raw.chat.finish("stop"),
      Raw.chat.usage(5, 7),
      Raw.chat.done
    ])
  }
  const message = { role: "assistant", content: pieces.join("") }
  const choices = [{ index: 0, message, finish_reason: "stop" }]
  Raw.json(response, 200, {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices,
    usage
  })
}

const saying = (...answers: ReadonlyArray<ReadonlyArray<string>>) =>
  Raw.start((response, hit, n) => answer(response, hit, answers[n] ?? answers.at(-1) ?? []))

const asked = { prompt: "Which city?", schema }

/** Every way to ask for an object. */
const ways: Readonly<
  Record<string, (server: Raw.RawServer) => Effect.Effect<unknown, unknown, Scope.Scope>>
> = {
  "generateObject of effect/ai": (server) =>
    LanguageModel.generateObject({ prompt: "Which city?", schema: City }).pipe(
      Effect.map(({ value }) => value),
      Effect.provide(Models.layerOf(Models.chatTarget(server)))
    ),
  "Outlast.streamText": (server) =>
    Outlast.streamText({ prompt: "Which city?", schema: City }).pipe(
      Stream.filter((part) => part.type === "object"),
      Stream.runHead,
      Effect.map((part) => (part._tag === "Some" ? part.value.value : undefined)),
      Effect.provide(Models.layerOf(Models.chatTarget(server)))
    ),
  "generateObject of the AI SDK": (server) =>
    Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
      Effect.promise(async () => (await generateObject({ model, ...asked })).object)
    ),
  "generateText with Output.object": (server) =>
    Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
      Effect.promise(async () => {
        const { output } = await generateText({
          model,
          prompt: "Which city?",
          output: Output.object({ schema })
        })
        return output
      })
    ),
  streamObject: (server) =>
    Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
      Effect.promise(async () => {
        const result = streamObject({ model, ...asked })
        for await (const _ of result.partialObjectStream) continue
        return result.object
      })
    ),
  "streamText with Output.object": (server) =>
    Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
      Effect.promise(async () => {
        const result = streamText({ model, prompt: "Which city?", output: Output.object({ schema }) })
        for await (const _ of result.partialOutputStream) continue
        return result.output
      })
    )
}

/** The defect of the first answer, and the number of requests. A list of texts is sent in pieces. */
const answers: Readonly<Record<string, readonly [ReadonlyArray<string>, number]>> = {
  // vercel/ai#4906, vercel/ai#4710, Arthur-Ficial/apfel#101.
  fenced: [["```json\n", good.slice(0, 9), good.slice(9), "\n```"], 1],
  "fenced behind a sentence": [["Here it is:\n\n```json\n", good, "\n```\nAnything else?"], 1],
  "in prose": [["I would say ", "Oslo, with 700000 people."], 2],
  // Muhanad-husn/axial#72.
  "behind a preamble": [[`Sure! ${good}`], 2],
  "empty but for blanks": [[" \n"], 2]
}

describe("an object that a server sends", () => {
  for (const [way, ask] of Object.entries(ways)) {
    for (const [what, [pieces, requests]] of Object.entries(answers)) {
      it.live(`${way} gets it after ${requests} requests, when it came ${what}`, () =>
        Effect.gen(function* () {
          const server = yield* saying(pieces, [good])
          assert.deepStrictEqual(yield* ask(server), city)
          assert.lengthOf(server.hits, requests)
          if (requests === 1) return
          const said = JSON.stringify(server.hits[1]?.body.messages.at(-1))
          assert.include(said, "An earlier answer to this could not be used")
        })
      )
    }
  }

  const wholeWays = Object.entries(ways).filter(([way]) => way.includes("generate"))
  for (const [way, ask] of wholeWays) {
    for (const [what, text] of Object.entries({
      cut: good.slice(0, -8),
      "of another schema": '{"name":"Oslo","people":"many"}',
      "without a property": '{"name":"Oslo"}'
    })) {
      it.live(`${way} requests again one that is ${what}, and names the error`, () =>
        Effect.gen(function* () {
          const server = yield* saying([text], [good])
          assert.deepStrictEqual(yield* ask(server), city)
          const said = JSON.stringify(server.hits[1]?.body.messages.at(-1)).replaceAll("\\", "")
          assert.include(said, what === "cut" ? "the JSON ends too early" : 'at ["people"]')
        })
      )
    }
  }

  it.live("stays wrong: the AI SDK gets the last answer, and can repair it", () =>
    Effect.gen(function* () {
      const server = yield* saying(["Oslo, "], ["Bergen, ", "I think."])
      const model = yield* Models.served(Models.chatTarget(server))
      const error = yield* Effect.promise(() =>
        generateObject({ model, ...asked }).catch((error: unknown) => error)
      )
      assert(NoObjectGeneratedError.isInstance(error))
      assert.strictEqual(error.text, "Bergen, I think.")
      assert.deepInclude(error.response, { id: "chatcmpl-1", modelId: "m" })
      assert.deepInclude(error.usage, { inputTokens: 5, outputTokens: 7 })
      assert.lengthOf(server.hits, 3)
      const { object } = yield* Effect.promise(() =>
        generateObject({ model, ...asked, experimental_repairText: async () => good })
      )
      assert.deepStrictEqual(object, city)
    })
  )
})

describe("an answer without the requested object", () => {
  it.live("is empty: the AI SDK reports it, with the id, the model and the usage", () =>
    Effect.gen(function* () {
      const server = yield* saying([])
      const model = yield* Models.served(Models.chatTarget(server))
      const error = yield* Effect.promise(() =>
        streamObject({ model, ...asked, onError: () => {} }).object.catch((error: unknown) => error)
      )
      assert(NoObjectGeneratedError.isInstance(error))
      assert.deepInclude(error.response, { id: "chatcmpl-1", modelId: "m" })
      assert.deepInclude(error.usage, { inputTokens: 5, outputTokens: 7 })
    })
  )
})

/** A server that sends the first half of an object, then the rest when the test allows it, or breaks off. */
const halved = (end: "finish" | "break", rest: Promise<unknown>) =>
  Raw.start(async (response, hit, n) => {
    if (n > 0) return answer(response, hit, [good])
    Raw.head(response)
    response.write(['{"name":', '"Os', "lo"].map((piece) => Raw.event(Raw.chat.text(piece))).join(""))
    await rest
    if (end === "break") return response.destroy()
    for (const last of [Raw.chat.text('","people":700000}'), Raw.chat.finish("stop"), Raw.chat.done]) {
      response.write(Raw.event(last))
    }
    response.end()
  })

describe("an object that is streamed", () => {
  const surfaces: Readonly<
    Record<
      string,
      (server: Raw.RawServer, seen: (value: unknown) => void) => Effect.Effect<unknown, unknown, Scope.Scope>
    >
  > = {
    "Outlast.streamText": (server, seen) =>
      Outlast.streamText({ prompt: "Which city?", schema: City }).pipe(
        Stream.runForEach((part) => Effect.sync(() => part.type === "partial-object" && seen(part.value))),
        Effect.provide(Models.layerOf(Models.chatTarget(server)))
      ),
    streamObject: (server, seen) =>
      Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
        Effect.tryPromise(async () => {
          const result = streamObject({ model, ...asked, onError: () => {} })
          result.object.catch(() => {})
          for await (const value of result.partialObjectStream) seen(value)
          return await result.object
        })
      ),
    "streamText with Output.object": (server, seen) =>
      Effect.flatMap(Models.served(Models.chatTarget(server)), (model) =>
        Effect.tryPromise(async () => {
          const output = Output.object({ schema })
          const result = streamText({ model, prompt: "Which city?", output, onError: () => {} })
          for await (const value of result.partialOutputStream) seen(value)
          return await result.output
        })
      )
  }

  for (const [way, read] of Object.entries(surfaces)) {
    it.live(`${way} shows it while the server still writes`, () =>
      Effect.gen(function* () {
        const rest = Promise.withResolvers<void>()
        const server = yield* halved("finish", rest.promise)
        const seen: Array<unknown> = []
        yield* read(server, (value) => {
          seen.push(value)
          // The server sends no more until half of the object is seen here.
          if (JSON.stringify(value) === '{"name":"Oslo"}') rest.resolve()
        })
        assert.deepStrictEqual(seen.at(-1), city)
        assert.isAbove(seen.length, 1)
        assert.lengthOf(server.hits, 1)
      })
    )

    it.live(`${way} fails where it breaks off, and is not continued`, () =>
      Effect.gen(function* () {
        const rest = Promise.withResolvers<void>()
        const server = yield* halved("break", rest.promise)
        const exit = yield* Effect.exit(
          read(server, (value) => {
            if (JSON.stringify(value) === '{"name":"Oslo"}') rest.resolve()
          })
        )
        assert.strictEqual(exit._tag, "Failure")
        assert.lengthOf(server.hits, 1)
      })
    )
  }

  it.live("starts over after a break, if the consumer supports a rewind", () =>
    Effect.gen(function* () {
      const rest = Promise.withResolvers<void>()
      const server = yield* halved("break", rest.promise)
      const seen: Array<unknown> = []
      yield* Outlast.streamText({ prompt: "Which city?", schema: City, midStream: "restart" }).pipe(
        Stream.runForEach((part) =>
          Effect.sync(() => {
            if (part.type === "partial-object" || part.type === "object") seen.push(part.value)
            if (part.type === "rewind") seen.push(part.type)
            if (part.type === "text-delta") rest.resolve()
          })
        ),
        Effect.provide(Models.layerOf(Models.chatTarget(server)))
      )
      assert.deepStrictEqual(seen.slice(seen.indexOf("rewind")), ["rewind", city, city])
      assert.lengthOf(server.hits, 2)
    })
  )

  it.live("comes from Anthropic, too", () =>
    Effect.gen(function* () {
      const { claude } = Raw
      const server = yield* Raw.start((response) =>
        Raw.events(response, [
          claude.start,
          claude.block(0),
          ...["```json\n{", '"name":"Oslo"', ',"people":700000}', "\n```"].map((piece) =>
            claude.text(0, piece)
          ),
          claude.stop(0),
          claude.delta("end_turn"),
          claude.end
        ])
      )
      const model = yield* Models.served(Models.claudeTarget(server))
      const result = streamObject({ model, ...asked })
      const partial = yield* Stream.runCollect(
        Stream.fromAsyncIterable(result.partialObjectStream, (error) => error)
      )
      assert.deepStrictEqual(partial, [{}, { name: "Oslo" }, city])
    })
  )
})
