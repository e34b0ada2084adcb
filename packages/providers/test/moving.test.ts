/** A conversation that moves between providers, at fake servers as strict as the real ones. */
import { assert, describe, it } from "@effect/vitest"
import { Agent, Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { Backoff } from "@outlast/resilience"
import { Effect, Layer, Record, Redacted, Ref, Stream } from "effect"
import { Chat, Prompt } from "effect/ai"
import * as Sweeps from "../../../test/sweeps.ts"
import { Weather } from "./cases.ts"

const WeatherLive = Weather.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })

type Target = (server: FakeProvider.FakeProvider, key: string) => ProviderModel.TargetSpec

const keys = (key: string) => ({ keys: [KeySource.value(key, Redacted.make(`sk-${key}-0123456789`))] })

const claude =
  (id: string, thinking: object): Target =>
  (server, key) =>
    Anthropic.model(id, {
      ...keys(key),
      baseUrl: server.baseUrl("anthropic"),
      // The type of this option depends on the model.
      providerOptions: { thinking } as object
    })

const targets = {
  "sonnet-4-5": claude("claude-sonnet-4-5", { type: "enabled", budgetTokens: 1_024 }),
  "opus-4-5": claude("claude-opus-4-5", { type: "enabled", budgetTokens: 1_024 }),
  "opus-4-6": claude("claude-opus-4-6", { type: "adaptive", display: "summarized" }),
  "opus-5-5": claude("claude-opus-5-5", { type: "adaptive", display: "summarized" }),
  "sonnet-5-5": claude("claude-sonnet-5-5", { type: "adaptive", display: "omitted" }),
  chat: (server, key) => OpenAi.chatModel("gpt-4o", { ...keys(key), baseUrl: server.baseUrl("openai") }),
  responses: (server, key) => OpenAi.model("gpt-5", { ...keys(key), baseUrl: server.baseUrl("openai") }),
  "responses that stores": (server, key) =>
    OpenAi.model("gpt-5", {
      ...keys(key),
      baseUrl: server.baseUrl("openai"),
      providerOptions: { store: true }
    }),
  compatible: (server, key) =>
    OpenAiCompatible.model({
      ...keys(key),
      name: "local",
      baseUrl: server.baseUrl("openai"),
      model: "qwen3"
    }),
  "gemini-3": (server, key) =>
    Google.model("gemini-3-flash", {
      ...keys(key),
      baseUrl: server.baseUrl("google"),
      providerOptions: { thinkingConfig: { includeThoughts: true } }
    }),
  "gemini-3.1": (server, key) =>
    Google.model("gemini-3.1-pro", { ...keys(key), baseUrl: server.baseUrl("google") }),
  "gemini-2.5": (server, key) =>
    Google.model("gemini-2.5-flash", { ...keys(key), baseUrl: server.baseUrl("google") })
} satisfies Record<string, Target>

type Name = keyof typeof targets
// `Object.keys` widens the type of the names.
const names = Object.keys(targets) as ReadonlyArray<Name>
/** One of each wire format, and one that binds its thinking. */
const few: ReadonlyArray<Name> = ["sonnet-4-5", "opus-5-5", "chat", "responses", "gemini-3"]

/** A policy that does not wait between attempts. */
const hasty: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  rows: Record.map(RecoveryPolicy.interactive.rows, (row) => ({ ...row, backoff: Backoff.constant(0) }))
}

const looks = (...cities: ReadonlyArray<string>): FaultPlan.Answer => ({
  reasoning: `I need the weather of ${cities.join(" and ")}.`,
  text: "Let me look.",
  toolCalls: cities.map((city) => ({ name: "weather", params: { city } }))
})

/** A tool loop that contains every hop, followed by a question. */
const planOf = (hops: number): FaultPlan.FaultPlan => ({
  answers: (conversation) => {
    if (conversation.turn === hops) return { reasoning: "Enough.", text: "Sunny everywhere." }
    if (conversation.turn > hops) return { text: "Bye." }
    return conversation.turn % 2 === 0 ? looks("Rome", "Oslo") : looks("Bonn")
  }
})

interface Hop {
  readonly name: Name
  readonly key?: string
}

/** Runs one turn per hop, each at its own chain. Every answer must come from the plan, none from a refusal. */
const walk = (hops: ReadonlyArray<Hop>, streaming: boolean) =>
  Effect.gen(function* () {
    const server = yield* FakeProvider.make({ plan: planOf(hops.length - 2), organisation: (key) => key })
    const chat = yield* Chat.empty
    for (const [i, { name, key = "KEY" }] of hops.entries()) {
      const prompt = i === 0 ? "weather?" : i === hops.length - 1 ? "bye" : []
      const options = { prompt, toolkit: Weather }
      const turn: Effect.Effect<unknown, unknown, any> = streaming
        ? Stream.runDrain(chat.streamText(options))
        : chat.generateText(options)
      // Programs store a conversation as JSON, so the test does, too.
      const history = yield* Ref.get(chat.history)
      yield* Ref.set(chat.history, yield* reloaded(history))
      yield* Effect.provide(turn, Layer.fresh(Failover.layer([targets[name](server, key)])))
    }
    const requests = yield* server.requests
    for (const { outcome } of requests) assert.strictEqual(outcome.type, "answer")
    assert.lengthOf(requests, hops.length)
    for (const { body } of requests) assert.notInclude(JSON.stringify(body), "outlast")
    return { requests, history: yield* Ref.get(chat.history) }
  }).pipe(Effect.provide(WeatherLive), Effect.scoped)

const reloaded = (history: Prompt.Prompt) =>
  Effect.flatMap(Chat.fromPrompt(history), ({ exportJson }) =>
    Effect.flatMap(exportJson, (json) => Effect.flatMap(Chat.fromJson(json), (chat) => Ref.get(chat.history)))
  )

const sent = (body: unknown): string => JSON.stringify(body)

for (const streaming of [false, true]) {
  it.effect(
    `thinking after a nudge is not sent as thinking after the conversation, streaming ${streaming}`,
    () =>
      Effect.gen(function* () {
        const answers = [
          { reasoning: "One.", text: "one" },
          { reasoning: "Two.", text: "two" },
          { reasoning: "Three.", text: "three" }
        ]
        const faults = [{ fault: { type: "status", status: 500 } }] as const
        const server = yield* FakeProvider.make({ plan: { faults, answers } })
        const { rows } = hasty
        const policy = {
          ...hasty,
          rows: { ...rows, ServerError: { ...rows.ServerError, nudge: "Try again." } }
        }
        const chat = yield* Chat.empty
        yield* Effect.gen(function* () {
          for (const prompt of ["first", "second", "third"]) {
            if (streaming) yield* Stream.runDrain(chat.streamText({ prompt }))
            else yield* chat.generateText({ prompt })
          }
        }).pipe(Effect.provide(Failover.layer([targets["opus-5-5"](server, "KEY")], { policy })))
        const bodies = (yield* server.requests).map(({ body }) => sent(body))
        assert.include(bodies[1], "Try again.")
        // The thinking after the nudge is dropped; later thinking is valid and stays.
        assert.notInclude(bodies[3], "One.")
        assert.include(bodies[3], "Two.")
      })
  )

  describe(`a conversation moves in the middle of a tool loop, streaming ${streaming}`, () => {
    const all = streaming ? few : names
    for (const [i, from] of all.entries()) {
      // A walk goes there and back: a run of all tests takes each pair in one order.
      const others = Sweeps.full(all, all.slice(i + 1)).filter(
        // Responses with and without storage is one target: a program does not switch in mid-conversation.
        (to) => to.split(" ")[0] !== from.split(" ")[0]
      )
      if (others.length > 0)
        it.effect(
          `from ${from} to each other target and back (can1357/oh-my-pi#6379, decolua/9router#4136)`,
          () =>
            Effect.forEach(
              others,
              (to) =>
                walk([{ name: from }, { name: to }, { name: from }, { name: to }, { name: from }], streaming),
              { discard: true }
            )
        )

      it.effect(`from ${from} to the key of another organisation and back`, () =>
        walk([{ name: from }, { name: from, key: "OTHER" }, { name: from }, { name: from }], streaming)
      )
    }

    it.effect("around: Anthropic, Responses, Chat, Gemini, Anthropic", () =>
      walk(
        (["opus-5-5", "responses", "chat", "gemini-3", "opus-5-5", "opus-5-5", "sonnet-4-5"] as const).map(
          (name) => ({ name })
        ),
        streaming
      )
    )
  })
}

describe("a conversation that moved keeps", () => {
  it.effect(
    "its own thinking, at the target that comes back; nothing of others (NousResearch/hermes-agent#24401)",
    () =>
      Effect.gen(function* () {
        const { requests } = yield* walk(
          [{ name: "opus-5-5" }, { name: "responses" }, { name: "opus-5-5" }, { name: "responses" }],
          false
        )
        const [, away, back, again] = requests.map(({ body }) => sent(body))
        assert.notMatch(away ?? "", /"encrypted_content":"/)
        assert.notInclude(away, "I need the weather")
        assert.lengthOf(back?.match(/"signature":"./g) ?? [], 1)
        assert.notMatch(back ?? "", /"encrypted_content":"/)
        assert.lengthOf(again?.match(/"encrypted_content":"./g) ?? [], 1)
        assert.notInclude(again, '"signature"')
      })
  )

  it.effect("reasoning for the organisation that made it, and sends it to no other", () =>
    Effect.gen(function* () {
      const { requests } = yield* walk(
        [
          { name: "responses" },
          { name: "responses", key: "OTHER" },
          { name: "responses" },
          { name: "responses" }
        ],
        false
      )
      assert.deepStrictEqual(
        requests.map(({ body }) => sent(body).match(/"encrypted_content":"./g)?.length ?? 0),
        [0, 0, 1, 2]
      )
    })
  )

  it.effect("a thinking budget, which applies again after the loop that others began", () =>
    Effect.gen(function* () {
      const { requests } = yield* walk(
        [{ name: "gemini-3" }, { name: "sonnet-4-5" }, { name: "sonnet-4-5" }, { name: "sonnet-4-5" }],
        false
      )
      assert.deepStrictEqual(
        requests.slice(1).map(({ body }) => (body as { thinking?: { type: string } }).thinking?.type),
        ["disabled", "enabled", "enabled"]
      )
    })
  )

  it.effect("calls of other models, which reach Gemini 3 with a placeholder signature", () =>
    Effect.gen(function* () {
      const { requests } = yield* walk(
        [{ name: "chat" }, { name: "gemini-3" }, { name: "gemini-3.1" }, { name: "gemini-3" }],
        false
      )
      const [, first, other] = requests.map(({ body }) => sent(body))
      assert.lengthOf(first?.match(/skip_thought_signature_validator/g) ?? [], 1)
      assert.lengthOf(other?.match(/skip_thought_signature_validator/g) ?? [], 2)
    })
  )
})

describe("a conversation with an answer that was cut and continued", () => {
  // The continuing model saw a nudge that the conversation does not have, so thinking bound to its prompt
  // is invalid there (griffinmartin/opencode-claude-auth PR #263).
  const pairs: ReadonlyArray<readonly [Name, Name]> = [
    ["opus-5-5", "sonnet-5-5"],
    ["sonnet-4-5", "opus-5-5"],
    ["gemini-3", "opus-5-5"],
    ["responses", "sonnet-4-5"],
    ["opus-5-5", "responses"],
    ["chat", "gemini-3"]
  ]
  for (const [cut, next] of pairs) {
    it.effect(`by ${cut}, continued by ${next}, is accepted by both`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({
          plan: {
            // A failure without a wait.
            faults: [
              {
                fault: {
                  type: "stream-error",
                  after: 9,
                  error: { type: "authentication_error", message: "invalid x-api-key" }
                }
              }
            ],
            answers: [
              {
                // Seven deltas, and two of text.
                reasoning: "I need the weather of Rome now.",
                text: "Let me look at the weather in Rome.",
                toolCalls: [{ name: "weather", params: { city: "Rome" } }]
              },
              looks("Bonn"),
              looks("Oslo"),
              { text: "Sunny." }
            ]
          }
        })
        const chat = yield* Chat.empty
        const turn = (prompt: string | [], ...chain: readonly [Name, ...Array<Name>]) => {
          const [first, ...rest] = chain.map((name) => targets[name](server, "KEY"))
          assert(first !== undefined)
          return Stream.runCollect(chat.streamText({ prompt, toolkit: Weather })).pipe(
            Effect.provide(Layer.fresh(Failover.layer([first, ...rest])))
          )
        }
        yield* turn("weather?", cut, next)
        yield* turn([], next)
        yield* turn([], cut)
        yield* turn([], next)
        const outcomes = (yield* server.requests).map(({ outcome }) => outcome.type)
        assert.deepStrictEqual(outcomes, ["fault", "answer", "answer", "answer", "answer"])
        assert.include(JSON.stringify((yield* Ref.get(chat.history)).content[1]), '"continued":true')
      }).pipe(Effect.provide(WeatherLive), Effect.scoped)
    )
  }
})

it.effect(
  "an agent's run survives the loss of its model in mid-loop, and so does a run from its transcript",
  () =>
    Effect.gen(function* () {
      const refused = { type: "status", status: 401 } as const
      const server = yield* FakeProvider.make({
        plan: {
          // The second turn loses Claude.
          faults: [{ when: { provider: "anthropic" }, skip: 1, times: "always", fault: refused }],
          answers: [
            looks("Rome"),
            looks("Bonn"),
            { reasoning: "Enough.", text: "Sunny." },
            looks("Oslo"),
            { text: "Bye." }
          ]
        }
      })
      const chain = Failover.layer([
        targets["opus-5-5"](server, "KEY"),
        targets["gemini-3"](server, "KEY"),
        targets.responses(server, "KEY")
      ])
      const first = yield* Agent.run({ prompt: "weather?", toolkit: Weather }).pipe(Effect.provide(chain))
      assert.deepStrictEqual([first.status, first.text, first.turns], ["completed", "Sunny.", 3])
      const prompt = [...first.transcript.prompt.content, ...Prompt.make("and Oslo?").content]
      const second = yield* Agent.run({ prompt, toolkit: Weather }).pipe(
        Effect.provide(Layer.fresh(Failover.layer([targets.responses(server, "KEY")])))
      )
      assert.deepStrictEqual([second.status, second.text], ["completed", "Bye."])
      const outcomes = (yield* server.requests).map(({ outcome }) => outcome.type)
      assert.deepStrictEqual(outcomes, ["answer", "fault", "answer", "answer", "answer", "answer"])
    }).pipe(Effect.provide(WeatherLive), Effect.scoped)
)
