/** Answers that the output limit cuts: raised, kept and continued, for every kind of call. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Agent, Failover, FailoverReason, Outlast, RecoveryPolicy } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import { climb, defaults, ground } from "#agent/recovery/Truncation"
import { ScriptedModel } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import type { Chain, Part } from "../support.ts"
import {
  answer,
  failure,
  failureOf,
  finish,
  inTime,
  key,
  played,
  policy,
  recording,
  say,
  serverError,
  text,
  textOf,
  thinking,
  toolCall
} from "../support.ts"

/** `n` words, each one token for a scripted model. */
const words = (n: number) => Array.from({ length: n }, (_, i) => `word${i}`).join(" ")

const scripted = (said: FaultPlan.Answer, options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({ provider: "anthropic", model: "m", plan: { answers: [said] }, ...options })

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

const limitTo = (limit: number | OutputLimit.Range) => Effect.provideService(OutputLimit.OutputLimit, limit)

const ask = LanguageModel.generateText({ prompt: "Tell me all." })
const stream = LanguageModel.streamText({ prompt: "Tell me all." })
const open = Outlast.streamText({ prompt: "Tell me all.", midStream: "restart" })

const limitsOf = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ options }) => options.maxOutputTokens))

const rule = (changes: Partial<typeof defaults>) => ({ truncation: { ...defaults, ...changes } })

describe("the ladder", () => {
  const room = { limit: 8_000, ceiling: Infinity, mayRaise: true, mayRepeat: true, mayContinue: true }

  it("raises to 64,000 once, then continues three times", () => {
    assert.deepStrictEqual(climb(defaults, ground, room), { _tag: "Raise", limit: 64_000 })
    const raised = { ...ground, raises: 1 }
    for (const continuations of [0, 1, 2])
      assert.deepStrictEqual(climb(defaults, { ...raised, continuations }, room), {
        _tag: "Continue",
        limit: undefined
      })
    assert.deepStrictEqual(climb(defaults, { ...raised, continuations: 3 }, room), { _tag: "Stop" })
  })

  it("raises only a known limit, and only upwards", () => {
    const next = (changes: Partial<typeof room> | { limit: undefined }) =>
      climb(defaults, ground, { ...room, ...changes })._tag
    assert.strictEqual(next({ limit: undefined }), "Continue")
    assert.strictEqual(next({ ceiling: 8_000.9 }), "Continue")
    assert.deepStrictEqual(climb(defaults, ground, { ...room, ceiling: 8_001.9 }), {
      _tag: "Raise",
      limit: 8_001
    })
    assert.deepStrictEqual(climb(defaults, ground, { ...room, mayRaise: false }), {
      _tag: "Continue",
      limit: undefined
    })
  })

  it("raises for a continuation when the request must not be repeated", () => {
    const next = (changes: Partial<typeof room>) => climb(defaults, ground, { ...room, ...changes })._tag
    assert.deepStrictEqual(climb(defaults, ground, { ...room, mayRepeat: false }), {
      _tag: "Continue",
      limit: 64_000
    })
    assert.strictEqual(next({ mayRepeat: false, mayContinue: false }), "Stop")
  })

  it("stops after three consecutive gains below 500", () => {
    const many = { ...defaults, continuations: 10 }
    const after = (...gains: ReadonlyArray<number>) =>
      climb(many, { raises: 1, continuations: gains.length, gains }, room)._tag
    assert.strictEqual(after(499, 499), "Continue")
    assert.strictEqual(after(499, 499, 499), "Stop")
    assert.strictEqual(after(499, 500, 499), "Continue")
    assert.strictEqual(after(9_000, 499, 499, 499), "Stop")
  })

  it("rejects invalid numbers by name", () => {
    const validate = (truncation: typeof defaults) =>
      RecoveryPolicy.validate({ ...RecoveryPolicy.interactive, truncation })
    for (const field of ["start", "raiseTo", "raises", "continuations", "poorGains", "minGain"] as const)
      assert.throws(() => validate({ ...defaults, [field]: -1 }), RangeError, `truncation.${field}`)
    assert.throws(() => validate({ ...defaults, poorGains: 0 }), RangeError, "truncation.poorGains")
  })
})

describe("a whole answer that was cut", () => {
  it.effect("is requested again with 64,000 tokens, without the cut answer", () =>
    Effect.gen(function* () {
      const target = yield* scripted({ text: words(9_000) })
      const { layer, of } = recording()
      const response = yield* ask.pipe(limitTo(8_000), over([target]), Effect.provide(layer))
      assert.strictEqual(response.text, words(9_000))
      assert.strictEqual(response.finishReason, "stop")
      assert.deepStrictEqual(yield* limitsOf(target), [8_000, 64_000])
      const [first, second] = yield* target.requests
      assert.deepStrictEqual(first?.prompt, second?.prompt)
      assert.deepStrictEqual(
        of("OutputLimitRaised").map(({ limit }) => limit),
        [64_000]
      )
      // A complete answer without a continuation: its thinking may be sent again.
      const made = response.content.find(({ type }) => type === "text")?.metadata["outlast"]
      assert.notProperty(made, "continued")
    })
  )

  it.effect("starts with the limit of the program, or else of the policy", () =>
    Effect.gen(function* () {
      const short = rule({ start: 2, raiseTo: 4, continuations: 0 })
      const own = yield* scripted({ text: words(10) })
      yield* ask.pipe(over([own], short))
      assert.deepStrictEqual(yield* limitsOf(own), [2, 4])
      const given = yield* scripted({ text: words(10) })
      yield* ask.pipe(limitTo(3), over([given], short))
      assert.deepStrictEqual(yield* limitsOf(given), [3, 4])
      const off = yield* scripted({ text: words(10) })
      const response = yield* ask.pipe(limitTo(3), over([off], { truncation: false }))
      assert.deepStrictEqual([yield* limitsOf(off), response.finishReason], [[3], "length"])
    })
  )

  it.effect("is never raised above the limits of the model, the program, the window and the budget", () =>
    Effect.gen(function* () {
      const raised = (
        options: Partial<ScriptedModel.Options>,
        limit: number | OutputLimit.Range = 100,
        changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}
      ) =>
        Effect.gen(function* () {
          const target = yield* scripted({ text: words(70_000), usage: { input: 1_000 } }, options)
          yield* Effect.exit(
            ask.pipe(limitTo(limit), over([target], { ...rule({ continuations: 0 }), ...changes }))
          )
          return yield* limitsOf(target)
        })
      assert.deepStrictEqual(yield* raised({}), [100, 64_000])
      assert.deepStrictEqual(yield* raised({ info: { maxOutputTokens: 32_000 } }), [100, 32_000])
      assert.deepStrictEqual(yield* raised({}, { start: 100, max: 500 }), [100, 500])
      assert.deepStrictEqual(yield* raised({}, { start: 100, max: 100 }), [100])
      assert.deepStrictEqual(yield* raised({ info: { contextWindow: 10_000 } }), [100, 9_000])
      // The first answer of 100 tokens cost 0.01 and its input 0.1. Of 1 dollar 0.89 are left, and the input costs
      // again.
      const price = { input: 100, output: 100 }
      assert.deepStrictEqual(yield* raised({ info: { price } }, 100, { maxCost: 1 }), [100, 7_900])
    })
  )

  it.effect("never starts above the maximum of its limit", () =>
    Effect.gen(function* () {
      const target = yield* scripted({ text: words(10) })
      yield* ask.pipe(over([target]), limitTo({ start: 1_000, max: 500 }))
      assert.deepStrictEqual(yield* limitsOf(target), [500])
    })
  )

  it.effect("is kept and continued three times, joined without overlap, then delivered as it is", () =>
    Effect.gen(function* () {
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        plan: {
          answers: [{ text: words(600) }],
          faults: [{ skip: 2, times: 3, fault: { type: "repeat", characters: 60 } }]
        }
      })
      const { layer, of } = recording()
      const response = yield* ask.pipe(
        limitTo(100),
        over([target], rule({ raiseTo: 150, minGain: 10 })),
        Effect.provide(layer)
      )
      assert.deepStrictEqual(yield* limitsOf(target), [100, 150, 150, 150, 150])
      assert.strictEqual(response.finishReason, "length")
      assert.isTrue(words(600).startsWith(response.text))
      assert.isAbove(response.text.split(" ").length, 500)
      assert.strictEqual(of("SeamRepaired").length, 3)
      assert.strictEqual(of("CutAnswerDelivered").length, 1)
      assert.strictEqual(response.content.filter(({ type }) => type === "text").length, 1)
    })
  )

  it.effect("is not continued after three small gains", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("a ", "length", 100)] })
      yield* ask.pipe(over([target], rule({ continuations: 8 })))
      // The first answer, and three continuations of 100 tokens.
      assert.strictEqual(target.requests.length, 4)
      const good = played({ answers: [answer("a ", "length", 600)] })
      yield* ask.pipe(over([good], rule({ continuations: 8 })))
      assert.strictEqual(good.requests.length, 9)
    })
  )

  const refusals = {
    "a 400 that names no limit": new FailoverReason.Format({ side: "request" }),
    "a 400 that names the old limit": new FailoverReason.Format({ side: "request", outputLimit: 10 }),
    "a window that is too small": new FailoverReason.ContextOverflow({}),
    "an account that cannot pay for it": new FailoverReason.Billing(),
    "a limit per minute that it exceeds by itself": new FailoverReason.RateLimit({ liftable: false })
  }
  for (const [by, reason] of Object.entries(refusals)) {
    it.effect(`is continued at the old limit when the raised one is rejected: ${by}`, () =>
      Effect.gen(function* () {
        const target = played({
          answers: [answer("One, ", "length", 10), Effect.fail(failure(reason)), answer("two.", "stop", 4)]
        })
        const { layer, of } = recording()
        const response = yield* ask.pipe(limitTo(10), over([target]), Effect.provide(layer))
        assert.deepStrictEqual([response.text, response.finishReason], ["One, two.", "stop"])
        assert.deepStrictEqual(
          target.requests.map(({ request }) => request.maxOutputTokens),
          [10, 64_000, 10]
        )
        assert.include(JSON.stringify(target.requests[2]?.request.prompt), "One, ")
        assert.deepStrictEqual(of("CooldownOpened"), [])
        assert.strictEqual(response.usage.outputTokens.total, 14)
      })
    )
  }

  it.effect("is continued at the limit that the provider names when it rejects the raised one", () =>
    Effect.gen(function* () {
      const named = new FailoverReason.Format({ side: "request", outputLimit: 32_000 })
      const target = played({
        answers: [answer("One, ", "length", 10), Effect.fail(failure(named)), answer("two.")]
      })
      const response = yield* ask.pipe(limitTo(10), over([target]))
      assert.strictEqual(response.text, "One, two.")
      assert.deepStrictEqual(
        target.requests.map(({ request }) => request.maxOutputTokens),
        [10, 64_000, 32_000]
      )
    })
  )

  it.effect("is delivered when the raised limit is rejected and no continuation is allowed", () =>
    Effect.gen(function* () {
      const target = played({
        answers: [answer("Half", "length", 10), Effect.fail(failure(refusals["a 400 that names no limit"]))]
      })
      const response = yield* ask.pipe(limitTo(10), over([target], rule({ continuations: 0 })))
      assert.deepStrictEqual([response.text, response.finishReason], ["Half", "length"])
    })
  )

  it.effect("is delivered with its own target when the repeat fails and no target is left", () =>
    Effect.gen(function* () {
      const first = played({ answers: [answer("Half of it", "length", 10), Effect.fail(serverError)] })
      const second = played({ model: "m2", answers: [Effect.fail(serverError)] })
      const response = yield* inTime(ask.pipe(limitTo(10), over([first, second])))
      assert.deepStrictEqual([response.text, response.finishReason], ["Half of it", "length"])
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(response.content)).target, "vendor/m")
      assert.strictEqual(first.requests[1]?.request.maxOutputTokens, 64_000)
      assert.strictEqual(second.requests[0]?.request.maxOutputTokens, 64_000)
    })
  )

  it.effect("is not replaced by a longer answer without text", () =>
    Effect.gen(function* () {
      const thought: Array<Response.PartEncoded> = [
        { type: "reasoning", text: "so then" },
        finish("length", 64_000)
      ]
      const target = played({
        answers: [answer("One, ", "length", 10), Effect.succeed(thought), answer("two.")]
      })
      const response = yield* ask.pipe(limitTo(10), over([target]))
      assert.strictEqual(response.text, "One, two.")
    })
  )

  it.effect("is not delivered without text: the failure of the repeat is reported", () =>
    Effect.gen(function* () {
      const thought: Array<Response.PartEncoded> = [
        { type: "reasoning", text: "so then" },
        finish("length", 10)
      ]
      const target = played({ answers: [Effect.succeed(thought), Effect.fail(serverError)] })
      const failed = yield* inTime(failureOf(ask).pipe(limitTo(10), over([target])))
      assert.strictEqual(failed._tag, "AllTargetsOut")
    })
  )

  it.effect("costs the sum of all its attempts", () =>
    Effect.gen(function* () {
      const target = played({
        info: { price: { input: 0, output: 1 } },
        answers: [
          answer("lost", "length", 1_000),
          answer("broken", "error", 200),
          answer("One, ", "length", 30),
          answer("two.", "stop", 4)
        ]
      })
      const response = yield* inTime(ask.pipe(limitTo(10), over([target])))
      assert.strictEqual(response.text, "One, two.")
      assert.strictEqual(response.usage.outputTokens.total, 1_234)
      assert.approximately(
        Option.getOrThrow(Outlast.answeredBy(response.content)).costUsd ?? 0,
        1_234 / 1e6,
        1e-12
      )
    })
  )

  it.effect("is delivered with length and its own target when its continuation fails for good", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const first = played({
        info: { price: { input: 0, output: 1 } },
        answers: [answer("Half of it", "length", 50), Effect.fail(serverError)]
      })
      const second = played({ model: "m2", answers: [Effect.fail(serverError)] })
      const response = yield* inTime(ask.pipe(over([first, second]))).pipe(Effect.provide(layer))
      assert.deepStrictEqual([response.text, response.finishReason], ["Half of it", "length"])
      const by = Option.getOrThrow(Outlast.answeredBy(response.content))
      assert.deepInclude(by, { target: "vendor/m", attempts: 1 })
      assert.approximately(by.costUsd ?? 0, 50 / 1e6, 1e-12)
      assert.strictEqual(response.usage.outputTokens.total, 50)
      assert.isAbove(second.requests.length, 0)
      assert.deepStrictEqual(
        of("CallSucceeded").map(({ target }) => target.id),
        ["vendor/m"]
      )
    })
  )

  it.effect("with a provider's tool call is delivered, because the tool has already run", () =>
    Effect.gen(function* () {
      const parts: Array<Response.PartEncoded> = [
        toolCall("1", { providerExecuted: true }),
        { type: "text", text: "found" }
      ]
      for (const reason of ["length", "error"] as const) {
        const target = played({ answers: [Effect.succeed([...parts, finish(reason)]), answer("again")] })
        yield* Effect.exit(
          LanguageModel.generateText({
            prompt: "x",
            disableToolCallResolution: true,
            toolCallValidation: "deferred"
          }).pipe(limitTo(10), over([target]))
        )
        assert.strictEqual(target.requests.length, 1)
      }
    })
  )

  it.effect("is continued by another target when its own fails, without using the retry budget", () =>
    Effect.gen(function* () {
      const first = played({
        keys: [key("A")],
        answers: [answer("One, ", "length", 600), Effect.fail(failure(new FailoverReason.Billing()))]
      })
      const second = played({ model: "m2", answers: [answer("two.")] })
      const response = yield* ask.pipe(over([first, second], { retryBudget: { ratio: 0, burst: 0 } }))
      assert.strictEqual(response.text, "One, two.")
    })
  )
})

describe("an object that was cut", () => {
  const schema = Schema.Struct({ city: Schema.String })
  const object = LanguageModel.generateObject({ prompt: "Where?", schema })
  const json = (said: string, reason: Response.FinishReason) => answer(said, reason, 9)

  it.effect("is raised and never continued", () =>
    Effect.gen(function* () {
      const target = played({ answers: [json('{"city":"Par', "length"), json('{"city":"Paris"}', "stop")] })
      const { value } = yield* object.pipe(limitTo(10), over([target]))
      assert.deepStrictEqual(value, { city: "Paris" })
      assert.deepStrictEqual(
        target.requests.map(({ request }) => [request.maxOutputTokens, request.prompt.content.length]),
        [
          [10, 1],
          [64_000, 1]
        ]
      )
    })
  )

  it.effect("fails with a clear failure when it is cut again", () =>
    Effect.gen(function* () {
      const target = played({ answers: [json('{"city":"Par', "length")] })
      const failed = yield* failureOf(object).pipe(limitTo(10), over([target]))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Format")
      assert.strictEqual(failed._tag === "ProviderFailure" && failed.evidence.rule, "answer/cut")
      assert.include(
        failed.message,
        "the output limit cut the object. Raise the output limit, or ask for less."
      )
      assert.strictEqual(target.requests.length, 2)
    })
  )
})

describe("a stream that was cut", () => {
  const long = words(300)

  it.effect("after text is continued in one block, with each token counted once", () =>
    Effect.gen(function* () {
      const target = yield* scripted({ text: long }, { info: { price: { input: 0, output: 1 } } })
      const parts = yield* Stream.runCollect(stream).pipe(limitTo(100), over([target], rule({ minGain: 10 })))
      assert.strictEqual(textOf(parts), long)
      // The continuation gets the same limit as a repeat.
      assert.deepStrictEqual(yield* limitsOf(target), [100, 64_000])
      assert.strictEqual(parts.filter(({ type }) => type === "text-start").length, 1)
      assert.strictEqual(parts.filter(({ type }) => type === "text-end").length, 1)
      const last = parts.at(-1)
      assert.isTrue(last?.type === "finish" && last.reason === "stop")
      assert.strictEqual(last?.type === "finish" && last.usage.outputTokens.total, 300)
      assert.approximately(Option.getOrThrow(Outlast.answeredBy(parts)).costUsd ?? 0, 300 / 1e6, 1e-12)
    })
  )

  it.effect("before any text is raised, and its thinking is marked as partial", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [
          say(thinking.start(), thinking.delta("so"), finish("length", 10)),
          say(...thinking.block("so then", "s"), ...text.block("done", "1"), finish())
        ]
      })
      const parts = yield* Stream.runCollect(stream).pipe(limitTo(10), over([target]))
      assert.strictEqual(textOf(parts), "done")
      assert.deepStrictEqual(
        target.requests.map(({ request }) => request.maxOutputTokens),
        [10, 64_000]
      )
      const ends = parts.flatMap((part) => (part.type === "reasoning-end" ? [part.metadata] : []))
      assert.deepStrictEqual(ends[0], { outlast: { partial: true } })
      assert.notProperty(ends[1]?.["outlast"] ?? {}, "partial")
    })
  )

  it.effect(
    "after text is continued even when a rewind would be possible, because the shown text is already paid for",
    () =>
      Effect.gen(function* () {
        const target = yield* scripted({ text: long })
        const parts = yield* Stream.runCollect(open).pipe(limitTo(100), over([target]))
        assert.deepStrictEqual(yield* limitsOf(target), [100, 64_000])
        assert.isFalse(parts.some((part) => part.type === "rewind"))
        assert.strictEqual(textOf(parts), long)
      })
  )

  it.effect("is continued at the old limit when the raised one is rejected", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const target = played({
        streams: [
          say(...text.block("One, "), finish("length", 10)),
          Stream.fail(failure(new FailoverReason.Format({ side: "request" }))),
          say(...text.block("two."), finish())
        ]
      })
      const parts = yield* Stream.runCollect(stream).pipe(limitTo(10), over([target]), Effect.provide(layer))
      assert.strictEqual(textOf(parts), "One, two.")
      assert.deepStrictEqual(
        target.requests.map(({ request }) => request.maxOutputTokens),
        [10, 64_000, 10]
      )
      assert.deepStrictEqual(
        of("AnswerContinued").map(({ limit }) => limit),
        [64_000, undefined]
      )
    })
  )

  it.effect("is delivered when its continuation at the raised limit fails and no target is left", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [say(...text.block("Half"), finish("length", 10)), Stream.fail(serverError)]
      })
      const parts = yield* inTime(Stream.runCollect(stream).pipe(limitTo(10), over([target])))
      assert.strictEqual(textOf(parts), "Half")
      const last = parts.at(-1)
      assert.isTrue(last?.type === "finish" && last.reason === "length")
    })
  )

  it.effect("is never rewound once kept, whatever happens to its continuation", () =>
    Effect.gen(function* () {
      const cut = say(...text.block("One, "), finish("length", 600))
      const broken = say(text.start(), text.delta("two, "))
      const target = played({ streams: [cut, broken, say(...text.block("three."), finish())] })
      const parts = yield* inTime(Stream.runCollect(open).pipe(limitTo(10), over([target])))
      assert.isFalse(parts.some(({ type }) => type === "rewind"))
      assert.strictEqual(textOf(parts), "One, two, three.")
    })
  )

  it.effect("is delivered with length and its own target when its continuation fails for good", () =>
    Effect.gen(function* () {
      const cut = say(...text.block("Half of it"), finish("length", 50))
      const first = played({
        info: { price: { input: 0, output: 1 } },
        streams: [cut, say(thinking.start(), text.start("9"), finish("error", 7))]
      })
      const second = played({ model: "m2", streams: [say(text.start("8"))] })
      const parts = yield* inTime(Stream.runCollect(stream).pipe(over([first, second])))
      const ids = (type: Part["type"]) =>
        parts.flatMap((part) => (part.type === type && "id" in part ? [part.id] : []))
      assert.deepStrictEqual([ids("text-start"), ids("text-end"), ids("reasoning-end")], [["0"], ["0"], []])
      const last = parts.at(-1)
      assert.isTrue(last?.type === "finish" && last.reason === "length")
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(parts)).target, "vendor/m")
      const failures = first.requests.length - 1
      assert.strictEqual(last?.type === "finish" && last.usage.outputTokens.total, 50 + 7 * failures)
    })
  )

  it.effect("is delivered without parts of the failed attempt, but with its usage", () =>
    Effect.gen(function* () {
      const broken = say(thinking.start("new"), text.start("9"), finish("error", 7))
      const target = played({ streams: [say(...text.block("Half"), finish("length", 50)), broken] })
      const parts = yield* inTime(Stream.runCollect(stream).pipe(over([target])))
      assert.deepStrictEqual(
        parts.map(({ type }) => type),
        ["text-start", "text-delta", "text-end", "finish"]
      )
      const last = parts.at(-1)
      const failures = target.requests.length - 1
      assert.strictEqual(last?.type === "finish" && last.usage.outputTokens.total, 50 + 7 * failures)
    })
  )

  it.effect("names its own target, even when another target was tried before", () =>
    Effect.gen(function* () {
      const first = played({
        streams: [Stream.fail(failure(new FailoverReason.Billing()))],
        keys: [key("A")]
      })
      const second = played({
        model: "m2",
        streams: [say(...text.block("Half"), finish("length", 50)), Stream.fail(serverError)]
      })
      const third = played({ model: "m3", streams: [Stream.fail(serverError)] })
      const parts = yield* inTime(Stream.runCollect(stream).pipe(over([first, second, third])))
      assert.isAbove(third.requests.length, 0)
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(parts)).target, "vendor/m2")
    })
  )

  it.effect("keeps the text after a call that is not run, streamed or whole", () =>
    Effect.gen(function* () {
      const cut = finish("length", 50)
      const called = toolCall("c")
      const target = played({
        streams: [say(...text.block("Half"), called, ...text.block(" of it", "1"), cut)],
        answers: [
          Effect.succeed([{ type: "text", text: "Half" }, called, { type: "text", text: " of it" }, cut])
        ]
      })
      const options = {
        prompt: "x",
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      } as const
      const asIs = over([target], { truncation: false })
      const parts = yield* LanguageModel.streamText(options).pipe(Stream.runCollect, asIs)
      const whole = yield* LanguageModel.generateText(options).pipe(asIs)
      assert.deepStrictEqual([textOf(parts), whole.text], ["Half of it", "Half of it"])
      assert.isFalse([...parts, ...whole.content].some(({ type }) => type === "tool-call"))
    })
  )

  it.effect(
    "inside a tool call passes no call on, sends the nudge for it, and delivers the complete call",
    () =>
      Effect.gen(function* () {
        const params = (delta: string): Part => ({ type: "tool-params-delta", id: "c", delta })
        const began: Part = { type: "tool-params-start", id: "c", name: "search" }
        const target = played({
          streams: [
            say(...text.block("So: "), began, params('{"q":'), finish("length", 600)),
            say(toolCall("d"), finish("tool-calls"))
          ]
        })
        const parts = yield* LanguageModel.streamText({
          prompt: "x",
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        }).pipe(Stream.runCollect, over([target]))
        assert.deepStrictEqual(
          parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])),
          ["d"]
        )
        assert.notInclude(JSON.stringify(parts.map(({ type }) => type)), "tool-params")
        const sent = JSON.stringify(target.requests[1]?.request.prompt)
        assert.include(sent, policy.nudges.cutInToolCall as string)
      })
  )
})

describe("an agent whose answer was cut", () => {
  it.effect("continues in one turn, and its transcript has the whole answer", () =>
    Effect.gen(function* () {
      for (const run of [
        Agent.run({ prompt: "Tell me all." }),
        Agent.stream({ prompt: "Tell me all." }).pipe(
          Stream.runCollect,
          Effect.map((parts) => {
            const last = parts.at(-1)
            return last?.type === "outcome" ? last.outcome : assert.fail()
          })
        )
      ]) {
        const target = yield* scripted({ text: words(300) })
        const outcome = yield* run.pipe(limitTo(120), over([target], rule({ raises: 0, minGain: 10 })))
        assert.deepStrictEqual([outcome.status, outcome.text, outcome.turns], ["completed", words(300), 1])
        assert.strictEqual(outcome.usage.outputTokens, 300)
        assert.strictEqual(outcome.transcript.prompt.content.length, 2)
      }
    })
  )
})
