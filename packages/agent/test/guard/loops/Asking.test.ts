import { assert, describe, it } from "@effect/vitest"
import * as Asking from "@outlast/agent/guard/loops/Asking"
import * as Fingerprint from "@outlast/agent/guard/loops/Fingerprint"
import * as Memory from "@outlast/agent/guard/loops/Memory"
import * as WordSet from "@outlast/agent/guard/loops/WordSet"
import * as fc from "fast-check"
import { words } from "./support.ts"

interface Asks {
  readonly asking: Memory.Memory<Asking.Forms>
  readonly known: WordSet.WordSet
  readonly subject: Asking.Subject
  readonly trouble: number
}

const toolId = Fingerprint.ofText("f")
const nobody: Asks = { asking: Memory.make(8), known: WordSet.none(), subject: "known", trouble: 0 }

const ask = ({ asking, known }: Asks, args: unknown, trouble = 0, tool = toolId): Asks => {
  const asked = Fingerprint.ofArguments(args)
  const near = Asking.look(Memory.get(asking, tool) ?? [], asked)
  const met = WordSet.add(
    known,
    asked.leaves.flat().map((word) => Asking.askedWord(tool, word))
  )
  return {
    subject: Asking.subjectOf(near, known, tool, asked, false),
    trouble: Asking.troubleOf(near),
    asking: Memory.set(asking, tool, Asking.add(asked, trouble, near, WordSet.countOf(met))),
    known: met
  }
}

/** What each of the calls of a tool asks about. */
const subjects = (calls: ReadonlyArray<unknown>): ReadonlyArray<Asking.Subject> => {
  let asks = nobody
  return calls.map((args) => (asks = ask(asks, args)).subject)
}
const allNext = (calls: ReadonlyArray<unknown>) =>
  assert.deepStrictEqual(
    subjects(calls),
    calls.map(() => "next" as const)
  )
const last = (calls: ReadonlyArray<unknown>) => subjects(calls).at(-1)

describe("the next thing", () => {
  const list = <A>(of: (i: number) => A) => Array.from({ length: 12 }, (_, i) => of(i))

  it("is a file, a URL, an id, a command about another thing", () => {
    allNext(list((i) => ({ path: `src/part-${i}.ts` })))
    allNext(list((i) => ({ path: `packages/agent/src/${"abcdefghijkl"[i]}/index.ts`, encoding: "utf8" })))
    allNext(list((i) => ({ url: `https://a.example/pages/${i + 10}?full=1` })))
    allNext(list((i) => ({ command: `grep -n TODO src/${i}.ts` })))
    allNext(list((i) => ({ command: `cd /repo && npm audit --package pkg${i} --json` })))
    allNext(list((i) => `see chapter${i} now`))
  })

  it("is any id", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.uuid(), { minLength: 2, maxLength: 20 }), (ids) => {
        allNext(ids.map((id) => ({ id, force: true })))
      })
    )
  })

  it("is a customer with several fields that change", () => {
    allNext(list((i) => ({ name: `Smith${i}`, email: `s${i}@a.example`, age: 200 + i, kind: "new" })))
  })

  it("may change in several places of one text", () => {
    allNext(list((i) => ({ command: `cp in/${i}.png out/${i}.webp` })))
  })

  it("is so once more when something else is asked of each, and the others went well", () => {
    const files = list((i) => ({ path: `src/${i}.ts`, limit: 100 }))
    const again = (limit: number) => files.map((file) => ({ ...file, limit }))
    const found = subjects([...files, ...again(999), ...again(100)]).slice(files.length)
    assert.deepStrictEqual(found.slice(0, 6), ["known", "known", "known", "next", "next", "next"])
  })

  it("is what a tool is asked first, whatever it is", () => {
    fc.assert(
      fc.property(fc.anything(), (args) => {
        assert.strictEqual(ask(nobody, args).subject, "next")
      })
    )
  })

  it("is no other wording, and no text of one's own", () => {
    assert.strictEqual(last([{ command: "make a b" }, { command: "make b a" }]), "known")
    assert.strictEqual(last([{ command: "make test" }, { command: "make test test" }]), "known")
    assert.strictEqual(last([{ text: words(0, 9) }, { text: words(50, 9) }]), "known")
    assert.strictEqual(last([{ command: `say ${words(0, 9)}` }, { command: `say ${words(50, 9)}` }]), "known")
  })

  it("is a command with another flag, until that one was there too", () => {
    const flags = ["", " --verbose", " --clean", " --verbose --clean", " --clean --verbose", " --quiet"]
    assert.deepStrictEqual(subjects(flags.map((flag) => ({ command: `npm test${flag}` }))), [
      "next",
      "next",
      "next",
      "known",
      "known",
      "next"
    ])
  })

  it("is told for each tool by itself", () => {
    const one = ask(nobody, { path: "a.ts" })
    assert.strictEqual(ask(one, { path: "a.ts" }, 0, toolId + 1).subject, "next")
    assert.strictEqual(ask(one, { path: "a.ts" }).subject, "known")
    const other = ask(one, { path: "x.ts" }, 0, toolId + 1)
    assert.strictEqual(ask(other, { path: "a.ts" }, 0, toolId + 1).subject, "next")
  })
})

describe("a search", () => {
  it("in other words of which one was asked before is the same", () => {
    assert.strictEqual(last([{ query: "timeout in retry" }, { query: "retry policy" }]), "known")
    assert.strictEqual(last([{ pattern: "foo|bar" }, { pattern: "bar" }]), "known")
    fc.assert(
      fc.property(fc.shuffledSubarray(["alpha", "beta", "gamma", "delta"], { minLength: 1 }), (some) => {
        assert.strictEqual(last([{ query: "alpha beta gamma delta" }, { query: some.join(" ") }]), "known")
      })
    )
  })

  it("in words none of which was asked is another", () => {
    assert.strictEqual(last([{ query: "timeout in retry" }, { query: "colour picker" }]), "other")
    assert.strictEqual(last([{ pattern: "useState" }, { pattern: "reducer" }]), "other")
  })

  it("in many words goes through no list", () => {
    assert.strictEqual(last([{ query: "a" }, { query: words(0, 9) }]), "known")
  })

  it("for the same in another place is the next", () => {
    allNext(["src", "test", "docs"].map((path) => ({ pattern: "TODO", path })))
  })
})

describe("what went wrong", () => {
  it("is that of the call most alike, and of a stranger that of the last", () => {
    let asks = ask(nobody, { command: "npm test" }, 7)
    asks = ask(asks, { command: "git push origin main" }, 8)
    assert.strictEqual(ask(asks, { command: "npm test --watch" }).trouble, 7)
    assert.strictEqual(ask(asks, { command: "git push origin next" }).trouble, 8)
    assert.strictEqual(ask(asks, { command: "whoami" }).trouble, 8)
    assert.strictEqual(ask(nobody, { command: "whoami" }).trouble, 0)
  })

  it("is replaced by what went wrong with the next of its form", () => {
    let asks = ask(nobody, { command: "npm test" }, 7)
    asks = ask(asks, { command: "npm test" }, 0)
    assert.strictEqual(ask(asks, { command: "npm test" }).trouble, 0)
  })
})

describe("forms", () => {
  it("are few, however many calls there were and however large they are", () => {
    let asks = nobody
    for (let i = 0; i < 200; i++) asks = ask(asks, { [`field${i}`]: words(i * 40, 3) })
    const forms = Memory.get(asks.asking, toolId) ?? []
    assert.isAtMost(forms.length, 6)
    assert.isAbove(forms.length, 1)
    const big = Array.from({ length: 5_000 }, (_, i) => (i % 2 ? true : words(i, 1)))
    const [form] = Memory.get(ask(asks, big).asking, toolId) ?? []
    assert.isAtMost(form?.leaves.flat().length ?? Infinity, 512)
  })
})
