/** The pure state machine by model, and concurrent calls through the Effect shell. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Random, Schema } from "effect"
import { GuardState } from "@outlast/agent/guard"
import { Limits, SafetyGuard, StopReason } from "@outlast/agent"
import { Kit, looking, model, over, tools, words } from "./support.ts"
import { LanguageModel } from "effect/ai"

const Command = Schema.Union([
  Schema.Struct({ do: Schema.Literal("call") }),
  Schema.Struct({
    do: Schema.Literal("tool"),
    tool: Schema.Literals(["a", "b"]),
    files: Schema.Literals(["", "f", "g", "fg"])
  }),
  Schema.Struct({ do: Schema.Literal("event") }),
  Schema.Struct({ do: Schema.Literal("denial") }),
  Schema.Struct({
    do: Schema.Literal("agent"),
    depth: Schema.Literals([1, 2, 3]),
    running: Schema.Literals([0, 1, 2])
  }),
  Schema.Struct({ do: Schema.Literal("spend"), tokens: Schema.Literals([0, 5, 50]) })
])

const step = (
  bounds: Limits.Bounds,
  state: GuardState.GuardState,
  command: typeof Command.Type
): GuardState.Step => {
  switch (command.do) {
    case "call":
      return GuardState.admitCall(bounds, state)
    case "tool":
      return GuardState.admitTool(bounds, state, {
        tool: command.tool,
        files: [...command.files]
      })
    case "event":
      return GuardState.admitEvent(bounds, state)
    case "denial":
      return GuardState.admitDenial(bounds, state, { tool: "a", turn: 1, pattern: "identical", message: "" })
    case "agent":
      return GuardState.admitAgent(bounds, state, command)
    case "spend":
      return [undefined, GuardState.spent(state, { tokens: command.tokens, costUsd: 0 })]
  }
}

describe("reports of providers", () => {
  it("neither reduce a count nor disable a limit when they are wrong", () => {
    const spent = [10, Number.NaN, -5].reduce(
      (state, amount) => GuardState.spent(state, { tokens: amount, costUsd: amount }),
      GuardState.initial
    )
    assert.deepInclude(spent, { tokens: 10, costUsd: 10 })
  })
})

describe("GuardState", () => {
  it.prop(
    "keeps every count within its limit; a stopped state admits nothing and keeps its first reason",
    {
      commands: Schema.Array(Command),
      events: Schema.Literals([1, 5, 12]),
      toolCalls: Schema.Literals([1, 3, 8])
    },
    ({ commands, events, toolCalls }) => {
      const bounds = Limits.make({
        events,
        toolCalls,
        turns: 4,
        tokens: 60,
        tools: { a: 2 },
        fileEdits: 2,
        subagents: { depth: 2, breadth: 2, total: 2 }
      })
      let state = GuardState.initial
      const admitted: Array<typeof Command.Type> = []
      let first: StopReason.Tripped | undefined
      for (const command of commands) {
        const before = state
        const [tripped, after] = step(bounds, before, command)
        state = after
        if (tripped === undefined) {
          if (command.do !== "spend") assert.isUndefined(before.stopped)
          admitted.push(command)
        } else {
          first ??= tripped
          assert.deepStrictEqual(state.stopped, first)
          // A rejected step changes no count.
          assert.deepStrictEqual({ ...state, stopped: undefined }, { ...before, stopped: undefined })
        }
        const of = (what: string) => admitted.filter((command) => command.do === what)
        const calls = of("tool")
        assert.strictEqual(state.toolCalls, calls.length)
        assert.strictEqual(state.events, of("event").length + 2 * (calls.length + of("denial").length))
        assert.isAtMost(state.events, events)
        assert.isAtMost(state.toolCalls, toolCalls)
        assert.isAtMost(state.turns, 4)
        assert.isAtMost(state.subagents, 2)
        assert.isAtMost(calls.filter((command) => "tool" in command && command.tool === "a").length, 2)
        for (const file of ["f", "g"]) {
          const edits = calls.filter((command) => "files" in command && command.files.includes(file))
          assert.isAtMost(edits.length, 2)
        }
      }
      return true
    }
  )

  it("rejects a model call once tokens or money are spent", () => {
    const bounds = Limits.make({ tokens: 10, money: 1 })
    const rich = GuardState.spent(GuardState.initial, { tokens: 9, costUsd: 0.5 })
    assert.isUndefined(GuardState.admitCall(bounds, rich)[0])
    const [tokens] = GuardState.admitCall(bounds, GuardState.spent(rich, { tokens: 1, costUsd: 0 }))
    assert.strictEqual(tokens?.reason, "tokens")
    const [money] = GuardState.admitCall(bounds, GuardState.spent(rich, { tokens: 0, costUsd: 0.5 }))
    assert.strictEqual(money?.reason, "money")
  })

  it("remembers only the last of very many files", () => {
    const bounds = Limits.make({ toolCalls: 100_000, fileEdits: 3 })
    let state = GuardState.initial
    for (let n = 0; n < 20_000; n++) {
      const [tripped, next] = GuardState.admitTool(bounds, state, { tool: "edit", files: [`f${n}`] })
      assert.isUndefined(tripped)
      state = next
    }
    assert.strictEqual(state.files.total, 20_000)
    assert.isAtMost(state.files.last.length, 10)
    for (let n = 0; n < 2; n++) {
      state = GuardState.admitTool(bounds, state, { tool: "edit", files: ["f19000"] })[1]
    }
    const [tripped] = GuardState.admitTool(bounds, state, { tool: "edit", files: ["f19000"] })
    assert.deepInclude(tripped, { reason: "file_loop", limit: 3, subject: "f19000" })
  })

  it.effect.prop(
    "runs no more calls than allowed, in any interleaving",
    {
      delays: Schema.NonEmptyArray(Schema.Literals([0, 1, 2, 3])),
      limit: Schema.Literals([1, 2, 5]),
      seed: Schema.String
    },
    ({ delays, limit, seed }) =>
      Effect.gen(function* () {
        let running = 0
        const { layer } = tools({
          look_up: () =>
            Effect.gen(function* () {
              running++
              for (let n = yield* Random.nextIntBetween(0, 4); n > 0; n--) yield* Effect.yieldNow
              return "ok"
            })
        })
        const ask = Effect.gen(function* () {
          for (let n = yield* Random.nextIntBetween(0, 4); n > 0; n--) yield* Effect.yieldNow
          yield* LanguageModel.generateText({ prompt: "x", toolkit: Kit })
        })
        const target = yield* model({
          answers: () => looking(...delays.map((_, n) => `question ${words(n)}`))
        })
        const exit = yield* Effect.forEach(delays, () => ask, { concurrency: "unbounded" }).pipe(
          SafetyGuard.run({ toolCalls: limit, loops: false }),
          Effect.exit,
          Random.withSeed(seed),
          Effect.provide([layer, over(target)])
        )
        assert.strictEqual(running, Math.min(limit, delays.length ** 2))
        assert.strictEqual(Exit.isFailure(exit), delays.length ** 2 > limit)
      }),
    { arbitrary: { runs: 40 } }
  )

  it("has a sentence for each reason", () => {
    const counts = GuardState.counts(GuardState.initial, 443_000, 443_000)
    for (const reason of StopReason.reasons) {
      const said = StopReason.texts.stopped({ reason, limit: 1_234, subject: "it", counts })
      assert.match(
        said,
        /^Forced stop: .+\. Events processed: 0 \| Tool calls: 0 \| Elapsed: 7m 23s\. Please review/
      )
    }
  })
})
