/** Every conversation becomes one that the target accepts; `legality.ts` knows the rules. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { Prompt } from "effect/ai"
import { Dialect, Portable, Provenance } from "@outlast/agent/conversation"
import { conversation, optionsOf, printed, refOf, said } from "./generated.ts"
import { problems } from "./legality.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const name64 = /^[a-zA-Z0-9_-]{1,64}$/
const dialects: Readonly<Record<string, Dialect.Dialect>> = {
  unknown: Dialect.defaults,
  messages: {
    ...Dialect.defaults,
    namespaces: ["messages"],
    bound: "model",
    callId: /^[a-zA-Z0-9_-]+$/,
    toolName: name64,
    system: "between",
    callsFollowUser: false,
    alternates: false,
    files: ["image/", "application/pdf"]
  },
  prefilling: {
    ...Dialect.defaults,
    namespaces: ["messages"],
    bound: "model",
    system: "leading",
    ending: "prefill",
    callsFollowUser: false
  },
  chat: {
    ...Dialect.defaults,
    thinking: "plain",
    alternates: false,
    callId: /^.{1,40}$/s,
    uniqueCallIds: false,
    system: "anywhere",
    ending: "any",
    callsFollowUser: false,
    files: ["image/", "application/pdf"],
    linkedFiles: ["image/"]
  },
  items: {
    ...Dialect.defaults,
    namespaces: ["items"],
    callId: /^.{1,64}$/s,
    uniqueCallIds: false,
    system: "anywhere",
    ending: "any",
    callsFollowUser: false,
    alternates: false
  },
  templates: {
    ...Dialect.defaults,
    thinking: "required",
    callsFollowUser: false
  },
  unthinking: { ...Dialect.defaults, namespaces: ["messages"], thinking: "none" },
  contents: {
    ...Dialect.defaults,
    namespaces: ["contents"],
    callId: /^.+$/s,
    uniqueCallIds: false,
    toolName: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
    unsignedCall: { namespace: "contents", field: "signature", value: "any" },
    assistantFiles: true
  }
}
describe.each(Object.entries(dialects))("a conversation for %s", (provider, dialect) => {
  const ref = refOf(provider)
  const adapt = (prompt: Prompt.Prompt) => Portable.adapt(prompt, { ref, dialect })

  it("is legal for any makers (openclaw/openclaw#8525, earendil-works/pi#4570, can1357/oh-my-pi#6379)", () => {
    fc.assert(
      fc.property(conversation, (prompt) => {
        const adapted = adapt(prompt)
        const found = problems(adapted, dialect, Provenance.of(ref))
        assert.deepStrictEqual(found, [], `${printed(prompt)}\n${printed(adapted)}`)
      }),
      { numRuns: Sweeps.runs(1_000) }
    )
  })

  it("is the same object once it is legal", () => {
    fc.assert(
      fc.property(conversation, (prompt) => {
        const adapted = adapt(prompt)
        const again = adapt(adapted)
        assert.strictEqual(again, adapted, `${printed(adapted)}\n${printed(again)}`)
      }),
      { numRuns: Sweeps.runs(500) }
    )
  })

  it("contains every text of the user in order", () => {
    fc.assert(
      fc.property(conversation, (prompt) => {
        const kept = said(adapt(prompt))
        let from = 0
        for (const text of said(prompt)) {
          const at = kept.indexOf(text, from)
          assert.isAtLeast(at, from)
          from = at + 1
        }
      }),
      { numRuns: Sweeps.runs(500) }
    )
  })

  it("is derived without changing the argument, and always in the same way", () => {
    fc.assert(
      fc.property(conversation, (prompt) => {
        const before = printed(prompt)
        assert.strictEqual(printed(adapt(prompt)), printed(adapt(Prompt.make(prompt.content))))
        assert.strictEqual(printed(prompt), before)
      }),
      { numRuns: Sweeps.runs(200) }
    )
  })

  it("keeps its prefix after the next turn, so that prompt caches and bound thinking stay valid", () => {
    fc.assert(
      fc.property(
        // As a program sends it: ending with a user message or with all results.
        conversation.filter(
          (prompt) =>
            prompt.content.at(-1)?.role === "user" &&
            said(Prompt.fromMessages(prompt.content.slice(-1))).length > 0
        ),
        (prompt) => {
          const options = optionsOf({ provider, key: "KEY", signed: true, continued: false, partial: false })
          const later = Prompt.concat(
            prompt,
            Prompt.make([
              { role: "assistant", content: [{ type: "text", text: "answer", options }] },
              { role: "user", content: [{ type: "text", text: "next" }] }
            ])
          )
          const now = adapt(prompt).content
          assert.strictEqual(JSON.stringify(adapt(later).content.slice(0, now.length)), JSON.stringify(now))
        }
      ),
      { numRuns: Sweeps.runs(500) }
    )
  })
})
