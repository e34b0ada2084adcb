import { assert, describe, it } from "@effect/vitest"
import * as WordSet from "@outlast/agent/guard/loops/WordSet"
import * as fc from "fast-check"
import { random } from "./support.ts"

const { capacity } = WordSet

/** The last {@link capacity} words in the order in which they came. */
const model = () => {
  const order: Array<number> = []
  const has = (word: number) => order.lastIndexOf(word) >= Math.max(0, order.length - capacity)
  return {
    has,
    add: (words: ReadonlyArray<number>) => {
      for (const word of words) if (!order.includes(word) || !has(word)) order.push(word)
    }
  }
}

const word = fc.oneof(
  fc.integer(),
  fc.integer({ min: -20, max: 20 }),
  fc.constantFrom(0, -1, 1 << 31, 2 ** 31 - 1)
)
const added = fc.array(fc.array(word, { maxLength: 60 }), { maxLength: 30 })
const all = (lists: ReadonlyArray<ReadonlyArray<number>>) =>
  lists.reduce((set, list) => WordSet.add(set, list), WordSet.none())
const many = (from: number, count: number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, i) => Math.imul(from + i, 0x9e3779b1))

describe("a set of words", () => {
  it("holds what was added and nothing else", () => {
    fc.assert(
      fc.property(added, fc.array(word), (lists, others) => {
        const set = all(lists)
        const expected = new Set(lists.flat())
        for (const one of [...expected, ...others])
          assert.strictEqual(WordSet.has(set, one), expected.has(one))
      })
    )
  })

  it("loses none of as many as it may hold, added one by one or all at once", () => {
    const words = many(7, capacity)
    for (const set of [WordSet.add(WordSet.none(), words), all(words.map((one) => [one]))])
      assert.strictEqual(words.filter((one) => !WordSet.has(set, one)).length, 0)
  })

  it("forgets the oldest, and only them", () => {
    const words = many(0, 3 * capacity)
    for (const set of [WordSet.add(WordSet.none(), words), all(words.map((one) => [one]))]) {
      assert.strictEqual(words.slice(0, -capacity).filter((one) => WordSet.has(set, one)).length, 0)
      assert.isTrue(words.slice(-capacity).every((one) => WordSet.has(set, one)))
    }
  })

  it("is what the model says, over words that come again after they were forgotten", () => {
    const next = random(3)
    const expected = model()
    const pool = many(1, capacity + 500)
    let set = WordSet.none()
    for (let round = 0; round < 40; round++) {
      const from = next(pool.length)
      const words = pool.slice(from, from + 600)
      set = WordSet.add(set, words)
      expected.add(words)
    }
    for (const one of pool) assert.strictEqual(WordSet.has(set, one), expected.has(one))
  })

  it("is the same set when nothing is added that it has not", () => {
    fc.assert(
      fc.property(added, (lists) => {
        const set = all(lists)
        assert.strictEqual(WordSet.add(set, lists.flat()), set)
        assert.strictEqual(WordSet.add(set, []), set)
      })
    )
  })

  it("does not see what another set made from it has", () => {
    fc.assert(
      fc.property(added, added, added, (lists, left, right) => {
        const set = all(lists)
        const has = new Set(lists.flat())
        const first = left.reduce(WordSet.add, set)
        const second = right.reduce(WordSet.add, set)
        const third = left.reduce(WordSet.add, second)
        for (const one of [...left, ...right].flat()) {
          assert.strictEqual(WordSet.has(set, one), has.has(one))
          assert.strictEqual(WordSet.has(first, one), has.has(one) || left.flat().includes(one))
          assert.strictEqual(WordSet.has(second, one), has.has(one) || right.flat().includes(one))
          assert.isTrue(WordSet.has(third, one))
        }
      })
    )
  })

  it("stays as it is, however far another goes on from it", () => {
    const words = many(0, capacity - 10)
    const kept = WordSet.add(WordSet.none(), words)
    let other = kept
    for (let i = 1; i < 40; i++) other = WordSet.add(other, many(i * capacity, 1_000))
    assert.isTrue(words.every((one) => WordSet.has(kept, one)))
    assert.isFalse(words.some((one) => WordSet.has(other, one)))
  })

  it("is bounded, and its numbers do not grow for ever", () => {
    let set = WordSet.none()
    for (let i = 0; i < 200; i++) set = WordSet.add(set, many(i * 1_000, 1_000))
    assert.isAtMost(set.table.words.length, 4 * capacity)
    assert.isAtMost(set.count, 2 * capacity)
  })

  it("ends where all words ask for the same place", () => {
    // What differs in the high bits alone is mixed; these are found by trying.
    const place = (one: number) => {
      const x = Math.imul(one ^ (one >>> 16), 0x45d9f3b)
      return (x ^ (x >>> 15)) & (4 * capacity - 1)
    }
    const words = many(0, 2_000_000).filter((one) => place(one) === 4 * capacity - 1)
    const set = WordSet.add(WordSet.none(), words)
    assert.isAbove(words.length, 20)
    assert.isTrue(words.every((one) => WordSet.has(set, one)))
    assert.isFalse(WordSet.has(set, 12_345))
  })
})
