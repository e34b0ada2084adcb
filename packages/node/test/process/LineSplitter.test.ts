/** Lines out of any chunks of bytes. */
import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import * as LineSplitter from "#node/process/LineSplitter"

const encode = (text: string) => new TextEncoder().encode(text)

/** Bytes in chunks of this size. */
const chunks = (bytes: Uint8Array, size: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size))

describe("lines", () => {
  it("are the same for every way to cut the bytes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "grapheme" }).map((text) => text.replaceAll(/[\n\r]/g, "é"))),
        fc.integer({ min: 1, max: 9 }),
        fc.constantFrom("\n", "\r\n"),
        (lines, size, end) => {
          const splitter = LineSplitter.make(1_000)
          const bytes = encode(
            lines
              .map((line) => `${line}${end}`)
              .join("")
              .replaceAll("\uFEFF", "")
          )
          const seen = chunks(bytes, size).flatMap((chunk) => splitter.push(chunk) ?? ["too long"])
          assert.deepStrictEqual(
            seen,
            lines.map((line) => line.replaceAll("\uFEFF", "")).map((line) => line.toWellFormed())
          )
        }
      )
    )
  })

  it("may be as long as allowed, and no longer, with and without an end", () => {
    assert.deepStrictEqual(LineSplitter.make(3).push(encode("abc\nab\n")), ["abc", "ab"])
    assert.isUndefined(LineSplitter.make(3).push(encode("a\nabcd")))
    assert.isUndefined(LineSplitter.make(3).push(encode("abcd\n")))
    const splitter = LineSplitter.make(3)
    assert.deepStrictEqual(splitter.push(encode("ab")), [])
    assert.isUndefined(splitter.push(encode("cd")))
  })
})

describe("a tail", () => {
  it("has the last characters, however much was written", () => {
    const tail = LineSplitter.makeTail(10)
    for (let i = 0; i < 100; i++) tail.push(encode(`${i},`))
    assert.strictEqual(tail.text(), "96,97,98,99,".slice(-10))
  })
})
