/** The crash test in CI, with shortened times, and its judge on answers that are wrong. */
import { Effect } from "effect"
import { assert, beforeAll, describe, it } from "vitest"
import type { Result } from "./Bench.ts"
import * as Bench from "./Bench.ts"
import * as Command from "./Command.ts"
import { answer } from "./Provider.ts"
import type { Call, Seen } from "./Situations.ts"
import { situations } from "./Situations.ts"
import { gatewayWays } from "./GatewayWays.ts"
import { ways } from "./Ways.ts"

const pairs = Bench.pairsOf(situations, [...ways, ...gatewayWays])

describe("the crash test, default settings", () => {
  let results: ReadonlyArray<Result>

  beforeAll(async () => {
    results = await Effect.runPromise(Bench.run(pairs, Bench.shortened))
  }, 600_000)

  for (const pair of pairs) {
    const name = Bench.nameOf(pair)
    it(`${name} (${pair.situation.about})`, () => {
      const result = results.find((result) => Bench.nameOf(result) === name) ?? assert.fail(name)
      assert.strictEqual(result.verdict.grade, "pass", result.verdict.why)
    })
  }
})

describe("the judge", () => {
  const situation = (name: string) => situations.find((each) => each.name === name) ?? assert.fail(name)
  const call: Call = {
    start: 0,
    end: 1_200,
    text: answer,
    error: undefined,
    model: "fb-ok",
    outputTokens: 60
  }
  const grade = (name: string, changed: Partial<Call>, requests: Seen["requests"] = []) =>
    situation(name).judge({ calls: [{ ...call, ...changed }], requests }).grade

  it("has 16 situations, 11 of them without a stream, and an answer of 60 words", () => {
    assert.lengthOf(situations, 16)
    assert.lengthOf(
      situations.filter(({ whole }) => whole),
      11
    )
    assert.lengthOf(answer.split(" "), 60)
  })

  it("fails a text that is doubled, cut or altered, and takes an error as safe", () => {
    assert.deepStrictEqual(
      [answer, `${answer} ${answer}`, answer.slice(0, 50), `${answer}!`].map((text) =>
        grade("S08", { text })
      ),
      ["pass", "fail", "fail", "fail"]
    )
    assert.strictEqual(grade("S08", { text: "Rivers", error: "cut" }), "safe")
  })

  it("fails a bound that is missed, and calls an answer that is not ideal partial", () => {
    const primary = (...times: ReadonlyArray<number>) =>
      times.map((at) => ({ model: "primary" as const, at }))
    const fallback = { model: "fb-ok" as const, at: 3_000 }
    assert.strictEqual(grade("S01", {}, primary(0, 1_900)), "pass")
    assert.strictEqual(grade("S01", {}, primary(0, 500)), "partial")
    assert.strictEqual(grade("S01", {}, [...primary(0), fallback]), "partial")
    assert.strictEqual(grade("S01", {}, primary(0, 500, 1_000)), "fail")
    assert.strictEqual(grade("S06", { end: 100_001 }), "fail")
    assert.strictEqual(grade("S07", { end: 15_001 }), "partial")
    assert.strictEqual(grade("S13", {}), "fail")
    assert.strictEqual(grade("S13", { error: "refused" }), "pass")
    assert.strictEqual(grade("S14", { error: "no prefill here" }), "fail")
    assert.strictEqual(grade("S15", {}, primary(0, 59_999)), "fail")
    assert.strictEqual(grade("S16", { model: "primary" }), "fail")
  })
})

describe("the command", () => {
  const ran = async (...args: ReadonlyArray<string>) => {
    const lines: Array<string> = []
    const collect = (text: string) => void lines.push(text)
    return { code: await Command.run(args, { out: collect, error: collect }), output: lines.join("\n") }
  }

  it("prints the grades of each situation by way, and counts the passes", async () => {
    const { code, output } = await ran("--only", "S13", "--runs", "2")
    assert.strictEqual(code, 0)
    assert.match(output, /\| S13 \| 400 content policy \| pass \| pass \| pass \| pass \|/)
    assert.match(output, /\| \| pass \| 2 of 2 \| 2 of 2 \| 2 of 2 \| 2 of 2 \|/)
  })

  for (const [args, problem] of [
    [["--only", "S99"], '--only "S99": no situation has this in its name or description.'],
    [["--runs", "0"], '--runs "0": a whole number from 1 to 999.']
  ] as const) {
    it(`explains ${args.join(" ")}, and ends with 2`, async () => {
      const { code, output } = await ran(...args)
      assert.deepStrictEqual([code, output.split("\n")[0]], [2, problem])
    })
  }
})
