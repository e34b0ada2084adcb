import { assert, describe, it } from "@effect/vitest"
import * as Fingerprint from "@outlast/agent/guard/loops/Fingerprint"
import * as WordSet from "@outlast/agent/guard/loops/WordSet"
import * as fc from "fast-check"
import { factsOf, met, random, read, words } from "./support.ts"

const hashOf = (args: unknown) => Fingerprint.ofArguments(args).hash

/** The fields of all records the other way round. */
const turned = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(turned)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .toReversed()
            .map(([name, inner]) => [name, turned(inner)])
        )
      : value

describe("arguments", () => {
  it("are the same in any order of fields, at any depth", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.strictEqual(hashOf(turned(value)), hashOf(value))
      })
    )
  })

  it("are others when a value is, or where it stands in a list", () => {
    assert.notStrictEqual(hashOf({ a: 1 }), hashOf({ a: 2 }))
    assert.notStrictEqual(hashOf({ a: 1 }), hashOf({ b: 1 }))
    assert.notStrictEqual(hashOf({ a: 1, b: 2 }), hashOf({ a: 2, b: 1 }))
    assert.notStrictEqual(hashOf([1, 2]), hashOf([2, 1]))
    assert.notStrictEqual(hashOf([true]), hashOf([false]))
    assert.notStrictEqual(hashOf([[1], 2]), hashOf([1, [2]]))
    assert.strictEqual(hashOf({ a: 1, b: undefined }), hashOf({ a: 1 }))
  })

  it("are the same whatever says nothing: white space, quotes, nonces, what the model says about them", () => {
    assert.strictEqual(hashOf({ command: "ls  -la 'src'" }), hashOf({ command: 'ls -la "src"\n' }))
    assert.strictEqual(hashOf({ id: 7, nonce: "a8f3b1c9" }), hashOf({ id: 7, nonce: "77e0d2aa" }))
    assert.strictEqual(
      hashOf({ path: "a", explanation: "to see" }),
      hashOf({ path: "a", explanation: "again" })
    )
    assert.notStrictEqual(hashOf({ explanation: "to see" }), hashOf({ explanation: "again" }))
    assert.notStrictEqual(hashOf({ id: "a8f3b1c9" }), hashOf({ id: "77e0d2aa" }))
  })

  it("are not named by a session that is not all that they name", () => {
    assert.notStrictEqual(hashOf({ session: "abc123f0" }), hashOf({ session: "9bc456f1" }))
    assert.strictEqual(hashOf({ session: "abc123f0", a: 1 }), hashOf({ session: "9bc456f1", a: 1 }))
    const within = (id: string) => hashOf({ session: [{ a: 1 }, id] })
    assert.strictEqual(within("abc123f0"), within("9bc456f1"))
  })

  it("name several things one by one, in any writing", () => {
    for (const names of ["anna, bert", "anna|bert", "anna、bert", "«anna» «bert»"])
      assert.strictEqual(Fingerprint.ofArguments({ names }).leaves[0]?.length, 2, names)
    assert.strictEqual(Fingerprint.ofArguments({ names: "anna/bert" }).leaves[0]?.length, 1)
  })

  it("name a part of a page by its name, if it has one", () => {
    assert.strictEqual(hashOf({ element: "Save", ref: "e12" }), hashOf({ element: "Save", ref: "e99" }))
    assert.notStrictEqual(hashOf({ ref: "e12" }), hashOf({ ref: "e99" }))
  })

  it("are read as JSON would say them", () => {
    assert.notStrictEqual(
      hashOf({ at: new URL("https://a.example/b") }),
      hashOf({ at: new URL("https://a.example/c") })
    )
    assert.strictEqual(hashOf({ at: new URL("https://a.example/b") }), hashOf({ at: "https://a.example/b" }))
    assert.strictEqual(hashOf({ since: new Date(7e11) }), hashOf({ since: new Date(7e11).toISOString() }))
    assert.notStrictEqual(hashOf(new Uint8Array([1, 2])), hashOf(new Uint8Array([1, 3])))
    assert.strictEqual(hashOf(new Uint8Array([1, 2])), hashOf(new Uint8Array([0, 1, 2]).subarray(1)))
    assert.notStrictEqual(hashOf(new Error("one thing")), hashOf(new Error("another")))
    const itself = { toJSON: (): unknown => itself }
    assert.isNumber(hashOf(itself))
  })

  it("are kept in part, however large they are", () => {
    for (const value of [
      Array.from({ length: 5_000 }, () => true),
      Array.from({ length: 5_000 }, (_, i) => ({ [`a${i}`]: null })),
      words(0, 3_000),
      Array.from({ length: 3_000 }, (_, i) => words(i, 1))
    ]) {
      const { leaves, subjects, prose, question } = Fingerprint.ofArguments({ query: value })
      assert.strictEqual(leaves.flat().length, 512)
      assert.isAtMost(subjects.length + prose.length, 512)
      assert.isAtMost(question.length, 512)
    }
  })

  it("are what a result is read against, though others were read between, or could not be", () => {
    const args = Fingerprint.ofArguments({ a: "alpha beta", text: "gamma" })
    const against = (value: unknown) =>
      factsOf(Fingerprint.ofResult(value, { toolId: 1, args }, WordSet.none(), {}))
    const text = "alpha beta gamma delta"
    const expected = against(text)
    assert.strictEqual(expected.words, 1)
    Fingerprint.ofArguments({ b: "delta" })
    assert.deepStrictEqual(against(text), expected)
    const broken = {
      a: "delta",
      get b(): never {
        throw new Error("broken")
      }
    }
    assert.throws(() => Fingerprint.ofArguments(broken), "broken")
    assert.deepStrictEqual(against(text), expected)
    assert.throws(() => against(broken), "broken")
    assert.deepStrictEqual(against(text), expected)
  })

  it("may be read while others are: what says itself in JSON reads them", () => {
    const inner = { a: "alpha beta", b: ["gamma"] }
    const plain = Fingerprint.ofArguments(inner)
    const args = { a: "one two", b: { toJSON: () => Fingerprint.ofArguments(inner).hash }, c: "three" }
    assert.deepStrictEqual(Fingerprint.ofArguments(args), Fingerprint.ofArguments({ ...args, b: plain.hash }))
    const against = (value: unknown) =>
      factsOf(Fingerprint.ofResult(value, { toolId: 1, args: plain }, WordSet.none(), {}))
    const result = (b: unknown) => against({ a: "one two", b, c: "three 4" })
    const { words } = against("five six")
    assert.deepStrictEqual(result({ toJSON: () => against("five six").words }), result(words))
  })
})

describe("a result", () => {
  it("is the same in any order of fields", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const one = read(value)
        const other = read(turned(value))
        assert.strictEqual(other.hash, one.hash)
        assert.strictEqual(other.letters, one.letters)
        assert.strictEqual(other.trouble, one.trouble)
      })
    )
    const flagged = { error: true, name: "web frontend", zone: "b" }
    assert.strictEqual(read(turned(flagged)).trouble, read(flagged).trouble)
  })

  it("is the same whatever ids, moments and durations say", () => {
    const result = (id: string, at: string, took: number) =>
      `job ${id} is done\n{"request_id":"${id}","at":"${at}","took":"${took}ms"} after ${took} seconds`
    const moment = fc.date({ min: new Date(2020, 0), max: new Date(2030, 0), noInvalidDate: true })
    const expected = read(result("0b6a4c0e-3a7e-4c1c-9a53-5f8e5a1f2d3c", "2026-01-02T03:04:05Z", 7)).hash
    fc.assert(
      fc.property(fc.uuid(), moment, fc.nat(99_999), (id, at, took) => {
        assert.strictEqual(read(result(id, at.toISOString(), took)).hash, expected)
      })
    )
    assert.notStrictEqual(read("job 7 is 41% done").hash, read("job 7 is 42% done").hash)
  })

  it("says nothing of its own by what it repeats of the arguments", () => {
    const args = { query: "purple elephants", path: "src/a.ts" }
    const echo = read('No results for "purple elephants" in src/a.ts', { args })
    assert.strictEqual(echo.words, 4)
    assert.strictEqual(echo.letters, read("No results for '' in", { args }).letters)
    assert.isTrue(echo.negative)
    assert.isFalse(read("failed job", { args: { name: "failed job" } }).troubled)
    assert.isTrue(read("failed job").troubled)
  })

  it("has as new words those that nobody has met, each once", () => {
    const first = read("the cat and the dog")
    assert.strictEqual(first.freshWords, 4)
    const known = met(WordSet.none(), first)
    assert.strictEqual(read("the dog and the cat", { known }).freshWords, 0)
    assert.strictEqual(read("the dog and the bird", { known }).freshWords, 1)
    assert.strictEqual(read("The DOG", { known }).freshWords, 0)
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const { freshWords, freshNumbers, freshLines, freshVolatile } = read(value, {
          known: met(WordSet.none(), read(value))
        })
        assert.deepStrictEqual([freshWords, freshNumbers, freshLines, freshVolatile], [0, 0, 0, 0])
      })
    )
  })

  it("is trouble when it tells of an error, and not when it denies one", () => {
    for (const text of [
      "Error: it broke",
      "TypeError: x is undefined",
      "java.io.IOException",
      "permission denied",
      "3 failed, 2 passed",
      "error: no such file",
      "Error: not found",
      "error: undefined is not a function",
      "status: auto_declined",
      { error: "no such file" },
      { errors: ["bad"] },
      { error: true },
      { error: { code: 7 } }
    ])
      assert.isTrue(read(text).troubled, JSON.stringify(text))
    for (const text of [
      "0 errors, 0 failed",
      "no errors",
      "all is well",
      { errors: [] },
      { error: null },
      { error: "" },
      { error: false },
      { errors: 0 },
      "errors: 0\nwarnings: 0",
      "errors: 0 warnings: 3",
      "errors: none",
      "errors: none, all well",
      "errors: none\nall well",
      { failed: 0, passed: 12 }
    ])
      assert.isFalse(read(text).troubled, JSON.stringify(text))
  })

  it("of several things of which some failed is no trouble: of one it is", () => {
    const records = [
      { name: "a", error: "no such host" },
      { name: "b", status: "failed" }
    ]
    assert.isFalse(read({ jobs: records }).troubled)
    assert.isTrue(read({ jobs: records.slice(0, 1) }).troubled)
    assert.isTrue(read({ jobs: records, error: "not all" }).troubled)
  })

  it("was not done when a field says so", () => {
    for (const value of [
      { success: false },
      { acquired: false, holder: "ci" },
      { exit_code: 1 },
      { exitCode: 127, stdout: "" },
      { code: 2, stderr: "no" },
      { deep: { rc: -1 } }
    ])
      assert.isTrue(read(value).undone, JSON.stringify(value))
    for (const value of [
      { success: true },
      { exit_code: 0 },
      { exit_code: "1" },
      { code: 0, stdout: "1" },
      { code: 2, name: "EUR" },
      {}
    ])
      assert.isFalse(read(value).undone, JSON.stringify(value))
  })

  it("is the same error wherever in the file it is, and whatever was asked", () => {
    const at = (line: number) => read(`a.ts:${line}:3: error: not assignable`)
    assert.strictEqual(at(12).trouble, at(900).trouble)
    assert.notStrictEqual(at(12).place, at(900).place)
    assert.strictEqual(at(12).places, 1)
    const named = (name: string) => read(`error: cannot open ${name}`, { args: { name } }).trouble
    assert.strictEqual(named("alpha"), named("beta"))
    assert.notStrictEqual(read("error: no such file").trouble, read("error: no such table").trouble)
    const lines = ["error: one thing", "all quiet", "error: another thing"]
    assert.strictEqual(read(lines.join("\n")).trouble, read(lines.toReversed().join("\n")).trouble)
    assert.strictEqual(read([...lines, "more of this"].join("\n")).trouble, read(lines.join("\n")).trouble)
  })

  it("waits, finds nothing, is an empty list", () => {
    for (const text of ["pending", "Retry-After: 3", { state: "queued" }, "503", "connect ECONNREFUSED"])
      assert.isTrue(read(text).waiting, JSON.stringify(text))
    for (const text of ["compiling", "40 %", "scheduled"]) {
      assert.isTrue(read(text).waiting, text)
      assert.isFalse(read(`${text} ${words(0, 20)}`).waiting, text)
    }
    for (const nothing of [
      "",
      null,
      undefined,
      {},
      [],
      "No matches found",
      "0 results",
      "none",
      { hits: [], total: 0 }
    ])
      assert.isTrue(read(nothing).negative, JSON.stringify(nothing))
    for (const something of ["ok", { deleted: true }, "3 results", [1], `no matches in ${words(0, 60)}`])
      assert.isFalse(read(something).negative, JSON.stringify(something))
    assert.isTrue(read({ treff: [], antall: 0 }).emptyList)
    assert.isFalse(read({ treff: [], namn: "x" }).emptyList)
  })

  it("has numbers, the first and the last of them, and those that are one of many", () => {
    const { numbers, counted, numbersInAll } = read("built 3/12, 40 % in part-17, size 512MB")
    assert.deepStrictEqual(numbers.slice(0, 4), [3, 12, 40, 17])
    assert.deepStrictEqual(
      [0, 1, 2, 3].map((n) => ((counted >> n) & 1) === 1),
      [true, true, true, false]
    )
    assert.strictEqual(numbersInAll, 5)
    assert.strictEqual(read(Array.from({ length: 50 }, (_, i) => i + 2)).numbers.length, 8)
    for (const value of [{ sha: "9".repeat(400) }, `a.ts:${"9".repeat(400)} error`, 1e300, Infinity, -0]) {
      const { numbers, place } = read(value)
      assert.isTrue([...numbers, place].every(Number.isFinite))
    }
  })

  it("of bytes is another when they are, and is something", () => {
    const [one, other] = [new Uint8Array(9).fill(1), new Uint8Array(9).fill(2)].map((bytes) => read(bytes))
    assert.notStrictEqual(one?.hash, other?.hash)
    assert.notStrictEqual(one?.letters, other?.letters)
    assert.isFalse(one?.negative)
    assert.isTrue(read(new Uint8Array()).negative)
  })

  it("that is an error object is told by what it says", () => {
    class Broken extends Error {
      override readonly name = "BrokenError"
      readonly part = "pump"
    }
    assert.notStrictEqual(read(new Error("no route")).trouble, read(new Error("no space")).trouble)
    assert.isTrue(read(new Broken("leaks")).troubled)
    assert.notStrictEqual(read(new Broken("leaks")).letters, read(new Broken("stuck")).letters)
  })

  it("that goes on by itself is told by its ids", () => {
    const record = (id: number) => ({ order_id: id, item: "pen" })
    assert.strictEqual(read(record(70_001)).hash, read(record(70_002)).hash)
    const advances = true
    assert.notStrictEqual(read(record(70_001), { advances }).hash, read(record(70_002), { advances }).hash)
  })

  it("is read to its end, or as far as its size allows", () => {
    const many = Array.from({ length: 150_000 }, (_, i) => i)
    assert.strictEqual(read(many).hash, read([...many, 1, 2, 3]).hash)
    const sparse: Array<unknown> = []
    sparse.length = 1_000_000_000
    assert.isTrue(read(sparse).negative)
    const record = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 1]))
    assert.strictEqual(read(record(100_001)).hash, read(record(100_100)).hash)
    const deep = (depth: number, end: string) =>
      Array.from({ length: depth }).reduce<unknown>((inner) => [inner], end)
    assert.notStrictEqual(read(deep(30, "a")).hash, read(deep(30, "b")).hash)
    assert.strictEqual(read(deep(40, "a")).hash, read(deep(40, "b")).hash)
    const long = read(words(0, 6_000))
    assert.strictEqual(long.freshWords, 512)
    assert.isAtMost(long.freshKept, 1_024)
  })

  it("may have fields of any length, and any number of them", () => {
    const names = ["a".repeat(200_000), `${"a".repeat(200_000)}1`, "errors".repeat(20_000)]
    for (const name of names) assert.strictEqual(read({ [name]: "x y" }).words, 2)
    const spelled = Array.from(
      { length: 20_000 },
      (_, i) =>
        [..."coordinates"].map((c, n) => ((i >> n) & 1 ? c.toUpperCase() : c)).join("") + (i >> 11 ? i : "")
    )
    assert.isNumber(hashOf(Object.fromEntries(spelled.map((name) => [name, "1"]))))
  })

  it("is read to the last of its words, however many a short one has", () => {
    const letters = [..."abcdefghijklmnopqrstuvwxyz"]
    const codes = letters.flatMap((a) => letters.map((b) => a + b))
    const next = random(7)
    for (let i = 0; i < 1_000; i++) {
      const some = new Set(Array.from({ length: 60 }, () => codes[next(codes.length)] ?? ""))
      const { freshWords, freshLines } = read([...some].join("\n"))
      // A few are words that say nothing of their own, and each is a line.
      assert.strictEqual(freshWords, some.size)
      assert.strictEqual(freshLines, some.size)
    }
  })

  it("ended badly with a code beside what it printed, of its own", () => {
    class Response {
      readonly code = 200
      get stderr() {
        return ""
      }
    }
    assert.isTrue(read({ code: 1, stderr: "" }).undone)
    assert.isFalse(read({ code: 200 }).undone)
    assert.isFalse(read(new Response()).undone)
  })

  it("may be read anew when it was given back, with what was read before it gone", () => {
    const asked = { toolId: 1, args: Fingerprint.ofArguments({ a: "alpha" }) }
    const result = (value: unknown) => Fingerprint.ofResult(value, asked, WordSet.none(), {})
    const text = "alpha 3 of 12 done\n429 pending"
    const expected = factsOf(result(text))
    for (const other of ["error: none 5", { errors: ["a failed"], id: "9ecaa1" }, [], words(0, 900)]) {
      const before = result(other)
      Fingerprint.giveBack(before)
      const again = result(text)
      assert.strictEqual(again, before)
      assert.deepStrictEqual(factsOf(again), expected)
      // It is not given to two.
      assert.notStrictEqual(result(text), again)
      Fingerprint.giveBack(again)
    }
  })

  it("may be one word of any length", () => {
    const word = `aB3${"aB3dE4".repeat(2e6)}`
    assert.isTrue(read({ data: word }).all === 1)
    assert.isTrue(read("1s".repeat(4e6)).all === 1)
  })

  it("takes time by its size, and not by more", () => {
    // Each of these took seconds when a word was looked for in all that follows, or more than is read was gone through.
    for (const text of ["a1 ", "1a ", "1m", "1.1s", "a-", "1:", "a.ts:1:1 ", "error 1\n", "#1 1.5 "])
      assert.isNumber(read(text.repeat(300_000 / text.length)).hash)
    assert.isNumber(read(new Uint8Array(4_000_000)).hash)
  })
})
