/** Ids of tool calls, unique in an answer and in the conversation. */
import { assert, describe, it } from "@effect/vitest"
import type { Response } from "effect/ai"
import { Prompt } from "effect/ai"
import * as fc from "fast-check"
import { Answered, takenIn } from "#agent/conversation/CallIds"

const call = (id: string, providerExecuted = false): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id,
  name: "search",
  params: {},
  providerExecuted
})

const after = (...ids: ReadonlyArray<string>) =>
  Prompt.make([
    { role: "user", content: "Go." },
    {
      role: "assistant",
      content: ids.map((id) => ({
        type: "tool-call" as const,
        id,
        name: "search",
        params: {},
        providerExecuted: false
      }))
    }
  ])

const idsOf = (prompt: Prompt.Prompt, parts: ReadonlyArray<Response.ToolCallPartEncoded>) => {
  const answer = new Answered(takenIn(prompt.content))
  return parts.map((part) => answer.of(part).id)
}

const ids = fc.array(fc.constantFrom("call_0", "call_1", "functions.eval:301", "", "x".repeat(60)), {
  maxLength: 8
})

describe("ids of tool calls", () => {
  it("of calls that the provider ran itself stay, and a later call of the program gets another one", () => {
    const [own, later] = idsOf(after(), [call("call_0", true), call("call_0")])
    assert.strictEqual(own, "call_0")
    assert.notStrictEqual(later, "call_0")
  })

  // NousResearch/hermes-agent#67777 and #111443, can1357/oh-my-pi#2055, vectorize-io/hindsight#4250.
  it("identify one call each, and unique ids do not change", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom<Array<string>>("call_0", "call_1", "a", "b")),
        ids,
        (before, given) => {
          const seen = new Set(["", ...before])
          const got = idsOf(
            after(...before),
            given.map((id) => call(id))
          )
          for (const [i, id] of got.entries()) {
            const own = given[i] ?? ""
            if (!seen.has(own)) assert.strictEqual(id, own)
            assert.isFalse(before.includes(id))
            seen.add(own)
          }
          assert.strictEqual(new Set(got).size, got.length)
          assert.deepStrictEqual(
            idsOf(
              after(...before),
              given.map((id) => call(id))
            ),
            got
          )
        }
      )
    )
  })

  it("are the same in all parts of a streamed call", () => {
    const answer = new Answered(takenIn(after("0").content))
    const streamed = (id: string): ReadonlyArray<Response.StreamPartEncoded> => [
      { type: "tool-params-start", id, name: "search" },
      { type: "tool-params-delta", id, delta: "{}" },
      { type: "tool-params-end", id },
      call(id)
    ]
    const mapped = [...streamed("0"), ...streamed("0")].map((part) => {
      const own = answer.of(part)
      return "id" in own ? own.id : undefined
    })
    assert.strictEqual(new Set(mapped.slice(0, 4)).size, 1)
    assert.strictEqual(new Set(mapped.slice(4)).size, 1)
    assert.strictEqual(new Set([...mapped, "0"]).size, 3)
  })

  it("do not change for calls that the provider runs", () => {
    assert.deepStrictEqual(idsOf(after("srv_1"), [call("srv_1", true)]), ["srv_1"])
  })
})
