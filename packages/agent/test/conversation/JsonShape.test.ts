/** JSON against a JSON Schema: misfits are found, and values that may fit are accepted. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { inWords, misfit } from "#agent/conversation/JsonShape"

const person = {
  $ref: "#/$defs/Person",
  $defs: {
    Person: {
      type: "object",
      properties: {
        name: { type: "string" },
        age: { type: ["integer", "null"] },
        kind: { enum: ["a", "b"] },
        friends: { type: "array", items: { $ref: "#/$defs/Person" } },
        home: {
          anyOf: [
            { type: "string" },
            { type: "object", required: ["city"], properties: { city: { type: "string" } } }
          ]
        }
      },
      required: ["name"],
      additionalProperties: false
    }
  }
}

const found = (value: unknown, schema: unknown = person) => {
  const at = misfit(schema, value)
  return at === undefined ? undefined : inWords(at).replace("\n ", "")
}

describe("JSON against a JSON Schema", () => {
  it("reports the place of a misfit and the expected value", () => {
    assert.strictEqual(found("x"), "Expected an object")
    assert.strictEqual(found({}), 'Expected a string at ["name"]')
    assert.strictEqual(found({ name: 1 }), 'Expected a string at ["name"]')
    assert.strictEqual(found({ name: "x", age: 1.5 }), 'Expected an integer or null at ["age"]')
    assert.strictEqual(found({ name: "x", kind: "c" }), 'Expected "a" or "b" at ["kind"]')
    assert.strictEqual(
      found({ name: "x", friends: [{ name: "y" }, {}] }),
      'Expected a string at ["friends"][1]["name"]'
    )
    assert.strictEqual(found({ name: "x", home: { city: 1 } }), 'Expected a string at ["home"]["city"]')
  })

  it("accepts values that fit, and values that other programs accept", () => {
    for (const value of [
      { name: "x", age: null, kind: "a", friends: [{ name: "y" }], home: "Oslo" },
      { name: "x", more: true }
    ])
      assert.isUndefined(found(value))
    for (const schema of [
      true,
      {},
      { type: "unheard-of" },
      { $ref: "https://example.com/schema" },
      { $ref: "#/none" }
    ])
      assert.isUndefined(found({ any: 1 }, schema))
  })

  it("ends for a circular reference and for a value of any depth", () => {
    const circle = { anyOf: [{ $ref: "#" }, { $ref: "#" }], items: { $ref: "#" } }
    let deep: unknown = 1
    for (let i = 0; i < 2_000; i++) deep = [deep]
    assert.isUndefined(found(deep, circle))
  })

  it("accepts every value of an effect schema", () => {
    const schema = Schema.Struct({
      a: Schema.Array(Schema.Union([Schema.String, Schema.Struct({ b: Schema.optionalKey(Schema.Int) })])),
      c: Schema.NullOr(Schema.Literals([1, "two", true])),
      d: Schema.Record(Schema.String, Schema.Boolean)
    })
    const values = fc.record({
      a: fc.array(fc.oneof(fc.string(), fc.record({ b: fc.integer() }, { requiredKeys: [] }))),
      c: fc.constantFrom(null, 1, "two", true),
      d: fc.dictionary(fc.string(), fc.boolean())
    })
    const { schema: written, definitions } = Schema.toJsonSchemaDocument(schema)
    fc.assert(
      fc.property(values, (value) => {
        assert.isUndefined(found(JSON.parse(JSON.stringify(value)), { ...written, $defs: definitions }))
      })
    )
  })
})
