/** Promises of claw0 that no other test shows. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Compaction, Failover, Presets, RecoveryPolicy, Targets } from "@outlast/agent"
import { Vocabulary } from "@outlast/agent/presets"
import { ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import {
  always,
  ask,
  classified,
  failureOf,
  key,
  logged,
  model,
  recorded,
  status,
  timesOf
} from "./support.ts"

const { claw0 } = Presets
const names = ["MAIN", "BACKUP", "EMERGENCY"]
const profiles = { keys: names.map(key) }
const at = (name: string) => ({ key: `secret-of-${name}` })

const longPrompt = Prompt.make(
  Array.from({ length: 25 }, (_, n) => ({
    role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
    content: `${n} ${"x".repeat(2_000)}`
  }))
)
const long = LanguageModel.generateText({ prompt: longPrompt })

describe("the classes", () => {
  const classOf = (text: string) => Vocabulary.claw0(classified(text).reason)
  const texts: ReadonlyArray<readonly [string, string, ReadonlyArray<string>]> = [
    ["004-cls-rate", "rate_limit", ["Error code: 429 -- rate limit exceeded", "429", "rate limit"]],
    [
      "004-cls-auth",
      "auth",
      ["Error code: 401 -- authentication failed, invalid API key", "401", "invalid key"]
    ],
    ["004-cls-timeout", "timeout", ["Request timed out after 30s", "timeout"]],
    ["004-cls-billing", "billing", ["Error code: 402 -- billing quota exceeded", "billing", "402"]],
    ["004-cls-overflow", "overflow", ["context window token overflow, too many tokens", "context overflow"]],
    ["004-cls-unknown", "unknown", ["unexpected internal server error", "the dog ate it"]]
  ]
  for (const [id, expected, said] of texts) {
    it(`${id}: ${expected}, from the document's own sentences`, () => {
      assert.deepStrictEqual(
        said.map((text) => [text, classOf(text)]),
        said.map((text) => [text, expected])
      )
    })
  }

  it("004-cls-rate, 004-cls-auth, 004-cls-overflow: a word that is part of another sentence decides nothing", () => {
    const bare = ["failed to generate", "the keyword is missing", "unexpected token in template"]
    assert.deepStrictEqual(bare.map(classOf), ["unknown", "unknown", "unknown"])
  })
})

describe("the class of a failure", () => {
  const moved = (reason: string, seconds: number) => ({
    asked: ["MAIN", "BACKUP"],
    said: [`Info: profile MAIN: ${reason}, cools down for ${seconds}s`]
  })
  const layers: ReadonlyArray<readonly [string, FaultPlan.Fault, ReturnType<typeof moved>]> = [
    ["rate_limit", status(429), moved("rate_limit", 120)],
    ["auth", status(401), moved("auth", 300)],
    ["timeout", status(408), moved("timeout", 60)],
    ["billing", status(402), moved("billing", 300)],
    [
      "overflow",
      status(413),
      { asked: ["MAIN", "MAIN"], said: ["Info: context overflow: compacting and trying again"] }
    ],
    ["unknown", status(500), moved("unknown", 120)]
  ]
  for (const [reason, fault, expected] of layers) {
    it.effect(`004-reason-six: ${reason} is handled by its layer`, () =>
      Effect.gen(function* () {
        const log = logged()
        const target = yield* model("anthropic", "m1", [{ when: at("MAIN"), fault }], {
          ...profiles,
          info: { contextWindow: 20_000 }
        })
        const summariser = { model: yield* Failover.make([yield* model("anthropic", "small")]) }
        yield* long.pipe(Effect.provide(claw0.layer([target], { summariser })), Effect.provide(log.layer))
        const asked = (yield* target.requests).map(({ key }) => key?.slice(10))
        // Warnings for operators are in the same log.
        const said = log.lines.filter((line) => line.startsWith("Info: "))
        assert.deepStrictEqual({ asked, said }, expected)
      }).pipe(Effect.scoped)
    )
  }
})

describe("profiles", () => {
  it.effect("004-profile-good: know when they last succeeded, each for itself", () =>
    Effect.gen(function* () {
      const target = yield* model(
        "anthropic",
        "m1",
        [{ when: at("MAIN"), skip: 1, fault: status(401) }],
        profiles
      )
      const good = yield* Effect.gen(function* () {
        yield* TestClock.adjust("10 seconds")
        yield* ask
        yield* TestClock.adjust("10 seconds")
        yield* ask
        const all = yield* Effect.flatMap(Targets.Targets, ({ list }) => list)
        return all.map(({ target, lastSuccessAt }) => [target.key, lastSuccessAt])
      }).pipe(Effect.provide(claw0.layer([target])))
      assert.deepStrictEqual(good, [
        ["MAIN", 10_000],
        ["BACKUP", 20_000],
        ["EMERGENCY", undefined]
      ])
    })
  )

  it("004-cool-default: cool down for 300 s where the document names no time", () => {
    const { auth } = claw0.policy.rows
    assert.deepStrictEqual(auth.cooldown?.initial, claw0.defaultCooldown)
    assert.strictEqual(String(claw0.defaultCooldown), "300000 millis")
  })
})

describe("the onion", () => {
  const tooLong: FaultPlan.Fault = {
    type: "status",
    status: 400,
    body: { type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } }
  }

  it.effect("004-arch-compact-0-2: compacts up to three times at each target", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const small = yield* model("anthropic", "m1", [always(tooLong)], { info: { contextWindow: 20_000 } })
      const large = yield* model("anthropic", "m2", [always(tooLong)], { info: { contextWindow: 40_000 } })
      let left = 20
      const compact = () => Effect.sync(() => Prompt.make("word ".repeat(left--)))
      yield* Effect.exit(long).pipe(
        Effect.provide(Failover.layer([small, large], { policy: claw0.policy, compact })),
        Effect.provide(layer)
      )
      const targets = of("CallCompacting").map(({ target }) => target.model)
      assert.deepStrictEqual(targets, ["m1", "m1", "m1", "m2", "m2", "m2"])
    })
  )

  it.effect("004-onion: rotates keys, compacts what is too long, and runs tools in a loop", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const look = Tool.make("look", {
        parameters: Schema.Struct({ q: Schema.String }),
        success: Schema.String
      })
      const Kit = Toolkit.make(look)
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m1",
        plan: {
          answers: [{ toolCalls: [{ name: "look", params: { q: "a" } }] }, { text: "done" }],
          faults: [{ when: at("MAIN"), fault: status(429) }]
        },
        ...profiles
      })
      const outcome = yield* claw0
        .agent({ prompt: "Look.", toolkit: Kit })
        .pipe(
          Effect.provide(claw0.layer([target])),
          Effect.provide([layer, Kit.toLayer({ look: () => Effect.succeed("seen") })])
        )
      assert.deepInclude(outcome, { status: "completed", text: "done", turns: 2 })
      assert.deepStrictEqual(
        of("CooldownOpened").map(({ target }) => target.key),
        ["MAIN"]
      )
    })
  )

  it.effect(
    "004-run-messages: sends the caller's messages to each key, and the compacted ones to the next",
    () =>
      Effect.gen(function* () {
        const target = yield* model(
          "anthropic",
          "m1",
          [
            { when: at("MAIN"), fault: status(429) },
            { when: at("BACKUP"), times: 1, fault: tooLong },
            { when: at("BACKUP"), times: 1, fault: status(429) }
          ],
          { ...profiles, info: { contextWindow: 20_000 } }
        )
        const compact = () => Effect.succeed(Prompt.make("shorter"))
        yield* long.pipe(Effect.provide(Failover.layer([target], { policy: claw0.policy, compact })))
        const sent = (yield* target.requests).map(({ key, prompt }) => [
          key?.slice(10),
          prompt.content.length
        ])
        assert.deepStrictEqual(sent, [
          ["MAIN", 25],
          ["BACKUP", 25],
          ["BACKUP", 1],
          ["EMERGENCY", 1]
        ])
      })
  )

  describe("004-run-result: returns the result and the updated messages", () => {
    const Kit = Toolkit.make(
      Tool.make("look", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
    )
    const tools = Kit.toLayer({ look: () => Effect.succeed("seen") })
    /** A model that calls the tool in the turn behind this number of assistant messages. */
    const calling = (fault: FaultPlan.Step, messages: number) =>
      ScriptedModel.make({
        provider: "anthropic",
        model: "m1",
        plan: {
          answers: ({ turn }) =>
            turn === messages ? { toolCalls: [{ name: "look", params: { q: "a" } }] } : { text: "done" },
          faults: [fault]
        },
        info: { contextWindow: 20_000 },
        ...profiles
      })
    const rolesOf = ({ content }: Prompt.Prompt) => content.map(({ role }) => role)

    it.effect("004-run-result: with the tool's result and the answer", () =>
      Effect.gen(function* () {
        const target = yield* calling({ when: at("MAIN"), fault: status(429) }, 12)
        const { text, transcript } = yield* claw0
          .agent({ prompt: longPrompt, toolkit: Kit })
          .pipe(Effect.provide([claw0.layer([target]), tools]))
        assert.strictEqual(text, "done")
        assert.deepStrictEqual(rolesOf(transcript.prompt), [
          ...rolesOf(longPrompt),
          "assistant",
          "tool",
          "assistant"
        ])
        assert.include(JSON.stringify(transcript.prompt.content.at(-2)), "seen")
        assert.include(JSON.stringify(transcript.prompt.content.at(-1)), "done")
      })
    )

    it.effect("004-run-result: compacted, if a call was too long", () =>
      Effect.gen(function* () {
        const target = yield* calling({ fault: tooLong }, 7)
        const summariser = { model: yield* Failover.make([yield* model("anthropic", "small")]) }
        const { text, transcript } = yield* Agent.run({ prompt: longPrompt, toolkit: Kit }).pipe(
          Effect.provide([
            Failover.layer([target], { policy: claw0.policy }),
            Compaction.layer({ policy: claw0.compaction, summariser }),
            tools
          ])
        )
        const sent = (yield* target.requests).map(({ prompt }) => prompt.content.length)
        assert.deepStrictEqual(sent, [25, 15, 17])
        assert.strictEqual(text, "done")
        // The summary stands for the oldest messages, also in what is returned.
        const said = JSON.stringify(transcript.prompt.content)
        assert.include(said, "hello")
        assert.notInclude(said, '"5 xxx')
        assert.deepStrictEqual(rolesOf(transcript.prompt).slice(-4), [
          "user",
          "assistant",
          "tool",
          "assistant"
        ])
      }).pipe(Effect.scoped)
    )
  })

  it.effect("004-run-fallback-first: asks a fallback model with the first key that is available", () =>
    Effect.gen(function* () {
      const first = yield* model("anthropic", "m1", [always(status(429))], profiles)
      const haiku = yield* model("anthropic", "haiku", [], profiles)
      // The first key is out for every model.
      const refused = yield* model(
        "anthropic",
        "m1",
        [{ when: at("MAIN"), fault: status(401) }, always(status(429))],
        profiles
      )
      for (const [primary, expected] of [
        [first, "MAIN"],
        [refused, "BACKUP"]
      ] as const) {
        const before = (yield* haiku.requests).length
        yield* Effect.provide(ask, claw0.layer([primary, haiku]))
        const asked = (yield* haiku.requests)[before]
        assert.strictEqual(asked?.key, `secret-of-${expected}`)
      }
    })
  )

  it.effect("004-run-error: says that all profiles and fallbacks are exhausted", () =>
    Effect.gen(function* () {
      const log = logged()
      const target = yield* model("anthropic", "m1", [always(status(429))], profiles)
      const failure = yield* failureOf(ask).pipe(
        Effect.provide(claw0.layer([target])),
        Effect.provide(log.layer)
      )
      assert.strictEqual(claw0.messageOf(failure), "all profiles and fallbacks exhausted")
      assert.include(log.lines, "Warn: all profiles and fallbacks exhausted")
      assert.include(log.lines, "Info: profile MAIN: rate_limit, cools down for 120s")
      assert.lengthOf(yield* timesOf(target), 3)
    })
  )
})

describe("the tool-use loop", () => {
  const Kit = Toolkit.make(
    Tool.make("look", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
  )
  const word = (turn: number): string => [...`${turn}`].map((n) => "abcdefghij"[+n]).join(" ")

  it.effect("004-loop-cap, 004-loop-cap-error: ends at the cap for its keys, and says so", () =>
    Effect.gen(function* () {
      for (const keys of [1, 3]) {
        const target = yield* ScriptedModel.make({
          provider: "anthropic",
          model: "m1",
          keys: names.slice(0, keys).map(key),
          plan: { answers: ({ turn }) => ({ toolCalls: [{ name: "look", params: { q: word(turn) } }] }) }
        })
        const error = yield* Effect.flip(claw0.agent({ prompt: "x", toolkit: Kit })).pipe(
          Effect.provide([
            claw0.layer([target]),
            Kit.toLayer({ look: ({ q }) => Effect.succeed(`all about ${q}`) })
          ])
        )
        const cap = claw0.runCap(keys)
        assert.isTrue(error instanceof claw0.LoopExceeded)
        assert.match(error.message, /^Tool-use loop exceeded max iterations/)
        assert.lengthOf(yield* timesOf(target), cap)
        assert.strictEqual(cap, keys === 1 ? 32 : 48)
        // No healthy key was blamed for it.
        assert.notInclude(JSON.stringify(error), "all about")
      }
    })
  )

  it.effect("004-loop-cap: is not part of a run of `Agent` alone", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1")
      const outcome = yield* Agent.run({ prompt: "x" }).pipe(Effect.provide(claw0.layer([target])))
      assert.strictEqual(outcome.status, "completed")
      RecoveryPolicy.validate(claw0.policy)
    })
  )
})
