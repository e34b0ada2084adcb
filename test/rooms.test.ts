/** The order of folders, as `npm run lint` checks it. */
import { assert, describe, it } from "@effect/vitest"
import { check } from "../scripts/rooms.ts"

const problemsOf = (modules: Readonly<Record<string, string>>, order: ReadonlyArray<string>) =>
  check(new Map(Object.entries(modules)), order).problems

describe("the order of folders", () => {
  it("accepts imports of folders that are earlier in the list", () => {
    const modules = {
      "store/Store.ts": "export const store = 1",
      "bus/Bus.ts": 'import { store } from "../store/Store.ts"'
    }
    assert.deepStrictEqual(problemsOf(modules, ["store", "bus"]), [])
    assert.deepStrictEqual(problemsOf(modules, ["bus", "store"]), [
      "bus/Bus.ts imports store/Store.ts, which is above it."
    ])
  })

  it("reports types, exports and dynamic imports from folders above", () => {
    for (const statement of [
      'import type { Bus } from "../bus/Bus.ts"',
      'import {\n  bus\n} from "../bus/Bus.ts"',
      'const own = 1\nexport { bus } from "../bus/Bus.ts"',
      'const bus = import("../bus/Bus.ts")',
      'import "../bus/Bus.ts"'
    ]) {
      const modules = { "store/Store.ts": statement, "bus/Bus.ts": "export const bus = 1" }
      assert.deepStrictEqual(
        problemsOf(modules, ["store", "bus"]),
        ["store/Store.ts imports bus/Bus.ts, which is above it."],
        statement
      )
    }
  })

  it("reports files of one folder that import each other", () => {
    const modules = {
      "bus/A.ts": 'import "./B.ts"',
      "bus/B.ts": 'import type { C } from "./C.ts"',
      "bus/C.ts": 'import "./A.ts"'
    }
    assert.deepStrictEqual(problemsOf(modules, ["bus"]), [
      "These files import each other: bus/A.ts → bus/B.ts → bus/C.ts → bus/A.ts."
    ])
  })

  it("lets index files name every module, unless another module imports them", () => {
    const modules = {
      "index.ts":
        '/** Names. */\nexport * as Bus from "./bus/Bus.ts"\nexport { type Store } from "./store/Names.ts"',
      "store/Names.ts": 'export { bus } from "../bus/Bus.ts"',
      "bus/Bus.ts": "export const bus = 1"
    }
    assert.deepStrictEqual(problemsOf(modules, ["bus"]), [])
    const detour = { ...modules, "store/Store.ts": 'import { bus } from "./Names.ts"' }
    assert.deepStrictEqual(problemsOf(detour, ["store", "bus"]), [
      "store/Names.ts imports bus/Bus.ts, which is above it."
    ])
  })

  it("reports folders without a place, and places without a folder", () => {
    assert.deepStrictEqual(problemsOf({ "bus/Bus.ts": "export const bus = 1" }, ["dead"]), [
      "bus has no place in scripts/rooms.ts.",
      "dead has a place in scripts/rooms.ts, but no modules."
    ])
  })
})
