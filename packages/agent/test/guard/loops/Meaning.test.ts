import { assert, describe, it } from "@effect/vitest"
import * as Meaning from "@outlast/agent/guard/loops/Meaning"
import * as Volatile from "@outlast/agent/guard/loops/Volatile"
import * as Word from "@outlast/agent/guard/loops/Word"
import * as WordTable from "@outlast/agent/guard/loops/WordTable"
import * as fc from "fast-check"

const means = (word: string, meaning: number) => (Meaning.ofHash(Meaning.of(word)) & meaning) !== 0

describe("a word", () => {
  it("means what its hash says, in upper case and lower", () => {
    for (const word of ["error", "ERROR", "Failed", "denied", "ENOENT"])
      assert.isTrue(means(word, Meaning.trouble), word)
    for (const word of ["none", "NULL", "nothing"]) assert.isTrue(means(word, Meaning.nothing), word)
    for (const word of ["0", "no", "without"]) assert.isTrue(means(word, Meaning.none), word)
    for (const word of ["pending", "429", "IN_PROGRESS", "Retry-After"])
      assert.isTrue(means(word, Meaning.waits), word)
    for (const word of ["accepted"]) {
      assert.isTrue(means(word, Meaning.success), word)
      assert.isTrue(means(word, Meaning.waitsIfShort), word)
    }
    for (const word of ["sha256", "checksum"]) assert.isTrue(means(word, Meaning.digest), word)
  })

  it("means nothing when nobody said what it means", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{12,20}$/), (word) => {
        assert.strictEqual(Meaning.ofHash(Meaning.of(`xx${word}`)), 0)
      })
    )
  })

  it("is hashed a character at a time", () => {
    fc.assert(
      fc.property(fc.string(), (word) => {
        let hash = Meaning.begin()
        for (let i = 0; i < word.length; i++) hash = Meaning.next(hash, word.charCodeAt(i))
        assert.strictEqual(hash, Meaning.of(word))
      })
    )
  })

  it("names a value that says nothing, however its parts are joined", () => {
    for (const [name] of Volatile.names)
      for (const joint of ["_", "-", ""])
        assert.notStrictEqual(Meaning.naming(Meaning.of(name.replaceAll("_", joint))), 0, name)
    assert.strictEqual(Meaning.naming(Meaning.of("request_id")), Meaning.anywhere)
    assert.strictEqual(Meaning.naming(Meaning.of("port")), Meaning.result)
    assert.strictEqual(Meaning.naming(Meaning.of("customer")), 0)
  })
})

describe("a word by its looks", () => {
  it("says nothing as an id, a moment, a duration, an address", () => {
    for (const word of [
      "2026-01-02T03:04:05Z",
      "10:00:00,123",
      "9:15pm",
      "1767322800",
      "0b6a4c0e-3a7e-4c1c-9a53-5f8e5a1f2d3c",
      "1h3m20s",
      "350ms",
      "0x7ffd3a",
      "deadbeef1",
      "req_8f3a91b2",
      "OPS-311",
      "tmpx81b",
      "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ1"
    ])
      assert.isTrue(Volatile.inResult(word), word)
    for (const word of ["42", "42%", "2026-01-02", "part-17", "v1.2.3", "utf8", "h1", "x86_64", "a1b2"])
      assert.isFalse(Volatile.inResult(word), word)
  })

  it("is judged in a time by its length, whatever it is made of", () => {
    for (const part of [
      "1",
      "a1",
      "1m",
      "1ms",
      "1.1s",
      "1min",
      "a_1",
      "tmp1",
      "1:",
      "1.",
      "aB1-",
      "0x1f",
      "A-1"
    ]) {
      for (const end of ["", "!", "_", "x", "-"])
        assert.isBoolean(Volatile.inResult(part.repeat(100_000) + end))
    }
  })

  it("is made up where digits stand here and there among small letters", () => {
    const isMadeUp = (word: string) => Word.isMadeUp(word, 0, word.length)
    assert.deepStrictEqual(["9ecaa1", "v3x9", "B882", "b882", "A3F7K1", "12", "1.5"].map(isMadeUp), [
      true,
      true,
      false,
      false,
      false,
      false,
      true
    ])
  })

  it("is a number with a unit or a name, or none", () => {
    const numberOf = (word: string) => {
      const from = Word.numberFrom(word, 0, word.length)
      return from < 0 ? undefined : Number.parseFloat(word.slice(from))
    }
    assert.deepStrictEqual(["12", "1.5", "512MB", "part-17", "v3x9", "abc"].map(numberOf), [
      12,
      1.5,
      512,
      17,
      undefined,
      undefined
    ])
  })

  it("with a fraction is the time of a log's line, where the rest of the text has no other", () => {
    const says = (text: string, word: string) => {
      const from = text.indexOf(word)
      return Word.saysNothing(text, from, from + word.length, word.replaceAll(/\D/g, "").length)
    }
    assert.isTrue(says("log\n[  12.345] usb found", "12.345"))
    assert.isFalse(says("log\n12x usb found", "12x"))
  })
})

describe("a table of words", () => {
  it("holds what there is room for, and says what it could not hold", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: 1 }), { maxLength: 80 }), (words) => {
        const table = WordTable.make(64)
        const held = words.filter((word) => WordTable.add(table, word, 3))
        for (const word of words) assert.strictEqual(WordTable.get(table, word), held.includes(word) ? 3 : 0)
        assert.isAtMost(held.length, 64)
      })
    )
  })

  it("adds the bits of a word that has some", () => {
    const table = WordTable.make(8)
    WordTable.add(table, 5, 1)
    WordTable.add(table, 5, 4)
    WordTable.add(table, 13, 2)
    assert.deepStrictEqual(
      [WordTable.get(table, 5), WordTable.get(table, 13), WordTable.get(table, 21)],
      [5, 2, 0]
    )
  })

  it("is emptied at once", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer(), { maxLength: 20 }), { maxLength: 10 }), (rounds) => {
        const set = WordTable.scratch(512)
        for (const words of rounds) {
          WordTable.empty(set)
          const held = new Set<number>()
          for (const word of words) {
            assert.strictEqual(WordTable.put(set, word), !held.has(word))
            held.add(word)
          }
          for (const word of rounds.flat()) assert.strictEqual(WordTable.has(set, word), held.has(word))
        }
      })
    )
  })
})
