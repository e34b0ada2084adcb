/** Answers that repeat themselves are found while they stream, and honest texts are never cut. */
import { assert, describe, it } from "vitest"
import { LoopDetector } from "@outlast/agent/guard"

const cutting = LoopDetector.make({ repetition: "cut" })

/** The strongest verdict while the text streams in deltas of `size` characters. */
const streamed = (text: string, size = 61): "Ok" | "Nudge" | "Stop" => {
  let answer = LoopDetector.noText
  let worst: "Ok" | "Nudge" = "Ok"
  for (let at = 0; at < text.length; at += size) {
    answer = LoopDetector.read(answer, text.slice(at, at + size))
    const { _tag } = LoopDetector.text(cutting, answer)
    if (_tag === "Stop") return "Stop"
    if (_tag === "Nudge") worst = "Nudge"
  }
  return worst
}

const times = <A>(count: number, of: (i: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, i) => of(i))
const lines = (count: number, line: (i: number) => string): string => times(count, line).join("\n")

/** Numbers from a seed, at least 0 and less than `below`. */
const dice = (seed: number) => {
  let state = seed * 2_654_435_761 + 1
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
type Dice = ReturnType<typeof dice>

const nouns = (
  "river stone window letter garden engine market harbour winter teacher bridge forest candle mirror valley island " +
  "meadow cellar signal ladder painter kitchen lantern orchard pocket railway saddle temple village whistle"
).split(" ")
const verbs =
  "crosses opens follows paints carries forgets repairs answers borrows measures remembers divides".split(" ")
const german =
  "der Fluss das Fenster ein Brief die Brücke der Wald kein Licht das Dorf am Morgen im Winter".split(" ")
const pick = (list: ReadonlyArray<string>, roll: Dice): string => list[roll(list.length)] ?? ""
const sentence = (roll: Dice): string =>
  `The ${pick(nouns, roll)} ${pick(verbs, roll)} the ${pick(nouns, roll)} before the ${pick(nouns, roll)} ${pick(verbs, roll)}.`

/** Honest texts, by kind. All have rows or lines that are alike. */
const honest: Readonly<Record<string, (roll: Dice) => string>> = {
  CSV: (roll) =>
    lines(
      200 + roll(600),
      (i) => `${i},${pick(nouns, roll)},${roll(90)}.${roll(9)},2026-0${1 + roll(9)}-1${roll(9)},open`
    ),
  "CSV of numbers": (roll) => lines(400 + roll(600), () => times(8, () => roll(3)).join(",")),
  log: (roll) =>
    lines(
      200 + roll(600),
      (i) =>
        `2026-01-01T10:${10 + (i % 50)}:0${i % 10}Z INFO worker ${roll(9)} handled the request of ${pick(nouns, roll)} in ${roll(900)} ms`
    ),
  "test output": (roll) =>
    lines(200 + roll(300), (i) => `ok ${i} - the ${pick(nouns, roll)} ${pick(verbs, roll)} (${roll(90)} ms)`),
  code: (roll) =>
    lines(
      30 + roll(40),
      (i) =>
        `export const ${pick(nouns, roll)}${i} = (input: Input): Output => {\n  if (input === undefined) return undefined\n` +
        `  const value = input.${pick(nouns, roll)}\n  return { ...input, value }\n}\n`
    ),
  tests: (roll) =>
    lines(
      40 + roll(60),
      (i) =>
        `  it("${pick(verbs, roll)} ${i}", () => {\n    assert.strictEqual(add(${i}, 1), ${i + 1})\n  })\n`
    ),
  SQL: (roll) =>
    lines(
      100 + roll(300),
      (i) =>
        `INSERT INTO users (id, name, mail) VALUES (${i}, '${pick(nouns, roll)}', 'user${i}@example.com');`
    ),
  "a table": (roll) =>
    `| name | state | count |\n|---|---|---|\n${lines(100 + roll(200), () => `| ${pick(nouns, roll)} | yes | ${roll(9)} |`)}`,
  HTML: (roll) =>
    lines(
      60 + roll(100),
      () =>
        `<tr>\n  <td class="name">${pick(nouns, roll)}</td>\n  <td class="cell">none</td>\n  <td class="cell">none</td>\n</tr>`
    ),
  JSON: (roll) =>
    JSON.stringify(
      times(100 + roll(200), (i) => ({ id: i, name: pick(nouns, roll), state: "open", owner: null })),
      null,
      2
    ),
  "equal rows": (roll) =>
    lines(100 + roll(300), () => `{ "value": null, "state": "unknown", "owner": null },`),
  verse: (roll) =>
    times(12 + roll(12), () => {
      const refrain = "And the river runs on to the sea, to the sea,\nand the river runs on to the sea."
      return `${sentence(roll)}\n${sentence(roll)}\n${sentence(roll)}\n${refrain}`
    }).join("\n\n"),
  "a translation": (roll) =>
    times(
      60 + roll(60),
      () => `EN: ${sentence(roll)}\nDE: ${times(8, () => pick(german, roll)).join(" ")}.`
    ).join("\n"),
  prose: (roll) => times(200 + roll(200), () => sentence(roll)).join(" "),
  "a list": (roll) =>
    lines(
      100 + roll(200),
      (i) => `- Step ${i + 1}: open the ${pick(nouns, roll)} file, look at it, and write down what it says`
    ),
  changelog: (roll) =>
    lines(40 + roll(60), (i) => `## 1.${i}.0\n\n- Updated dependencies\n  - effect@4.${i}.${roll(9)}\n`),
  Chinese: (roll) =>
    times(
      80 + roll(80),
      (i) => `第${i}章说明了${"山水风云花鸟".slice(roll(5))}与${"日月星辰江河".slice(roll(5))}之间的关系。`
    ).join(""),
  YAML: (roll) =>
    lines(
      60 + roll(80),
      (i) =>
        `- name: ${pick(nouns, roll)}-${i}\n  image: nginx:latest\n  restartPolicy: Always\n  imagePullPolicy: IfNotPresent`
    ),
  "a diff": (roll) =>
    lines(
      60 + roll(80),
      (i) =>
        `@@ -${i},3 +${i},3 @@\n-  const value = ${pick(nouns, roll)}\n+  const value = await ${pick(nouns, roll)}\n   return value`
    ),
  "thinking that turns": (roll) =>
    times(60 + roll(60), () => `Wait, let me check that again. ${sentence(roll)} ${sentence(roll)}`).join(" ")
}

const stuck = "I will now look at the file once more and try again. "
/** Prose without repetition. */
const prose = (length: number): string =>
  times(400, (i) => sentence(dice(i + 7)))
    .join(" ")
    .slice(0, length)

describe("1,000 honest texts", () => {
  for (const [kind, text] of Object.entries(honest)) {
    it(`of ${kind} are never cut`, () => {
      for (let seed = 0; seed < 50; seed++) {
        const written = text(dice(seed + 1))
        assert.isAtLeast(written.length, 1_000)
        assert.notStrictEqual(streamed(written), "Stop", `${kind}, seed ${seed}`)
      }
    })
  }

  it("have 20 kinds", () => {
    assert.lengthOf(Object.keys(honest), 20)
  })
})

describe("an answer that repeats itself", () => {
  it("is nudged first and cut later, in deltas of any size", () => {
    for (const size of [1, 7, 400, 1e6]) {
      assert.strictEqual(streamed(stuck.repeat(8), size), "Ok")
      assert.strictEqual(streamed(stuck.repeat(20), size), "Nudge")
      assert.strictEqual(streamed(stuck.repeat(90), size), "Stop")
    }
  })

  it("is found in paragraphs, with other words in between, with counters, and without sentences", () => {
    for (const text of [
      prose(700).repeat(20),
      prose(2_600).repeat(8),
      `${prose(3_000)}${stuck.repeat(120)}`,
      times(90, (i) => `${stuck}${stuck}${i % 4 ? "" : sentence(dice(i))} `).join(""),
      lines(2_000, (i) => `Attempt ${i}: I will try that again.`),
      "and then it does so again ".repeat(1_000),
      "我再看一遍这个文件然后重新开始修改。".repeat(400),
      "a".repeat(1e5),
      "a ".repeat(1e5),
      "!".repeat(1e5)
    ]) {
      assert.strictEqual(streamed(text), "Stop", text.slice(0, 40))
    }
  })

  it("is only told by default, and never cut with the mode `tell`", () => {
    const answer = LoopDetector.read(LoopDetector.noText, stuck.repeat(1_000))
    assert.strictEqual(LoopDetector.text(LoopDetector.make(), answer)._tag, "Nudge")
  })

  it("has a state of bounded size", () => {
    let answer = LoopDetector.noText
    for (let i = 0; i < 2_000; i++)
      answer = LoopDetector.read(answer, `${sentence(dice(i))} ${"x".repeat(i % 300)}`)
    assert.isAtMost(JSON.stringify(answer).length, 8_192)
  })
})
