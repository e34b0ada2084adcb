/** Each transition of a run is an event. The table in `docs/do/agent.md` names them all. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Prompt } from "effect/ai"
import { readFileSync } from "node:fs"
import { Agent, Failover, FailoverReason } from "@outlast/agent"
import { Transition } from "@outlast/agent/loop"
import type { Played } from "../support.ts"
import { answer, failure, finish, inTime, played, policy } from "../support.ts"
import { model, says, transitions } from "./looking.ts"

const over = (target: Played, options: Partial<Omit<Agent.Options<{}>, "toolkit">> = {}, of = policy) =>
  Effect.gen(function* () {
    const { seen, layer } = transitions()
    const exit = yield* inTime(
      Effect.exit(
        Agent.run({ prompt: "go", ...options }).pipe(Effect.provide(Failover.layer([target], { policy: of })))
      )
    ).pipe(Effect.provide(layer))
    return { seen, outcome: exit._tag === "Success" ? exit.value : undefined }
  })

/** The policy with a limit for answers, which may be raised. */
const cutting = (continuations: number): typeof policy => ({
  ...policy,
  truncation: { start: 100, raiseTo: 200, raises: 1, continuations, poorGains: 3, minGain: 500 }
})

describe("transitions of the recovery of a call", () => {
  it.effect("output_limit_raised: the answer was cut, and the call repeated with a raised limit", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("so", "length", 100), answer("so it is")] })
      const { seen, outcome } = yield* over(target, {}, cutting(3))
      assert.deepStrictEqual(seen, ["output_limit_raised", "completed"])
      assert.deepStrictEqual([outcome?.outputRaises, outcome?.continuations], [1, 0])
    })
  )

  it.effect("output_continued: once for each continuation of a cut answer", () =>
    Effect.gen(function* () {
      const target = played({
        answers: [
          answer("a", "length", 100),
          answer("a", "length", 1_000),
          answer("b", "length", 1_000),
          answer("c", "stop", 1)
        ]
      })
      const { seen, outcome } = yield* over(target, {}, cutting(3))
      assert.deepStrictEqual(seen, [
        "output_limit_raised",
        "output_continued",
        "output_continued",
        "completed"
      ])
      assert.deepStrictEqual([outcome?.outputRaises, outcome?.continuations], [1, 2])
    })
  )

  it.effect("diminishing_returns: the continuations added too little, and the cut answer is delivered", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("a", "length", 10)] })
      const { seen } = yield* over(target, {}, cutting(9))
      assert.deepStrictEqual(seen, [
        "output_limit_raised",
        "output_continued",
        "output_continued",
        "output_continued",
        "diminishing_returns",
        "answer_cut"
      ])
    })
  )

  it.effect("media_dropped: images that the model refused became a note", () =>
    Effect.gen(function* () {
      const image: Prompt.FilePartEncoded = {
        type: "file",
        mediaType: "image/png",
        fileName: "a.png",
        data: new TextEncoder().encode("a")
      }
      const refused = failure(new FailoverReason.Format({ side: "request", media: true }))
      const target = played({ answers: [Effect.fail(refused), answer("hello")] })
      const { seen, outcome } = yield* over(target, { prompt: [{ role: "user", content: [image] }] })
      assert.deepStrictEqual(seen, ["media_dropped", "completed"])
      assert.strictEqual(outcome?.mediaDropped, 1)
    })
  )

  it.effect("are published for a call that fails, too", () =>
    Effect.gen(function* () {
      const target = played({
        answers: [
          Effect.succeed([finish("length", 100)]),
          Effect.fail(failure(new FailoverReason.ContentPolicy()))
        ]
      })
      const { seen } = yield* over(target, {}, cutting(0))
      assert.deepStrictEqual(seen, ["output_limit_raised", "answer_refused"])
    })
  )
})

describe("tokenBudget", () => {
  const working = (tokens: ReadonlyArray<number>, tokenBudget: number, maxTurns = 20) =>
    Effect.gen(function* () {
      const { seen, layer } = transitions()
      const asked = model((turn) => says(`part ${turn}`, tokens[turn] ?? tokens.at(-1) ?? 0))
      const outcome = yield* Agent.run({ prompt: "go", tokenBudget, maxTurns }).pipe(
        Effect.provide([asked.layer, layer])
      )
      return { seen, outcome, prompts: asked.prompts }
    })

  it.effect("budget_nudged: a model that stops below 90 % is asked to go on", () =>
    Effect.gen(function* () {
      const { seen, outcome, prompts } = yield* working([1_000, 7_999, 1], 10_000)
      assert.deepStrictEqual(seen, ["budget_nudged", "budget_nudged", "completed"])
      assert.strictEqual(outcome.usage.outputTokens, 9_000)
      const nudge = prompts[1]?.content.at(-1)
      assert.include(JSON.stringify(nudge), "stopped at 10% of the token target (1,000 of 10,000)")
    })
  )

  it.effect("diminishing_returns: three gains in a row below 500 tokens end the run", () =>
    Effect.gen(function* () {
      const { seen, outcome } = yield* working([1_000, 499, 500, 499, 499, 499], 100_000)
      assert.deepStrictEqual(seen, [
        ...Array.from({ length: 5 }, () => "budget_nudged"),
        "diminishing_returns",
        "completed"
      ])
      assert.strictEqual(outcome.turns, 6)
    })
  )

  it.effect("does not nudge in the last turn", () =>
    Effect.gen(function* () {
      const { seen } = yield* working([1_000], 1_000_000, 2)
      assert.deepStrictEqual(seen, ["budget_nudged", "completed"])
    })
  )
})

describe("docs/do/agent.md", () => {
  const page = readFileSync(new URL("../../../../docs/do/agent.md", import.meta.url), "utf8")

  it("has a row for every transition", () => {
    for (const transition of Transition.Transition.literals) assert.include(page, `| \`${transition}\``)
  })

  it("names every code of the error recovery that it is compared with", () => {
    const codes =
      "completed next_turn max_output_tokens_escalate max_output_tokens_recovery reactive_compact_retry prompt_too_long collapse_drain_retry model_error image_error aborted_streaming aborted_tools stop_hook_blocking stop_hook_prevented hook_stopped token_budget_continuation blocking_limit max_turns"
    for (const code of codes.split(" ")) assert.include(page, `\`${code}\``)
  })
})
