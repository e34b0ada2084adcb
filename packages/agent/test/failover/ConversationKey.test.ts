import { assert, it } from "vitest"
import { Prompt } from "effect/ai"
import * as ConversationKey from "#agent/failover/call/ConversationKey"

const keyOf = (...messages: ReadonlyArray<Prompt.MessageEncoded>) => ConversationKey.of(Prompt.make(messages))
const system = (content: string): Prompt.MessageEncoded => ({ role: "system", content })
const user = (content: string): Prompt.MessageEncoded => ({ role: "user", content })
const assistant = (content: string): Prompt.MessageEncoded => ({ role: "assistant", content })

it("a conversation keeps its key while it grows", () => {
  const begun = keyOf(system("Be brief."), user("What is the plan?"))
  const grown = keyOf(system("Be brief."), user("What is the plan?"), assistant("A walk."), user("And then?"))
  assert.strictEqual(begun, grown)
})

it("a different beginning is a different conversation", () => {
  const keys = [
    keyOf(system("Be brief."), user("What is the plan?")),
    keyOf(system("Be brief."), user("What is the plan")),
    keyOf(system("Be brief. "), user("What is the plan?")),
    keyOf(user("What is the plan?")),
    keyOf(user("Be brief."), user("What is the plan?")),
    keyOf(system("Be brief.What is the plan?")),
    keyOf(system("Be brief."), system("What is the plan?")),
    keyOf({
      role: "user",
      content: [
        { type: "text", text: "What is" },
        { type: "text", text: " the plan?" }
      ]
    }),
    keyOf({ role: "user", content: [{ type: "file", mediaType: "image/png", fileName: "a", data: "x" }] }),
    keyOf({ role: "user", content: [{ type: "file", mediaType: "image/png", fileName: "b", data: "x" }] }),
    // Without a separator, a length and a text could be read as a longer length and the rest of the text.
    keyOf({
      role: "user",
      content: [
        { type: "text", text: "0" },
        { type: "text", text: "-".repeat(9) }
      ]
    }),
    keyOf(user(`9${"-".repeat(9)}`)),
    keyOf(),
    keyOf(user(""))
  ]
  assert.strictEqual(new Set(keys).size, keys.length)
})

it("long texts are distinguished by their ends and their length", () => {
  const long = (before: string, after: string, length = 100_000) =>
    keyOf(user(`${before}${"-".repeat(length)}${after}`))
  const keys = [long("a", "z"), long("b", "z"), long("a", "y"), long("a", "z", 100_001)]
  assert.strictEqual(new Set(keys).size, keys.length)
})

it("a key reveals no text, and keys of similar numbers differ widely", () => {
  const keys = Array.from({ length: 20_000 }, (_, i) => keyOf(user(`Ticket ${i}`)))
  assert.strictEqual(new Set(keys).size, keys.length)
  for (const key of keys) assert.match(key, /^[a-z0-9]{1,11}$/)
})
