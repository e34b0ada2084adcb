import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, SafetyGuard } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import {
  endless,
  isLegal,
  Kit,
  looking,
  model,
  over,
  recording,
  seconds,
  stopOf,
  tools,
  words
} from "./support.ts"

const delegating = (...to: ReadonlyArray<string>): FaultPlan.Answer => ({
  toolCalls: to.map((to) => ({ name: "delegate", params: { to } }))
})

/** An agent whose tool runs another agent, which looks things up or delegates further. */
const nested = (parent: FaultPlan.FaultPlan, child: FaultPlan.FaultPlan) =>
  Effect.gen(function* () {
    const below = yield* model(child)
    const { ran, layer } = tools()
    const { layer: deep } = tools({
      delegate: () =>
        Effect.gen(function* () {
          const outcome = yield* Agent.run({ prompt: "y", toolkit: Kit })
          return outcome.text
        }).pipe(Effect.provide([layer, over(below)]), Effect.orDie)
    })
    const run = Agent.run({ prompt: "x", toolkit: Kit }).pipe(
      Effect.provide([deep, over(yield* model(parent))])
    )
    return { ran, run }
  })

describe("sub-agents", () => {
  it.effect("share the limits of the tree", () =>
    Effect.gen(function* () {
      const { ran, run } = yield* nested(
        { answers: [delegating("one"), delegating("two"), { text: "done" }] },
        { answers: ({ turn }) => (turn < 3 ? looking(`question ${words(turn)}`) : { text: "looked" }) }
      )
      // Two calls of the parent and three of the first child leave one for the second child.
      const stop = yield* stopOf(SafetyGuard.run({ toolCalls: 6, loops: false })(run))
      assert.deepInclude(stop, { reason: "max_tool_calls", limit: 6 })
      assert.strictEqual(ran.length, 4)
      assert.strictEqual(stop.counts.subagents, 2)
      // The transcript is that of the parent.
      assert.include(JSON.stringify(stop.transcript.prompt), "looked")
      assert.isTrue(isLegal(stop.transcript.prompt))
    })
  )

  it.effect("run one after another within a breadth that is smaller than their number", () =>
    Effect.gen(function* () {
      const { run } = yield* nested(
        { answers: [delegating("one"), delegating("two"), delegating("three"), { text: "done" }] },
        { answers: [{ text: "looked" }] }
      )
      const guard = yield* SafetyGuard.make({ subagents: { breadth: 2 } })
      assert.strictEqual((yield* guard.run(run)).text, "done")
      assert.strictEqual((yield* guard.report).counts.subagents, 3)
    })
  )

  it.effect("have their own limits of depth, concurrency and total", () =>
    Effect.gen(function* () {
      const stopped = (options: SafetyGuard.Options, plan: FaultPlan.FaultPlan) =>
        Effect.gen(function* () {
          const target = yield* model(plan)
          const { layer } = tools({
            delegate: () =>
              Agent.run({ prompt: "y", toolkit: Kit }).pipe(
                Effect.provide([
                  tools({ look_up: () => Effect.as(Effect.sleep("1 second"), "slow") }).layer,
                  over(target)
                ]),
                Effect.as("ok"),
                Effect.orDie
              )
          })
          const top = yield* model({ answers: [delegating("a", "b", "c"), { text: "done" }] })
          const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
            SafetyGuard.run(options),
            stopOf,
            Effect.provide([layer, over(top)]),
            Effect.forkChild
          )
          yield* seconds(20)
          return yield* Fiber.join(fiber)
        })
      const leaf: FaultPlan.FaultPlan = { answers: [looking("something"), { text: "ok" }] }
      const none = yield* stopped({ subagents: { depth: 0 } }, leaf)
      assert.deepInclude(none, { reason: "subagents", limit: 0 })
      const breadth = yield* stopped({ subagents: { breadth: 2 } }, leaf)
      assert.deepInclude(breadth, { reason: "subagents", limit: 2 })
      assert.include(breadth.message, "maximum of 2 sub-agents of one agent at a time")
      const total = yield* stopped({ subagents: { total: 1 } }, leaf)
      assert.deepInclude(total, { reason: "subagents", limit: 1 })
    })
  )

  describe("of a program without an agent", () => {
    /** A plain model whose tool runs an agent. */
    const plain = (options: SafetyGuard.Options, ...to: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        // A second long, so that sub-agents of one answer run at the same time.
        const faults = [{ fault: { type: "slow", delay: 1_000 }, times: "always" }] as const
        const below = yield* model({ answers: () => ({ text: "looked" }), faults })
        const { layer } = tools({
          delegate: ({ to }) =>
            Agent.run({ prompt: `the task of ${to}` }).pipe(
              Effect.as("done"),
              Effect.provide(over(below)),
              Effect.orDie
            )
        })
        const target = yield* model({ answers: () => delegating(...to) })
        const fiber = yield* Effect.forever(
          LanguageModel.generateText({ prompt: "the task", toolkit: Kit, concurrency: "unbounded" })
        ).pipe(
          SafetyGuard.run({ ...options, loops: false }),
          stopOf,
          Effect.provide([layer, over(target)]),
          Effect.forkChild
        )
        yield* seconds(30)
        return yield* Fiber.join(fiber)
      })

    it.effect("count as sub-agents", () =>
      Effect.gen(function* () {
        const none = yield* plain({ subagents: { depth: 0 } }, "one")
        assert.deepInclude(none, { reason: "subagents", limit: 0 })
        assert.include(none.message, "levels of sub-agents")
        const total = yield* plain({ subagents: { total: 2 } }, "one")
        assert.deepInclude(total, { reason: "subagents", limit: 2 })
        assert.strictEqual(total.counts.subagents, 2)
        const breadth = yield* plain({ subagents: { breadth: 1 } }, "one", "two")
        assert.deepInclude(breadth, { reason: "subagents", limit: 1 })
      })
    )

    it.effect("leave the program's own conversation in the transcript", () =>
      Effect.gen(function* () {
        const stop = yield* plain({ turns: 3 }, "one")
        assert.include(JSON.stringify(stop.transcript.prompt), "the task")
        assert.notInclude(JSON.stringify(stop.transcript.prompt), "the task of")
      })
    )
  })

  describe("under a guard inside a guard", () => {
    const delegate = delegating("one")
    /** Result of an agent whose tool runs `child` under a guard without sub-agents. */
    const inner = (child: Effect.Effect<unknown, unknown>) =>
      Effect.gen(function* () {
        let exit: Exit.Exit<unknown, unknown> | undefined
        const { layer } = tools({
          delegate: () =>
            child.pipe(
              SafetyGuard.run({ subagents: { depth: 0, total: 0 } }),
              Effect.exit,
              Effect.map((ended) => {
                exit = ended
                return "done"
              })
            )
        })
        const guard = yield* SafetyGuard.make()
        const top = yield* model({ answers: [delegate, { text: "done" }] })
        yield* guard.run(Agent.run({ prompt: "x", toolkit: Kit })).pipe(Effect.provide([layer, over(top)]))
        return [exit, (yield* guard.report).counts.subagents] as const
      })
    const leaf = Agent.run({ prompt: "z" }).pipe(
      Effect.provide(Layer.unwrap(Effect.map(model({ answers: [{ text: "ok" }] }), over))),
      Effect.as("ok"),
      Effect.orDie
    )
    const delegatingLeaf = Layer.merge(
      tools({ delegate: () => leaf }).layer,
      Layer.unwrap(Effect.map(model({ answers: [delegate, { text: "done" }] }), over))
    )

    it.effect("exclude the first agent from the inner guard", () =>
      Effect.gen(function* () {
        const [exit, counted] = yield* inner(leaf)
        assert.isTrue(exit !== undefined && Exit.isSuccess(exit))
        // The outer guard counts it as a sub-agent.
        assert.strictEqual(counted, 1)
      })
    )

    it.effect("get no extra level from the inner program", () =>
      Effect.gen(function* () {
        const plain = Effect.provide(
          LanguageModel.generateText({ prompt: "y", toolkit: Kit }),
          delegatingLeaf
        )
        for (const program of [plain, SafetyGuard.run()(plain)]) {
          const { layer } = tools({ delegate: () => Effect.as(Effect.orDie(program), "done") })
          const top = yield* model({ answers: [delegate, { text: "done" }] })
          const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
            SafetyGuard.run({ subagents: { depth: 1 } }),
            Effect.provide([layer, over(top)])
          )
          assert.strictEqual(outcome.text, "done")
        }
      })
    )

    it.effect("include the agents below the first one", () =>
      Effect.gen(function* () {
        const [exit] = yield* inner(Effect.provide(Agent.run({ prompt: "y", toolkit: Kit }), delegatingLeaf))
        assert.include(JSON.stringify(exit), "levels of sub-agents")
      })
    )

    it.effect("include the agents of a tool of the inner program", () =>
      Effect.gen(function* () {
        const [exit] = yield* inner(
          Effect.provide(LanguageModel.generateText({ prompt: "y", toolkit: Kit }), delegatingLeaf)
        )
        assert.include(JSON.stringify(exit), "levels of sub-agents")
      })
    )
  })

  it.effect("cannot exceed the outer limits with an inner guard, only narrow them", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const inner = (options: SafetyGuard.Options) =>
        Effect.flatMap(model(endless), (target) =>
          Effect.exit(
            SafetyGuard.run({ ...options, loops: false })(Agent.run({ prompt: "y", toolkit: Kit }))
          ).pipe(Effect.provide([layer, over(target)]))
        )
      const stop = yield* Effect.gen(function* () {
        const less = yield* inner({ toolCalls: 2 })
        assert.include(JSON.stringify(less), "max_tool_calls")
        assert.strictEqual(ran.length, 2)
        return yield* inner({ toolCalls: 1_000 })
      }).pipe(SafetyGuard.run({ toolCalls: 5, loops: false }), stopOf)
      assert.deepInclude(stop, { reason: "max_tool_calls", limit: 5 })
      assert.strictEqual(ran.length, 5)
      // The last conversation at the top is that of the inner program.
      assert.isTrue(isLegal(stop.transcript.prompt))
    })
  )

  it.effect("keep the agent's conversation when a tool calls a model directly", () =>
    Effect.gen(function* () {
      const own = yield* model({ answers: [{ text: "a summary" }] })
      const { layer } = tools({
        look_up: () =>
          LanguageModel.generateText({ prompt: "summarise" }).pipe(
            Effect.map(({ text }) => text),
            Effect.provide(over(own)),
            Effect.orDie
          )
      })
      const stop = yield* Agent.run({ prompt: "the task", toolkit: Kit }).pipe(
        SafetyGuard.run({ toolCalls: 2, loops: false }),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))])
      )
      assert.include(JSON.stringify(stop.transcript.prompt), "the task")
      assert.strictEqual(stop.counts.turns, 5)
    })
  )
})

describe("loops", () => {
  it.effect("lead to a nudge, then a blocked call, then a stop", () =>
    Effect.gen(function* () {
      let ran = 0
      const { layer } = tools({ look_up: () => Effect.sync(() => (ran++, "always the same answer")) })
      const { of, layer: events } = recording()
      const target = yield* model({ answers: () => looking("the same") })
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ loops: { reads: { nudge: 2, block: 3 }, refusals: 2 } }),
        stopOf,
        Effect.provide([layer, over(target), events])
      )
      assert.deepInclude(stop, { reason: "tool_loop", subject: "look_up" })
      assert.strictEqual(ran, 3)
      assert.strictEqual(stop.counts.toolCalls, 3)
      assert.strictEqual(of("GuardNudged").length, 1)
      assert.strictEqual(of("GuardBlocked").length, 2)
      const asked = (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt))
      // The nudge is sent once and not kept.
      assert.deepStrictEqual(
        asked.map((prompt) => prompt.includes("If that is not what you want")),
        [false, false, false, true, false, false]
      )
      assert.include(asked.at(-1) ?? "", "This call was not run.")
      assert.notInclude(JSON.stringify(stop.transcript.prompt), "If that is not what you want")
      assert.include(stop.message, "Forced stop: look_up was called with the same arguments 3 times")
    })
  )

  it.effect("block a destructive tool earlier, unless it is idempotent", () =>
    Effect.gen(function* () {
      const ranOf = (annotated: (tool: Tool.Any) => Tool.Any) =>
        Effect.gen(function* () {
          let ran = 0
          // Annotations do not change the type of a tool.
          const Look = annotated(
            Tool.make("look_up", { parameters: Schema.Struct({ q: Schema.String }), success: Schema.String })
          ) as typeof Kit.tools.look_up
          const Own = Toolkit.make(Look)
          const layer = Own.toLayer({ look_up: () => Effect.sync(() => (ran++, "always the same answer")) })
          const target = over(yield* model({ answers: () => looking("the same") }))
          yield* Agent.run({ prompt: "x", toolkit: Own }).pipe(
            SafetyGuard.run(),
            stopOf,
            Effect.provide([layer, target])
          )
          const inModel = ran
          yield* Effect.forever(LanguageModel.generateText({ prompt: "x", toolkit: Own })).pipe(
            SafetyGuard.run(),
            stopOf,
            Effect.provide([layer, target])
          )
          return [inModel, ran - inModel]
        })
      assert.deepStrictEqual(yield* ranOf((tool) => tool), [5, 5])
      assert.deepStrictEqual(yield* ranOf((tool) => tool.annotate(Tool.Destructive, true)), [3, 3])
      assert.deepStrictEqual(
        yield* ranOf((tool) => tool.annotate(Tool.Destructive, true).annotate(Tool.Idempotent, true)),
        [5, 5]
      )
    })
  )

  it.effect("are left to the limits with `loops: false`", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.succeed("always the same answer") })
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ loops: false, toolCalls: 30 }),
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: () => looking("the same") }))])
      )
      assert.strictEqual(stop.reason, "max_tool_calls")
    })
  )

  it.effect("stop a tool later that has a later nudge", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.succeed("always the same answer") })
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ loops: { tools: { look_up: { same: { nudge: 7 } } } } }),
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: () => looking("the same") }))])
      )
      assert.strictEqual(stop.reason, "tool_loop")
      assert.include(stop.message, "look_up was called with the same arguments 7 times")
    })
  )

  it.effect(
    "wait by the clock: polls of a minute each are blocked after ten minutes, not after eight polls",
    () =>
      Effect.gen(function* () {
        const states = ["queued", "starting"]
        let ran = 0
        const { layer } = tools({
          look_up: () => Effect.map(Effect.sleep("1 minute"), () => states[ran++] ?? "running")
        })
        const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          SafetyGuard.run(),
          stopOf,
          Effect.provide([layer, over(yield* model({ answers: () => looking("the job") }))]),
          Effect.forkChild
        )
        yield* TestClock.adjust("30 minutes")
        assert.strictEqual((yield* Fiber.join(fiber)).reason, "no_progress")
        assert.strictEqual(ran, 2 + 11)
      })
  )

  it.effect("stop a repetitive answer while it is streamed", () =>
    Effect.gen(function* () {
      const target = yield* model({
        answers: [{ text: "I will now look at the file once more and try again. ".repeat(400) }]
      })
      const stop = yield* Agent.stream({ prompt: "x" }).pipe(
        SafetyGuard.runStream({ loops: { repetition: "cut" } }),
        (stream) => stopOf(Stream.runDrain(stream)),
        Effect.provide(over(target))
      )
      assert.strictEqual(stop.reason, "no_progress")
      assert.isBelow(JSON.stringify(stop.transcript.prompt).length, 8_000)
    })
  )

  it.effect("cut repetitive thinking while it is streamed, and by default tell the model once", () =>
    Effect.gen(function* () {
      const thinking = "Wait, I should look at the file once more before I go on. ".repeat(400)
      const target = yield* model({ answers: [{ reasoning: thinking, ...looking("a") }, { text: "ok" }] })
      const stop = yield* Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream({ loops: { repetition: "cut" } }),
        (stream) => stopOf(Stream.runDrain(stream)),
        Effect.provide([tools().layer, over(target)])
      )
      assert.strictEqual(stop.reason, "no_progress")
      const told = yield* model({ answers: [{ reasoning: thinking, ...looking("a") }, { text: "ok" }] })
      yield* Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream(),
        Stream.runDrain,
        Effect.provide([tools().layer, over(told)])
      )
      const last = JSON.stringify((yield* told.requests)[1]?.prompt)
      assert.strictEqual(last.split("The answer repeats itself").length, 2)
    })
  )

  it.effect("do not compare an answer with those of earlier turns", () =>
    Effect.gen(function* () {
      const text = Array.from({ length: 150 }, (_, i) => `question ${words(i)}`).join(" ")
      const target = yield* model({
        answers: ({ turn }) => (turn < 8 ? { text, ...looking(`question ${words(turn)}`) } : { text })
      })
      const { layer } = tools()
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run(),
        Effect.provide([layer, over(target)])
      )
      assert.strictEqual(outcome.text, text)
      const asked = (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt))
      assert.notInclude(asked.join(), "repeat")
    })
  )

  it.effect("send each nudge once, and the newest eight of a turn", () =>
    Effect.gen(function* () {
      const names = Array.from("abcdefghij", (letter) => `look_${letter}`)
      const all = Object.fromEntries(names.map((name) => [name, Tool.make(name, { success: Schema.String })]))
      const Many = Toolkit.make(...Object.values(all))
      const layer = Many.toLayer(
        Object.fromEntries(names.map((name) => [name, () => Effect.succeed("always the same answer")]))
      )
      const target = yield* model({
        answers: ({ turn }) =>
          turn < 3 ? { toolCalls: names.map((name) => ({ name, params: {} })) } : { text: "ok" }
      })
      const options = { loops: { reads: { nudge: 2, block: 9 } } } as const
      yield* Agent.run({ prompt: "x", toolkit: Many }).pipe(
        SafetyGuard.run(options),
        Effect.provide([layer, over(target)])
      )
      const asked = (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt))
      const nudged = names.filter((name) => asked[3]?.includes(`${name} was called with the same`))
      assert.deepStrictEqual(nudged, names.slice(-8))
      // Both guards and the agent warn of the same answer.
      const talking = yield* model({
        answers: [
          { text: `Well. ${"I will now look at the file once more. ".repeat(40)}`, ...looking("a") },
          { text: "ok" }
        ]
      })
      yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run(),
        SafetyGuard.run(),
        Effect.provide([tools().layer, over(talking)])
      )
      const last = JSON.stringify((yield* talking.requests)[1]?.prompt)
      assert.strictEqual(last.split("repeats itself").length, 2)
    })
  )

  it.effect("do not stop an answer that is a list", () =>
    Effect.gen(function* () {
      for (const text of [
        Array.from({ length: 8 }, (_, i) => `- test ${i}: passed`).join("\n"),
        `const a = [${"null, ".repeat(18)}`
      ]) {
        const target = yield* model({ answers: [{ text }] })
        const run = Agent.run({ prompt: "x" }).pipe(SafetyGuard.run(), Effect.provide(over(target)))
        assert.strictEqual((yield* run).text, text)
      }
    })
  )

  it.effect("stop an answer that repeats a long part while it is streamed", () =>
    Effect.gen(function* () {
      const part = Array.from({ length: 200 }, (_, i) => `question ${words(i)}`)
        .join(" ")
        .slice(0, 2_000)
      const target = yield* model({ answers: [{ text: part.repeat(50) }] })
      const stop = yield* Agent.stream({ prompt: "x" }).pipe(
        SafetyGuard.runStream({ loops: { repetition: "cut" } }),
        (stream) => stopOf(Stream.runDrain(stream)),
        Effect.provide(over(target))
      )
      assert.strictEqual(stop.reason, "no_progress")
    })
  )
})

describe("a failure of the guard's own functions", () => {
  const broken = (options: SafetyGuard.Options) =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run(options),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))])
      )
      return { stop, ran: ran.length }
    })
  /** As from an untyped program. */
  const untyped = (value: unknown) => value as never
  const unreadable = Object.defineProperty(new Error("x"), "message", {
    get: () => {
      throw new Error("boom")
    }
  })
  const boom = (): never => {
    throw new Error("boom")
  }

  it.effect("stops the run with the reason, and the call does not run", () =>
    Effect.gen(function* () {
      for (const [options, what] of [
        [{ loops: { tools: { look_up: { identity: boom } } } }, "The loop detector failed (Error: boom)"],
        [
          { loops: { tools: { look_up: { identity: async (args) => args } } } },
          'The loop detector failed (InvalidOption: LoopDetector: tools.look_up.identity must be a function that returns JSON: texts, numbers, lists and plain objects of them, got "an instance of Promise")'
        ],
        [{ fileOf: boom }, "`fileOf` failed (Error: boom)"],
        [{ permit: boom }, "The permission hook failed (Error: boom)"],
        [{ permit: () => Effect.die(new Error("boom")) }, "The permission hook failed (Error: boom)"],
        [
          { permit: () => Effect.die(new Error("no user for Authorization: Bearer abc123def456")) },
          "The permission hook failed (Error: no user for Authorization: [redacted])"
        ],
        [
          { permit: () => Effect.die(unreadable) },
          "The permission hook failed (it threw an error that cannot be read)"
        ],
        [
          { permit: () => Effect.interrupt },
          "The permission hook failed (Error: All fibers interrupted without error)"
        ],
        [
          { permit: () => untyped("allow") },
          "The permission hook failed (TypeError: it gave another text, not an Effect"
        ],
        [
          { permit: () => untyped(Promise.resolve("allow")) },
          "The permission hook failed (TypeError: it gave a promise, not an Effect"
        ],
        ...[undefined, null, true, 5, "deny", { allow: true }, { refuse: 5 }, ["allow"]].map(
          (value): [SafetyGuard.Options, string] => [
            { permit: () => Effect.succeed(untyped(value)) },
            "The permission hook failed (TypeError: it gave "
          ]
        ),
        [
          { fileOf: () => untyped(5) },
          "`fileOf` failed (TypeError: it gave a number, not the name of a file)"
        ],
        [
          { fileOf: () => untyped(["a", 5]) },
          "`fileOf` failed (TypeError: it gave a number, not the name of a file)"
        ],
        [
          { fileOf: () => untyped(Promise.resolve("a.ts")) },
          "`fileOf` failed (TypeError: it gave a promise, not"
        ]
      ] satisfies ReadonlyArray<[SafetyGuard.Options, string]>) {
        const { stop, ran } = yield* broken(options)
        assert.strictEqual(ran, 0, what)
        assert.strictEqual(stop.reason, "guard_failed")
        assert.include(stop.message, `Forced stop: ${what}`)
      }
    })
  )
})
