import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { Prompt } from "effect/ai"
import { Agent } from "@outlast/agent"
import type { Hooks } from "@outlast/agent/loop"
import { look, looking, looks, Look, model, says, textsOf, transitions } from "./looking.ts"
import { assertLegal } from "./runWorld.ts"

/** A run that looks at two pages in one turn and then answers. */
const run = (hooks: Hooks.Hooks, options: Partial<Omit<Agent.Options<{}>, "toolkit">> = {}) =>
  Effect.gen(function* () {
    const { pages, layer } = looking()
    const { prompts, layer: asked } = model((turn) => (turn === 0 ? looks(1, 2) : says(`answer ${turn}`)))
    const { seen, layer: events } = transitions()
    const outcome = yield* Agent.run({ prompt: "go", toolkit: Look, hooks, ...options }).pipe(
      Effect.provide([layer, asked, events])
    )
    assertLegal(outcome.transcript.prompt)
    return { outcome, pages, prompts, seen, texts: textsOf(outcome.transcript.prompt) }
  })

describe("hooks.beforeTool", () => {
  it.effect("sees each call in order and lets it run", () =>
    Effect.gen(function* () {
      const calls: Array<Hooks.ToolCall> = []
      const { pages, seen } = yield* run({
        beforeTool: (call) => Effect.sync(() => (calls.push(call), "continue"))
      })
      assert.deepStrictEqual(calls, [
        { turn: 1, id: "1-0", tool: "look", params: { page: 1 } },
        { turn: 1, id: "2-1", tool: "look", params: { page: 2 } }
      ])
      assert.deepStrictEqual(pages, [1, 2])
      assert.deepStrictEqual(seen, ["next_turn", "completed"])
    })
  )

  it.effect("blocks one call with a message that the model reads, and the others run", () =>
    Effect.gen(function* () {
      const { outcome, pages, seen, texts } = yield* run({
        beforeTool: ({ id }) => Effect.succeed(id === "1-0" ? { block: "Page 1 is private." } : "continue")
      })
      assert.deepStrictEqual(pages, [2])
      assert.include(texts[1], "Page 1 is private.")
      assert.deepStrictEqual(seen, ["hook_blocked (tool)", "next_turn", "completed"])
      assert.deepStrictEqual(outcome.blocked, [
        { tool: "look", turn: 1, pattern: "hook", message: "Page 1 is private." }
      ])
      assert.strictEqual(outcome.blockedCalls, 1)
    })
  )

  it.effect("stops the run, and no call of the turn has run", () =>
    Effect.gen(function* () {
      const { outcome, pages, seen } = yield* run({
        beforeTool: ({ id }) => Effect.succeed(id === "2-1" ? { stop: "Enough." } : "continue")
      })
      assert.deepStrictEqual(pages, [])
      assert.deepStrictEqual(seen, ["hook_stopped (tool)"])
      assert.deepStrictEqual(
        [outcome.status, outcome.stop?.reason, outcome.stop?.message],
        ["hook_stopped", "hook", "Enough."]
      )
    })
  )

  it.effect("is not asked about a call that the machine has blocked", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const { layer } = looking()
      const { layer: same } = model((turn) => (turn < 9 ? [look(`${turn}`, 1), ...looks()] : says("done")))
      const outcome = yield* Agent.run({
        prompt: "go",
        toolkit: Look,
        loops: "strict",
        hooks: { beforeTool: ({ id }) => Effect.sync(() => (asked.push(id), "continue")) }
      }).pipe(Effect.provide([layer, same]))
      assert.isAbove(outcome.blockedCalls, 0)
      assert.strictEqual(asked.length + outcome.blockedCalls, outcome.toolCalls)
    })
  )
})

describe("hooks.afterTool", () => {
  it.effect("sees the results in the order of the calls, and hides one behind its message", () =>
    Effect.gen(function* () {
      const results: Array<unknown> = []
      const { pages, seen, texts } = yield* run({
        afterTool: ({ id, result }) =>
          Effect.sync(() => {
            results.push(result)
            return id === "2-1" ? { block: "This page has a secret." } : "continue"
          })
      })
      assert.deepStrictEqual(pages, [1, 2])
      assert.deepStrictEqual(results, ["the text of page 1", "the text of page 2"])
      assert.include(texts[1], "page 1")
      assert.include(texts[2], "This page has a secret.")
      assert.notInclude(texts.join(), "page 2")
      assert.deepStrictEqual(seen, ["hook_blocked (tool)", "next_turn", "completed"])
    })
  )

  it.effect("stops the run after the tools, with their results in the conversation", () =>
    Effect.gen(function* () {
      const { outcome, texts } = yield* run({ afterTool: () => Effect.succeed({ stop: "Enough." }) })
      assert.deepStrictEqual([outcome.status, outcome.toolCalls], ["hook_stopped", 2])
      assert.include(texts.join(), "page 2")
    })
  )
})

describe("hooks.beforeStop", () => {
  it.effect("sends the model back to work with a message of the user", () =>
    Effect.gen(function* () {
      const ended: Array<Hooks.Ended> = []
      const { outcome, prompts, seen } = yield* run({
        beforeStop: (end) =>
          Effect.sync(() => {
            ended.push(end)
            return ended.length === 1 ? { block: "The tests fail." } : "continue"
          })
      })
      assert.deepStrictEqual(ended, [
        { turn: 2, text: "answer 1" },
        { turn: 3, text: "answer 2" }
      ])
      assert.strictEqual(textsOf(prompts.at(-1) ?? Prompt.empty).at(-1), "The tests fail.")
      assert.deepStrictEqual(seen, ["next_turn", "hook_blocked (end)", "completed"])
      assert.deepStrictEqual([outcome.status, outcome.text], ["completed", "answer 2"])
    })
  )

  it.effect("that always blocks ends at the limit of turns", () =>
    Effect.gen(function* () {
      const { outcome, seen } = yield* run(
        { beforeStop: () => Effect.succeed({ block: "Again." }) },
        { maxTurns: 4 }
      )
      assert.deepStrictEqual([outcome.status, outcome.turns], ["turn_limit", 4])
      assert.strictEqual(seen.at(-1), "turn_limit")
    })
  )

  it.effect("stops the run", () =>
    Effect.gen(function* () {
      const { outcome, seen } = yield* run({ beforeStop: () => Effect.succeed({ stop: "No." }) })
      assert.deepStrictEqual([outcome.status, outcome.stop?.message], ["hook_stopped", "No."])
      assert.deepStrictEqual(seen, ["next_turn", "hook_stopped (end)"])
    })
  )
})

it.effect(
  "a hook of an untyped program that gives another value ends the run with a defect that says so",
  () =>
    Effect.gen(function* () {
      // An untyped program.
      const hooks = { beforeTool: () => Effect.succeed("yes") } as unknown as Hooks.Hooks
      const exit = yield* Effect.exit(run(hooks))
      assert.isTrue(Exit.isFailure(exit))
      if (Exit.isFailure(exit)) assert.include(String(exit.cause), 'must give "continue"')
    })
)
