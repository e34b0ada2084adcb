/**
 * Folding a stream into a whole answer.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Response } from "effect/ai"
import * as fc from "fast-check"
import { Fold, unfolded } from "#agent/failover/call/Fold"
import { isProgress } from "#agent/failover/call/PartKind"
import { finish, keepAlive, text, thinking, toolCall } from "../support.ts"

type Part = Response.PartEncoded
type StreamPart = Response.StreamPartEncoded

const foldOf = (parts: ReadonlyArray<StreamPart>): Fold => {
  const fold = new Fold()
  fold.pushAll(parts)
  return fold
}
const fold = (parts: ReadonlyArray<StreamPart>) => foldOf(parts).parts
const lacksCall = (parts: ReadonlyArray<StreamPart>) => foldOf(parts).lacksCall

// -----------------------------------------------------------------------------
// Answers, and how they are streamed
// -----------------------------------------------------------------------------

const fields = fc.dictionary(fc.constantFrom("signature", "itemId", "phase"), fc.string(), { maxKeys: 2 })
const metadata = fc.option(fc.dictionary(fc.constantFrom("vendor", "other"), fields, { maxKeys: 2 }), {
  nil: undefined
})
const withMetadata = <P extends object>(part: P, metadata: Response.ProviderMetadata | undefined) =>
  metadata === undefined ? part : { ...part, metadata }

const block = fc
  .tuple(fc.constantFrom("text" as const, "reasoning" as const), fc.string(), metadata)
  .map(([type, text, metadata]): Part => withMetadata({ type, text }, metadata))
const call = fc
  .tuple(fc.string(), fc.boolean(), fc.jsonValue(), metadata)
  .map(([id, providerExecuted, params, metadata]): Part =>
    withMetadata({ type: "tool-call" as const, id, name: "search", params, providerExecuted }, metadata)
  )
const result = fc.tuple(fc.string(), fc.jsonValue(), fc.boolean()).map(([id, result, isFailure]): Part => ({
  type: "tool-result",
  id,
  name: "search",
  result,
  isFailure,
  providerExecuted: true
}))
const other = fc.constantFrom<Part>(
  { type: "file", mediaType: "image/png", data: "AAAA" },
  { type: "source", sourceType: "url", id: "s", url: "https://example.org/", title: "Example" },
  { type: "tool-approval-request", approvalId: "a", toolCallId: "1" }
)

const answer = fc.record({
  parts: fc.array(fc.oneof(block, block, call, result, other), { maxLength: 8 }),
  response: fc.option(fc.constant<Part>({ type: "response-metadata", id: "r", modelId: "m" }), {
    nil: undefined
  }),
  reason: fc.constantFrom<Response.FinishReason>("stop", "length", "tool-calls", "content-filter"),
  /** Positions where deltas end. Metadata is in the start, in an empty delta, or in the end. */
  cuts: fc.array(fc.nat(), { maxLength: 4 }),
  carrier: fc.constantFrom("start" as const, "delta" as const, "end" as const),
  /** Some vendors reuse an id after its block has ended. */
  sameIds: fc.boolean(),
  keepAlives: fc.boolean()
})

const streamed = (
  parts: ReadonlyArray<Part>,
  { cuts, carrier, sameIds }: { cuts: ReadonlyArray<number>; carrier: string; sameIds: boolean }
): Array<StreamPart> =>
  parts.flatMap((part, n): Array<StreamPart> => {
    if (part.type === "text" || part.type === "reasoning") {
      const { type, text, metadata } = part
      const id = sameIds ? "0" : String(n)
      const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].toSorted((a, b) => a - b)
      const deltas = at.slice(1).map((end, i) => text.slice(at[i], end))
      const of = (where: string) => (where === carrier ? metadata : undefined)
      return [
        withMetadata({ type: `${type}-start` as const, id }, of("start")),
        ...deltas.map((delta) => ({ type: `${type}-delta` as const, id, delta })),
        ...(of("delta") === undefined
          ? []
          : [withMetadata({ type: `${type}-delta` as const, id, delta: "" }, of("delta"))]),
        withMetadata({ type: `${type}-end` as const, id }, of("end"))
      ]
    }
    if (part.type === "tool-call") {
      const { id, name, params, providerExecuted = false } = part
      return [
        { type: "tool-params-start", id, name, providerExecuted },
        { type: "tool-params-delta", id, delta: JSON.stringify(params) },
        { type: "tool-params-end", id },
        part
      ]
    }
    if (part.type === "tool-result") return [{ ...part, preliminary: true, result: "soon" }, part]
    // The other parts are the same in streams.
    return [part as StreamPart]
  })

// -----------------------------------------------------------------------------
// Tests
// -----------------------------------------------------------------------------

describe("a folded stream", () => {
  it("equals the streamed answer, for any answer and any way to stream it", () => {
    fc.assert(
      fc.property(answer, ({ parts, response, reason, keepAlives, ...how }) => {
        const whole = [...(response === undefined ? [] : [response]), ...parts, finish(reason)]
        const stream = streamed(whole, how)
        const beats = keepAlives && response !== undefined
        const sent = beats
          ? stream.flatMap((part, i): Array<StreamPart> =>
              i === 0 ? [part] : [{ type: "response-metadata", id: "r" }, part]
            )
          : stream
        assert.deepStrictEqual(fold(sent), whole)
        assert.isFalse(lacksCall(sent))
        assert.deepStrictEqual(fold(whole.flatMap((part, i) => unfolded(part, String(i)))), whole)
      })
    )
  })

  it("joins blocks that are open at the same time, each at the place where it began", () => {
    const stream = [
      text.start("a"),
      thinking.start("a"),
      text.delta("one ", "a"),
      text.start("b"),
      text.delta("two", "b"),
      thinking.delta("why", "a"),
      text.delta("more", "a"),
      thinking.end("signed", "a"),
      text.end("b"),
      text.end("a")
    ]
    assert.deepStrictEqual(fold(stream), [
      { type: "text", text: "one more" },
      { type: "reasoning", text: "why", metadata: { vendor: { signature: "signed" } } },
      { type: "text", text: "two" }
    ])
  })

  it("keeps thinking without text, and merges the metadata of its parts field by field", () => {
    const stream: ReadonlyArray<StreamPart> = [
      { type: "reasoning-start", id: "r", metadata: { openai: { itemId: "rs_1", encrypted: null } } },
      { type: "reasoning-end", id: "r", metadata: { openai: { encrypted: "xyz" } } }
    ]
    assert.deepStrictEqual(fold(stream), [
      { type: "reasoning", text: "", metadata: { openai: { itemId: "rs_1", encrypted: "xyz" } } }
    ])
  })

  it("keeps a text whose start or end is missing", () => {
    assert.deepStrictEqual(fold([text.delta("he"), text.delta("llo"), text.end("x")]), [
      { type: "text", text: "hello" }
    ])
  })
})

it("reports an unfinished call of a program's tool as missing, and not one of a provider's tool", () => {
  const start = (providerExecuted: boolean): StreamPart => ({
    type: "tool-params-start",
    id: "1",
    name: "search",
    providerExecuted
  })
  assert.isTrue(lacksCall([start(false)]))
  assert.isTrue(lacksCall([start(false), toolCall("2", { providerExecuted: true })]))
  assert.isFalse(lacksCall([start(false), toolCall("1")]))
  assert.isFalse(lacksCall([start(true)]))
})

it("counts only content as progress: no keep-alive, no frame of a block, no empty delta", () => {
  const content = [text.delta("a"), thinking.delta("a"), toolCall("1"), finish()]
  const frames = [keepAlive, text.start(), text.delta(""), text.end(), thinking.start(), thinking.end("s")]
  assert.deepStrictEqual(content.map(isProgress), [true, true, true, true])
  assert.deepStrictEqual(
    frames.map(isProgress),
    frames.map(() => false)
  )
})
