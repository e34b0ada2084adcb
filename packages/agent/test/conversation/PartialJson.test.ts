/** The value of an incomplete JSON text. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { PartialJson } from "#agent/conversation/PartialJson"

/** True when `part` occurs in `whole` in the same places. A string may be a prefix. */
const isPartOf = (part: unknown, whole: unknown): boolean => {
  if (typeof part === "string") return typeof whole === "string" && whole.startsWith(part)
  if (Array.isArray(part)) return Array.isArray(whole) && part.every((item, i) => isPartOf(item, whole[i]))
  if (typeof part === "object" && part !== null) {
    return Object.entries(part).every(([key, item]) => {
      const own = Object.getOwnPropertyDescriptor(whole, key)
      return own !== undefined && isPartOf(item, own.value)
    })
  }
  return Object.is(part, whole)
}

describe("the value of an incomplete JSON text", () => {
  it("is a part of the final value after each character, and equal to it at the end", () => {
    fc.assert(
      fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())), (value) => {
        const text = JSON.stringify(value)
        const whole: unknown = JSON.parse(text)
        const reader = new PartialJson()
        let last: unknown
        for (const char of text.match(/[^]/g) ?? []) {
          const shown = reader.push(char)
          if (shown === undefined) continue
          assert.isTrue(isPartOf(shown, whole), `${JSON.stringify(shown)} of ${text}`)
          last = shown
        }
        assert.deepStrictEqual(last, whole)
      })
    )
  })

  it("includes incomplete strings, and leaves out values that may change", () => {
    const reader = new PartialJson()
    const pieces = ['{"ci', 'ty": "Os', "lo\\u00", '5f", "n": 1', "2", ', "is": tr', 'ue, "l": [{', "}", "]}"]
    assert.deepStrictEqual(
      pieces.map((piece) => reader.push(piece)),
      [
        {},
        { city: "Os" },
        { city: "Oslo" },
        { city: "Oslo_" },
        undefined,
        { city: "Oslo_", n: 12 },
        { city: "Oslo_", n: 12, is: true, l: [{}] },
        undefined,
        undefined
      ]
    )
  })

  it("is undefined for invalid JSON", () => {
    const reader = new PartialJson()
    assert.isUndefined(reader.push("The answer: }]"))
  })
})
