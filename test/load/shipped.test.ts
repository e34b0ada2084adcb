/**
 * The built-in policies under load: they pass the gates, and docs/internals/load.md has the table that the command prints.
 *
 * Uses one seed and a part of the situations; `npm run simulate -- --gates --seeds 20` checks all of them.
 */
import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import * as Sweeps from "../sweeps.ts"
import { run } from "./Command.ts"
import * as Gates from "./Gates.ts"
import { policies } from "./Policies.ts"
import { hedgeGates, returnGates } from "./TargetGates.ts"

/** The output of a command. */
const outputOf = async (...args: ReadonlyArray<string>) => {
  const lines: Array<string> = []
  const collect = (text: string) => void lines.push(text)
  await run(args, { out: collect, error: collect })
  return lines.join("\n")
}

/** The rows of a markdown table by their first cell; the cells of a row by the head of their column. */
const rowsOf = (markdown: string): ReadonlyMap<string, ReadonlyMap<string, string>> => {
  const [head = [], , ...rows] = markdown
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim())
    )
  return new Map(
    rows.map(([name = "", ...cells]) => [name, new Map(cells.map((cell, i) => [head[i + 1] ?? "", cell]))])
  )
}

describe("a gate holds for the default policy", () => {
  const names = [
    "flaky-30: as good as without any retry",
    "flaky-50: as good as without circuits and budget",
    "burst into a rate limit",
    "few requests of a burst into a total outage",
    "a server that sheds recovers from a surge",
    "two vendors that shed answer a surge",
    "keys that share one limit",
    Sweeps.full("no herd after", "no herd after a short outage"),
    "one target that is crowded",
    "40 overloaded targets",
    "a vendor that hangs",
    "a health check that hangs",
    "two calls at once",
    "a circuit that slow calls opened"
  ]
  it.each(names)("%s", { timeout: 120_000 }, (name) => {
    const gates = Gates.gates
      .filter((gate) => gate.name.includes(name))
      .map((gate) => ({ ...gate, situations: Sweeps.everyNth(5, gate.situations) }))
    assert.isNotEmpty(gates)
    for (const verdict of Gates.check(policies.interactive, [1], gates))
      assert.isTrue(verdict.pass, JSON.stringify(verdict))
  })
})

describe("a gate of the right target at the right time", () => {
  const some = [
    "outage-15m-503",
    "outage-5m-hang",
    "outage-60m-hang",
    "slow-first-token",
    "slow-first-token-rare",
    "healthy"
  ]
  it.each([...returnGates, ...hedgeGates].map((gate) => [gate.name, gate] as const))(
    "%s",
    { timeout: 120_000 },
    (_, gate) => {
      const situations = gate.situations.filter(({ world }) => some.includes(world))
      const [verdict] = Gates.check(policies.interactive, [1], [{ ...gate, situations }])
      assert.isTrue(verdict?.pass, JSON.stringify(verdict))
    }
  )
})

describe("docs/internals/load.md shows what the command prints", () => {
  const page = readFileSync(new URL("../../docs/internals/load.md", import.meta.url), "utf8")
  const table = rowsOf(page.slice(page.indexOf("<!-- situations -->"), page.indexOf("<!-- /situations -->")))
  const some = [
    "30 % fail, one-target",
    "30 % fail, both-bad",
    "burst into a rate limit",
    "first vendor hangs, whole",
    "two calls, five failures, nexo",
    "30 limited, one good"
  ]
  const names = Sweeps.full([...table.keys()], some)
  it.each(names)("%s", { timeout: 120_000 }, async (name) => {
    // The name of a situation, without the policy that a row adds.
    const output = await outputOf("--markdown", "--only", name.replace(/, nexo$/, ""))
    const printed = rowsOf(output).get(name) ?? assert.fail(output)
    for (const [head, cell] of printed) assert.strictEqual(cell, table.get(name)?.get(head), head)
  })
})
