/**
 * The cost of the loop detector per tool call: a check before, an observation after. Measured at the 400th and the
 * 100,000th call, for work without repetition, for repeated calls, and for arguments and results of growing length.
 */
import { LoopDetector } from "@outlast/agent/guard"
import type { Contender, Report } from "./measure.ts"
import { measure } from "./measure.ts"

/** Limit for a checked call, in microseconds. */
const target = 3
const rounds = 9

const detector = LoopDetector.make()

type Calls = ReadonlyArray<LoopDetector.Observation>

/** Calls as they come from a model and a tool: parsed from JSON, before the measurement. */
const calls = (count: number, call: (i: number) => Omit<LoopDetector.Observation, "turn">): Calls =>
  Array.from({ length: count }, (_, turn) => {
    const { tool, failed, ...rest } = call(turn)
    const { arguments: args, result }: { arguments: unknown; result: unknown } = JSON.parse(
      JSON.stringify(rest)
    )
    return { turn, tool, arguments: args, result, failed }
  })

const editing = (i: number) =>
  i % 3 === 0
    ? {
        tool: "read_file",
        arguments: { path: `src/module-${i}.ts` },
        result: `export const m${i} = ${i}`,
        failed: false
      }
    : i % 3 === 1
      ? {
          tool: "edit_file",
          arguments: { path: `src/module-${i - 1}.ts`, old: `m${i - 1} = ${i - 1}`, new: `m${i - 1} = ${i}` },
          result: "The file has been updated.",
          failed: false
        }
      : {
          tool: "bash",
          arguments: { command: "npm test" },
          result: `Tests: ${i} passed, ${i % 7} failed\nTime: ${i % 9}.2 s`,
          failed: i % 7 > 0
        }

const repeating = (i: number) => ({
  tool: "grep",
  arguments: { pattern: "handleSubmit", path: ["src", "test", "docs"][i % 3] },
  result: "src/Form.tsx:12: const handleSubmit = () => {",
  failed: false
})

const sized = (characters: number) => (i: number) => ({
  tool: "read_file",
  arguments: { path: `src/${i}.ts` },
  result: `${i} `.padEnd(characters, "some words of a file, "),
  failed: false
})

/** Starts from the state after the calls in `before`. */
const contender = (name: string, given: Calls, before: Calls, times = 1): Contender => {
  let start = LoopDetector.initial
  for (const call of before) start = LoopDetector.observe(detector, start, call)
  return {
    name,
    times,
    run: async (count) => {
      let state = start
      for (let i = 0; i < count; i++) {
        const call = given[i % given.length]
        if (call === undefined) continue
        LoopDetector.before(detector, state, call)
        state = LoopDetector.observe(detector, state, call)
      }
    }
  }
}

export const guard = async ({ say, table }: Report): Promise<void> => {
  say(`Loop detector, before and after each call, ${rounds} rounds, Node ${process.version}`)
  const honest = calls(102_000, editing)
  const figures = await measure(
    [
      contender("to call 400", honest.slice(0, 400), []),
      contender("from call 100,000", honest.slice(100_000), honest.slice(0, 100_000)),
      contender("a loop of three, from call 100,000", calls(2_000, repeating), honest.slice(0, 100_000))
    ],
    { rounds, calls: 100_000 }
  )
  table("Checked call, µs per call (ratio: to call 400)", figures)
  for (const { name, median } of figures) {
    say(
      `  ${name.padEnd(42)}${median.toFixed(2)} (at most ${target}: ${median <= target ? "met" : "missed"})`
    )
  }
  const sizes = await measure(
    [
      contender("200 characters", calls(400, sized(200)), [], 4),
      contender("2,000 characters", calls(400, sized(2_000)), []),
      contender("20,000 characters", calls(400, sized(20_000)), [], 0.1)
    ],
    { rounds, calls: 10_000 }
  )
  table("By the size of the result, µs per call (ratio: to 200 characters)", sizes)
}
