/** Requests that servers refuse although the program is correct. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { generateText } from "ai"
import { Effect, Redacted } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { json, start } from "./RawServer.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]

const malformed = {
  error: { message: "Invalid value: 'x'. Supported values are: 'text'.", type: "invalid_request_error" }
}
const message = (text: string) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1, output_tokens: 1 }
})
const completion = (text: string) => ({
  id: "c1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
})
const whole = { wholeAnswers: "request" } as const

/** One red pixel. */
const png = Uint8Array.from(
  atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="),
  (char) => char.charCodeAt(0)
)

describe("a request that one server calls malformed", () => {
  it.live("is sent to a target of another wire format, and to no other of the same format", () =>
    Effect.gen(function* () {
      const refusing = yield* start((response) => json(response, 400, malformed))
      const same = yield* start((response) => json(response, 200, completion("no")))
      const other = yield* start((response) => json(response, 200, message("hello")))
      const chat = (baseUrl: string) => OpenAi.chatModel("gpt-4.1", { keys, baseUrl, info: whole })
      const chain = [
        chat(`${refusing.url}/v1`),
        chat(`${same.url}/v1`),
        Anthropic.model("claude-haiku-4-5", { keys, baseUrl: `${other.url}/v1`, info: whole })
      ] as const
      const { text } = yield* LanguageModel.generateText({ prompt: "x" }).pipe(
        Effect.provide(Failover.layer(chain))
      )
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(
        [refusing, same, other].map(({ hits }) => hits.length),
        [1, 0, 1]
      )
    })
  )
})

describe("a request that one model does not accept", () => {
  for (const [status, message] of [
    [400, "This model does not support function calling."],
    [400, "registry.ollama.ai/library/gemma3:4b does not support tools"],
    [400, "Thinking mode does not support this tool_choice"],
    [404, "No endpoints found that support tool use."]
  ] as const) {
    it.live(`is sent to another model of the same provider: ${message}`, () =>
      Effect.gen(function* () {
        const server = yield* start((response, { body }) =>
          body.model === "small"
            ? json(response, status, { error: { message, code: status } })
            : json(response, 200, completion(String(body.model)))
        )
        const of = (model: string) =>
          OpenAi.chatModel(model, { keys, baseUrl: `${server.url}/v1`, info: whole })
        const { text } = yield* LanguageModel.generateText({ prompt: "x" }).pipe(
          Effect.provide(Failover.layer([of("small"), of("large")]))
        )
        assert.strictEqual(text, "large")
      })
    )
  }

  it.live("names what may help where no other model is left", () =>
    Effect.gen(function* () {
      const server = yield* start((response) =>
        json(response, 400, { error: { message: "This model does not support tools" } })
      )
      const chain = [OpenAi.chatModel("small", { keys, baseUrl: `${server.url}/v1`, info: whole })] as const
      const error = yield* Effect.flip(
        LanguageModel.generateText({ prompt: "x" }).pipe(Effect.provide(Failover.layer(chain)))
      )
      assert.include(String(error.message), "add a model that accepts it")
      assert.strictEqual(server.hits.length, 1)
    })
  )
})

describe("an image that the server cannot process (anthropics/claude-code#25592)", () => {
  const refusal = {
    type: "error",
    error: { type: "invalid_request_error", message: "Could not process image" }
  }
  const serving = start((response, { body }) =>
    JSON.stringify(body).includes('"image"')
      ? json(response, 400, refusal)
      : json(response, 200, message("hello"))
  )

  it.live("is replaced by a note, in this call and in later ones", () =>
    Effect.gen(function* () {
      const server = yield* serving
      const target = Anthropic.model("claude-haiku-4-5", { keys, baseUrl: `${server.url}/v1`, info: whole })
      const prompt = Prompt.make([
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "file", mediaType: "image/png", data: png }
          ]
        }
      ])
      const texts = yield* Effect.gen(function* () {
        const first = yield* LanguageModel.generateText({ prompt })
        const second = yield* LanguageModel.generateText({
          prompt: Prompt.concat(prompt, [
            { role: "assistant", content: [{ type: "text", text: first.text }] },
            { role: "user", content: [{ type: "text", text: "Go on." }] }
          ])
        })
        return [first.text, second.text]
      }).pipe(Effect.provide(Failover.layer([target])))
      assert.deepStrictEqual(texts, ["hello", "hello"])
      assert.strictEqual(server.hits.length, 3)
      assert.include(JSON.stringify(server.hits[2]?.body), "A file that you cannot read: image/png")
    })
  )

  it.live("is replaced by a note for a program of the AI SDK", () =>
    Effect.gen(function* () {
      const server = yield* serving
      const target = Anthropic.model("claude-haiku-4-5", { keys, baseUrl: `${server.url}/v1` })
      const model = toAiSdk(Failover.layer([target]))
      const { text } = yield* Effect.promise(() =>
        generateText({
          model,
          messages: [
            {
              role: "user",
              content: [
                { type: "text", text: "What is this?" },
                { type: "image", image: png }
              ]
            }
          ]
        })
      )
      yield* Effect.promise(() => model.dispose())
      assert.strictEqual(text, "hello")
      assert.strictEqual(server.hits.length, 2)
    })
  )
})

describe("a server that requires thinking before a tool call (earendil-works/pi#3636)", () => {
  it.live("gets a placeholder where another model made the call", () =>
    Effect.gen(function* () {
      const missing = {
        error: {
          message: "The `reasoning_content` in the thinking mode must be passed back to the API.",
          type: "invalid_request_error"
        }
      }
      const server = yield* start((response, { body }) =>
        body.messages.some(
          (each: { tool_calls?: unknown; reasoning_content?: string }) =>
            each.tool_calls !== undefined && !each.reasoning_content
        )
          ? json(response, 400, missing)
          : json(response, 200, completion("hello"))
      )
      const target = OpenAiCompatible.model({
        name: "deepseek",
        baseUrl: `${server.url}/v1`,
        model: "deepseek-v4-pro",
        keys
      })
      const prompt = Prompt.make([
        { role: "user", content: [{ type: "text", text: "x" }] },
        { role: "assistant", content: [{ type: "tool-call", id: "c1", name: "look", params: {} }] },
        {
          role: "tool",
          content: [{ type: "tool-result", id: "c1", name: "look", isFailure: false, result: "y" }]
        }
      ])
      const { text } = yield* LanguageModel.generateText({ prompt }).pipe(
        Effect.provide(Failover.layer([target]))
      )
      assert.strictEqual(text, "hello")
      assert.strictEqual(server.hits.length, 1)
    })
  )
})

describe("a server that sends a JSON body to a request for a stream", () => {
  const targets = {
    anthropic: (baseUrl: string) => Anthropic.model("claude-haiku-4-5", { keys, baseUrl }),
    chat: (baseUrl: string) => OpenAi.chatModel("gpt-4.1", { keys, baseUrl })
  }
  const bodies = { anthropic: message, chat: completion }
  for (const vendor of ["anthropic", "chat"] as const) {
    it.live(`is read, and asked once: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* start((response) => json(response, 200, bodies[vendor]("hello")))
        const ask = LanguageModel.generateText({ prompt: "x" })
        const answers = yield* Effect.all([ask, ask]).pipe(
          Effect.provide(Failover.layer([targets[vendor](`${server.url}/v1`)]))
        )
        assert.deepStrictEqual(
          answers.map(({ text }) => text),
          ["hello", "hello"]
        )
        assert.strictEqual(server.hits.length, 2)
      })
    )
  }

  it.live("is asked again when its body was not an answer", () =>
    Effect.gen(function* () {
      const server = yield* start((response, _, n) =>
        n < 1 ? json(response, 200, { maintenance: true }) : json(response, 200, message("hello"))
      )
      const { text } = yield* LanguageModel.generateText({ prompt: "x" }).pipe(
        Effect.provide(Failover.layer([targets.anthropic(`${server.url}/v1`)]))
      )
      assert.strictEqual(text, "hello")
      assert.strictEqual(server.hits.length, 2)
    })
  )
})

describe("a result of a tool without any part", () => {
  const models = {
    anthropic: (baseUrl: string) => Anthropic.model("claude-haiku-4-5", { keys, baseUrl: `${baseUrl}/v1` }),
    chat: (baseUrl: string) => OpenAi.chatModel("gpt-4.1", { keys, baseUrl: `${baseUrl}/v1` }),
    responses: (baseUrl: string) => OpenAi.model("gpt-4.1", { keys, baseUrl: `${baseUrl}/v1` }),
    google: (baseUrl: string) => Google.model("gemini-2.5-flash", { keys, baseUrl: `${baseUrl}/v1beta` })
  }
  for (const [vendor, of] of Object.entries(models)) {
    it.live(`reaches the provider as an empty text: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* start((response) => json(response, 400, {}))
        yield* Effect.promise(async () => {
          await using model = toAiSdk(Failover.layer([of(server.url)]))
          await generateText({
            model,
            maxRetries: 0,
            messages: [
              { role: "user", content: "Look." },
              {
                role: "assistant",
                content: [{ type: "tool-call", toolCallId: "c1", toolName: "look", input: {} }]
              },
              {
                role: "tool",
                content: [
                  {
                    type: "tool-result",
                    toolCallId: "c1",
                    toolName: "look",
                    output: { type: "content", value: [] }
                  }
                ]
              }
            ]
          }).catch(() => {})
        })
        const sent = JSON.stringify(server.hits[0]?.body)
        assert.include(sent, "c1")
        assert.notMatch(sent, /"(?:parts|output)":\[\]|"tool_use_id":"c1","content":\[\]/)
      })
    )
  }
})

describe("the warnings of an attempt that failed", () => {
  it.live("are not those of the answer", () =>
    Effect.gen(function* () {
      const first = yield* start((response) => json(response, 500, { error: { message: "down" } }))
      const second = yield* start((response) => json(response, 200, completion("hello")))
      const chain = Failover.layer([
        // It takes no temperature, which is a warning.
        OpenAi.model("gpt-5", { keys, baseUrl: `${first.url}/v1` }),
        OpenAiCompatible.model({ name: "local", model: "m", keys, baseUrl: `${second.url}/v1` })
      ])
      yield* Effect.promise(async () => {
        await using model = toAiSdk(chain)
        const { text, warnings } = await generateText({ model, temperature: 0.5, prompt: "x" })
        assert.strictEqual(text, "hello")
        assert.deepStrictEqual(warnings, [])
      })
      assert.isAbove(first.hits.length, 0)
      assert.notProperty(first.hits[0]?.body, "temperature")
    })
  )
})
