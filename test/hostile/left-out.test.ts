/** Requests that a server refuses because of a part that they can do without: thinking, images, a budget, an id. */
import { assert, describe, it } from "@effect/vitest"
import { Agent, Failover, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import { Anthropic, Google, OpenAi, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { generateText } from "ai"
import { Effect, Layer, Redacted, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { ServerResponse } from "node:http"
import { policy } from "../services/Hasty.ts"
import * as RawServer from "./RawServer.ts"
import { json, start } from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const keys = [KeySource.value("KEY", Redacted.make("sk-0123456789abcdef"))]
const info = { wholeAnswers: "request" } as const

/** Runs a program over a chain of one target, and returns the tags of its events, too. */
const over = <A, E>(
  program: Effect.Effect<A, E, LanguageModel.LanguageModel>,
  target: ProviderModel.TargetSpec
) =>
  Effect.gen(function* () {
    const events: Array<string> = []
    const log = ResilienceEvents.layerHandler(({ _tag }) => Effect.sync(() => void events.push(_tag)))
    const value = yield* program.pipe(
      Effect.provide(Failover.layer([target], { policy }).pipe(Layer.provideMerge(log)))
    )
    return { value, events }
  })

/** Turns of one conversation; each answer is added to it. */
const talk = (begin: Prompt.Prompt, turns: ReadonlyArray<Prompt.RawInput>) =>
  Effect.gen(function* () {
    let prompt = begin
    const texts: Array<string> = []
    for (const turn of turns) {
      prompt = Prompt.concat(prompt, Prompt.make(turn))
      const answer = yield* LanguageModel.generateText({ prompt })
      texts.push(answer.text)
      prompt = Prompt.concat(prompt, Prompt.fromResponseParts(answer.content))
    }
    return texts
  })

// -----------------------------------------------------------------------------
// Thinking
// -----------------------------------------------------------------------------

const responsesAnswer = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: "gpt-5.1",
  error: null,
  incomplete_details: null,
  output: [
    {
      id: "rs_1",
      type: "reasoning",
      summary: [{ type: "summary_text", text: "Hm." }],
      encrypted_content: "gAAA"
    },
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "ok", annotations: [] }]
    }
  ],
  usage: { input_tokens: 5, output_tokens: 4, total_tokens: 9 }
}
const claudeAnswer = {
  ...RawServer.claude.start.message,
  content: [
    { type: "thinking", thinking: "Hm.", signature: "c2ln" },
    { type: "text", text: "ok" }
  ],
  stop_reason: "end_turn"
}
const geminiAnswer = {
  candidates: [
    {
      content: { role: "model", parts: [{ text: "ok", thoughtSignature: "c2ln" }] },
      finishReason: "STOP",
      index: 0
    }
  ],
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 4, totalTokenCount: 9 }
}
const plainAnswer = (message: object) => ({
  id: "c1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "ok", ...message }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 }
})
const openaiError = (message: string, code: string | null = null) => ({
  error: { message, type: "invalid_request_error", param: null, code }
})
const claudeError = (message: string) => ({
  type: "error",
  error: { type: "invalid_request_error", message }
})

const thinkers = {
  responses: {
    target: (url: string) => OpenAi.model("gpt-5.1", { keys, info, baseUrl: `${url}/v1` }),
    answer: responsesAnswer,
    thinks: /rs_1|msg_1|encrypted_content":"|"type":"reasoning"/,
    refusals: [
      [400, openaiError("The encrypted content gAAA could not be verified.", "invalid_encrypted_content")],
      [
        400,
        openaiError(
          "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."
        )
      ],
      [
        404,
        openaiError("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.")
      ],
      [
        400,
        openaiError("Invalid 'input[1].id': 'rs_1'. Expected an ID that begins with 'msg'.", "invalid_value")
      ]
    ]
  },
  anthropic: {
    target: (url: string) =>
      Anthropic.model("claude-sonnet-4-5", {
        keys,
        info,
        baseUrl: `${url}/v1`,
        providerOptions: { thinking: { type: "enabled", budgetTokens: 2_000 } }
      }),
    answer: claudeAnswer,
    thinks: /"signature"/,
    refusals: [
      [400, claudeError("messages.1.content.0: Invalid `signature` in `thinking` block")],
      [
        400,
        claudeError(
          "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        )
      ]
    ]
  },
  google: {
    target: (url: string) => Google.model("gemini-2.5-pro", { keys, info, baseUrl: `${url}/v1beta` }),
    answer: geminiAnswer,
    thinks: /"thoughtSignature"/,
    refusals: [
      [400, { error: { code: 400, status: "INVALID_ARGUMENT", message: "Corrupted thought signature." } }]
    ]
  },
  compatible: {
    target: (url: string) =>
      OpenAiCompatible.model({ name: "local", model: "m", keys, info, baseUrl: `${url}/v1` }),
    answer: plainAnswer({ reasoning_content: "Hm." }),
    thinks: /reasoning_content/,
    refusals: [[422, openaiError("messages.1.assistant.reasoning_content: Extra inputs are not permitted")]]
  }
} as const

/** The same answer with thinking and signatures of its own. */
const nth = (answer: object, n: number): object =>
  JSON.parse(JSON.stringify(answer).replace(/Hm|gAAA|c2ln/g, (all) => all + btoa(String(100 + n))))

describe("thinking that its own provider refuses (openai/codex#8119)", () => {
  for (const [vendor, { target, answer, thinks, refusals }] of Object.entries(thinkers)) {
    for (const [status, refusal] of refusals) {
      it.live(
        `is left out once, and later turns take one request: ${vendor}, ${JSON.stringify(refusal).slice(0, 90)}`,
        () =>
          Effect.gen(function* () {
            const server = yield* start((response, { body }, n) =>
              thinks.test(JSON.stringify(body.messages ?? body.input ?? body.contents))
                ? json(response, status, refusal)
                : json(response, 200, nth(answer, n))
            )
            const { value, events } = yield* over(
              talk(Prompt.empty, ["one", "two", "three", "four"]),
              target(server.url)
            )
            assert.deepStrictEqual(value, ["ok", "ok", "ok", "ok"])
            // The second turn is refused once.
            assert.strictEqual(server.hits.length, 5)
            assert.strictEqual(events.filter((tag) => tag === "ThinkingDropped").length, 3)
          })
      )
    }
  }

  it.live("stays in the conversation when the request is refused without it, too", () =>
    Effect.gen(function* () {
      const { target, answer, refusals } = thinkers.anthropic
      const server = yield* start((response, _, n) =>
        n === 1 || n === 2 ? json(response, ...refusals[0]) : json(response, 200, answer)
      )
      const first = yield* over(
        Effect.gen(function* () {
          const begin = Prompt.make("one")
          const one = yield* LanguageModel.generateText({ prompt: begin })
          const prompt = Prompt.concat(begin, Prompt.fromResponseParts(one.content)).pipe(
            Prompt.concat("two")
          )
          const failed = yield* Effect.flip(LanguageModel.generateText({ prompt }))
          yield* LanguageModel.generateText({ prompt })
          return failed.message
        }),
        target(server.url)
      )
      assert.include(first.value, "Invalid `signature`")
      assert.deepStrictEqual(
        server.hits.map(({ body }) => JSON.stringify(body).includes("signature")),
        [false, true, false, true]
      )
    })
  )
})

// -----------------------------------------------------------------------------
// Images
// -----------------------------------------------------------------------------

const pixel = Uint8Array.from(
  atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="),
  (char) => char.charCodeAt(0)
)
const image = (name: string): Prompt.UserMessageEncoded => ({
  role: "user",
  content: [
    { type: "text", text: name },
    // Another length for each name, so that the images differ.
    {
      type: "file",
      mediaType: "image/png",
      data: Uint8Array.from([...pixel, ...new TextEncoder().encode(name)])
    }
  ]
})
const said = (text: string): Prompt.MessageEncoded => ({
  role: "assistant",
  content: [{ type: "text", text }]
})

const seers = {
  anthropic: {
    target: (url: string) => Anthropic.model("claude-opus-4-8", { keys, info, baseUrl: `${url}/v1` }),
    refusal: claudeError(
      "messages.3.content.0.image.source.base64: The image was specified using the image/jpeg media type, but the image appears to be a image/png image"
    )
  },
  chat: {
    target: (url: string) => OpenAi.chatModel("gpt-4.1", { keys, info, baseUrl: `${url}/v1` }),
    refusal: openaiError("You uploaded an unsupported image.", "invalid_image_format")
  },
  responses: {
    target: (url: string) => OpenAi.model("gpt-4.1", { keys, info, baseUrl: `${url}/v1` }),
    refusal: openaiError("The image data you provided does not represent a valid image.")
  },
  google: {
    target: (url: string) => Google.model("gemini-2.5-flash", { keys, info, baseUrl: `${url}/v1beta` }),
    refusal: { error: { code: 400, status: "INVALID_ARGUMENT", message: "Provided image is not valid." } }
  },
  compatible: {
    target: (url: string) =>
      OpenAiCompatible.model({ name: "local", model: "m", keys, info, baseUrl: `${url}/v1` }),
    refusal: { code: "Client specified an invalid argument", error: "The picture has too few pixels." }
  }
} as const

const hasImage = /"type":"(?:image|image_url|input_image)"|inlineData/

describe("images that a provider refuses", () => {
  for (const [vendor, { target, refusal }] of Object.entries(seers)) {
    it.live(`become notes, in later turns without another refusal: ${vendor}`, () =>
      Effect.gen(function* () {
        const server = yield* start((response, hit) =>
          hasImage.test(JSON.stringify(hit.body))
            ? json(response, 400, refusal)
            : Replies.send[vendor as keyof typeof seers]({
                text: "ok",
                end: Replies.ends[vendor as keyof typeof seers].stop,
                tokens: 3
              })(response, hit)
        )
        const begin = Prompt.make([image("a"), said("I see."), image("bb"), said("I see.")])
        const turns: ReadonlyArray<Prompt.RawInput> = [
          "and?",
          "and?",
          [image("ccc")],
          [image("dddd")],
          "and?"
        ]
        const { value, events } = yield* over(talk(begin, turns), target(server.url))
        assert.deepStrictEqual(value, ["ok", "ok", "ok", "ok", "ok"])
        // Refused: the first turn, and each new image.
        assert.strictEqual(server.hits.length, 8)
        // One for each refusal, and one for each later turn.
        assert.strictEqual(events.filter((tag) => tag === "MediaDropped").length, 7)
      })
    )
  }

  it.live("are left out together when the provider counts all of them", () =>
    Effect.gen(function* () {
      const server = yield* start((response, { body }) => {
        const images = JSON.stringify(body).split('"type":"image"').length - 1
        return images > 2
          ? json(response, 400, claudeError(`messages: too many images and documents: ${images} + 0 > 2`))
          : json(response, 200, claudeAnswer)
      })
      const begin = Prompt.make([image("a"), said("I see."), image("bb"), said("I see.")])
      const { value } = yield* over(
        talk(begin, [[image("ccc")], [image("dddd")], [image("eeeee")]]),
        seers.anthropic.target(server.url)
      )
      assert.deepStrictEqual(value, ["ok", "ok", "ok"])
      assert.strictEqual(server.hits.length, 4)
    })
  )

  it.live("are left out one by one, then all, where the words do not say which", () =>
    Effect.gen(function* () {
      const server = yield* start((response, { body }) =>
        hasImage.test(JSON.stringify(body))
          ? json(response, 413, openaiError("Payload Too Large"))
          : json(response, 200, plainAnswer({}))
      )
      const begin = Prompt.make([image("a"), said("I see."), image("bb")])
      const { value } = yield* over(talk(begin, ["and?", "and?"]), seers.compatible.target(server.url))
      assert.deepStrictEqual(value, ["ok", "ok"])
      assert.strictEqual(server.hits.length, 3)
    })
  )
})

// -----------------------------------------------------------------------------
// Output limit
// -----------------------------------------------------------------------------

/** Claude with a window of 200,000 tokens, after 188,240 of input. */
const full = start((response, hit) => {
  const { max_tokens, thinking } = hit.body
  const budget = thinking?.type === "enabled" ? thinking.budget_tokens : 0
  if (max_tokens <= budget) {
    return json(response, 400, claudeError("`max_tokens` must be greater than `thinking.budget_tokens`."))
  }
  return 188_240 + max_tokens > 200_000
    ? json(
        response,
        400,
        claudeError(
          `input length and \`max_tokens\` exceed context limit: 188240 + ${max_tokens} > 200000, decrease input length or \`max_tokens\` and try again`
        )
      )
    : Replies.send.anthropic({ text: "ok", end: "end_turn", tokens: 3 })(response, hit)
})

const on = (budgetTokens: number) => ({ thinking: { type: "enabled" as const, budgetTokens } })

const thinking = (url: string, budgetTokens: number, model = "claude-sonnet-4-5") =>
  Anthropic.model(model, { keys, baseUrl: `${url}/v1`, providerOptions: on(budgetTokens) })

describe("an output limit and a thinking budget (mirrorange/clove#39)", () => {
  for (const budget of [1_024, 8_000, 32_000]) {
    it.live(`are one sum when the provider lowers the limit: a budget of ${budget}`, () =>
      Effect.gen(function* () {
        const server = yield* full
        const { value } = yield* over(
          Effect.map(LanguageModel.generateText({ prompt: "x" }), ({ text }) => text),
          thinking(server.url, budget)
        )
        assert.strictEqual(value, "ok")
        assert.strictEqual(server.hits.length, 2)
        const { max_tokens, thinking: sent } = server.hits[1]?.body ?? {}
        assert.strictEqual(max_tokens, 10_760)
        assert.strictEqual(sent.budget_tokens, Math.min(budget, 7_760))
      })
    )
  }

  it.live("are one sum for a limit of the program, and thinking is left out where it cannot fit", () =>
    Effect.gen(function* () {
      const server = yield* full
      const at = (limit: number) =>
        Effect.provideService(LanguageModel.generateText({ prompt: "x" }), OutputLimit.OutputLimit, limit)
      // An unlisted name, for which the client knows no limit.
      yield* over(Effect.all([at(8_000), at(4_000), at(1_500)]), thinking(server.url, 4_000, "claude-x"))
      assert.deepStrictEqual(
        server.hits.map(({ body }) => [body.max_tokens, body.thinking.budget_tokens]),
        [
          [8_000, 4_000],
          [4_000, 2_000],
          [1_500, undefined]
        ]
      )
    })
  )

  /** Cases by where the AI SDK's call gets its budget: options of the target and the call, and what is sent. */
  const separate = {
    "options of the call": [
      {},
      { maxOutputTokens: 2_000, providerOptions: { anthropic: on(4_000) } },
      [[6_000, 4_000]]
    ],
    "options of the target": [{ providerOptions: on(4_000) }, { maxOutputTokens: 4_000 }, [[8_000, 4_000]]],
    "its effort": [{}, { maxOutputTokens: 4_000, reasoning: "low" }, [[10_400, 6_400]]],
    "its effort, and a limit that the provider lowers": [
      {},
      { maxOutputTokens: 12_000, reasoning: "medium" },
      [
        [31_200, 19_200],
        [10_760, 7_760]
      ]
    ],
    "its options, and a room that is larger than its own limit": [
      {},
      { maxOutputTokens: 4_000, providerOptions: { anthropic: on(16_000) } },
      [
        [20_000, 16_000],
        [10_760, 7_760]
      ]
    ]
  } as const
  for (const [name, [target, options, sent]] of Object.entries(separate)) {
    it.live(`are separate for a call of the AI SDK, with a budget by ${name}`, () =>
      Effect.gen(function* () {
        const server = yield* full
        const claude = Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: `${server.url}/v1`, ...target })
        const model = toAiSdk(Failover.layer([claude], { policy }))
        yield* Effect.promise(() => generateText({ model, prompt: "x", ...options }))
        yield* Effect.promise(() => model.dispose())
        assert.deepStrictEqual<ReadonlyArray<ReadonlyArray<number>>>(
          server.hits.map(({ body }) => [body.max_tokens, body.thinking.budget_tokens]),
          sent
        )
      })
    )
  }

  it.live("hold for the model that refused them: the next one gets the limit of the call", () =>
    Effect.gen(function* () {
      const first = yield* start((response, { body }) =>
        body.max_tokens > 10_760
          ? json(
              response,
              400,
              claudeError(
                `input length and \`max_tokens\` exceed context limit: 188240 + ${body.max_tokens} > 200000`
              )
            )
          : json(response, 529, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } })
      )
      const second = yield* start((response) => json(response, 200, plainAnswer({})))
      const model = toAiSdk(
        Failover.layer(
          [
            Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: `${first.url}/v1` }),
            OpenAiCompatible.model({ name: "local", model: "m", keys, info, baseUrl: `${second.url}/v1` })
          ],
          { policy }
        )
      )
      const options = { maxOutputTokens: 4_000, providerOptions: { anthropic: on(16_000) } }
      const { text } = yield* Effect.promise(() => generateText({ model, prompt: "x", ...options }))
      yield* Effect.promise(() => model.dispose())
      assert.strictEqual(text, "ok")
      assert.deepStrictEqual([...new Set(first.hits.map(({ body }) => body.max_tokens))], [20_000, 10_760])
      assert.deepStrictEqual(
        second.hits.map(({ body }) => body.max_tokens),
        [4_000]
      )
    })
  )

  it.live("are named apart when even the conversation does not fit", () =>
    Effect.gen(function* () {
      const server = yield* start((response, { body }) =>
        json(
          response,
          400,
          claudeError(
            `input length and \`max_tokens\` exceed context limit: 199000 + ${body.max_tokens} > 200000, decrease input length or \`max_tokens\` and try again`
          )
        )
      )
      const { value } = yield* over(
        Effect.flip(LanguageModel.generateText({ prompt: "x" })),
        thinking(server.url, 2_000)
      )
      assert.include(
        value.message,
        "the conversation (199000 tokens) and the output limit (64000 tokens) are larger than the window (200000 tokens)"
      )
    })
  )

  it.live("leave room for an answer of Gemini, down to the smallest budget that it accepts", () =>
    Effect.gen(function* () {
      const server = yield* start(Replies.send.google({ text: "ok", end: "STOP", tokens: 3 }))
      const target = Google.model("gemini-2.5-pro", {
        keys,
        baseUrl: `${server.url}/v1beta`,
        providerOptions: { thinkingConfig: { thinkingBudget: 20_000 } }
      })
      const at = (limit: number) =>
        Effect.provideService(LanguageModel.generateText({ prompt: "x" }), OutputLimit.OutputLimit, limit)
      yield* over(Effect.all([at(8_000), at(200)]), target)
      assert.deepStrictEqual(
        server.hits.map(({ body: { generationConfig: sent } }) => [
          sent.maxOutputTokens,
          sent.thinkingConfig.thinkingBudget
        ]),
        [
          [8_000, 5_000],
          // Gemini refuses a budget of 100.
          [200, 512]
        ]
      )
    })
  )

  it.live("leave room for an answer of Gemini, also where an effort is meant", () =>
    Effect.gen(function* () {
      const server = yield* start(Replies.send.google({ text: "ok", end: "STOP", tokens: 3 }))
      const target = Google.model("gemini-2.5-pro", {
        keys,
        baseUrl: `${server.url}/v1beta`,
        settings: { reasoning: "high" }
      })
      const at = (limit: number) =>
        Effect.provideService(LanguageModel.generateText({ prompt: "x" }), OutputLimit.OutputLimit, limit)
      yield* over(Effect.all([at(8_000), at(32_000), at(60_000)]), target)
      assert.deepStrictEqual(
        server.hits.map(({ body: { generationConfig: sent } }) => sent.thinkingConfig.thinkingBudget),
        [5_000, 24_576, 32_768]
      )
    })
  )
})

// -----------------------------------------------------------------------------
// Mistral
// -----------------------------------------------------------------------------

/** The refusal of Mistral's own checks, if there is one. */
const mistralProblem = (messages: ReadonlyArray<any>): string | undefined => {
  const ids = messages.flatMap((each) => [
    each.tool_call_id,
    ...(each.tool_calls ?? []).map((own: any) => own.id)
  ])
  const bad = ids.find((id) => id !== undefined && !/^[a-zA-Z0-9]{9}$/.test(id))
  if (bad !== undefined) return `Tool call id was ${bad} but must be a-z, A-Z, 0-9, with a length of 9.`
  if (messages.some((each) => "reasoning_content" in each)) return "Extra inputs are not permitted"
  if (messages.some((each, i) => each.role === "user" && messages[i - 1]?.role === "tool"))
    return "Unexpected role 'user' after role 'tool'"
  return messages.at(-1).role === "assistant"
    ? "Expected last role User or Tool but got assistant"
    : undefined
}

describe("a conversation of another model at Mistral", () => {
  it.live("has ids of nine letters and digits, no thinking, and an answer between results and a user", () =>
    Effect.gen(function* () {
      const server = yield* start((response, { body }) => {
        const problem = mistralProblem(body.messages)
        return problem === undefined
          ? json(response, 200, plainAnswer({}))
          : json(response, 400, { object: "error", message: problem, type: "invalid_request_error" })
      })
      const call = (id: string) => ({ type: "tool-call" as const, id, name: "look", params: {} })
      const result = (id: string) => ({
        type: "tool-result" as const,
        id,
        name: "look",
        isFailure: false,
        result: id
      })
      const prompt = Prompt.make([
        { role: "user", content: [{ type: "text", text: "x" }] },
        {
          role: "assistant",
          content: [{ type: "reasoning", text: "Hm." }, call("toolu_01"), call("toolu_02"), call("abcdefghi")]
        },
        { role: "tool", content: [result("toolu_01"), result("toolu_02"), result("abcdefghi")] },
        { role: "user", content: [{ type: "text", text: "Go on." }] },
        said("As I began")
      ])
      const target = OpenAiCompatible.model({
        name: "mistral",
        model: "mistral-large-latest",
        keys,
        info,
        baseUrl: `${server.url}/v1`
      })
      const { value } = yield* over(LanguageModel.generateText({ prompt }), target)
      assert.strictEqual(value.text, "ok")
      assert.strictEqual(server.hits.length, 1)
      const sent = server.hits[0]?.body.messages
      const ids = sent.flatMap((each: any) => each.tool_call_id ?? [])
      assert.strictEqual(new Set(ids).size, 3)
      assert.strictEqual(ids[2], "abcdefghi")
    })
  )
})

// -----------------------------------------------------------------------------
// Results of one turn
// -----------------------------------------------------------------------------

const Kit = Toolkit.make(
  Tool.make("read", {
    description: "Reads.",
    parameters: Schema.Struct({ n: Schema.Finite }),
    success: Schema.String
  })
)
const words = (seed: string, length: number) =>
  Array.from({ length: length / 6 }, (_, i) => `${seed}${(i * 7919) % 1009}`)
    .join(" ")
    .slice(0, length)

describe("results of one turn that only fit one by one (openclaw/openclaw#113701)", () => {
  for (const isKnown of [true, false]) {
    it.live(`are cut together, the largest first: the window is ${isKnown ? "known" : "learned"}`, () =>
      Effect.gen(function* () {
        const window = 16_384
        const server = yield* start((response: ServerResponse, { body }) => {
          const size = JSON.stringify(body).length / 3.2
          if (size > window) {
            return json(
              response,
              400,
              openaiError(
                `This model's maximum context length is ${window} tokens. However, your messages resulted in ${Math.round(size)} tokens.`,
                "context_length_exceeded"
              )
            )
          }
          const results = body.messages.filter((each: any) => each.role === "tool")
          const calls = Array.from({ length: 7 }, (_, n) => ({
            id: `call_${n}`,
            type: "function",
            function: { name: "read", arguments: JSON.stringify({ n }) }
          }))
          return json(
            response,
            200,
            results.length > 0 ? plainAnswer({}) : plainAnswer({ content: null, tool_calls: calls })
          )
        })
        const compaction = isKnown ? { window } : {}
        const { value } = yield* over(
          Agent.run({ prompt: "Read all.", toolkit: Kit, compaction }).pipe(
            // One short result among long ones.
            Effect.provide(
              Kit.toLayer({ read: ({ n }) => Effect.succeed(n === 3 ? "short" : words(`w${n}`, 30_000)) })
            )
          ),
          OpenAiCompatible.model({ name: "local", model: "m", keys, info, baseUrl: `${server.url}/v1` })
        )
        assert.strictEqual(value.text, "ok")
        assert.isAtMost(server.hits.length, 3)
        const sent = server.hits.at(-1)?.body.messages.filter((each: any) => each.role === "tool")
        assert.strictEqual(sent.length, 7)
        assert.strictEqual(sent[3].content, "short")
        for (const [n, { content }] of sent.entries())
          if (n !== 3) assert.match(content, new RegExp(`^w${n}`))
      })
    )
  }
})
