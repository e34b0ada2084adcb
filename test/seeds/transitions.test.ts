/** The transition codes of learn-claude-code's s11, each as an event of a run under another name. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema } from "effect"
import { Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Compaction, CompactionPolicy, Failover, RecoveryPolicy } from "@outlast/agent"
import { Transition } from "@outlast/agent/loop"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { always, inTime, model, recorded, status } from "./support.ts"

const Kit = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
)
const tools = Kit.toLayer({ look: ({ q }) => Effect.succeed(`all about ${q}`) })
const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)

const answering = (answers: FaultPlan.FaultPlan["answers"], faults: ReadonlyArray<FaultPlan.Step> = []) =>
  ScriptedModel.make({ provider: "anthropic", model: "m", plan: { answers, faults } })

/** Collects the transitions of a program, with their causes. */
const transitions = () => {
  const { layer, of } = recorded()
  const seen = () =>
    of("AgentTransition").map(({ transition, cause }) =>
      cause === undefined ? transition : `${transition} ${cause}`
    )
  return { layer, seen }
}

/** Runs an agent to its end and returns its transitions. */
const seenIn = (
  target: ScriptedModel.ScriptedModel,
  options: Partial<Agent.Options<typeof Kit.tools>> = {},
  own: RecoveryPolicy.RecoveryPolicy = policy
) =>
  Effect.gen(function* () {
    const { layer, seen } = transitions()
    const run = Effect.exit(Agent.run({ prompt: "go", toolkit: Kit, ...options }))
    yield* inTime(run.pipe(Effect.provide([Failover.layer([target], { policy: own }), tools]))).pipe(
      Effect.provide(layer)
    )
    return seen()
  })

const calling = { toolCalls: [{ name: "look", params: { q: "a" } }] }
const words = (count: number) => Array.from({ length: count }, (_, n) => `word${n}`).join(" ")

describe("the codes of a turn", () => {
  it.effect("002-code-completed, 002-code-next_turn: are next_turn and completed", () =>
    Effect.gen(function* () {
      const target = yield* answering([calling, { text: "done" }])
      assert.deepStrictEqual(yield* seenIn(target), ["next_turn", "completed"])
    })
  )

  it.effect("002-code-max_turns: is turn_limit", () =>
    Effect.gen(function* () {
      const target = yield* answering([calling, calling])
      assert.deepStrictEqual(yield* seenIn(target, { maxTurns: 2 }), ["next_turn", "turn_limit"])
    })
  )

  it.effect("002-code-escalate, 002-code-recovery: are output_limit_raised and output_continued", () =>
    Effect.gen(function* () {
      const target = yield* answering([{ text: words(55) }])
      const truncation = {
        start: 10,
        raiseTo: 20,
        raises: 1,
        continuations: 3,
        poorGains: 3,
        minGain: 1
      } as const
      const seen = yield* seenIn(target, {}, { ...policy, truncation })
      assert.deepStrictEqual(seen.slice(0, 2), ["output_limit_raised", "output_continued"])
      assert.strictEqual(seen.at(-1), "completed")
    })
  )

  it.effect("002-code-model_error: is model_failed", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* seenIn(yield* answering([], [always(status(401))])), ["model_failed"])
    })
  )

  it.effect("002-code-image_error: is media_dropped, and the run goes on", () =>
    Effect.gen(function* () {
      const refused: FaultPlan.Fault = {
        type: "status",
        status: 400,
        body: {
          type: "error",
          error: {
            type: "invalid_request_error",
            message:
              "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
          }
        }
      }
      const target = yield* answering([{ text: "done" }], [{ fault: refused }])
      const image = { type: "file" as const, mediaType: "image/png", data: new TextEncoder().encode("x") }
      const prompt = Prompt.make([{ role: "user", content: [{ type: "text", text: "See." }, image] }])
      assert.deepStrictEqual(yield* seenIn(target, { prompt }), ["media_dropped", "completed"])
    })
  )
})

describe("the codes of a conversation that is too long", () => {
  const tokens = (count: number): string => "word ".repeat(Math.ceil((count * 4) / 5))
  const talk = (count: number, each: number) =>
    Prompt.make(
      Array.from({ length: count }, (_, n) => ({
        role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
        content: tokens(each)
      }))
    )

  it.effect("002-code-collapse_drain: is compacted with the summary that was prepared", () =>
    Effect.gen(function* () {
      const { layer, seen } = transitions()
      const small = { info: { contextWindow: 10_000, maxOutputTokens: 100 } }
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        plan: {
          answers: ({ turn }) =>
            turn === 5 ? { toolCalls: [{ name: "look", params: { q: tokens(500) } }] } : { text: "done" }
        },
        ...small
      })
      const summariser = yield* model("anthropic", "small")
      const llm = yield* Failover.make([summariser])
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(
          Agent.run({ prompt: talk(11, 750), toolkit: Kit }).pipe(Effect.exit)
        )
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(fiber)
      }).pipe(
        Effect.provide(
          Layer.mergeAll(
            Failover.layer([target], { policy }),
            Compaction.layer({
              policy: { ...CompactionPolicy.defaults, tiers: ["chunks"] },
              prepare: true,
              summariser: { model: llm }
            }),
            Kit.toLayer({ look: ({ q }) => Effect.delay(Effect.succeed(q), "1 second") })
          )
        ),
        Effect.provide(layer)
      )
      assert.include(seen(), "compacted prepared")
      assert.strictEqual(seen().at(-1), "completed")
    }).pipe(Effect.scoped)
  )

  it.effect("002-code-reactive, 002-code-prompt_too_long: are compacted and context_exhausted, refused", () =>
    Effect.gen(function* () {
      const seenWith = (faults: ReadonlyArray<FaultPlan.Step>) =>
        Effect.gen(function* () {
          const { layer, seen } = transitions()
          const target = yield* answering(() => ({ text: "done" }), faults)
          yield* Effect.exit(Agent.run({ prompt: talk(11, 400) })).pipe(
            Effect.provide([Failover.layer([target], { policy }), Compaction.layer()]),
            Effect.provide(layer)
          )
          return seen()
        })
      assert.include(yield* seenWith([{ fault: status(413) }]), "compacted refused")
      assert.include(yield* seenWith([always(status(413))]), "context_exhausted refused")
    })
  )

  it.effect("002-code-blocking_limit: is context_exhausted before the call", () =>
    Effect.gen(function* () {
      const { layer, seen } = transitions()
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        plan: { answers: () => ({ text: "done" }) },
        info: { contextWindow: 2_000 }
      })
      yield* Effect.exit(Agent.run({ prompt: tokens(5_000) })).pipe(
        Effect.provide([Failover.layer([target], { policy }), Compaction.layer()]),
        Effect.provide(layer)
      )
      assert.deepStrictEqual(seen(), ["context_exhausted before"])
    })
  )
})

describe("the codes of hooks and of the budget", () => {
  it.effect("002-code-stop_hook_blocking: is hook_blocked at the end, and the model reads why", () =>
    Effect.gen(function* () {
      let asked = 0
      const target = yield* answering([{ text: "done" }, { text: "done now" }])
      const seen = yield* seenIn(target, {
        hooks: {
          beforeStop: () => Effect.sync(() => (++asked === 1 ? { block: "Run the tests." } : "continue"))
        }
      })
      assert.deepStrictEqual(seen, ["hook_blocked end", "completed"])
      assert.include(JSON.stringify((yield* target.requests)[1]?.prompt.content), "Run the tests.")
    })
  )

  it.effect(
    "002-code-stop_hook_prevented, 002-code-hook_stopped: are hook_stopped at the end and at a tool",
    () =>
      Effect.gen(function* () {
        const stop = () => Effect.succeed({ stop: "Enough." })
        const end = yield* seenIn(yield* answering([{ text: "done" }]), { hooks: { beforeStop: stop } })
        assert.deepStrictEqual(end, ["hook_stopped end"])
        const tool = yield* seenIn(yield* answering([calling]), { hooks: { beforeTool: stop } })
        assert.deepStrictEqual(tool, ["hook_stopped tool"])
      })
  )

  it.effect("002-code-token_budget: is budget_nudged below 90 % of the target, and not from there on", () =>
    Effect.gen(function* () {
      const seenAt = (tokens: number) =>
        Effect.flatMap(answering([{ text: words(tokens) }, { text: words(200) }]), (target) =>
          seenIn(target, { tokenBudget: 1_000 })
        )
      assert.deepStrictEqual(yield* seenAt(899), ["budget_nudged", "completed"])
      assert.deepStrictEqual(yield* seenAt(900), ["completed"])
    })
  )

  it.effect("002-code-token_budget, 002-cc-nudge: is budget_nudged, with the share of the target", () =>
    Effect.gen(function* () {
      const target = yield* answering([{ text: words(500) }, { text: words(600) }])
      const seen = yield* seenIn(target, { tokenBudget: 1_000 })
      assert.deepStrictEqual(seen, ["budget_nudged", "completed"])
      const said = JSON.stringify((yield* target.requests)[1]?.prompt.content.at(-1))
      assert.match(said, /You stopped at 50% of the token target/)
    })
  )
})

describe("the codes of a cancel", () => {
  it.effect(
    "002-code-aborted_streaming, 002-code-aborted_tools: are aborted_streaming and aborted_tools",
    () =>
      Effect.gen(function* () {
        const cancelled = (
          answers: FaultPlan.FaultPlan["answers"],
          faults: ReadonlyArray<FaultPlan.Step> = []
        ) =>
          Effect.gen(function* () {
            const { layer, seen } = transitions()
            const target = yield* answering(answers, faults)
            const slow = Kit.toLayer({ look: () => Effect.never })
            yield* Effect.gen(function* () {
              const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", toolkit: Kit }))
              yield* TestClock.adjust("1 second")
              yield* Fiber.interrupt(fiber)
            }).pipe(Effect.provide([Failover.layer([target], { policy }), slow]), Effect.provide(layer))
            return seen()
          })
        const stall: FaultPlan.Fault = { type: "stall" }
        assert.deepStrictEqual(yield* cancelled([{ text: "x" }], [always(stall)]), ["aborted_streaming"])
        assert.deepStrictEqual(yield* cancelled([calling]), ["aborted_tools"])
      })
  )
})

it("002-code-dozen: there are more than a dozen transitions", () => {
  assert.isAtLeast(Transition.Transition.literals.length, 17)
})
