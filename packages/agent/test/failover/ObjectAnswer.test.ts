/**
 * Answers that should be objects: taken out of a code fence, requested again when they are wrong, shown while they
 * stream.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import type { Prompt } from "effect/ai"
import { LanguageModel } from "effect/ai"
import { Direct, Failover, Outlast } from "@outlast/agent"
import { ForeignModel } from "@outlast/agent/failover"
import { answer, finish, inTime, key, played, policy, recording, say, serverError, text } from "../support.ts"

const City = Schema.Struct({ name: Schema.String, people: Schema.Finite })
const whole = { name: "Oslo", people: 700_000 }
const json = JSON.stringify(whole)

const ask = LanguageModel.generateObject({ prompt: "Which city?", schema: City })
const stream = Outlast.streamText({ prompt: "Which city?", schema: City })
const restarting = Outlast.streamText({ prompt: "Which city?", schema: City, midStream: "restart" })

/** Returns the last message of a request, if it is not the question. */
const nudgeOf = (prompt: Prompt.Prompt): string => {
  const said = JSON.stringify(prompt.content.at(-1))
  return said.includes("Which city?") ? "" : said
}

describe("a whole object", () => {
  it.effect("is taken out of a code fence, without a second request", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer(`Here:\n\`\`\`json\n${json}\n\`\`\``)] })
      const { value, text } = yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(value, whole)
      assert.strictEqual(text, json)
      assert.lengthOf(target.requests, 1)
    })
  )

  const wrong: Readonly<Record<string, readonly [string, string]>> = {
    prose: ["I would say Oslo.", "the text is not JSON"],
    "cut JSON": ['{"name":"Os', "the JSON ends too early"],
    "another schema": ['{"name":"Oslo","people":"many"}', 'Expected number at [\\"people\\"]'],
    nothing: [" ", "there is no text"]
  }
  for (const [what, [said, problem]] of Object.entries(wrong)) {
    it.effect(`is asked for again after ${what}, with what is wrong`, () =>
      Effect.gen(function* () {
        const events = recording()
        const target = played({ answers: [answer(said), answer(json)] })
        const { value, usage } = yield* inTime(
          ask.pipe(Effect.provide(Failover.layer([target], { policy })))
        ).pipe(Effect.provide(events.layer))
        assert.deepStrictEqual(value, whole)
        const [first, second] = target.requests
        assert.strictEqual(nudgeOf(first!.request.prompt), "")
        assert.include(nudgeOf(second!.request.prompt).replaceAll('\\\\"', '\\"'), problem)
        assert.deepStrictEqual(
          events.of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
          [["Format", "answer/object"]]
        )
        assert.lengthOf(events.of("CooldownOpened"), 0)
        assert.strictEqual(usage.outputTokens.total, 2)
      })
    )
  }

  it.effect("is requested again without a nudge when the policy has none", () =>
    Effect.gen(function* () {
      const { wrongObject: _, ...nudges } = policy.nudges
      const target = played({ answers: [answer("Oslo."), answer(json)] })
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy: { ...policy, nudges } }))))
      assert.strictEqual(nudgeOf(target.requests[1]!.request.prompt), "")
    })
  )

  it.effect("that stays wrong goes to the next target, then fails with the text of the last answer", () =>
    Effect.gen(function* () {
      const first = played({ model: "a", answers: [answer("Oslo.")] })
      const second = played({ model: "b", answers: [answer("Bergen.")] })
      const error = yield* inTime(
        Effect.flip(ask.pipe(Effect.provide(Failover.layer([first, second], { policy }))))
      )
      assert(error._tag === "AiError" && error.reason._tag === "StructuredOutputError")
      assert.strictEqual(error.reason.responseText, "Bergen.")
      assert.isFalse(error.isRetryable)
      const failure = Option.getOrThrow(Outlast.failureOf(error))
      assert(failure._tag === "AllTargetsOut")
      assert.deepStrictEqual(
        failure.targets.map(({ failure: { evidence, reason } }) => [evidence.rule, reason._tag]),
        Array.from({ length: 2 }, () => ["answer/object", "Format"])
      )
      assert.notInclude(failure.message, "Bergen")
      assert.deepStrictEqual([first.requests.length, second.requests.length], [3, 3])
    })
  )

  it.effect("fails without quoting the answer, even its keys", () =>
    Effect.gen(function* () {
      const wrong = '{"cities": {"Bergen \\"on\\" Sea": "many"}, "river \\"1\\"": "Glomma"}'
      const target = played({ answers: [answer(wrong)] })
      const schema = Schema.Struct({
        cities: Schema.Record(Schema.String, Schema.Number),
        'river "1"': Schema.Number
      })
      const asked = LanguageModel.generateObject({ prompt: "Which cities?", schema })
      const error = yield* inTime(
        Effect.flip(asked.pipe(Effect.provide(Failover.layer([target], { policy }))))
      )
      const { message } = Option.getOrThrow(Outlast.failureOf(error))
      assert.include(message, '["cities"][*]')
      assert.include(message, "river")
      assert.notInclude(message, "Bergen")
    })
  )

  it.effect("is not checked when a content filter ended the answer", () =>
    Effect.gen(function* () {
      const filtered = played({ answers: [Effect.succeed([finish("content-filter")])] })
      yield* Effect.flip(inTime(ask.pipe(Effect.provide(Failover.layer([filtered], { policy })))))
      assert.lengthOf(filtered.requests, 1)
    })
  )
})

type Shown = Stream.Success<typeof stream>

/** Returns the view of a consumer: partial objects, the object, and rewinds. */
const seen = (parts: ReadonlyArray<Shown>): ReadonlyArray<unknown> =>
  parts.flatMap((part) =>
    part.type === "partial-object" || part.type === "object"
      ? [part.value]
      : part.type === "rewind"
        ? ["rewind"]
        : []
  )

const read = (
  target: ReturnType<typeof played>,
  asked: typeof stream = stream
): Effect.Effect<{ readonly parts: ReadonlyArray<Shown>; readonly tag: string | undefined }, unknown> => {
  const parts: Array<Shown> = []
  return inTime(
    Effect.result(
      Stream.runForEach(asked, (part) => Effect.sync(() => parts.push(part))).pipe(
        Effect.provide(Failover.layer([target], { policy }))
      )
    )
  ).pipe(
    Effect.map((result) => ({
      parts,
      tag:
        result._tag === "Success"
          ? undefined
          : "reason" in result.failure
            ? result.failure.reason._tag
            : "out"
    }))
  )
}

/** Splits a text into pieces. */
const pieces = (...deltas: ReadonlyArray<string>) => [
  text.start(),
  ...deltas.flatMap((delta) => [1, text.delta(delta)])
]

describe("an object that is streamed", () => {
  const partial = [{}, { name: "Os" }, { name: "Oslo" }]
  const deltas = ["{", '"name":"Os', 'lo","people":7', "00000}"]

  it.effect("is shown while it arrives, and decoded at the end", () =>
    Effect.gen(function* () {
      const target = played({ streams: [say(...pieces(...deltas), text.end(), finish())] })
      const { parts, tag } = yield* read(target)
      assert.isUndefined(tag)
      assert.deepStrictEqual(seen(parts), [...partial, whole, whole])
      assert.deepStrictEqual(
        parts.slice(-2).map(({ type }) => type),
        ["object", "finish"]
      )
      const { responseFormat } = target.requests[0]!.request
      assert.strictEqual(responseFormat.type, "json")
    })
  )

  it.effect("loses its code fence while it streams", () =>
    Effect.gen(function* () {
      const fenced = ["``", "`json\n", ...deltas, "\n``", "`"]
      const target = played({ streams: [say(...pieces(...fenced), text.end(), finish())] })
      assert.deepStrictEqual(seen((yield* read(target)).parts), [...partial, whole, whole])
    })
  )

  it.effect("is requested again as long as the consumer has seen no part of it", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [
          say(...pieces("I would ", "say Oslo."), text.end(), finish()),
          say(...pieces(...deltas), text.end(), finish())
        ]
      })
      const { parts } = yield* read(target)
      assert.deepStrictEqual(seen(parts), [...partial, whole, whole])
      assert.include(nudgeOf(target.requests[1]!.request.prompt), "the text is not JSON")
      const last = parts.at(-1)
      assert(last?.type === "finish")
      assert.strictEqual(last.usage.outputTokens.total, 2)
    })
  )

  it.effect("is requested again when the wrong object arrived in one piece", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [
          say(text.start(), text.delta('{"name":1}'), text.end(), finish()),
          say(...pieces(...deltas), text.end(), finish())
        ]
      })
      const { parts } = yield* read(target)
      assert.deepStrictEqual(seen(parts), [...partial, whole, whole])
      assert.lengthOf(
        parts.filter(({ type }) => type === "text-start"),
        1
      )
    })
  )

  for (const [what, first, reason] of [
    ["is cut", say(...pieces("{", '"name":"Os')), "Network"],
    ["fails", Stream.concat(say(...pieces("{", '"name":"Os')), Stream.fail(serverError)), "ServerError"],
    ["turns out wrong", say(...pieces("{", '"name":"Os', '"}'), 1, text.end(), finish()), "Format"]
  ] as const) {
    it.effect(`fails where it ${what} after something was shown, and is never continued`, () =>
      Effect.gen(function* () {
        const target = played({ streams: [first, say(...pieces(...deltas), text.end(), finish())] })
        const { parts, tag } = yield* read(target)
        assert.strictEqual(tag, reason)
        assert.deepStrictEqual(seen(parts).slice(0, 2), partial.slice(0, 2))
        assert.lengthOf(target.requests, 1)
      })
    )

    it.effect(`begins anew where it ${what} and the consumer can be told`, () =>
      Effect.gen(function* () {
        const target = played({ streams: [first, say(...pieces(...deltas), text.end(), finish())] })
        const { parts, tag } = yield* read(target, restarting)
        assert.isUndefined(tag)
        const shown = seen(parts)
        assert.deepStrictEqual(shown.slice(shown.indexOf("rewind") + 1), [...partial, whole, whole])
        assert.lengthOf(target.requests, 2)
      })
    )
  }

  it.effect("arrives in one piece from a foreign model", () =>
    Effect.gen(function* () {
      const inner = Layer.orDie(Failover.layer([played({ answers: [answer(json)], keys: [key("inner")] })]))
      const target = ForeignModel.target({ provider: "vendor", model: "foreign", layer: inner })
      const parts = yield* inTime(
        Stream.runCollect(stream).pipe(Effect.provide(Failover.layer([target], { policy })))
      )
      assert.deepStrictEqual(seen(parts), [whole, whole])
    })
  )

  it.effect("works over a target without recovery too", () =>
    Effect.gen(function* () {
      const target = played({ streams: [say(...pieces(...deltas), text.end(), finish())] })
      const parts = yield* inTime(Stream.runCollect(stream).pipe(Effect.provide(Direct.layer(target))))
      assert.deepStrictEqual(seen(parts), [...partial, whole, whole])
      assert.strictEqual(target.requests[0]?.request.responseFormat.type, "json")
    })
  )

  it.effect("is requested again after the consumer got a notice of another model", () =>
    Effect.gen(function* () {
      const broken = played({ model: "a", streams: [Stream.fail(serverError)] })
      const second = played({
        model: "b",
        streams: [
          say(text.start(), text.delta("Oslo."), text.end(), finish()),
          say(...pieces(...deltas), text.end(), finish())
        ]
      })
      const parts = yield* inTime(
        Stream.runCollect(stream).pipe(Effect.provide(Failover.layer([broken, second], { policy })))
      )
      assert.isTrue(parts.some(({ type }) => type === "notice"))
      assert.deepStrictEqual(seen(parts), [...partial, whole, whole])
    })
  )

  it.effect("rejects a toolkit", () =>
    Effect.sync(() => {
      // Types do not stop an untyped program from passing both.
      const both = { prompt: "?", schema: City, toolkit: {} } as never
      assert.throws(() => Outlast.streamText(both), "none beside a schema")
    })
  )
})
