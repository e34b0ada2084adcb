import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { Prompt } from "effect/ai"
import { Dialect, Portable, Provenance } from "@outlast/agent/conversation"
import * as CallIds from "#agent/conversation/CallIds"
import { PrefixCache } from "#agent/conversation/PrefixCache"
import * as Conversation from "#agent/failover/call/Conversation"
import { messageOf, printed, refOf } from "./generated.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

type Messages = ReadonlyArray<Prompt.Message>

const name64 = /^[a-zA-Z0-9_-]{1,64}$/
const dialects: Readonly<Record<string, Dialect.Dialect>> = {
  defaults: Dialect.defaults,
  strict: {
    ...Dialect.defaults,
    namespaces: ["messages"],
    callId: name64,
    toolName: name64,
    system: "between"
  },
  leading: {
    ...Dialect.defaults,
    namespaces: ["messages"],
    system: "leading",
    ending: "prefill",
    bound: "model"
  },
  lenient: {
    ...Dialect.defaults,
    system: "anywhere",
    ending: "any",
    callsFollowUser: false,
    alternates: false,
    uniqueCallIds: false
  },
  thinking: { ...Dialect.defaults, thinking: "required", namespaces: ["items"], assistantFiles: true },
  unthinking: { ...Dialect.defaults, thinking: "none", alternates: false }
}

const ref = refOf("messages")

/** What the target gets without a cache. */
const plain = (prompt: Prompt.Prompt, dialect: Dialect.Dialect): Messages =>
  Conversation.strip(Portable.adapt(prompt, { ref, dialect }).content)

const check = (cache: PrefixCache, messages: Messages, dialect: Dialect.Dialect): void => {
  const prompt = Prompt.fromMessages(messages)
  const expected = plain(prompt, dialect)
  const adapted = cache.adapt(prompt, { ref, dialect })
  const words = `${printed(prompt)}\n${printed(Prompt.fromMessages(expected))}\n${printed(adapted.prompt)}`
  assert.deepStrictEqual(adapted.prompt.content, expected, words)
  assert.strictEqual(adapted.prompt === prompt, expected === messages, words)
  const isTaken = CallIds.takenIn(messages)
  for (const id of [...messages.flatMap(CallIds.idsOf), "unheard-of"]) {
    assert.strictEqual(adapted.isTaken(id), isTaken(id))
  }
}

const maker = { outlast: Provenance.of(ref) }

/** Messages of an agent's turn: calls, and results of most of them, some of them late or twice. */
const turn: fc.Arbitrary<Messages> = fc
  .record({
    calls: fc.array(fc.constantFrom("call_1", "call_2", "call_3", "toolu|4"), { maxLength: 3 }),
    results: fc.array(fc.constantFrom("call_1", "call_2", "call_3", "toolu|4"), { maxLength: 3 }),
    answered: fc.integer({ min: 0, max: 9 }).map((n) => n > 1),
    providers: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    said: fc.constantFrom("", "Reading."),
    asks: fc.boolean()
  })
  .map(({ calls, results, answered, providers, said, asks }) => {
    const name = "read_file"
    const result = (id: string) =>
      Prompt.makePart("tool-result", { id, name, result: "r", isFailure: false, providerExecuted: false })
    return [
      ...(asks
        ? [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "Go on." })] })]
        : []),
      Prompt.makeMessage("assistant", {
        content: [
          Prompt.makePart("text", { text: said, options: maker }),
          ...calls.map((id) =>
            Prompt.makePart("tool-call", {
              id,
              name,
              params: {},
              providerExecuted: providers,
              options: maker
            })
          )
        ]
      }),
      ...(calls.length > 0 || results.length > 0
        ? [Prompt.makeMessage("tool", { content: (answered ? calls : results).map(result) })]
        : [])
    ]
  })

const more = fc.oneof({ weight: 3, arbitrary: turn }, fc.array(messageOf, { minLength: 1, maxLength: 3 }))

type Step =
  | { readonly kind: "more"; readonly messages: Messages }
  | { readonly kind: "branch" | "replace" | "shorten"; readonly at: number; readonly messages: Messages }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: more.map((messages) => ({ kind: "more" as const, messages })) },
  fc.record({
    kind: fc.constantFrom("branch" as const, "replace" as const, "shorten" as const),
    at: fc.nat(20),
    messages: more
  })
)

const after = (messages: Messages, { messages: added, ...how }: Step): Messages => {
  switch (how.kind) {
    case "more":
      return [...messages, ...added]
    case "branch":
      return [...messages.slice(0, how.at), ...added]
    case "replace":
      return messages.map((message, i) => (i === how.at ? (added[0] ?? message) : message))
    case "shorten":
      return messages.slice(0, Math.max(1, how.at))
  }
}

describe.each(Object.entries(dialects))("a conversation that goes on, dialect %s", (_, dialect) => {
  it("is adapted as if it had been adapted as a whole, after additions, branches and edits", () => {
    fc.assert(
      fc.property(more, fc.array(step, { minLength: 3, maxLength: 12 }), (begun, steps) => {
        const cache = new PrefixCache(Conversation.strip, 1)
        let messages = begun
        check(cache, messages, dialect)
        for (const step of steps) {
          messages = after(messages, step)
          check(cache, messages, dialect)
        }
      }),
      { numRuns: Sweeps.runs(400) }
    )
  })
})

/** A conversation of `turns` turns with one tool call each. */
const talk = (turns: number): Messages => {
  const name = "read_file"
  return [
    Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "Begin." })] }),
    ...Array.from({ length: turns }, (_, i) => {
      const id = `call_${i}`
      return [
        Prompt.makeMessage("assistant", {
          content: [
            Prompt.makePart("tool-call", { id, name, params: {}, providerExecuted: false, options: maker })
          ]
        }),
        Prompt.makeMessage("tool", {
          content: [
            Prompt.makePart("tool-result", { id, name, result: i, isFailure: false, providerExecuted: false })
          ]
        })
      ]
    }).flat()
  ]
}

/** Counts the ids that are looked at. */
class Counting extends RegExp {
  count = 0
  override test(text: string): boolean {
    this.count++
    return super.test(text)
  }
}

it("a further call adapts only new messages, and a change of the beginning all of them", () => {
  const callId = new Counting(".", "s")
  const dialect = { ...Dialect.defaults, callId }
  const cache = new PrefixCache(Conversation.strip)
  const looked = (messages: Messages): number => {
    callId.count = 0
    cache.adapt(Prompt.fromMessages(messages), { ref, dialect })
    return callId.count
  }
  const all = talk(500)
  assert.strictEqual(looked(all.slice(0, 801)), 400)
  // The last call before is looked at again: its turn may have been unfinished.
  for (let length = 803; length <= all.length; length += 2) assert.isAtMost(looked(all.slice(0, length)), 2)
  const [first, ...rest] = all
  assert.isDefined(first)
  const edited = [{ ...first, options: {} } as Prompt.Message, ...rest]
  assert.strictEqual(looked(edited), 500)
  // The conversation before is still kept: its first message is another one.
  assert.isAtMost(looked(all), 2)
  assert.strictEqual(looked(all.map((message, i) => (i === 400 ? { ...message } : message))), 500)
})

it("a result that comes late moves to its call", () => {
  const cache = new PrefixCache(Conversation.strip)
  const [open, result] = talk(1).slice(1)
  const [first, ...rest] = talk(20)
  assert.isTrue(first !== undefined && open !== undefined && result !== undefined)
  if (first === undefined || open === undefined || result === undefined) return
  const renamed = rest.map((message) => JSON.parse(JSON.stringify(message).replaceAll("call_", "other_")))
  const begun = [first, open, ...Prompt.make(renamed).content]
  check(cache, begun, Dialect.defaults)
  check(cache, [...begun, first], Dialect.defaults)
  check(cache, [...begun, first, result], Dialect.defaults)
})

it("a conversation is adapted anew for other names of tools, and for refused files", () => {
  const cache = new PrefixCache(Conversation.strip)
  const messages = talk(20)
  const dialect = Dialect.defaults
  const names = (there: string) => ({
    there: new Map([["read_file", there]]),
    back: new Map([[there, "read_file"]])
  })
  for (const options of [
    { ref, dialect },
    { ref, dialect, names: names("a") },
    { ref, dialect, names: names("a") },
    { ref, dialect, names: names("b") },
    { ref, dialect, refuses: () => true },
    { ref, dialect: { ...dialect, toolName: /^x$/ } }
  ]) {
    const prompt = Prompt.fromMessages(messages)
    const expected = Conversation.strip(Portable.adapt(prompt, options).content)
    assert.deepStrictEqual(cache.adapt(prompt, options).prompt.content, expected)
  }
})

it("ids of a later call of the conversation are not taken for an earlier one", () => {
  const cache = new PrefixCache(Conversation.strip)
  const all = talk(40)
  const earlier = cache.adapt(Prompt.fromMessages(all.slice(0, 41)), { ref })
  const later = cache.adapt(Prompt.fromMessages(all), { ref })
  assert.deepStrictEqual(
    [earlier, later].map(({ isTaken }) => [isTaken("call_3"), isTaken("call_19"), isTaken("call_30")]),
    [
      [true, true, false],
      [true, true, true]
    ]
  )
})
