/** The transcript that a run leaves after a defect, or after an interruption at any moment. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Option, Scheduler, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Prompt } from "effect/ai"
import { Agent, AgentFailed, Compaction, CompactionPolicy } from "@outlast/agent"
import type { RecallStore } from "@outlast/agent/compaction"
import { finish, scripted } from "../compaction/support.ts"
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
  tokensOf,
  ways,
  windows
} from "./compactingWorld.ts"

const boom = () => Effect.die(new Error("boom"))

/** Calls a tool in each turn. */
const calling = plain((prompt, n) =>
  Effect.succeed([
    { type: "tool-call", name: "look", params: { page: 1 }, id: `${n}` },
    finish("tool-calls", tokensOf(prompt), 10)
  ])
)

/** The transcript in the cause of a run that died. */
const leftBy = (exit: Exit.Exit<unknown, unknown>): Prompt.Prompt => {
  if (Exit.isSuccess(exit)) assert.fail("The run has not failed.")
  assert.isTrue(Cause.hasDies(exit.cause))
  return Option.getOrThrow(AgentFailed.transcriptOf(exit.cause)).prompt
}

const rolesOf = ({ content }: Prompt.Prompt): ReadonlyArray<string> => content.map(({ role }) => role)

describe.each(Object.entries(ways))("Agent.%s that dies", (_, run) => {
  const turn = ["user", "assistant", "tool"]
  it.effect.each([
    // The second call of each dies, so that the first turn could be lost.
    ["in a fit", "fit", turn],
    ["in what is learned", "learn", turn],
    ["when results come in", "admit", [...turn, "assistant", "tool"]]
  ] as const)("%s leaves what was done", ([, method, roles]) =>
    Effect.gen(function* () {
      const real = yield* Compaction.make()
      let n = 0
      const second = <B, E>(use: Effect.Effect<B, E>): Effect.Effect<B, E> => (++n === 2 ? boom() : use)
      const dying: Compaction.Service = {
        ...real,
        ...{
          fit: { fit: (...args: Parameters<typeof real.fit>) => second(real.fit(...args)) },
          learn: { learn: (usage: Compaction.Usage) => second(real.learn(usage)) },
          admit: { admit: (...args: Parameters<typeof real.admit>) => second(real.admit(...args)) }
        }[method]
      }
      const { model } = yield* calling
      const exit = yield* Effect.exit(
        run({ prompt: goal, toolkit: Kit, maxTurns: 3, compaction: { window: 4_000 } }).pipe(
          Effect.provide([
            looking(10),
            Layer.succeed(LanguageModel.LanguageModel, model),
            Layer.succeed(Compaction.Compaction, dying)
          ])
        )
      )
      const left = leftBy(exit)
      assert.deepStrictEqual(rolesOf(left), roles)
      assert.deepStrictEqual(brokenPairs(left), [])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("in the model leaves the conversation so far", () =>
    Effect.gen(function* () {
      const { model } = yield* plain((_, n) =>
        n === 1
          ? boom()
          : Effect.succeed([
              { type: "tool-call", name: "look", params: { page: 1 }, id: "a" },
              finish("tool-calls")
            ])
      )
      const exit = yield* Effect.exit(
        run({ prompt: goal, toolkit: Kit }).pipe(
          Effect.provide([looking(10), Layer.succeed(LanguageModel.LanguageModel, model)])
        )
      )
      assert.deepStrictEqual(rolesOf(leftBy(exit)), turn)
    })
  )

  it.effect("in an option of the program leaves the given prompt", () =>
    Effect.gen(function* () {
      const model = yield* named("m", { contextWindow: 1_000 })
      const pinned = () => {
        throw new Error("boom")
      }
      const exit = yield* Effect.exit(
        run({ prompt: long, toolkit: Kit, compaction: { pinned } }).pipe(
          Effect.provide([looking(10), chain(model), Compaction.layer()])
        )
      )
      assert.deepStrictEqual(leftBy(exit), long)
    }).pipe(Effect.provide(windows()))
  )
})

it.effect(
  "a defect in a sub-agent leaves the conversation of the run that is asked about, not that of the sub-agent",
  () =>
    Effect.gen(function* () {
      const model = yield* named("m")
      const Looking = Toolkit.make(
        Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
      )
      let inside: Exit.Exit<unknown, unknown> | undefined
      const sub = Agent.run({ prompt: "INNER", toolkit: Looking }).pipe(
        Effect.map(({ text }) => text),
        Effect.orDie,
        Effect.provide(Looking.toLayer({ look: boom })),
        Effect.onExit((exit) => Effect.sync(() => (inside = exit)))
      )
      const Live = Looking.toLayer(
        Effect.map(Effect.context<LanguageModel.LanguageModel>(), (context) => ({
          look: () => Effect.provideContext(sub, context)
        }))
      )
      const exit = yield* Effect.exit(
        Agent.run({ prompt: "OUTER", toolkit: Looking }).pipe(
          Effect.provide(Live),
          Effect.provide(chain(model))
        )
      )
      assert.include(JSON.stringify(leftBy(exit).content[0]), "OUTER")
      assert.include(JSON.stringify(leftBy(inside ?? Exit.void).content[0]), "INNER")
    })
)

// -----------------------------------------------------------------------------
// Interruption
// -----------------------------------------------------------------------------

/** Interrupts the first fiber that it runs, before the n-th operation of that fiber. */
class Interrupting extends Scheduler.MixedScheduler {
  readonly at: number
  #first: Fiber.Fiber<unknown, unknown> | undefined
  operations = 0
  constructor(at: number) {
    super()
    this.at = at
  }
  override shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    this.#first ??= fiber
    if (fiber !== this.#first || ++this.operations !== this.at) return false
    fiber.interruptUnsafe()
    return true
  }
}

describe("Agent.run that is interrupted", () => {
  it.effect("reports an interruption while results are processed", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const store: RecallStore.RecallStore = {
        put: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never),
        get: () => Effect.succeed(Option.none())
      }
      const model = yield* named("m", { contextWindow: 4_000 })
      const { layer, transitions } = recording()
      const fiber = yield* Effect.forkChild(
        Agent.run({ prompt: goal, toolkit: Kit }).pipe(
          Effect.provide([looking(30_000), chain(model), Compaction.layer({ store }), layer])
        )
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(transitions(), ["aborted_tools"])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("changes nothing when interrupted at any operation, and leaves a working layer", () =>
    Effect.gen(function* () {
      const before = JSON.stringify(long)
      const compaction = yield* Compaction.make({
        summariser: (yield* scripted(() =>
          Effect.as(Effect.yieldNow, [{ type: "text", text: "SUMMARY" } as const, finish()])
        )).options,
        policy: { ...CompactionPolicy.defaults, tiers: ["chunks"] }
      })
      const once = (scheduler?: Interrupting) =>
        Effect.gen(function* () {
          const { model } = yield* plain((_, n) =>
            Effect.as(Effect.yieldNow, [
              n === 0
                ? ({ type: "tool-call", name: "look", params: { page: 1 }, id: "a" } as const)
                : ({ type: "text", text: "done" } as const),
              finish(n === 0 ? "tool-calls" : "stop")
            ])
          )
          const run = Agent.run({ prompt: long, toolkit: Kit, compaction: { window: 1_000 } }).pipe(
            Effect.provide([
              looking(10),
              Layer.succeed(LanguageModel.LanguageModel, model),
              Layer.succeed(Compaction.Compaction, compaction)
            ])
          )
          return yield* Effect.exit(
            scheduler === undefined ? run : Effect.provideService(run, Scheduler.Scheduler, scheduler)
          )
        })
      const ends = new Set<string>()
      for (let at = 1; ; at++) {
        const { layer, transitions } = recording()
        const scheduler = new Interrupting(at)
        const fiber = yield* Effect.forkChild(Effect.provide(once(scheduler), layer))
        const exit = yield* Fiber.await(fiber)
        if (scheduler.operations < at) break
        assert.strictEqual(JSON.stringify(long), before)
        assert.isTrue(Exit.hasInterrupts(exit))
        const said = transitions()
        assert.isAtMost(said.filter((transition) => transition.startsWith("aborted")).length, 1)
        ends.add(said.join())
      }
      // Interrupted during the summary, during the answer after it, and while results are processed.
      for (const end of ["aborted_streaming", "compacted,aborted_streaming", "compacted,aborted_tools"]) {
        assert.include([...ends], end)
      }
      const after = yield* once()
      assert.isTrue(Exit.isSuccess(after))
      if (Exit.isSuccess(after)) assert.strictEqual(after.value.compactions.times, 1)
    }).pipe(Effect.scoped, Effect.provide(windows()))
  )
})
