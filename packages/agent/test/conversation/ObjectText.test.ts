/** The JSON of an answer, with any text around it and in any pieces. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { ObjectText, of } from "#agent/conversation/ObjectText"

const json = fc.oneof(
  fc.json(),
  fc.jsonValue().map((value) => JSON.stringify(value, undefined, 2))
)
const object = fc
  .dictionary(fc.string(), fc.jsonValue())
  .map((value) => JSON.stringify({ ...value, code: "```\n```js" }, undefined, 2))

const pieces = (text: string, cuts: ReadonlyArray<number>): ReadonlyArray<string> => {
  const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].toSorted((a, b) => a - b)
  return at.slice(1).map((end, i) => text.slice(at[i], end))
}

const read = (text: string, cuts: ReadonlyArray<number>): string => {
  const reader = new ObjectText()
  return [...pieces(text, cuts).map((piece) => reader.push(piece)), reader.end()].join("")
}

describe("the text of an object", () => {
  const cuts = fc.array(fc.nat(), { maxLength: 8 })

  it("is the same in one piece and in many", () => {
    const fence = fc.constantFrom(
      "```json\n",
      "```\n",
      " \n```JSON \r\n",
      "```json",
      "Here it is:\n```json\n",
      ""
    )
    const tail = fc.constantFrom("\n```", "\n```\nI hope that helps.", "\r\n  ```  \n", "", "```")
    fc.assert(
      fc.property(fence, json, tail, cuts, (before, text, after, at) => {
        const whole = before + text + after
        assert.strictEqual(read(whole, at), of(whole))
      })
    )
  })

  it("passes an unfenced object unchanged", () => {
    fc.assert(fc.property(object, cuts, (text, at) => assert.strictEqual(read(text, at), text)))
  })

  // vercel/ai#4906 and vercel/ai#4710.
  it("loses only its fence", () => {
    const before = fc.constantFrom("```json\n", "```\n", "\n\n```json5\r\n", "Of course.\n```json\n")
    const after = fc.constantFrom("\n```", "\n```\n", "\r\n```\nShall I go on?")
    fc.assert(
      fc.property(before, object, after, cuts, (open, text, close, at) => {
        assert.deepStrictEqual(JSON.parse(read(open + text + close, at)), JSON.parse(text))
      })
    )
  })

  it("shows a fenced object as it arrives", () => {
    const reader = new ObjectText()
    assert.deepStrictEqual(
      ["``", "`json\n", '{"a": ', "[1,", "2]}\n", "``", "`"].map((piece) => reader.push(piece)),
      ["", "", '{"a":', " [1,", "2]}", "", ""]
    )
    assert.strictEqual(reader.end(), "")
  })

  it("stays unchanged when the intended part is ambiguous", () => {
    for (const text of [
      "It is {a} or {b}.",
      "```json\n{}\n```\nor\n```json\n[]\n```".replace("```json", "Either:\n```json"),
      "No."
    ]) {
      assert.strictEqual(of(text), text)
    }
  })
})
