import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Seam from "#agent/recovery/Seam"
import { answers } from "./answers.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

/** The continuation after the seam, in deltas of these sizes in rotation. */
const join = (said: string, continuation: string, sizes: ReadonlyArray<number> = [7]) => {
  let seam = Seam.make(said)
  let text = ""
  let held = 0
  const verdicts: Array<Seam.Verdict> = []
  const take = (pushed: Seam.Pushed) => {
    seam = pushed.seam
    text += pushed.text
    held = Math.max(held, seam.held.length)
    if (pushed.verdict !== undefined) verdicts.push(pushed.verdict)
  }
  for (let i = 0, n = 0; i < continuation.length; n++) {
    const size = sizes[n % sizes.length] ?? 1
    take(Seam.push(seam, continuation.slice(i, i + size)))
    i += size
  }
  take(Seam.end(seam))
  assert.isAtMost(verdicts.length, 1)
  return { text, held, verdict: seam.verdict ?? { removed: 0, kept: 0, doubt: undefined } }
}

const remarks = {
  none: "",
  english: "Sure, continuing from where I left off:\n\n",
  german: "Natürlich, hier geht es weiter: ",
  chinese: "好的，继续：",
  short: "Continuing...\n",
  fenced: "Of course! Here is the rest:\n```ts\n",
  blank: "\n\n"
}

/** True when the answer itself repeats at the cut: the text before the cut also follows it. */
const repeatsAt = (answer: string, cut: number): boolean => {
  for (let length = 1; length <= Math.min(cut, 200); length++) {
    if (answer.startsWith(answer.slice(cut - length, cut), cut)) return true
  }
  return false
}

describe("every answer, cut at every place", () => {
  for (const [name, answer] of Object.entries(answers)) {
    it(`${name}: a continuation without repetition passes unchanged`, () => {
      for (let cut = 1; cut < answer.length; cut++) {
        const rest = answer.slice(cut)
        const { text, verdict } = join(answer.slice(0, cut), rest)
        assert.strictEqual(text, rest)
        if (!repeatsAt(answer, cut)) assert.deepInclude(verdict, { removed: 0 })
      }
    })

    it(`${name}: a repetition of at least 24 characters is removed (BerriAI/litellm#32835: replayed text came twice)`, () => {
      for (let cut = 24; cut < answer.length; cut++) {
        const lengths = [24, 25 + (cut % 40), 65 + ((cut * 7) % 136), 200].filter((length) => length <= cut)
        for (const length of lengths) {
          const { text } = join(answer.slice(0, cut), answer.slice(cut - length))
          assert.strictEqual(text, answer.slice(cut), `${cut}, ${length}`)
        }
      }
    })

    it(`${name}: a shorter repetition is removed, or everything is kept and reported as doubtful`, () => {
      for (let cut = 1; cut < answer.length; cut++) {
        const length = 1 + (cut % Math.min(23, cut))
        const continuation = answer.slice(cut - length)
        const { text, verdict } = join(answer.slice(0, cut), continuation)
        if (text === answer.slice(cut)) continue
        assert.strictEqual(text, continuation)
        assert.strictEqual(verdict.doubt, "short")
        assert.isAtLeast(verdict.kept, length)
      }
    })
  }

  it("is joined with or without a remark, in any language, in any pieces", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(answers)),
        fc.constantFrom(...Object.values(remarks)),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(200),
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 }),
        (answer, remark, where, length, sizes) => {
          const cut = 1 + Math.floor(where * (answer.length - 2))
          const repeated = Math.min(length, cut)
          const said = answer.slice(0, cut)
          const continuation = remark + answer.slice(cut - repeated)
          const joined = join(said, continuation, sizes)
          assert.deepStrictEqual(join(said, continuation, [1]), {
            ...joined,
            held: join(said, continuation, [1]).held
          })
          if (joined.text === answer.slice(cut)) return
          // No text is ever lost, and a long repetition that was kept is reported.
          assert.strictEqual(joined.text, continuation)
          if (repeated >= 24) assert.isDefined(joined.verdict.doubt)
          if (repeated >= 24) assert.isTrue(repeatsAt(answer, cut) || remark !== "")
        }
      ),
      { numRuns: Sweeps.runs(1_500) }
    )
  })

  it("loses a remark at nearly every place, and never without the repetition that proves it", () => {
    let places = 0
    let kept = 0
    for (const answer of Object.values(answers)) {
      for (const [i, remark] of Object.values(remarks).entries()) {
        for (let cut = 30 + i; cut < answer.length; cut += 7) {
          const said = answer.slice(0, cut)
          places++
          if (join(said, remark + answer.slice(cut - 30)).text !== answer.slice(cut)) kept++
          if (remark.trim() === "") continue
          const plain = remark + answer.slice(cut)
          assert.strictEqual(join(said, plain).text, plain)
        }
      }
    }
    assert.isBelow(kept / places, 0.01)
  })
})

describe("a text that repeats itself", () => {
  const row = "| 2026-03-14 | Desk lamp | 39.50 |\n"
  const repetitive = {
    laughter: `She looked at him. ${"ha ".repeat(40)}and then she stopped.`,
    "rows of a table": `| date | title | price |\n|---|---|---|\n${row.repeat(6)}\nThat is all.`,
    "a ruler": `Title\n${"-".repeat(90)}\nText below the ruler.`,
    items: JSON.stringify(
      Array.from({ length: 6 }, () => ({ state: "open", owner: null, tags: [] })),
      null,
      2
    ),
    "items on one line": JSON.stringify(Array.from({ length: 9 }, () => ({ x: 0, y: 0, z: 0 }))),
    "a refrain": `One:\n${"And we go on and on, until the morning comes.\n".repeat(3)}The end.`,
    zeros: `0x${"0".repeat(200)}1`,
    哈: `他说:${"哈".repeat(60)},然后走了。`,
    "🎉": `Done ${"🎉".repeat(40)} and dusted.`
  }
  for (const [name, answer] of Object.entries(repetitive)) {
    it(`${name}: the continuation passes unchanged at every cut`, () => {
      for (let cut = 1; cut < answer.length; cut++) {
        const rest = answer.slice(cut)
        assert.strictEqual(join(answer.slice(0, cut), rest).text, rest, `cut at ${cut}`)
      }
    })
  }

  it("keeps and reports what the model may have repeated", () => {
    const said = `Rows:\n${row.repeat(3)}`
    const { text, verdict } = join(said, `${row.repeat(2)}\nThat is all.`)
    assert.strictEqual(text, `${row.repeat(2)}\nThat is all.`)
    assert.deepStrictEqual(verdict, { removed: 0, kept: 2 * row.length, doubt: "repetitive" })
  })

  it("keeps code that resembles earlier code", () => {
    const handler = (name: string) =>
      `export const ${name} = async (request: Request) => {\n  return Response.json(await read(request))\n}\n`
    const said = handler("GET")
    assert.strictEqual(join(said, handler("PUT")).text, handler("PUT"))
    const apple = "Apple: see the documentation for all the details.\n"
    const pear = apple.replace("Apple", "Pear")
    assert.strictEqual(join(`Fruit\n${apple}`, pear).text, pear)
    const one = `"alpha": {"retries": 5, "delay": 1000}, `
    assert.strictEqual(join(`{${one}`, one.replace("alpha", "Beta")).text, one.replace("alpha", "Beta"))
  })
})

describe("lookalikes of a remark with a repetition are kept", () => {
  const indent = " ".repeat(24)
  const kept: Readonly<Record<string, readonly [said: string, continuation: string]>> = {
    "a third line of a list": [
      "A! See the pages for all the details.\nB? See the pages for all the details.\n",
      "C... See the pages for all the details.\n"
    ],
    "a heading that was there before": [
      "Rule: no.\n- because the sky is blue in summer",
      "Rule:\n- because the sky is blue in summer\n"
    ],
    "the next label of a line": [
      `{"alpha": {"retries": 5, "delay": 1000} | `,
      `"Beta": {"retries": 5, "delay": 1000} | `
    ],
    "the next label, on a new line": [
      "For small teams: contact our sales office today\n",
      "For large enterprises: contact our sales office today\n"
    ],
    "the next label, behind a new line": [
      "For small teams: contact our sales office (today)",
      "\nFor large enterprises: contact our sales office (today)\n"
    ],
    "the next sentence": [
      "First point. See the documentation for all details.",
      " Second point! See the documentation for all details. Third."
    ],
    "a bracket far to the right": [`{\n${indent}}\n${indent}`, `}\n${indent}return x\n`],
    "the rest of a word that repeats": ["they reconversat", "conversation"]
  }
  for (const [name, [said, continuation]] of Object.entries(kept)) {
    it(name, () => assert.strictEqual(join(said, continuation).text, continuation))
  }

  it("except in mid sentence, where neither a label nor a new sentence can stand", () => {
    const said = "So they voted: seven for, two against and one asl"
    assert.strictEqual(join(said, "Sure:\n\nseven for, two against and one asleep.").text, "eep.")
    assert.strictEqual(join(said, "Of course. seven for, two against and one asleep.").text, "eep.")
  })

  it("and are reported when they may have been a remark", () => {
    const continuation = `Sure, continuing from where I left off:\n\n${answers.prose.slice(424)}`
    const { text, verdict } = join(answers.prose.slice(0, 448), continuation)
    assert.strictEqual(text, continuation)
    assert.deepStrictEqual(verdict, { removed: 0, kept: 63, doubt: "remark" })
  })
})

describe("differences at the seam", () => {
  it("a repeated end is removed, as in the example of the header", () => {
    const one = Seam.push(Seam.make("The quick brown fox jumps over the la"), "brown fox jumps over the la")
    assert.strictEqual(one.text, "")
    const two = Seam.push(one.seam, "zy dog.")
    assert.deepInclude(two, { text: "zy dog.", verdict: { removed: 27, kept: 0, doubt: undefined } })
  })

  const said = "It was late. The quick brown fox jumps over the lazy dog"

  it("case and white space of a repetition do not matter", () => {
    for (const repeated of [
      "the quick brown fox jumps over the lazy dog",
      "The quick brown fox\njumps over  the lazy dog",
      "\n\n  The Quick Brown Fox jumps over the lazy dog"
    ]) {
      assert.strictEqual(join(said, `${repeated}, and sleeps.`).text, ", and sleeps.")
    }
  })

  it("white space at the cut occurs once", () => {
    assert.strictEqual(join(`${said} `, "fox jumps over the lazy dog and sleeps.").text, "and sleeps.")
    assert.strictEqual(join(`${said}.\n`, "fox jumps over the lazy dog.\n\nNext").text, "\nNext")
    assert.strictEqual(join(`${said}.\n  `, "fox jumps over the lazy dog.\n    next").text, "  next")
    assert.strictEqual(join(`${said}. `, "fox jumps over the lazy dog.\nNext").text, "\nNext")
    assert.strictEqual(join(`${said}, `, "fox jumps over the lazy dog,and").text, "and")
  })

  it("no blank is added or removed where a word is cut", () => {
    assert.strictEqual(join("the quick bro", "wn fox").text, "wn fox")
    assert.strictEqual(join("the quick", " brown fox").text, " brown fox")
    const doubled = join("the quick ", " brown fox")
    assert.strictEqual(doubled.text, " brown fox")
    assert.deepStrictEqual(doubled.verdict, { removed: 0, kept: 1, doubt: "short" })
  })

  it("a short repetition is removed only where it would join two words", () => {
    assert.strictEqual(join("the fox jumps over the lazy", "over the lazy dog").text, " dog")
    assert.strictEqual(join("a long conversat", "conversation").text, "ion")
    const kept = join("the fox jumps over the lazy", " over the lazy dog")
    assert.strictEqual(kept.text, " over the lazy dog")
    assert.deepStrictEqual(kept.verdict, { removed: 0, kept: 14, doubt: "short" })
    assert.strictEqual(join("hel", "lo").text, "lo")
    assert.strictEqual(join("bonbon", "bonbon").text, "bonbon")
    assert.strictEqual(join("chowchow", "chowchows").text, "chowchows")
    assert.strictEqual(join("老师说：他们都是这样做的", "他们都是这样做的吗").text, "他们都是这样做的吗")
  })

  it("a short text is not said twice when the model begins anew with all of it", () => {
    for (const [said, continuation, text] of [
      ["Hello! ", "Hello! How can I help?", "How can I help?"],
      ["Hello!", "Hello! How can I help?", " How can I help?"],
      ["Yes.", "Yes. The Nile.", " The Nile."],
      ["Yes.", "Yes.", ""],
      ["Yes.", "\n\nYes. The Nile.", " The Nile."],
      ["# Plan\n", "# Plan\n1. Read.", "1. Read."],
      ["# Plan\n\n", "# Plan\n\n1. Read.", "1. Read."],
      ["I will loo", "I will look at it.", "k at it."],
      ["1. ", "1. Read the file.", "Read the file."],
      ["**Note", "**Note:** read it.", ":** read it."],
      ["Le", "Le Nil coule.", " Nil coule."],
      ["他们都是", "他们都是这样做的。", "这样做的。"],
      ["Привет! ", "Привет! Чем помочь?", "Чем помочь?"]
    ] as const) {
      for (const sizes of [[1], [3], [400]]) {
        const joined = join(said, continuation, sizes)
        assert.strictEqual(joined.text, text, said)
        assert.deepInclude(joined.verdict, { doubt: undefined }, said)
      }
    }
  })

  it("a short text that may be the beginning of its own continuation is kept", () => {
    for (const [said, continuation] of [
      ["[", "[1, 2], [3, 4]]"],
      ["#", "# Plan"],
      ["*", "*bold**"],
      ["1", "1 apples"],
      ["12", "12 apples"],
      ["<div>", "<div>text</div></div>"],
      ["```", "```` "],
      ["Ha", "Ha ha ha"],
      ["Ha", "Haha!"],
      ["Yes ", "Yes, it is."],
      ["A", "An apple"],
      ["no, ", "No, no!"]
    ] as const) {
      assert.strictEqual(join(said, continuation).text, continuation, said)
    }
  })

  it("a beginning that then differs is kept and reported", () => {
    const other = "The quick brown fox jumps over a fence"
    const { text, verdict } = join(said, other)
    assert.strictEqual(text, other)
    assert.deepStrictEqual(verdict, { removed: 0, kept: 31, doubt: "differs" })
  })

  it("a remark without proof is kept, and reported when it reads as one (BerriAI/litellm#18229: personas)", () => {
    const { text, verdict } = join("The quick brown", "Sure, here is the rest:\n fox")
    assert.strictEqual(text, "Sure, here is the rest:\n fox")
    assert.deepStrictEqual(verdict, { removed: 0, kept: 23, doubt: "remark" })
  })

  it("an answer that starts over is removed, at any length", () => {
    const answer = Object.values(answers).join("\n\n")
    const joined = join(answer.slice(0, 1_900), answer)
    assert.strictEqual(joined.text, answer.slice(1_900))
    assert.isAtMost(joined.held, 1_901)
  })
})

describe("a code block that is opened again", () => {
  const open = "Here:\n\n```ts\nconst a = 1\n"

  it("is not opened twice", () => {
    assert.strictEqual(join(open, "```ts\nconst b = 2\n```\n").text, "const b = 2\n```\n")
    assert.strictEqual(
      join(`${open}const long = [1, 2, 3, 4].so`, "```ts\nconst long = [1, 2, 3, 4].sort()\n").text,
      "rt()\n"
    )
  })

  it("is kept when it may be another one", () => {
    for (const [said, continuation] of [
      [open, "```js\nconst b = 2\n"],
      [`${open}\`\`\`\n\n`, "```ts\nconst b = 2\n"],
      ["Here:\n\n", "```ts\nconst b = 2\n"],
      [`${open}const b = `, "```ts\n2\n"]
    ] as const) {
      assert.strictEqual(join(said, continuation).text, continuation)
    }
  })
})

describe("the held text", () => {
  it("is empty once decided, and after blank text", () => {
    const decided = Seam.push(Seam.make("the quick bro"), "wn fox")
    assert.strictEqual(decided.text, "wn fox")
    assert.strictEqual(decided.seam.held, "")
    assert.strictEqual(Seam.push(decided.seam, "wn fox").text, "wn fox")
    assert.strictEqual(Seam.push(Seam.make(" \n"), "Sure, ").text, "Sure, ")
  })

  it("is minimal: a continuation in mid sentence passes within a word or two", () => {
    for (let cut = 40; cut < answers.prose.length; cut++) {
      if (!/^[\s,.]*[a-z]/.test(answers.prose.slice(cut))) continue
      assert.isAtMost(join(answers.prose.slice(0, cut), answers.prose.slice(cut), [1]).held, 12)
    }
  })

  it("is shorter in a script with more meaning per character", () => {
    for (let cut = 1; cut < answers.chinese.length; cut++) {
      assert.isAtMost(join(answers.chinese.slice(0, cut), answers.chinese.slice(cut), [1]).held, 60)
    }
  })

  it("is bounded for any continuation", () => {
    const said = answers.code.slice(0, 300)
    const spaces = join(said, said.slice(-60) + " ".repeat(20_000), [113])
    assert.strictEqual(spaces.text, " ".repeat(20_000))
    assert.isAtMost(spaces.held, 2 * Seam.defaults.tail)
    for (const endless of [" ".repeat(20_000), "A".repeat(20_000), `\n\n${"Well... ".repeat(3_000)}`]) {
      const joined = join(said, endless, [113])
      assert.strictEqual(joined.text, endless)
      assert.isAtMost(joined.held, Seam.defaults.window)
    }
    const row = "x".repeat(50_000)
    const joined = join(row, row, [997])
    assert.strictEqual(joined.text, row)
    assert.isAtMost(joined.held, 2 * Seam.defaults.tail)
  })

  it("is released at the end of the continuation", () => {
    assert.strictEqual(join("The end. ", "Well").text, "Well")
    assert.strictEqual(join(answers.prose, answers.prose.slice(-60)).text, "")
    assert.strictEqual(join(answers.prose, answers.prose.slice(-60, -20)).text, answers.prose.slice(-60, -20))
  })

  it("does not depend on the pieces, even when they split a character", () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom("a", "B", " ", "\n", "é", "e\u0301", "好", "🚀", ".", ":", "`"),
          maxLength: 60
        }),
        fc.string({
          unit: fc.constantFrom("a", "B", " ", "\n", "é", "e\u0301", "好", "🚀", ".", ":", "`"),
          maxLength: 60
        }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }),
        (said, continuation, sizes) => {
          const one = join(said, continuation, [1_000])
          const many = join(said, continuation, sizes)
          assert.deepStrictEqual([many.text, many.verdict], [one.text, one.verdict])
          assert.isTrue(continuation.endsWith(one.text))
          assert.strictEqual(one.verdict.removed, continuation.length - one.text.length)
          assert.isTrue(one.text.isWellFormed())
        }
      )
    )
  })
})
