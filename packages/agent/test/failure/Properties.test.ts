import { assert, describe, it } from "@effect/vitest"
import { Cause, Exit } from "effect"
import * as fc from "fast-check"
import { Classifier, FailoverReason } from "@outlast/agent"
import { cases, errorOf, verdict } from "./corpus.ts"

const reasonOf = (error: unknown, provider = "") => Classifier.failureOf(error, { provider }).reason

/** An error graph whose links may be cyclic, with getters that throw. */
const graph = fc
  .array(
    fc.record({
      message: fc.string(),
      code: fc.oneof(fc.string(), fc.integer(), fc.constant(undefined)),
      body: fc.jsonValue(),
      to: fc.nat(5),
      throws: fc.boolean(),
      kind: fc.constantFrom("error", "plain", "aggregate")
    }),
    { minLength: 1, maxLength: 6 }
  )
  .map((nodes) => {
    const made = nodes.map(({ message, code, body, kind }) => {
      const error =
        kind === "error"
          ? new Error(message)
          : kind === "plain"
            ? { message }
            : new AggregateError([], message)
      return Object.assign(error, { code, responseBody: body })
    })
    made.forEach((error, i) => {
      const node = nodes[i]
      const next = made[(node?.to ?? 0) % made.length]
      if (node?.throws === true)
        Object.defineProperty(error, "status", {
          get: () => {
            throw new Error("no")
          }
        })
      Object.assign(error, { cause: next })
      if (error instanceof AggregateError) error.errors.push(next)
    })
    return made[0]
  })

describe("classification", () => {
  it("is deterministic and never throws for any JSON value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, provider) => {
        const one = Classifier.failureOf(value, { provider })
        const two = Classifier.failureOf(structuredClone(value), { provider })
        assert.deepStrictEqual(JSON.stringify(one), JSON.stringify(two))
      })
    )
  })

  it("never throws for any value", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => assert.include(FailoverReason.reasonTags, reasonOf(value)._tag))
    )
  })

  it("never throws for any error graph", () => {
    fc.assert(fc.property(graph, (error) => assert.include(FailoverReason.reasonTags, reasonOf(error)._tag)))
  })

  it("never throws for proxies and prototypes that throw", () => {
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no")
        },
        has: () => {
          throw new Error("no")
        },
        ownKeys: () => {
          throw new Error("no")
        },
        getPrototypeOf: () => {
          throw new Error("no")
        }
      }
    )
    for (const error of [
      hostile,
      { responseBody: hostile },
      { headers: hostile },
      { cause: hostile },
      { errors: hostile }
    ]) {
      assert.strictEqual(reasonOf(error)._tag, "Unknown")
    }
  })

  it("does not depend on request ids or their digits", () => {
    const ids = fc.constantFrom(
      "401",
      "402",
      "403",
      "404",
      "408",
      "413",
      "429",
      "499",
      "500",
      "502",
      "503",
      "529"
    )
    fc.assert(
      fc.property(
        fc.constantFrom(...cases),
        ids,
        fc.stringMatching(/^[0-9a-f]{4,24}$/),
        (one, digits, hex) => {
          const id = `req_${digits}${hex}${digits}`
          const marked = {
            ...one,
            message: `${one.message} (request id: ${id})`,
            headers: { ...one.headers, "request-id": id }
          }
          if (one.message === "") return
          assert.strictEqual(verdict(marked).label, verdict(one).label, `${one.id} ${id}`)
        }
      )
    )
  })

  it("does not depend on the case of codes and sentences", () => {
    for (const one of cases) {
      if (one.body !== null || one.message.includes("{")) continue
      const loud = { ...one, code: one.code?.toUpperCase() ?? null, message: one.message.toUpperCase() }
      assert.strictEqual(verdict(loud).label, verdict(one).label, one.id)
    }
  })

  it("does not change with a wrapper that adds no information", () => {
    for (const one of cases) {
      const inner = errorOf(one)
      const plain = reasonOf(inner, one.provider)._tag
      for (const wrapped of [
        new Error("The model call failed", { cause: inner }),
        { message: "Something went astray", cause: inner },
        new AggregateError([inner], "All attempts failed"),
        Cause.fail(inner),
        Exit.fail(inner)
      ]) {
        assert.strictEqual(reasonOf(wrapped, one.provider)._tag, plain, one.id)
      }
    }
  })

  it("keeps secrets out of evidence, message and plain form", () => {
    const secret = "hunter2-my-private-credential"
    for (const one of cases) {
      const error = {
        ...errorOf(one),
        message: `${secret} ${one.message} ${secret} model ${secret} not found`,
        responseHeaders: { ...one.headers, authorization: `Bearer ${secret}`, "request-id": secret }
      }
      const failure = Classifier.failureOf(error, { provider: one.provider, secrets: { values: [secret] } })
      assert.notInclude(failure.message, secret)
      assert.notInclude(JSON.stringify(failure), secret)
    }
  })

  it("reads a megabyte of any text", () => {
    const parts = [
      "a",
      "rate ",
      "model ",
      '{"a":',
      "status 429 ",
      '\\"',
      "maximum context length is 1 tokens ",
      "input 5 exceed ",
      "try again in 1",
      "<",
      "not have access to ",
      "上下文",
      "no ",
      "'code': '",
      "the model x "
    ]
    for (const part of parts) {
      const text = part.repeat(Math.ceil(1_000_000 / part.length))
      for (const error of [
        text,
        { message: text, responseBody: text },
        { responseBody: { error: { message: text } } }
      ]) {
        // The verdict does not matter here. The bench measures the time.
        assert.strictEqual(reasonOf(error)._tag, reasonOf(error)._tag, part)
      }
    }
  })
})
