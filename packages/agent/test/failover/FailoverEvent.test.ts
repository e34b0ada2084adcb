/**
 * The events of a call: its attempts when they are sent, its waits, its end.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, FailoverReason } from "@outlast/agent"
import type { Chain, Part } from "../support.ts"
import {
  answer,
  failure,
  finish,
  inTime,
  key,
  limited,
  played,
  policy,
  provenByOneCall,
  recording,
  say,
  serverError,
  text,
  toolCall
} from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const asked = LanguageModel.streamText({
  prompt: "What is the plan?",
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
})

const over = (chain: Chain, of = policy) => Effect.provide(Failover.layer(chain, { policy: of }))
const silent: Stream.Stream<Part> = Stream.never

/** Returns the events of an effect over a chain in a short form. */
const eventsOf = <A, E>(
  effect: Effect.Effect<A, E, LanguageModel.LanguageModel>,
  chain: Chain,
  of?: typeof policy
) =>
  Effect.gen(function* () {
    const { events, layer } = recording()
    yield* inTime(Effect.exit(effect.pipe(over(chain, of)))).pipe(Effect.provide(layer))
    return events.map((event) => {
      const { _tag } = event
      switch (_tag) {
        case "AttemptStarted":
          return `${_tag} ${event.attempt} ${event.target.id} +${event.waited}${event.after === undefined ? "" : ` after ${event.after}`}`
        case "AttemptFailed":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.reason}`
        case "TargetSwitched":
          return `${_tag} ${event.attempt} ${event.from.id} -> ${event.target.id} ${event.reason}`
        case "AnswerContinued":
          return `${_tag} ${event.attempt} ${event.from.id} -> ${event.target.id} ${event.reason}`
        case "SeamRepaired":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.removed}`
        case "SeamUnsure":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.doubt} ${event.kept}`
        case "CallWaiting":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.reason} ${event.delay}`
        case "CallWaited":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.reason} ${event.elapsed}`
        case "CallSucceeded":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.elapsed}`
        case "CooldownOpened":
          return `${_tag} ${event.scope} ${event.reason} ${event.length}`
        case "CallGaveUp":
          return `${_tag} ${event.attempt} ${event.reason}`
        case "CallAbandoned":
          return `${_tag} ${event.attempt}`
        case "ModelChanged":
          return `${_tag} ${event.target.id} ${event.message}`
        case "OutputLimitRaised":
        case "OutputLimitLowered":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.limit}`
        case "MediaDropped":
          return `${_tag} ${event.attempt} ${event.target.id} ${event.dropped}`
        case "CallCompacting":
        case "KeyRenewing":
          return `${_tag} ${event.attempt} ${event.target.id}`
        case "CutAnswerDelivered":
          return `${_tag} ${event.attempt}`
        case "TargetDead":
          return _tag
      }
    })
  })

const failing = Effect.fail(serverError)

describe("the events of a call", () => {
  it.effect("repeats, then a switch", () =>
    Effect.gen(function* () {
      const chain: Chain = [
        played({ answers: [failing] }),
        played({ model: "m2", answers: [Effect.delay(answer("hello"), 5)] })
      ]
      assert.deepStrictEqual(yield* eventsOf(ask, chain, provenByOneCall(policy)), [
        "AttemptStarted 1 vendor/m +0",
        "AttemptFailed 1 vendor/m ServerError",
        "CallWaiting 2 vendor/m backoff 1000",
        "CallWaited 2 vendor/m backoff 1000",
        "AttemptStarted 2 vendor/m +1000 after ServerError",
        "AttemptFailed 2 vendor/m ServerError",
        "CallWaiting 3 vendor/m backoff 2000",
        "CallWaited 3 vendor/m backoff 2000",
        "AttemptStarted 3 vendor/m +2000 after ServerError",
        "AttemptFailed 3 vendor/m ServerError",
        "CooldownOpened model ServerError 10000",
        "TargetSwitched 4 vendor/m -> vendor/m2 ServerError",
        "AttemptStarted 4 vendor/m2 +0 after ServerError",
        "ModelChanged vendor/m2 Switched to m2: m failed.",
        "CallSucceeded 4 vendor/m2 5"
      ])
    })
  )

  it.effect("an answer names the first failure of its call and all its waits", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const chain: Chain = [played({ answers: [Effect.fail(limited(2)), failing, answer("hello")] })]
      yield* inTime(ask.pipe(over(chain), Effect.provide(layer)))
      const last = events.at(-1)
      if (last?._tag !== "CallSucceeded") return assert.fail(last?._tag)
      const waits = events.flatMap((event) => (event._tag === "CallWaited" ? [event.elapsed] : []))
      assert.lengthOf(waits, 2)
      assert.deepInclude(last, {
        attempt: 3,
        recoveredFrom: "RateLimit",
        waited: waits.reduce((sum, wait) => sum + wait, 0)
      })
    })
  )

  it.effect("an attempt that continues a cut answer follows no failure", () =>
    Effect.gen(function* () {
      const cut = say(...text.block("hel"), finish("length", 600))
      const chain: Chain = [
        played({ streams: [Stream.fail(serverError), cut, say(...text.block("p!"), finish())] })
      ]
      const events = yield* eventsOf(Stream.runDrain(asked), chain)
      assert.deepStrictEqual(
        events.filter((event) => event?.startsWith("AttemptStarted")),
        [
          "AttemptStarted 1 vendor/m +0",
          "AttemptStarted 2 vendor/m +1000 after ServerError",
          "AttemptStarted 3 vendor/m +0"
        ]
      )
    })
  )

  it.effect("an answer that is continued at the same target, and one at another target", () =>
    Effect.gen(function* () {
      const cut = say(text.start(), text.delta("hel"))
      const here: Chain = [played({ streams: [cut, say(...text.block("p!"), finish())] })]
      assert.deepStrictEqual(yield* eventsOf(Stream.runDrain(asked), here), [
        "AttemptStarted 1 vendor/m +0",
        "AttemptFailed 1 vendor/m Network",
        "CallWaiting 2 vendor/m backoff 1000",
        "CallWaited 2 vendor/m backoff 1000",
        "AnswerContinued 2 vendor/m -> vendor/m Network",
        "AttemptStarted 2 vendor/m +1000 after Network",
        "CallSucceeded 2 vendor/m 0"
      ])
      const there: Chain = [
        played({
          keys: [key("A")],
          streams: [Stream.concat(cut, Stream.fail(failure(new FailoverReason.Billing())))]
        }),
        played({ keys: [key("B")], streams: [say(...text.block("p!"), finish())] })
      ]
      assert.deepStrictEqual(yield* eventsOf(Stream.runDrain(asked), there), [
        "AttemptStarted 1 vendor/m#A +0",
        "AttemptFailed 1 vendor/m#A Billing",
        "CooldownOpened key Billing 1800000",
        "AnswerContinued 2 vendor/m#A -> vendor/m#B Billing",
        "AttemptStarted 2 vendor/m#B +0 after Billing",
        "CallSucceeded 2 vendor/m#B 0"
      ])
    })
  )

  it.effect("repeated text that a continuation dropped, and text that only may be repeated", () =>
    Effect.gen(function* () {
      const said = "The quick brown fox jumps over the lazy dog"
      const cut = say(text.start(), text.delta(said))
      const repaired = say(...text.block("fox jumps over the lazy dog, and sleeps."), finish())
      assert.deepStrictEqual(
        (yield* eventsOf(Stream.runDrain(asked), [played({ streams: [cut, repaired] })])).slice(-2),
        ["SeamRepaired 2 vendor/m 27", "CallSucceeded 2 vendor/m 0"]
      )
      const unsure = say(...text.block("g, and sleeps."), finish())
      assert.deepStrictEqual(
        (yield* eventsOf(Stream.runDrain(asked), [played({ streams: [cut, unsure] })])).slice(-2),
        ["SeamUnsure 2 vendor/m short 1", "CallSucceeded 2 vendor/m 0"]
      )
    })
  )

  it.effect("a wait for the target that is back first", () =>
    Effect.gen(function* () {
      const chain: Chain = [
        played({ keys: [key("A")], answers: [Effect.fail(limited(30))] }),
        played({ keys: [key("B")], answers: [Effect.fail(limited(20)), answer("hello")] })
      ]
      assert.deepStrictEqual(yield* eventsOf(ask, chain), [
        "AttemptStarted 1 vendor/m#A +0",
        "AttemptFailed 1 vendor/m#A RateLimit",
        "CooldownOpened key+model RateLimit 30000",
        "TargetSwitched 2 vendor/m#A -> vendor/m#B RateLimit",
        "AttemptStarted 2 vendor/m#B +0 after RateLimit",
        "AttemptFailed 2 vendor/m#B RateLimit",
        "CooldownOpened key+model RateLimit 20000",
        "CallWaiting 3 vendor/m#B backoff 20000",
        "CallWaited 3 vendor/m#B backoff 20000",
        "AttemptStarted 3 vendor/m#B +20000 after RateLimit",
        "CallSucceeded 3 vendor/m#B 0"
      ])
      // The second call finds all targets out.
      const waiting = yield* eventsOf(Effect.all([ask, ask], { concurrency: 2 }), [
        played({ keys: [key("A")], answers: [Effect.fail(limited(30)), answer("hello")] })
      ])
      assert.deepStrictEqual(waiting, [
        "AttemptStarted 1 vendor/m#A +0",
        "AttemptFailed 1 vendor/m#A RateLimit",
        "CooldownOpened key+model RateLimit 30000",
        "CallWaiting 2 vendor/m#A backoff 30000",
        "CallWaiting 0 vendor/m#A cooldown 30000",
        "CallWaited 2 vendor/m#A backoff 30000",
        "AttemptStarted 2 vendor/m#A +30000 after RateLimit",
        "CallSucceeded 2 vendor/m#A 0",
        "CallWaited 0 vendor/m#A cooldown 30000",
        "AttemptStarted 1 vendor/m#A +30000",
        "CallSucceeded 1 vendor/m#A 0"
      ])
    })
  )

  it.effect("a call that gives up publishes that once, and is not abandoned", () =>
    Effect.gen(function* () {
      const stops = Effect.fail(failure(new FailoverReason.ContentPolicy()))
      const expected = [
        "AttemptStarted 1 vendor/m +0",
        "AttemptFailed 1 vendor/m ContentPolicy",
        "CallGaveUp 1 ContentPolicy"
      ]
      assert.deepStrictEqual(yield* eventsOf(ask, [played({ answers: [stops] })]), expected)
      const stream = played({ streams: [Stream.fromEffect(Effect.andThen(stops, Effect.never))] })
      assert.deepStrictEqual(yield* eventsOf(Stream.runDrain(asked), [stream]), expected)
    })
  )

  it.effect("calls of one layer have consecutive numbers", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      yield* Effect.repeat(ask, { times: 2 }).pipe(
        over([played({ answers: [answer("hello")] })]),
        Effect.provide(layer)
      )
      const numbers = events.map((event) => ("call" in event ? event.call : NaN))
      const [first = NaN] = numbers
      assert.deepStrictEqual(
        numbers.map((number) => number - first),
        [0, 0, 1, 1, 2, 2]
      )
    })
  )

  it.effect("calls of two chains have numbers of their own", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const chain = () => over([played({ answers: [answer("hello")] })])
      yield* Effect.all([chain()(ask), chain()(ask)]).pipe(Effect.provide(layer))
      const numbers = events.map((event) => "call" in event && event.call)
      assert.strictEqual(numbers.length, 4)
      assert.strictEqual(new Set(numbers).size, 2)
    })
  )
})

describe("a call is abandoned", () => {
  /** Returns the last event of a call that is interrupted after a second. */
  const interrupted = (call: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>, chain: Chain) =>
    Effect.gen(function* () {
      const { tags, layer } = recording()
      const fiber = yield* Effect.forkChild(Effect.provide(call.pipe(over(chain)), layer))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      return tags()
    })

  it.effect("when it is interrupted during an attempt, a delay or a wait", () =>
    Effect.gen(function* () {
      const silence = played({ answers: [Effect.never], streams: [silent] })
      for (const call of [ask, Stream.runDrain(asked)]) {
        assert.deepStrictEqual(yield* interrupted(call, [silence]), ["AttemptStarted", "CallAbandoned"])
      }
      const delayed = played({
        answers: [failing, failing, Effect.never],
        streams: [Stream.fail(serverError), Stream.fail(serverError), silent]
      })
      for (const call of [ask, Stream.runDrain(asked)]) {
        const tags = yield* interrupted(call, [delayed])
        assert.strictEqual(tags.at(-1), "CallAbandoned")
        assert.strictEqual(tags.filter((tag) => tag === "CallAbandoned").length, 1)
      }
      const out = { answers: [Effect.fail(limited(30))], streams: [Stream.fail(limited(30))] }
      for (const call of [ask, Stream.runDrain(asked)]) {
        const both = Effect.all([Effect.exit(call), call], { concurrency: 2 })
        const tags = yield* interrupted(both, [played(out)])
        const ended = ["CallWaited", "CallAbandoned"]
        assert.deepStrictEqual(tags.slice(-5), ["CallWaiting", ...ended, ...ended])
      }
    })
  )

  it.effect("when the consumer stops before the finish, and not when it stops after the finish", () =>
    Effect.gen(function* () {
      const hello = played({ streams: [say(...text.block("hello"), 1_000, text.delta("!"), finish())] })
      assert.deepStrictEqual(yield* eventsOf(asked.pipe(Stream.take(1), Stream.runDrain), [hello]), [
        "AttemptStarted 1 vendor/m +0",
        "CallAbandoned 1"
      ])
      const ended = asked.pipe(
        Stream.takeUntil((part) => part.type === "finish"),
        Stream.runDrain
      )
      assert.deepStrictEqual(yield* eventsOf(ended, [hello]), [
        "AttemptStarted 1 vendor/m +0",
        "CallSucceeded 1 vendor/m 1000"
      ])
    })
  )

  it.effect("only by an interruption, not by a failure during a tool of the provider", () =>
    Effect.gen(function* () {
      const target = played({ streams: [say(toolCall("1", { providerExecuted: true }))] })
      assert.deepStrictEqual(yield* eventsOf(Stream.runDrain(asked), [target]), [
        "AttemptStarted 1 vendor/m +0",
        "AttemptFailed 1 vendor/m Network",
        "CallGaveUp 1 Network"
      ])
    })
  )
})
