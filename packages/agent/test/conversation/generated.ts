/** Arbitrary conversations by any makers, legal or not. */
import * as fc from "fast-check"
import { Prompt } from "effect/ai"

export const refOf = (provider: string, key = "KEY") => ({
  id: `${provider}/m#${key}`,
  provider,
  model: "m",
  endpoint: `https://${provider}.example`,
  key
})

/** Vendors; each signs under its own name. */
const makers = ["messages", "items", "contents", "chat", "prefilling", "unknown"]

/** Maker of a part: a target, an unknown maker, or a signature without a name. */
const origin = fc.oneof(
  fc.record({
    provider: fc.constantFrom(...makers),
    key: fc.constantFrom("KEY", "OTHER"),
    signed: fc.boolean(),
    continued: fc.boolean(),
    partial: fc.integer({ min: 0, max: 9 }).map((n) => n === 0)
  }),
  fc.constantFrom(...makers).map((provider) => ({ provider, key: undefined, signed: true })),
  fc.constant(undefined)
)
type Origin = typeof origin extends fc.Arbitrary<infer A> ? A : never

export const optionsOf = (made: Origin): Prompt.ProviderOptions => {
  if (made === undefined) return {}
  const signature = made.signed ? { [made.provider]: { signature: `of ${made.provider}` } } : {}
  if (made.key === undefined) return signature
  const { provider, model, endpoint, key } = refOf(made.provider, made.key)
  const maker = {
    provider,
    model,
    endpoint,
    key,
    ...(made.continued ? { continued: true } : {}),
    ...(made.partial ? { partial: true } : {})
  }
  return { ...signature, outlast: maker }
}

const texts = fc.constantFrom("", " ", "hello", "what now? ", "ok\n")
const text = fc.record({ type: fc.constant("text" as const), text: texts })
const file = fc.record({
  type: fc.constant("file" as const),
  mediaType: fc.constantFrom("image/png", "application/pdf", "video/mp4"),
  data: fc.constantFrom("AQ==", new URL("https://example.com/a"))
})
const ids = fc.constantFrom("call_1", "call_2", "toolu|3", "x".repeat(70), "srv.4", "")
const names = fc.constantFrom("search", "my.tool", "9lives", "n".repeat(100))

const assistantPart = (made: Origin): fc.Arbitrary<Prompt.AssistantMessagePartEncoded> => {
  const options = optionsOf(made)
  return fc.oneof(
    text.map((part) => ({ ...part, options })),
    text.map((part) => ({ ...part, type: "reasoning" as const, options })),
    file.map((part) => ({ ...part, options })),
    fc
      .record({ id: ids, name: names, providerExecuted: fc.integer({ min: 0, max: 4 }).map((n) => n === 0) })
      .map((call) => ({ type: "tool-call" as const, params: { q: 1 }, ...call, options })),
    fc.record({ id: ids, name: names }).map((result) => ({
      ...result,
      type: "tool-result" as const,
      isFailure: false,
      result: "r",
      providerExecuted: true,
      options
    }))
  )
}

const message: fc.Arbitrary<Prompt.MessageEncoded> = fc.oneof(
  fc.constantFrom("be kind", "be brief").map((content) => ({ role: "system" as const, content })),
  fc.array(fc.oneof(text, file), { maxLength: 3 }).map((content) => ({ role: "user" as const, content })),
  origin.chain((made) =>
    fc
      .array(assistantPart(made), { maxLength: 5 })
      .map((content) => ({ role: "assistant" as const, content }))
  ),
  fc
    .array(
      fc.record({ id: ids, name: names, result: fc.constantFrom("sunny", "rainy") }).map((result) => ({
        type: "tool-result" as const,
        isFailure: false,
        ...result
      })),
      { maxLength: 3 }
    )
    .map((content) => ({ role: "tool" as const, content }))
)

/** One message, as the conversation has it: a growing conversation keeps its objects. */
export const messageOf: fc.Arbitrary<Prompt.Message> = message.map((made) => {
  const [only] = Prompt.make([made]).content
  if (only === undefined) throw new Error("A prompt of one message has none.")
  return only
})

export const conversation = fc
  .array(message, { minLength: 1, maxLength: 8 })
  .map((messages) => Prompt.make(messages))
  // Without any text there is nothing to make legal.
  .filter((prompt) => said(prompt).length > 0)

/** Texts of the user. */
export const said = (prompt: Prompt.Prompt) =>
  prompt.content.flatMap((message) =>
    message.role === "user"
      ? message.content.flatMap((part) =>
          part.type === "text" && part.text.trim() !== "" ? [part.text] : []
        )
      : []
  )

export const printed = (prompt: Prompt.Prompt) => JSON.stringify(prompt)
