/** Every promise has one line, and every test that a line names exists. */
import { globSync, readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import type { Ran } from "./Conformance.ts"
import * as Conformance from "./Conformance.ts"
import type { Seed } from "./Promises.ts"
import { later, outOfScope, tests, works } from "./Promises.ts"
import { seeds } from "./seeds.ts"
import * as Titles from "./Titles.ts"

const sources = new Map<string, string>()
const sourceOf = (file: string): string => {
  const known = sources.get(file)
  if (known !== undefined) return known
  const source = readFileSync(file, "utf8")
  sources.set(file, source)
  return source
}

const own = globSync(`${Conformance.folder}*.test.ts`)
  .filter((file) => !file.endsWith("conformance.test.ts"))
  .map((file) => sourceOf(file))
  .join("\n")

describe("the promises", () => {
  it("are 421, each with one line under the number of its seed", () => {
    const ids = seeds.flatMap(({ seed, promises }) =>
      promises.map(({ id }) => {
        assert.isTrue(id.startsWith(`${seed}-`), id)
        return id
      })
    )
    assert.deepStrictEqual(
      ids.filter((id, n) => ids.indexOf(id) !== n),
      []
    )
    assert.lengthOf(ids, 421)
  })

  for (const { name, promises } of seeds) {
    it(`of ${name} name tests that exist`, () => {
      const problems: Array<string> = []
      for (const { id, status, tests, why } of promises) {
        if (status !== "works" && (why ?? "") === "") problems.push(`${id}: says no reason`)
        if (status === "later") continue
        if (tests.length === 0 && !own.includes(id)) problems.push(`${id}: no test of this folder has it`)
        for (const { file, title } of tests) {
          if (!Titles.has(sourceOf(file), title)) problems.push(`${id}: ${file} has no test "${title}"`)
        }
      }
      assert.deepStrictEqual(problems, [])
    })
  }

  it("are named by every test of this folder that begins with an id", () => {
    const ids = new Set(seeds.flatMap(({ promises }) => promises.map(({ id }) => id)))
    const named = [...own.matchAll(/["'`]((?:(?:\d{3}|user)-[\w-]+(?:, )?)+): /g)].flatMap(([, list = ""]) =>
      list.split(", ")
    )
    assert.deepStrictEqual(
      named.filter((id) => !ids.has(id)),
      []
    )
  })
})

describe("a promise", () => {
  const file = "packages/x/test/X.test.ts"
  const at = tests(file)
  const ran = (path: string, passed = true, of = file): Ran => ({ file: of, path, passed })
  const verdictOf = (promises: Seed["promises"], ...all: ReadonlyArray<Ran>) =>
    Conformance.judge([{ seed: "000", name: "x", promises }], all).map(({ status, why }) => [status, why])

  it("works when its test passed, by the end of the path", () => {
    const promised = works("000-a", "a", at("does it"))
    assert.deepStrictEqual(verdictOf([promised], ran("group > does it")), [["works", undefined]])
    const deeper = works("000-a", "a", at("group > does it"))
    assert.deepStrictEqual(verdictOf([deeper], ran("all > group > does it")), [["works", undefined]])
  })

  it("is broken when its test is missing, was renamed, is in another file, or failed", () => {
    const promised = works("000-a", "a", at("does it"))
    const gone = [["broken", `no such test: ${file}: does it`]]
    assert.deepStrictEqual(verdictOf([promised]), gone)
    assert.deepStrictEqual(verdictOf([promised], ran("does it well")), gone)
    assert.deepStrictEqual(verdictOf([promised], ran("does it", true, "packages/y.test.ts")), gone)
    assert.deepStrictEqual(verdictOf([promised], ran("does it"), ran("x > does it", false)), [
      ["broken", "failed: x > does it"]
    ])
  })

  it("is broken when one of its tests is missing", () => {
    const promised = works("000-a", "a", at("one"), at("two"))
    assert.deepStrictEqual(verdictOf([promised], ran("one")), [["broken", `no such test: ${file}: two`]])
  })

  it("without a named test is shown by titles of this folder that begin with its id", () => {
    const promised = works("000-a", "a")
    const here = "test/seeds/x.test.ts"
    assert.deepStrictEqual(verdictOf([promised], ran("000-b, 000-a: says", true, here)), [
      ["works", undefined]
    ])
    const missing = [["broken", 'no such test: a title that begins with "000-a: "']]
    assert.deepStrictEqual(verdictOf([promised], ran("000-a: says")), missing)
    assert.deepStrictEqual(verdictOf([promised], ran("000-ab: says", true, here)), missing)
    assert.deepStrictEqual(verdictOf([promised], ran("000-a: says", false, here)), [
      ["broken", "failed: 000-a: says"]
    ])
  })

  it("that is out of scope needs its test, too, and one for later none", () => {
    assert.deepStrictEqual(
      verdictOf([outOfScope("000-a", "a", "no", at("x")), later("000-b", "b", "work")]),
      [
        ["broken", `no such test: ${file}: x`],
        ["later", "work"]
      ]
    )
  })
})

describe("the titles of a source", () => {
  it("are found in one piece, as a template, and not as a part of another", () => {
    const source =
      'it("does it", x)\nit(`stops after ${n} seconds`)\nit.each([])("reads %s of two", y)\nit("%s")'
    assert.isTrue(Titles.has(source, "group > does it"))
    assert.isTrue(Titles.has(source, "stops after 3 seconds"))
    assert.isTrue(Titles.has(source, "reads one of two"))
    assert.isFalse(Titles.has(source, "does"))
    assert.isFalse(Titles.has(source, "stops after"))
    assert.isFalse(Titles.has(source, "anything else"))
    assert.isFalse(Titles.has('describe("does it", () => {})', "does it"))
    assert.isTrue(Titles.has('describe("does it", () => { it("does it", x) })', "does it"))
  })
})
