/**
 * A streamed answer that is cut at every possible place, and continued by models that repeat
 * themselves, add a remark, or continue in the middle of a word. The consumer reads the answer as if it had not been
 * cut, or an event reports a possible error.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { inArguments, paidOnce, payment, stream, streamingAgent } from "./programs.ts"
import type { Scenario, Story } from "./Scenario.ts"
import { inMemory, overHttp, place, wires } from "./Scenario.ts"
import * as Sweeps from "../sweeps.ts"

const said = "Seven voted for the repair of the roof, two against, and Mr Öztürk was asleep. 好的 🚀 bye"
const characters = Array.from(said)
const before = (after: number) => characters.slice(0, after).join("")
const everywhere = characters.slice(1).map((_, i) => i + 1)

/** The form of a continuation: a remark, then a repetition of the last characters. */
interface Habit {
  readonly repeated: number
  readonly remark: string
}

const cut = (after: number, { repeated, remark }: Habit): Scenario<string, unknown> => ({
  chain: [place("anthropic", "A"), place("openai", "B")],
  plan: {
    faults: [{ fault: { type: "cut", after } }, { fault: { type: "repeat", characters: repeated, remark } }],
    answers: [{ text: said, chunk: 1 }]
  },
  program: stream
})

/** Expects the answer, or the full text with an event that reports a possible repetition. */
const isRight = (story: Story<string>, after: number, { repeated, remark }: Habit): void => {
  const where = `cut after ${after}, ${repeated} characters again behind ${JSON.stringify(remark)}`
  const shown = before(after)
  const again = shown.slice(Math.max(0, shown.length - repeated))
  const all = shown + remark + again + said.slice(shown.length)
  const isUnsure = story.lines.some((line) => line.startsWith("SeamUnsure"))
  assert.strictEqual(story.result, isUnsure ? all : said, where)
  assert.deepStrictEqual(story.asked, ["A", "A"], where)
}

const remarks = ["Sure, continuing from where I left off:\n\n", "好的，继续：\n"]

/** After the end of a sentence, a remark cannot be distinguished from the next sentence. */
const mayBeNext = (after: number) => /[.🚀]\s*$/u.test(before(after))
/** A comma ends no sentence. */
const behindComma = (after: number) => /,\s*$/.test(before(after))

describe("a cut answer reads as if it had never been cut, wherever that was", () => {
  for (const repeated of [0, 1, 5, 8, 12, 23, 24, 40, 200]) {
    it.live(`when ${repeated} characters are repeated (BerriAI/litellm#32835)`, () =>
      Effect.gen(function* () {
        for (const after of Sweeps.everyNth(2, everywhere)) {
          const habit = { repeated, remark: "" }
          isRight(yield* inMemory(cut(after, habit)), after, habit)
        }
      })
    )
    it.live(`when ${repeated} characters are repeated after a remark (BerriAI/litellm#27967)`, () =>
      Effect.gen(function* () {
        for (const after of Sweeps.everyNth(2, everywhere)) {
          if (repeated < 24 && (mayBeNext(after) || behindComma(after))) continue
          const habit = { repeated, remark: remarks[(after + repeated) % 2] ?? "" }
          isRight(yield* inMemory(cut(after, habit)), after, habit)
        }
      })
    )
  }

  it.live("when there is only a remark after a comma", () =>
    Effect.gen(function* () {
      for (const after of everywhere.filter(behindComma)) {
        const habit = { repeated: 0, remark: remarks[0] ?? "" }
        isRight(yield* inMemory(cut(after, habit)), after, habit)
      }
    })
  )

  it.live("over HTTP as in memory", () =>
    Effect.gen(function* () {
      for (const [i, after] of everywhere.filter((_, i) => i % Sweeps.full(5, 10) === 3).entries()) {
        const scenario = cut(after, {
          repeated: [0, 5, 40][i % 3] ?? 0,
          remark: ["", ...remarks][i % 2] ?? ""
        })
        assert.deepStrictEqual(yield* overHttp(scenario), yield* inMemory(scenario), `cut after ${after}`)
      }
    })
  )

  it.live("when it is cut again and again", () =>
    Effect.gen(function* () {
      const scenario: Scenario<string, unknown> = {
        chain: [place("anthropic", "A")],
        plan: {
          faults: [{ times: 4, fault: { type: "reset", after: 15 } }],
          answers: [{ text: said, chunk: 1 }]
        },
        program: stream
      }
      const story = yield* inMemory(scenario)
      assert.strictEqual(story.result, said)
      assert.deepStrictEqual(story.asked, ["A", "A", "A", "A", "A"])
      assert.deepStrictEqual(yield* overHttp(scenario), story)
    })
  )
})

describe("no tool runs twice (crewAIInc/crewAI#5802)", () => {
  for (const wire of wires) {
    it.live(`wherever the turn that asks for it was cut: ${wire}`, () =>
      Effect.gen(function* () {
        for (let after = 0; after <= inArguments + 4; after += Sweeps.full(1, 2)) {
          for (const type of ["cut", "reset"] as const) {
            const scenario: Scenario<unknown, unknown> = {
              chain: [place(wire, "A")],
              plan: { faults: [{ fault: { type, after } }], answers: payment },
              program: streamingAgent
            }
            const story = yield* inMemory(scenario)
            assert.deepStrictEqual(story.result, paidOnce, `${type} after ${after}`)
            if (type === "reset" || after % 3 !== 0) continue
            assert.deepStrictEqual(yield* overHttp(scenario), story, `${type} after ${after}`)
          }
        }
      })
    )
  }
})
