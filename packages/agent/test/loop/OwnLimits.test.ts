/** Limits and loops of the run itself, and what its sub-agents may use of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Failover } from "@outlast/agent"
import { ActiveTime } from "@outlast/agent/conversation"
import { Delegate } from "@outlast/agent/loop"
import { look, looking, looks, Look, model, says, textsOf, transitions } from "./looking.ts"
import { answer, inTime, played, policy, timed } from "../support.ts"
import { assertLegal } from "./runWorld.ts"

/** Looks at another page in each turn, without end. */
const endless = () => model((turn) => looks(turn))

const run = (options: Partial<Omit<Agent.Options<{}>, "toolkit">>, asked = endless()) =>
  Effect.gen(function* () {
    const { pages, layer } = looking()
    const { seen, layer: events } = transitions()
    const outcome = yield* Agent.run({ prompt: "go", toolkit: Look, ...options }).pipe(
      Effect.provide([layer, asked.layer, events])
    )
    assertLegal(outcome.transcript.prompt)
    return { outcome, pages, seen, prompts: asked.prompts }
  })

describe("Agent limits", () => {
  it.effect("end the run at the call that has no room, and the outcome says which limit", () =>
    Effect.gen(function* () {
      const { outcome, pages, seen } = yield* run({ limits: { toolCalls: 3 } })
      assert.deepStrictEqual(
        [outcome.status, outcome.stop?.reason, outcome.stop?.limit],
        ["guard_stopped", "max_tool_calls", 3]
      )
      assert.strictEqual(pages.length, 3)
      assert.include(outcome.stop?.message, "reached maximum of 3 tool invocations")
      assert.strictEqual(seen.at(-1), "guard_stopped")
    })
  )

  it.effect.each([
    ["turns", { turns: 2 }, "turns"],
    ["tokens", { tokens: 3 }, "tokens"],
    ["events", { events: 5 }, "max_events"],
    ["tools", { tools: { look: 1 } }, "tool_limit"]
  ] as const)("stop by %s", ([, limits, reason]) =>
    Effect.gen(function* () {
      const { outcome } = yield* run({ limits })
      assert.deepStrictEqual([outcome.status, outcome.stop?.reason], ["guard_stopped", reason])
    })
  )

  it.effect("count edits of a file", () =>
    Effect.gen(function* () {
      const Edit = Toolkit.make(
        Tool.make("edit", {
          parameters: Schema.Struct({ path: Schema.String, content: Schema.String }),
          success: Schema.String
        })
      )
      let edits = 0
      const { layer } = model((turn) => [
        { type: "tool-call", id: `${turn}`, name: "edit", params: { path: "a.ts", content: `${turn}` } },
        ...looks()
      ])
      const outcome = yield* Agent.run({ prompt: "go", toolkit: Edit, limits: { fileEdits: 4 } }).pipe(
        Effect.provide([Edit.toLayer({ edit: () => Effect.sync(() => `edit ${++edits}`) }), layer])
      )
      assert.deepStrictEqual([outcome.stop?.reason, outcome.stop?.subject, edits], ["file_loop", "a.ts", 4])
    })
  )

  it.effect("interrupt a tool when the active time is up", () =>
    Effect.gen(function* () {
      const { layer } = endless()
      const fiber = yield* Agent.run({ prompt: "go", toolkit: Look, limits: { time: "10 seconds" } }).pipe(
        Effect.provide([Look.toLayer({ look: () => Effect.never }), layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("10 seconds")
      const outcome = yield* Fiber.join(fiber)
      assert.deepStrictEqual([outcome.stop?.reason, outcome.stop?.subject], ["timeout", "active"])
      assertLegal(outcome.transcript.prompt)
      assert.include(textsOf(outcome.transcript.prompt).at(-1), "stopped while this call ran")
    })
  )

  it.effect("interrupt a tool when the active time of all turns is up", () =>
    Effect.gen(function* () {
      const fiber = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        limits: { time: "10 minutes" },
        toolTimeout: "1 hour"
      }).pipe(
        Effect.provide([
          Look.toLayer({ look: () => Effect.as(Effect.sleep("4 minutes"), "found") }),
          endless().layer
        ]),
        timed,
        Effect.forkChild
      )
      yield* TestClock.adjust("1 hour")
      const { took, value } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([value.stop?.reason, took], ["timeout", 600_000])
    })
  )

  it.effect.each([
    ["of the sub-agent that it runs", "inside"],
    ["after the sub-agent that it ran has ended", "after"]
  ] as const)("do not count a wait of a tool %s", ([, where]) =>
    Effect.gen(function* () {
      const { layer } = model((turn, prompt) =>
        turn > 0 ? says("done") : looks(textsOf(prompt)[0] === "go" ? 1 : 2)
      )
      const found = Effect.succeed("found")
      const wait = Effect.andThen(ActiveTime.parked(Effect.sleep("2 hours")), found)
      const [inner, outer] = where === "inside" ? [wait, found] : [found, wait]
      const options = { toolkit: Look, toolTimeout: "3 hours" } as const
      const sub = Agent.run({ ...options, prompt: "look" }).pipe(
        Effect.provide([Look.toLayer({ look: () => inner }), layer]),
        Effect.orDie
      )
      const fiber = yield* Agent.run({ ...options, prompt: "go", limits: { time: "10 minutes" } }).pipe(
        Effect.provide([Look.toLayer({ look: () => Effect.andThen(sub, outer) }), layer]),
        Effect.forkChild
      )
      for (let n = 0; n < 30; n++) yield* TestClock.adjust("5 minutes")
      assert.strictEqual((yield* Fiber.join(fiber)).status, "completed")
    })
  )

  it.effect("block and stop a loop, and nudge the model before", () =>
    Effect.gen(function* () {
      const asked = model((turn) => [look(`${turn}`, 1), ...looks()])
      const { outcome, pages, prompts } = yield* run({ limits: {} }, asked)
      assert.deepStrictEqual([outcome.status, outcome.stop?.reason], ["guard_stopped", "tool_loop"])
      assert.strictEqual(pages.length, 5)
      assert.isAbove(outcome.blockedCalls, 0)
      assert.strictEqual(outcome.blocked[0]?.pattern, "identical")
      // The hint is in the call after it, and not in the conversation.
      assert.isTrue(prompts.some((prompt) => textsOf(prompt).at(-1)?.includes("was called with the same")))
      assert.isFalse(outcome.transcript.prompt.content.some((message, i) => i > 0 && message.role === "user"))
    })
  )
})

describe("loops of a run with limits", () => {
  it.effect("block polls of a minute each after ten minutes, by the time in the events", () =>
    Effect.gen(function* () {
      const states = ["queued", "starting"]
      let ran = 0
      const job = Look.toLayer({
        look: () => Effect.map(Effect.sleep("1 minute"), () => states[ran++] ?? "running")
      })
      const options = { prompt: "go", toolkit: Look, limits: {}, loops: "strict" } as const
      const fiber = yield* Agent.run(options).pipe(
        Effect.provide([job, model(() => looks(1)).layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("2 hours")
      assert.strictEqual((yield* Fiber.join(fiber)).stop?.reason, "no_progress")
      assert.strictEqual(ran, 2 + 11)
    })
  )

  it.effect("tell the model that its thinking repeats itself", () =>
    Effect.gen(function* () {
      const { layer } = looking()
      const thinking = "Wait, I should look at the page once more before I go on. ".repeat(40)
      const asked = model((turn) =>
        turn === 0 ? [{ type: "reasoning", text: thinking }, ...looks(1)] : says("done")
      )
      yield* Agent.run({ prompt: "go", toolkit: Look, loops: "strict" }).pipe(
        Effect.provide([layer, asked.layer])
      )
      assert.include(JSON.stringify(asked.prompts[1]), "The answer repeats itself")
    })
  )
})

describe("sub-agents of a run with limits", () => {
  const Ask = Toolkit.make(Tool.make("research", { parameters: Delegate.Task, success: Schema.String }))

  /** An outer run that delegates `calls` tasks in its first turn. The sub-agents look without end. */
  const delegating = (
    limits: Agent.Options<{}>["limits"],
    calls: number,
    { outer = (turn: number): boolean => turn === 0, inner = (turn: number) => looks(turn) } = {}
  ) =>
    Effect.gen(function* () {
      const { pages, layer } = looking()
      const asked = model((turn, prompt) => {
        if (textsOf(prompt)[0] !== "go") return inner(turn)
        if (!outer(turn)) return says("done")
        return [
          ...Array.from({ length: calls }, (_, i) => ({
            type: "tool-call" as const,
            id: `${i}`,
            name: "research",
            params: { task: `find ${i}` }
          })),
          ...looks()
        ]
      })
      const research = Ask.toLayer(
        Effect.map(
          Effect.context<LanguageModel.LanguageModel | Tool.HandlersFor<typeof Look.tools>>(),
          (context) => {
            const handler = Delegate.handler({ toolkit: Look })
            return { research: (task: Delegate.Task) => Effect.provideContext(handler(task), context) }
          }
        )
      )
      const outcome = yield* Agent.run({ prompt: "go", toolkit: Ask, limits, loops: false }).pipe(
        Effect.provide(research.pipe(Layer.provideMerge(Layer.merge(layer, asked.layer))))
      )
      return { outcome, pages, texts: textsOf(outcome.transcript.prompt) }
    })

  it.effect("use at most what is left, and the run goes on", () =>
    Effect.gen(function* () {
      const { outcome, pages, texts } = yield* delegating({ toolCalls: 10 }, 1)
      assert.strictEqual(outcome.status, "completed")
      // One call was the delegation itself.
      assert.strictEqual(pages.length, 9)
      assert.deepStrictEqual([outcome.subagents.runs, outcome.subagents.toolCalls], [1, 9])
      assert.include(texts.join(), "did not finish (guard_stopped)")
    })
  )

  it.effect("count with their last turn, which nothing follows", () =>
    Effect.gen(function* () {
      // Each sub-agent answers in one turn of 2,000 tokens.
      const { outcome } = yield* delegating({ tokens: 5_000 }, 1, {
        outer: (turn) => turn < 10,
        inner: () => says("found", 2_000)
      })
      assert.deepStrictEqual([outcome.status, outcome.stop?.reason], ["guard_stopped", "tokens"])
      assert.deepStrictEqual([outcome.subagents.runs, outcome.subagents.tokens], [3, 6_000])
    })
  )

  it.effect("run one after another within a breadth that is smaller than their number", () =>
    Effect.gen(function* () {
      const { layer } = model((turn, prompt) =>
        turn === 0 && textsOf(prompt)[0] === "go" ? looks(1) : says("done")
      )
      const tool = Look.toLayer({
        look: () =>
          Effect.forEach([1, 2, 3], () => Agent.run({ prompt: "look" })).pipe(
            Effect.map((outcomes) => outcomes.map(({ status }) => status).join(" ")),
            Effect.provide(layer),
            Effect.orDie
          )
      })
      const limits = { subagents: { breadth: 2 } } as const
      const outcome = yield* Agent.run({ prompt: "go", toolkit: Look, limits }).pipe(
        Effect.provide([tool, layer])
      )
      assert.include(textsOf(outcome.transcript.prompt), '"completed completed completed"')
    })
  )

  it.effect("do not begin beyond the breadth while others run", () =>
    Effect.gen(function* () {
      const { layer } = model((turn, prompt) =>
        turn === 0 && textsOf(prompt)[0] === "go" ? looks(1) : says("done")
      )
      const slow = played({ answers: [Effect.delay(answer("done"), 5)] })
      const tool = Look.toLayer({
        look: () =>
          Effect.forEach([1, 2, 3], () => Agent.run({ prompt: "look" }), { concurrency: 3 }).pipe(
            Effect.map((outcomes) => outcomes.map(({ status, stop }) => stop?.reason ?? status).join(" ")),
            Effect.provide(Failover.layer([slow], { policy })),
            Effect.orDie
          )
      })
      const limits = { subagents: { breadth: 2 } } as const
      const outcome = yield* inTime(
        Agent.run({ prompt: "go", toolkit: Look, limits }).pipe(Effect.provide([tool, layer]))
      )
      assert.include(textsOf(outcome.transcript.prompt), '"completed completed subagents"')
    })
  )

  it.effect("of parallel calls get equal parts", () =>
    Effect.gen(function* () {
      const { outcome, pages } = yield* delegating({ toolCalls: 11 }, 3)
      assert.strictEqual(outcome.status, "completed")
      // 11 - 3 = 8 calls are left: two for each of the three.
      assert.strictEqual(pages.length, 6)
      assert.strictEqual(outcome.subagents.runs, 3)
    })
  )

  it.effect("do not begin beyond the depth", () =>
    Effect.gen(function* () {
      const { outcome, pages, texts } = yield* delegating({ subagents: { depth: 0 } }, 1)
      assert.strictEqual(outcome.status, "completed")
      assert.deepStrictEqual(pages, [])
      assert.include(texts.join(), "levels of sub-agents")
    })
  )

  it.effect("are counted without limits, too", () =>
    Effect.gen(function* () {
      const { outcome } = yield* delegating(undefined, 2)
      assert.strictEqual(outcome.subagents.runs, 2)
      assert.strictEqual(outcome.subagents.turns, 100)
    })
  )
})
