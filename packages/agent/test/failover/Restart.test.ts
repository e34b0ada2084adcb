/**
 * Streams that can take text back: `Outlast.streamText`, `Agent.stream`, notices and rewinds.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Failover, FailoverReason, Outlast, ProviderFailure } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import type { Chain, Part } from "../support.ts"
import {
  failure,
  finish,
  inTime,
  key,
  played,
  policy,
  recording,
  say,
  text,
  textOf,
  thinking,
  timesOf,
  toolCall
} from "../support.ts"

const unresolved = { disableToolCallResolution: true, toolCallValidation: "deferred" } as const
const plain = LanguageModel.streamText({ prompt: "What is the plan?", ...unresolved })
const restarting = Outlast.streamText({
  prompt: "What is the plan?",
  midStream: "restart",
  ...unresolved
})

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

const read = (chain: Chain, changes?: Partial<RecoveryPolicy.RecoveryPolicy>) =>
  inTime(Stream.runCollect(restarting).pipe(over(chain, changes)))

const half = say(text.start(), text.delta("The plan is to"))
const whole = say(...text.block("We meet on Tuesday."), finish())
const overloaded = failure(new FailoverReason.Overloaded())
const dies = (...said: ReadonlyArray<Part>) => Stream.concat(say(...said), Stream.fail(overloaded))

/** Returns the text on the screen of a consumer that clears it at a rewind. */
const shown = (parts: Iterable<{ readonly type: string; readonly delta?: unknown }>): string => {
  const all = [...parts]
  return textOf(all.slice(all.findLastIndex(({ type }) => type === "rewind") + 1))
}

/** Checks that every block starts once, ends once, and has no parts outside. */
const assertLegal = (parts: Iterable<{ readonly type: string; readonly id?: unknown }>): void => {
  const open = new Set<string>()
  const begun = new Set<string>()
  for (const { type, id } of parts) {
    const [kind, what] = [type.slice(0, type.lastIndexOf("-")), type.slice(type.lastIndexOf("-") + 1)]
    if (kind !== "text" && kind !== "reasoning") continue
    const block = `${kind} ${String(id)}`
    if (what === "start") {
      assert.isFalse(begun.has(block), `${block} starts twice`)
      begun.add(block)
      open.add(block)
    } else assert.isTrue(open.has(block), `${type} of ${block}, which is not open`)
    if (what === "end") open.delete(block)
  }
  assert.deepStrictEqual([...open], [])
}

describe("restart", () => {
  it.effect("takes the text back and sends the whole answer again", () =>
    Effect.gen(function* () {
      const target = played({ streams: [half, whole] })
      const parts = yield* read([target])
      assert.deepStrictEqual(
        parts.map((part) => (part.type === "text-delta" ? part.delta : part.type)),
        [
          "text-start",
          "The plan is to",
          "text-end",
          "rewind",
          "text-start",
          "We meet on Tuesday.",
          "text-end",
          "finish"
        ]
      )
      assert.deepStrictEqual(
        parts.filter(({ type }) => type === "rewind"),
        [{ type: "rewind", characters: 14 }]
      )
      assertLegal(parts)
      // The repeat gets no text of the first attempt.
      assert.deepStrictEqual(target.requests[0]?.request.prompt, target.requests[1]?.request.prompt)
    })
  )

  it.effect("becomes continue on LanguageModel.streamText, which has no rewind", () =>
    Effect.gen(function* () {
      const target = played({ streams: [half, say(...text.block(" meet."), finish())] })
      const parts = yield* inTime(Stream.runCollect(plain).pipe(over([target], { midStream: "restart" })))
      assert.strictEqual(textOf(parts), "The plan is to meet.")
      assert.strictEqual(parts.filter(({ type }) => type === "text-start").length, 1)
      assert.notInclude(
        parts.map(({ type }) => type),
        "response-metadata"
      )
    })
  )

  it.effect("needs no rewind when no text was seen, but marks the thinking", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [dies(thinking.start(), thinking.delta("hm")), say(...text.block("So."), finish())]
      })
      const parts = yield* read([target])
      assert.notInclude(
        parts.map(({ type }) => type),
        "rewind"
      )
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "reasoning-end" ? [part.metadata] : [])),
        [{ outlast: { partial: true } }]
      )
      assertLegal(parts)
    })
  )

  it.effect("ends thinking and text of the attempt before it takes them back", () =>
    Effect.gen(function* () {
      const first = dies(
        ...thinking.block("so", "s"),
        ...text.block("One."),
        text.start("1"),
        text.delta("Two", "1")
      )
      const parts = yield* read([played({ streams: [first, first, whole] })])
      assertLegal(parts)
      assert.strictEqual(parts.filter(({ type }) => type === "rewind").length, 2)
      assert.strictEqual(shown(parts), "We meet on Tuesday.")
      for (const part of parts) {
        if (part.type === "reasoning-end") assert.deepInclude(part.metadata, { outlast: { partial: true } })
      }
    })
  )

  it.effect(
    "for one class of failures also takes back text that the call kept after a failure of another class",
    () =>
      Effect.gen(function* () {
        const rows = {
          ...policy.rows,
          Overloaded: { ...policy.rows.Overloaded, midStream: "restart" as const }
        }
        const target = played({ streams: [half, dies(), whole] })
        const parts = yield* inTime(
          Stream.runCollect(Outlast.streamText({ prompt: "x", midStream: "continue" })).pipe(
            over([target], { rows })
          )
        )
        assertLegal(parts)
        assert.strictEqual(shown(parts), "We meet on Tuesday.")
        assert.notInclude(JSON.stringify(target.requests[2]?.request.prompt), "The plan is to")
      })
  )

  it.effect("still happens when the attempt that would begin again is refused first", () =>
    Effect.gen(function* () {
      const first = played({ streams: [half] })
      const second = played({ model: "m2", streams: [say(...text.block("no"), finish())] })
      const third = played({ model: "m3", streams: [whole] })
      const parts = yield* inTime(
        Stream.runCollect(restarting).pipe(
          Effect.provide(
            Failover.layer([first, second, third], {
              policy: { ...policy, patience: Duration.zero },
              isHealthy: ({ model }) => Effect.succeed(model !== "m2")
            })
          )
        )
      )
      assert.strictEqual(second.requests.length, 0)
      assert.strictEqual(shown(parts), "We meet on Tuesday.")
      assertLegal(parts)
      // No notice is sent for a model that was never asked.
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "notice" ? [part.target.model] : [])),
        ["m3"]
      )
    })
  )

  it.effect("applies only to the call itself: a model that its tool asks has another consumer", () =>
    Effect.gen(function* () {
      const inner = played({ model: "sub", streams: [dies(text.start(), text.delta("We meet ")), whole] })
      const Ask = Tool.make("search", { success: Schema.String })
      const kit = Toolkit.make(Ask)
      const asked = Stream.runCollect(LanguageModel.streamText({ prompt: "When?" }))
      const handlers = kit.toLayer({
        search: () => asked.pipe(over([inner]), Effect.map(textOf), Effect.orDie)
      })
      const outer = played({ streams: [say(toolCall("1"), finish("tool-calls"))] })
      const fiber = yield* Effect.forkChild(
        Stream.runDrain(Outlast.streamText({ prompt: "x", toolkit: kit, midStream: "restart" })).pipe(
          Effect.provide(handlers),
          over([outer])
        )
      )
      // The tool runs after the stream has ended, and waits then.
      for (let n = 0; n < 20; n++) yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      // The answer is continued, not restarted, because the tool gets no rewind.
      assert.deepStrictEqual(
        inner.requests.map(({ request }) => request.prompt.content.length),
        [1, 3]
      )
    })
  )

  it.effect("takes no more text back when the call fails with the typed failure", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [Stream.concat(half, Stream.fail(failure(new FailoverReason.ContentPolicy())))]
      })
      const seen: Array<string> = []
      const failed = yield* restarting.pipe(
        Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
        over([target]),
        Effect.flip
      )
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContentPolicy")
      assert.deepStrictEqual(seen, ["text-start", "text-delta"])
    })
  )

  it.effect("never passes on a tool call of a failed attempt (crewAIInc/crewAI#5802)", () =>
    Effect.gen(function* () {
      let ran = 0
      const Search = Tool.make("search", { success: Schema.String })
      const kit = Toolkit.make(Search)
      const handlers = kit.toLayer({ search: () => Effect.sync(() => `result ${++ran}`) })
      const target = played({
        streams: [dies(...text.block("I look."), toolCall("1")), say(toolCall("2"), finish("tool-calls"))]
      })
      const parts = yield* inTime(
        Stream.runCollect(Outlast.streamText({ prompt: "x", toolkit: kit, midStream: "restart" })).pipe(
          Effect.provide(handlers),
          over([target])
        )
      )
      assert.strictEqual(ran, 1)
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])),
        ["2"]
      )
    })
  )
})

describe("a notice", () => {
  const noticesOf = (parts: Iterable<{ readonly type: string }>) =>
    [...parts].flatMap((part) => (part.type === "notice" && "message" in part ? [part.message] : []))

  it.effect("is sent once for each change of model, and once when the first is back", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const first = played({ streams: [dies(), dies(), dies(), dies(), dies(), dies(), whole] })
      const second = played({ model: "m2", streams: [whole] })
      const messages = yield* inTime(
        Effect.gen(function* () {
          const all: Array<ReadonlyArray<unknown>> = []
          // The failures of two calls cool the first model for two minutes.
          for (const minutes of [0, 0, 0, 3, 0]) {
            yield* Effect.sleep(Duration.minutes(minutes))
            all.push(noticesOf(yield* Stream.runCollect(restarting)))
          }
          return all
        }).pipe(over([first, second], { circuits: false }))
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(messages, [["Switched to m2: m is overloaded."], [], [], ["Back to m."], []])
      assert.deepStrictEqual(
        of("ModelChanged").map(({ message }) => message),
        ["Switched to m2: m is overloaded.", "Back to m."]
      )
    })
  )

  it.effect("has the policy's words, and is not sent for another key of the same model", () =>
    Effect.gen(function* () {
      const notices = { ...policy.notices, switched: () => "Switched due to high demand." }
      const first = played({ streams: [dies()] })
      const second = played({ model: "m2", streams: [whole] })
      const parts = yield* read([first, second], { notices })
      assert.deepStrictEqual(noticesOf(parts), ["Switched due to high demand."])
      const keys = played({
        keys: [key("A"), key("B")],
        streams: [Stream.fail(failure(new FailoverReason.Billing())), whole]
      })
      assert.deepStrictEqual(noticesOf(yield* read([keys])), [])
    })
  )

  it.effect("says that the provider refused the request, with its status", () =>
    Effect.gen(function* () {
      const refused = new ProviderFailure.ProviderFailure({
        reason: new FailoverReason.Format({ side: "request", model: true }),
        evidence: { rule: "status/400", signal: "status", depth: 0, status: 400 },
        detail: ""
      })
      const first = played({ streams: [Stream.fail(refused)] })
      const parts = yield* read([first, played({ model: "m2", streams: [whole] })])
      assert.deepStrictEqual(noticesOf(parts), ["Switched to m2: m refused the request (HTTP 400)."])
    })
  )

  it.effect("is not sent for a call that used the first model all the time", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const slowly = say(text.start(), text.delta("We meet"), 10_000, text.delta(" soon."), finish())
      const broken = say(text.start(), text.delta("We meet"), 5_000)
      const unpaid = Stream.fail(failure(new FailoverReason.Billing()))
      // The second call keeps trying the first model after the third has left it, and fails.
      const rows = { ...policy.rows, Billing: { ...policy.rows.Billing, cooldown: undefined } }
      const first = played({
        keys: [key("A")],
        streams: [slowly, broken, unpaid, unpaid]
      })
      const second = played({ model: "m2", streams: [whole] })
      yield* inTime(
        Effect.all(
          [
            Stream.runDrain(restarting),
            Stream.runDrain(plain),
            Effect.delay(Stream.runDrain(restarting), 1_000)
          ],
          { concurrency: "unbounded" }
        ).pipe(over([first, second], { rows }))
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        of("ModelChanged").map(({ message }) => message),
        ["Switched to m2: m has no quota left."]
      )
    })
  )

  it.effect("is not part of LanguageModel.streamText", () =>
    Effect.gen(function* () {
      const first = played({ streams: [dies()] })
      const second = played({ model: "m2", streams: [whole] })
      const parts = yield* inTime(Stream.runCollect(plain).pipe(over([first, second])))
      assert.deepStrictEqual(
        parts.map(({ type }) => type),
        ["text-start", "text-delta", "text-end", "finish"]
      )
    })
  )
})

describe("consecutive overloads", () => {
  const rows = {
    ...policy.rows,
    Overloaded: {
      ...policy.rows.Overloaded,
      attempts: 10,
      switchAfter: 3,
      to: "other-model" as const,
      midStream: "restart" as const
    }
  }
  const patient = { rows, patience: Duration.hours(1), circuits: false as const }

  it.effect("take the call to the other model after three, and clear the text of the first", () =>
    Effect.gen(function* () {
      const said = dies(...text.block("Partial"), toolCall("1"))
      const first = played({ streams: [said], keys: [key("A"), key("B")] })
      const second = played({ model: "m2", streams: [whole] })
      const parts = yield* inTime(
        Stream.runCollect(Outlast.streamText({ prompt: "x", ...unresolved })).pipe(
          over([first, second], patient)
        )
      )
      assert.deepStrictEqual(timesOf(first), [0, 1_000, 3_000])
      assert.strictEqual(shown(parts), "We meet on Tuesday.")
      assert.notInclude(
        parts.map(({ type }): string => type),
        "tool-call"
      )
      assert.strictEqual(parts.filter(({ type }) => type === "notice").length, 1)
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(parts)).switched, "Overloaded")
      assertLegal(parts)
    })
  )

  it.effect("keep the call at its model after two, or when another failure comes between", () =>
    Effect.gen(function* () {
      const broken = Stream.fail(failure(new FailoverReason.ServerError()))
      for (const streams of [
        [dies(), dies(), whole],
        [dies(), dies(), broken, dies(), whole]
      ]) {
        const first = played({ streams })
        const second = played({ model: "m2", streams: [whole] })
        const pooled = { ...rows, ServerError: { ...rows.ServerError, attempts: 10 } }
        yield* read([first, second], { ...patient, rows: pooled })
        assert.deepStrictEqual([first.requests.length, second.requests.length], [streams.length, 0])
      }
    })
  )
})

describe("a stream that is too slow", () => {
  const slow = { charactersPerSecond: 10, over: Duration.seconds(10) }
  const drip = say(
    text.start(),
    ...Array.from({ length: 30 }, () => [1_000, text.delta("ab")]).flat(),
    finish()
  )

  it.effect("is abandoned at the policy's measure", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const first = played({ streams: [drip] })
      const second = played({ model: "m2", streams: [whole] })
      const limits = { ...policy.limits, slow }
      const parts = yield* Effect.provide(
        read([first, second], { limits, patience: Duration.zero, midStream: "restart" }),
        layer
      )
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ rule, reason, elapsed }) => [rule, reason, elapsed]),
        [["limit/slow", "Timeout", 11_000]]
      )
      assert.strictEqual(shown(parts), "We meet on Tuesday.")
      const patient = played({ streams: [drip] })
      assert.strictEqual(textOf(yield* read([patient])).length, 60)
    })
  )

  it.effect("is abandoned when it becomes slow, however fast it was before", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const fast = Array.from({ length: 20 }, () => [1_000, text.delta("word ".repeat(20))]).flat()
      const first = played({ streams: [Stream.concat(say(text.start(), ...fast), drip)] })
      const second = played({ model: "m2", streams: [whole] })
      const limits = { ...policy.limits, slow }
      yield* Effect.provide(
        read([first, second], { limits, patience: Duration.zero, midStream: "restart" }),
        layer
      )
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed]),
        [["limit/slow", 31_000]]
      )
    })
  )

  it.effect("does not count the time of a slow consumer", () =>
    Effect.gen(function* () {
      const fast = say(
        text.start(),
        ...Array.from({ length: 30 }, () => [1_000, text.delta("twenty characters !!")]).flat(),
        finish()
      )
      const target = played({ streams: [fast] })
      yield* inTime(
        restarting.pipe(
          Stream.tap(() => Effect.sleep("30 seconds")),
          Stream.runDrain,
          over([target], { limits: { ...policy.limits, slow } })
        )
      )
      assert.strictEqual(target.requests.length, 1)
    })
  )
})

describe("Agent.stream", () => {
  it.effect("rewinds a turn, runs no tool of it, and keeps no part of it in the transcript", () =>
    Effect.gen(function* () {
      let ran = 0
      const Search = Tool.make("search", { success: Schema.String })
      const kit = Toolkit.make(Search)
      const handlers = kit.toLayer({ search: () => Effect.sync(() => `result ${++ran}`) })
      const first = played({
        streams: [
          dies(...thinking.block("lost thought", "s"), ...text.block("Lost words"), toolCall("lost")),
          say(...text.block("I look."), toolCall("good"), finish("tool-calls")),
          whole
        ]
      })
      const parts = yield* inTime(
        Stream.runCollect(Agent.stream({ prompt: "x", toolkit: kit, midStream: "restart" })).pipe(
          Effect.provide(handlers),
          over([first])
        )
      )
      assertLegal(
        parts.slice(
          0,
          parts.findIndex(({ type }) => type === "transition")
        )
      )
      assert.strictEqual(parts.filter(({ type }) => type === "rewind").length, 1)
      assert.strictEqual(ran, 1)
      const last = parts.at(-1)
      assert.isTrue(last?.type === "outcome")
      if (last?.type !== "outcome") return
      assert.strictEqual(last.outcome.text, "We meet on Tuesday.")
      assert.notInclude(JSON.stringify(last.outcome.transcript.prompt), "ost")
      assert.notInclude(JSON.stringify(first.requests.at(-1)?.request.prompt), "ost")
    })
  )

  it.effect("reports another model, and continues when no restart is set", () =>
    Effect.gen(function* () {
      const first = played({
        streams: [Stream.concat(half, Stream.fail(failure(new FailoverReason.Billing())))]
      })
      const second = played({ model: "m2", streams: [say(...text.block(" meet."), finish())] })
      const parts = yield* inTime(
        Stream.runCollect(Agent.stream({ prompt: "x" })).pipe(over([first, second]))
      )
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "notice" ? [part.reason] : [])),
        ["Billing"]
      )
      const last = parts.at(-1)
      assert.strictEqual(last?.type === "outcome" && last.outcome.text, "The plan is to meet.")
    })
  )
})
