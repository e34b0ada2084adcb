/** Runs whose conversation grows beyond the window of their model. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { Agent, Compaction, CompactionPolicy, Failover, SafetyGuard } from "@outlast/agent"
import { Marks, RecallStore } from "@outlast/agent/compaction"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { assistant, finish, lorem, scripted, terse, thinking, turn, user } from "../compaction/support.ts"
import * as Sweeps from "../../../../test/sweeps.ts"
import { answer, played, policy } from "../support.ts"
import {
  brokenPairs,
  chain,
  goal,
  Kit,
  long,
  looking,
  named,
  plain,
  recording,
  sizes,
  tokensOf,
  ways,
  windows
} from "./compactingWorld.ts"

const fact = "FACT-4: the password of the library is in the drawer."
const prompt = Prompt.fromMessages([user(goal), Marks.pin(user(fact)), user("Begin with the first page.")])

/** Looks at one page after another without end. Reports no input usage, so the estimate counts. */
const looks: FaultPlan.FaultPlan["answers"] = ({ turn }) => ({
  text: "On.",
  toolCalls: [{ name: "look", params: { page: turn } }],
  usage: { input: 0 }
})

const endless = (options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({ provider: "anthropic", model: "m", plan: { answers: looks }, ...options })

const turns = Sweeps.full(200, 80)

describe.each(Object.entries(ways))("Agent.%s over many turns in a window of 4,000 tokens", (_, run) => {
  it.effect.each([
    ["without a summariser", false],
    ["with a summariser", true]
  ] as const)("%s", ([, summarises]) =>
    Effect.gen(function* () {
      const model = yield* endless({ info: { contextWindow: 4_000 } })
      const summariser = yield* terse()
      const { layer, of, transitions } = recording()
      const outcome = yield* run({ prompt, toolkit: Kit, maxTurns: turns }).pipe(
        Effect.provide([
          looking(120),
          Failover.layer([model], { policy }),
          Compaction.layer(summarises ? { summariser: summariser.options } : {}),
          layer,
          windows()
        ])
      )
      assert.deepStrictEqual([outcome.status, outcome.turns, outcome.toolCalls], ["turn_limit", turns, turns])
      const seen = (yield* model.requests).map((request) => request.prompt)
      assert.strictEqual(seen.length, turns)
      for (const prompt of seen) {
        assert.isAtMost(tokensOf(prompt), 3_600)
        assert.deepStrictEqual(brokenPairs(prompt), [])
        const said = JSON.stringify(prompt)
        assert.include(said, goal)
        assert.include(said, fact)
      }
      // The compacted prompt becomes the transcript. It is 60 % of the limit, so some turns pass before the next
      // compaction.
      const { times } = outcome.compactions
      assert.isAbove(times, turns / 40)
      assert.isBelow(times, turns / 4)
      assert.strictEqual(of("ContextCompacted").length, times)
      assert.strictEqual(transitions().filter((transition) => transition === "compacted").length, times)
      assert.deepStrictEqual(brokenPairs(outcome.transcript.prompt), [])
    })
  )
})

// -----------------------------------------------------------------------------
// Results of tools, and learned token counts
// -----------------------------------------------------------------------------

describe("a run in a window", () => {
  it.effect("shortens results that are larger than the policy allows, and stores the rest", () =>
    Effect.gen(function* () {
      const model = yield* named("m", { contextWindow: 4_000 })
      const store = RecallStore.memory()
      const outcome = yield* Agent.run({ prompt: goal, toolkit: Kit }).pipe(
        Effect.provide([looking(30_000), chain(model), Compaction.layer({ store })])
      )
      // The result was shortened when it arrived, so nothing had to be compacted.
      assert.strictEqual(outcome.compactions.times, 0)
      const [, second = 0] = yield* sizes(model)
      assert.isAbove(second, 600)
      assert.isAtMost(second, 1_400)
      const said = JSON.stringify(outcome.transcript.prompt)
      const id = /r_[0-9a-z]+/.exec(said)?.[0] ?? ""
      assert.include(Option.getOrThrow(yield* store.get(id)), lorem(30_000))
    }).pipe(Effect.provide(windows()))
  )

  it.effect("reads twelve log files that fill a window of 30,000 tokens again and again", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const answers: FaultPlan.FaultPlan["answers"] = ({ turn }) =>
        turn < 12 ? { toolCalls: [{ name: "look", params: { page: turn } }] } : { text: "Read." }
      const model = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        plan: { answers },
        info: { contextWindow: 200_000, maxOutputTokens: 64_000 }
      })
      const outcome = yield* Agent.run({
        prompt: goal,
        toolkit: Kit,
        compaction: { window: 30_000, summarise: false }
      }).pipe(Effect.provide([looking(12_000), chain(model), layer, windows()]))
      assert.deepStrictEqual([outcome.status, outcome.text, outcome.toolCalls], ["completed", "Read.", 12])
      const compacted = of("ContextCompacted")
      assert.isAtLeast(compacted.length, 4)
      for (const { tokens, tokensAfter } of compacted) assert.isAtLeast((tokens - tokensAfter) / 23_400, 0.25)
      for (const { prompt } of yield* model.requests) assert.isAtMost(tokensOf(prompt), 23_400)
    })
  )

  it.effect("keeps the messages that the options pin, and the identifiers that they require", () =>
    Effect.gen(function* () {
      const model = yield* named("m", { contextWindow: 1_000 })
      const history = Prompt.fromMessages([
        user(goal),
        user(`Remember: the cat is grey. ${lorem(30)}`),
        user(`The ticket is ABC-123. ${lorem(30)}`),
        user(`The dog is brown. ${lorem(30)}`),
        ...Array.from({ length: 20 }, (_, i) => [assistant(lorem(50)), user(`On, ${i}.`)]).flat()
      ])
      const compaction: Agent.Options<{}>["compaction"] = {
        pinned: (message) => JSON.stringify(message).includes("cat is grey"),
        required: ["ABC-123"]
      }
      // A summariser that returns the identifier it is asked for, and omits the rest.
      const { options } = yield* scripted((request) => {
        const asked = request.replaceAll(/<(transcript|summary).*?<\/\1>/gs, "")
        return asked.includes("ABC-123") ? "All about ABC-123." : "SUMMARY"
      })
      const tiers = ["chunks"] as const
      yield* Agent.run({ prompt: history, compaction }).pipe(
        Effect.provide([
          chain(model),
          Compaction.layer({ summariser: options, policy: { ...CompactionPolicy.defaults, tiers } })
        ])
      )
      const said = JSON.stringify((yield* model.requests)[0]?.prompt)
      for (const kept of [goal, "cat is grey", "ABC-123"]) assert.include(said, kept)
      assert.notInclude(said, "dog is brown")
    }).pipe(Effect.provide(windows()))
  )

  it.effect("drops the thinking of a model that binds it to its context, but not of other models", () =>
    Effect.gen(function* () {
      const history = Prompt.fromMessages([
        user(goal),
        ...Array.from({ length: 20 }, (_, i) => turn(`call_${i}`, lorem(70))).flat(),
        thinking("I see."),
        user("Go on.")
      ])
      for (const [bindsThinking, thinks] of [
        [true, false],
        [false, true]
      ] as const) {
        const model = played({
          answers: [answer("ok")],
          info: { contextWindow: 1_000, capabilities: { bindsThinking } }
        })
        const outcome = yield* Agent.run({ prompt: history }).pipe(
          Effect.provide([chain(model), Compaction.layer()])
        )
        assert.strictEqual(JSON.stringify(outcome.transcript.prompt).includes('"reasoning"'), thinks)
      }
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is compacted earlier when the provider counts twice as many tokens as estimated", () =>
    Effect.gen(function* () {
      const counting = (times: number) =>
        Effect.gen(function* () {
          const seen: Array<number> = []
          const call = { type: "tool-call", name: "look", params: { page: 1 } } as const
          const { model } = yield* plain((prompt, n) => {
            const tokens = tokensOf(prompt) * times
            seen.push(tokens)
            return Effect.succeed([{ ...call, id: `${n}` }, finish("tool-calls", tokens, 10)])
          })
          yield* Agent.run({
            prompt: goal,
            toolkit: Kit,
            maxTurns: 60,
            compaction: { window: 4_000 }
          }).pipe(
            Effect.provide([
              looking(100),
              Layer.succeed(LanguageModel.LanguageModel, model),
              Compaction.layer()
            ])
          )
          return seen
        })
      const once = yield* counting(1)
      const twice = yield* counting(2)
      // By the provider's count both stay under the limit. Without the learned counts the second would exceed it.
      assert.isAbove(Math.max(...once), 3_000)
      assert.isAtMost(Math.max(...once), 3_600)
      assert.isAbove(Math.max(...twice), 2_500)
      assert.isAtMost(Math.max(...twice), 3_600)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("counts the cost of summaries, in the outcome and against maxCost", () =>
    Effect.gen(function* () {
      const cheap = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "cheap",
        info: { price: { input: 0, output: 1_000 } },
        plan: { answers: () => ({ text: "SUMMARY", usage: { input: 100, output: 1_000 } }) }
      })
      const ours = (maxCost?: number) =>
        Effect.gen(function* () {
          const model = yield* named("m", { contextWindow: 1_000, price: { input: 0, output: 0 } })
          const chat = Prompt.fromMessages([
            user(goal),
            ...Array.from({ length: 20 }, (_, i) => [assistant(lorem(50)), user(`On, ${i}.`)]).flat()
          ])
          const summariser = { model: yield* Failover.make([cheap], { policy }) }
          return yield* Agent.run({ prompt: chat, toolkit: Kit, maxCost }).pipe(
            Effect.provide([looking(10), chain(model), Compaction.layer({ summariser })])
          )
        })
      const outcome = yield* ours()
      const { times, summaries } = outcome.compactions
      const calls = (yield* cheap.requests).length
      assert.isAbove(calls, 0)
      assert.deepStrictEqual([times, summaries.calls, summaries.tokens], [1, calls, calls * 1_100])
      assert.strictEqual(outcome.costUsd, calls)
      assert.deepStrictEqual([outcome.status, outcome.turns], ["completed", 2])
      const limited = yield* ours(0.5)
      assert.deepStrictEqual([limited.status, limited.turns], ["cost_limit", 1])
    }).pipe(Effect.provide(windows()))
  )
})

// -----------------------------------------------------------------------------
// End of a run
// -----------------------------------------------------------------------------

describe.each(Object.entries(ways))("Agent.%s", (_, run) => {
  it.effect("fails with the sizes when nothing more may be cut, and keeps the transcript", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const model = yield* endless({ info: { contextWindow: 2_000 } })
      const prompt = `${goal} ${lorem(3_000)}`
      const failed = yield* run({ prompt, toolkit: Kit }).pipe(
        Effect.flip,
        Effect.provide([looking(10), chain(model), Compaction.layer(), layer])
      )
      if (failed._tag !== "AgentFailed" || failed.reason._tag !== "CannotFit") assert.fail(failed._tag)
      assert.deepInclude(failed.reason, { window: 2_000, limit: 1_800 })
      assert.strictEqual(failed.reason.tokens, tokensOf(Prompt.make(prompt)))
      assert.include(failed.message, "in turn 1")
      assert.include(failed.message, "must not have more than 1,800")
      assert.notInclude(failed.message, "run again with it")
      assert.notInclude(failed.message, "GOAL-17")
      assert.deepStrictEqual(failed.transcript.prompt, Prompt.make(prompt))
      assert.deepStrictEqual(transitions(), ["context_exhausted"])
      assert.strictEqual((yield* model.requests).length, 0)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("stops when compaction no longer helps, with a valid transcript", () =>
    Effect.gen(function* () {
      const { layer, of, transitions } = recording()
      // The goal takes most of the window, so each compaction frees less than a tenth of the limit.
      const model = yield* endless({ info: { contextWindow: 2_000 } })
      const prompt = `${goal} ${lorem(1_400)}`
      const failed = yield* run({ prompt, toolkit: Kit, maxTurns: 200 }).pipe(
        Effect.flip,
        Effect.provide([looking(90), chain(model), Compaction.layer(), layer])
      )
      if (failed._tag !== "AgentFailed" || failed.reason._tag !== "ContextExhausted") assert.fail(failed._tag)
      assert.strictEqual(failed.reason.times, CompactionPolicy.defaults.thrash.poorGains)
      assert.include(failed.message, "begin a new conversation")
      assert.strictEqual(transitions().at(-1), "context_exhausted")
      const { content } = failed.transcript.prompt
      assert.deepStrictEqual(brokenPairs(failed.transcript.prompt), [])
      assert.deepStrictEqual(content[0], Prompt.make(prompt).content[0])
      // The transcript has the compacted conversation, not the original one.
      assert.isBelow(tokensOf(failed.transcript.prompt), 1_400 + 110 * (failed.turn - 1))
      assert.isAbove(of("ContextCompacted").length, 2)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("reports an interruption during a summary, changes nothing, and can run again", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const begun = yield* Deferred.make<void>()
      let hangs = true
      const { options } = yield* scripted(() =>
        hangs
          ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
          : Effect.succeed([{ type: "text", text: "SUMMARY" }, finish()])
      )
      const model = yield* named("m", { contextWindow: 1_000 })
      const tiers = ["chunks"] as const
      const Fit = Compaction.layer({
        summariser: options,
        policy: { ...CompactionPolicy.defaults, tiers }
      })
      const before = JSON.stringify(long)
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(run({ prompt: long, toolkit: Kit }))
        yield* Deferred.await(begun)
        yield* Fiber.interrupt(fiber)
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
        assert.deepStrictEqual(transitions(), ["aborted_streaming"])
        assert.deepStrictEqual([(yield* model.requests).length, JSON.stringify(long)], [0, before])
        hangs = false
        const outcome = yield* run({ prompt: long, toolkit: Kit })
        assert.strictEqual(outcome.text, "done")
        assert.deepStrictEqual(transitions().slice(1), ["compacted", "next_turn", "completed"])
      }).pipe(Effect.provide([looking(10), chain(model), Fit, layer]))
    }).pipe(Effect.provide(windows()))
  )
})

describe("a run among other runs", () => {
  it.effect("is a separate conversation, and so is each sub-agent", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const model = yield* named("m", { contextWindow: 1_000 })
      const Delegating = Toolkit.make(
        Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
      )
      const sub = Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.map(({ text }) => text),
        Effect.orDie,
        Effect.provide(looking(10))
      )
      const Live = Delegating.toLayer(
        Effect.map(Effect.context<LanguageModel.LanguageModel>(), (context) => ({
          look: () => Effect.provideContext(sub, context)
        }))
      )
      yield* Agent.run({ prompt: long, toolkit: Delegating }).pipe(
        Effect.provide(Live),
        Effect.provide([chain(model), Compaction.layer(), layer])
      )
      const compacted = of("ContextCompacted").map(({ conversation }) => conversation)
      assert.strictEqual(compacted.length, 2)
      assert.strictEqual(new Set(compacted).size, 2)
      // Both begin with the same messages, so their keys differ only in the number of the run.
      assert.deepStrictEqual(
        compacted.map((id) => id.split("/")[1]),
        ["1", "2"]
      )
    }).pipe(Effect.provide(windows()))
  )

  it.effect("leaves its own transcript when a guard stops it, during a summary or after it", () =>
    Effect.gen(function* () {
      for (let turns = 4; turns <= 16; turns++) {
        const busy = yield* ScriptedModel.make({
          provider: "anthropic",
          model: "cheap",
          plan: { answers: () => ({ text: "SUMMARY" }) }
        })
        const model = yield* endless({ info: { contextWindow: 2_000 } })
        const summariser = { model: yield* Failover.make([busy], { policy }) }
        const tiers = ["chunks"] as const
        const stop = yield* Agent.run({ prompt: goal, toolkit: Kit }).pipe(
          SafetyGuard.run({ turns, loops: false }),
          Effect.flip,
          Effect.provide([
            looking(180),
            chain(model),
            Compaction.layer({ summariser, policy: { ...CompactionPolicy.defaults, tiers } })
          ])
        )
        if (stop._tag !== "SafetyStop") assert.fail(stop._tag)
        // Summaries are model calls, too.
        const [summaries, answers] = [yield* busy.requests, yield* model.requests]
        assert.strictEqual(summaries.length + answers.length, turns)
        const { prompt } = stop.transcript
        assert.deepStrictEqual(prompt.content[0], Prompt.make(goal).content[0])
        assert.strictEqual(prompt.content.at(-1)?.role, "tool")
        assert.deepStrictEqual(brokenPairs(prompt), [])
      }
    }).pipe(Effect.provide(windows()))
  )
})
