/** Several compactions: when they stop, locking, background summaries, rejections, and chats. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Ref, Schema } from "effect"
import { Chat, LanguageModel, Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { Compaction, CompactionPolicy, Failover } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import * as support from "../support.ts"
import {
  assistant,
  finish,
  lorem,
  recording,
  scripted,
  talking,
  terse,
  textOf,
  tokensOf,
  user,
  window,
  working
} from "./support.ts"

const policy = CompactionPolicy.defaults

describe("exhaustion", () => {
  it.effect("goes on when the window is full again at once, as long as each compaction frees enough", () =>
    Effect.gen(function* () {
      const { layer, tags } = recording()
      const compaction = yield* Compaction.make()
      let prompt = working(20)
      for (let i = 0; i < 12; i++) {
        const { report, prompt: fitting } = yield* compaction
          .fit(prompt, { window })
          .pipe(Effect.provide(layer))
        assert.isAtLeast((report.tokensBefore - report.tokensAfter) / report.limit, 0.33)
        prompt = Prompt.fromMessages([...fitting.content, ...working(20).content.slice(2)])
      }
      assert.strictEqual(tags().filter((tag) => tag === "ContextCompacted").length, 12)
      assert.notInclude(tags(), "CompactionGaveUp")
    })
  )

  it.effect(
    "ends with numbers, without another call, until the conversation was shorter for some turns",
    () =>
      Effect.gen(function* () {
        const { layer, tags } = recording()
        const thrash = { ...policy.thrash, poorGain: 0.9, poorGains: 1 }
        const compaction = yield* Compaction.make({ policy: { ...policy, thrash } })
        const fit = (conversation = "c") =>
          compaction.fit(working(13), { window, conversation }).pipe(Effect.provide(layer))
        yield* fit()
        const error = yield* Effect.flip(fit())
        if (error._tag !== "ContextExhausted") assert.fail(error._tag)
        assert.deepInclude(error, { times: 1, window, limit: 1_800 })
        assert.include(error.message, "must not have more than 1,800: 90 % of the window of 2,000.")
        assert.include(error.message, "begin a new conversation")
        assert.deepStrictEqual(tags(), ["ContextCompacted", "CompactionGaveUp"])
        // Further calls fail in the same way. Another conversation is not affected.
        for (let i = 0; i < 5; i++) assert.strictEqual((yield* Effect.flip(fit()))._tag, "ContextExhausted")
        yield* fit("other")
        for (let i = 0; i < 5; i++) yield* compaction.fit(working(2), { window, conversation: "c" })
        yield* fit()
      })
  )

  it.effect(
    "fails with ContextExhausted after three consecutive poor gains; a failed compaction is one",
    () =>
      Effect.gen(function* () {
        const poor = (poorGain: number, poorGains = 3) =>
          Effect.gen(function* () {
            const compaction = yield* Compaction.make({
              policy: { ...policy, thrash: { poorGain, poorGains, refillTurns: 1 } }
            })
            const errors: Array<string> = []
            for (let i = 0; i < 5; i++) {
              const fit = yield* Effect.result(compaction.fit(working(12), { window }))
              errors.push(fit._tag === "Failure" ? fit.failure._tag : "fits")
            }
            return errors
          })
        assert.deepStrictEqual(yield* poor(0.5), [
          "fits",
          "fits",
          "fits",
          "ContextExhausted",
          "ContextExhausted"
        ])
        assert.deepStrictEqual(yield* poor(0.5, 1), [
          "fits",
          ...Array.from({ length: 4 }, () => "ContextExhausted")
        ])
        assert.deepStrictEqual(
          yield* poor(0.1),
          Array.from({ length: 5 }, () => "fits")
        )
        const { options, asked } = yield* terse()
        const compaction = yield* Compaction.make({ summariser: options })
        const stuck = Prompt.fromMessages([user(lorem(3_000)), ...talking(8, 10).content])
        const tags = []
        for (let i = 0; i < 5; i++) tags.push((yield* Effect.flip(compaction.fit(stuck, { window })))._tag)
        assert.deepStrictEqual(tags, [
          "CannotFit",
          "CannotFit",
          "CannotFit",
          "ContextExhausted",
          "ContextExhausted"
        ])
        // One call each: the last two compactions make no call.
        assert.lengthOf(asked, 3)
      })
  )

  it.effect("forgets the least recently used conversation first", () =>
    Effect.gen(function* () {
      const thrash = { ...policy.thrash, poorGain: 0.9, poorGains: 1 }
      const compaction = yield* Compaction.make({ policy: { ...policy, thrash }, maxConversations: 2 })
      const fit = (conversation: string) =>
        Effect.result(compaction.fit(working(13), { window, conversation }))
      const tags = []
      for (const name of ["a", "b", "a", "c", "b"]) tags.push(`${name} ${(yield* fit(name))._tag}`)
      assert.deepStrictEqual(tags, ["a Success", "b Success", "a Failure", "c Success", "b Success"])
    })
  )
})

describe("locking", () => {
  /** A summariser that waits for a signal. */
  const waiting = Effect.gen(function* () {
    const go = yield* Deferred.make<void>()
    let running = 0
    let most = 0
    const model = yield* scripted(
      () =>
        Effect.gen(function* () {
          most = Math.max(most, ++running)
          yield* Deferred.await(go)
          return [{ type: "text", text: "SUMMARY" } as const, finish()]
        }).pipe(Effect.ensuring(Effect.sync(() => running--))),
      // All messages fit into one chunk.
      { window: 50_000 }
    )
    return { go, model, most: () => most, running: () => running }
  })

  it.effect("runs one compaction at a time per conversation, and different conversations concurrently", () =>
    Effect.gen(function* () {
      const { go, model, most } = yield* waiting
      const compaction = yield* Compaction.make({ summariser: model.options })
      const fit = (conversation: string) =>
        Effect.forkChild(compaction.fit(talking(20), { window, conversation }))
      const fibers = [yield* fit("a"), yield* fit("a")]
      yield* TestClock.adjust("1 second")
      assert.strictEqual(most(), 1)
      fibers.push(yield* fit("b"))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(most(), 2)
      yield* Deferred.succeed(go, undefined)
      for (const fiber of fibers) assert.strictEqual((yield* Fiber.join(fiber)).report.tier, "chunks")
    })
  )

  it.effect("keeps the original, stops the summariser and releases the lock on interruption", () =>
    Effect.gen(function* () {
      const { go, model, running } = yield* waiting
      const compaction = yield* Compaction.make({ summariser: model.options })
      const prompt = talking(20)
      const before = JSON.stringify(prompt)
      for (let i = 0; i < 5; i++) {
        const fiber = yield* Effect.forkChild(compaction.fit(prompt, { window }))
        yield* TestClock.adjust("1 second")
        assert.strictEqual(running(), 1)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(running(), 0)
      }
      assert.strictEqual(JSON.stringify(prompt), before)
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual((yield* compaction.fit(prompt, { window })).report.tier, "chunks")
    })
  )

  it.effect("releases the lock after a defect of the counter or the store", () =>
    Effect.gen(function* () {
      let broken = true
      const store = {
        put: () =>
          Effect.sync(() => {
            if (broken) throw new Error("disk")
          }),
        get: () => Effect.succeedNone
      }
      const compaction = yield* Compaction.make({ store })
      const exit = yield* Effect.exit(compaction.fit(working(20), { window }))
      assert.strictEqual(exit._tag, "Failure")
      broken = false
      assert.strictEqual((yield* compaction.fit(working(20), { window })).report.tier, "strip")
    })
  )
})

describe("a summary in the background", () => {
  it.effect("is prepared at 80 % and used when the window is full", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const { options, asked } = yield* terse({ window: 50_000 })
      const compaction = yield* Compaction.make({ summariser: options, prepare: true })
      const filling = talking(15)
      assert.strictEqual(
        (yield* compaction.fit(filling, { window }).pipe(Effect.provide(layer))).prompt,
        filling
      )
      yield* TestClock.adjust("1 second")
      assert.strictEqual(asked.length, 1)
      assert.deepInclude(events[0], { _tag: "ContextFilling", preparing: true })
      const full = Prompt.fromMessages([...filling.content, ...talking(4).content.slice(1)])
      const { prompt: after, report } = yield* compaction.fit(full, { window })
      assert.strictEqual(report.tier, "chunks")
      assert.strictEqual(report.summaries.calls, 0)
      assert.strictEqual(asked.length, 1)
      // Messages that came later are unchanged.
      assert.include(textOf(after.content[1]), "Summary of 13 earlier messages")
      assert.deepStrictEqual(after.content.slice(2), full.content.slice(14))
    })
  )

  it.effect("is used for the same conversation read from a store: messages are compared by value", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* terse({ window: 50_000 })
      const compaction = yield* Compaction.make({
        summariser: options,
        prepare: true,
        policy: { ...policy, tiers: ["chunks"] }
      })
      const begun = working(11)
      yield* compaction.fit(begun, { window, conversation: "stored" })
      yield* TestClock.adjust("1 second")
      assert.strictEqual(asked.length, 1)
      const stored = yield* Schema.encodeEffect(Schema.fromJsonString(Prompt.Prompt))(begun)
      const read = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(Prompt.Prompt))(stored)
      assert.notStrictEqual(read.content[3], begun.content[3])
      const full = Prompt.fromMessages([...read.content, ...talking(4).content.slice(1)])
      const { report } = yield* compaction.fit(full, { window, conversation: "stored" })
      assert.deepStrictEqual([report.tier, report.summaries.calls, asked.length], ["chunks", 0, 1])
    })
  )

  it.effect("is discarded when the conversation changed or the summary lacks a required identifier", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* scripted((request) =>
        request.includes("ID-7") ? "with ID-7" : "SUMMARY"
      )
      const compaction = yield* Compaction.make({ summariser: options, prepare: true })
      const run = (
        conversation: string,
        change: (prompt: Prompt.Prompt) => Prompt.Prompt,
        required: ReadonlyArray<string>
      ) =>
        Effect.gen(function* () {
          yield* compaction.fit(talking(15), { window, conversation })
          yield* TestClock.adjust("1 second")
          const before = asked.length
          yield* compaction.fit(change(talking(20)), { window, conversation, required })
          return asked.length - before
        })
      const edited = (prompt: Prompt.Prompt) =>
        Prompt.fromMessages(prompt.content.map((message, i) => (i === 3 ? assistant("Edited.") : message)))
      assert.strictEqual(yield* run("same", (prompt) => prompt, []), 0)
      assert.isAbove(yield* run("edited", edited, []), 0)
      const filling = talking(15)
      yield* compaction.fit(filling, { window, conversation: "b" })
      yield* TestClock.adjust("1 second")
      const before = asked.length
      const full = Prompt.fromMessages([...filling.content, ...talking(6).content.slice(1)])
      yield* compaction.fit(full, { window, conversation: "b", required: ["Answer 12"] })
      assert.isAbove(asked.length, before)
    })
  )

  it.effect("contains only the required identifiers of the messages it replaces", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* scripted(
        (request) => (/letter:\n- Answer 12$/.test(request) ? "Answer 12" : "S"),
        {
          window: 50_000
        }
      )
      const compaction = yield* Compaction.make({ summariser: options, prepare: true })
      const required = ["Answer 12", "Go on.", "NOT-THERE"]
      const filling = talking(15)
      yield* compaction.fit(filling, { window, required })
      yield* TestClock.adjust("1 second")
      const full = Prompt.fromMessages([...filling.content, ...talking(4).content.slice(1)])
      const { report } = yield* compaction.fit(full, { window, required })
      assert.deepStrictEqual([report.tier, report.summaries.calls, asked.length], ["chunks", 0, 1])
    })
  )

  it.effect("is off by default, and ends with the scope", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* terse()
      const off = yield* Compaction.make({ summariser: options })
      yield* off.fit(talking(15), { window })
      yield* TestClock.adjust("1 second")
      assert.lengthOf(asked, 0)
      let ended = false
      const hanging = yield* scripted(() =>
        Effect.onInterrupt(Effect.never, () => Effect.sync(() => (ended = true)))
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const on = yield* Compaction.make({ summariser: hanging.options, prepare: true })
          yield* on.fit(talking(15), { window })
          yield* TestClock.adjust("1 second")
          assert.isFalse(ended)
        })
      )
      assert.isTrue(ended)
    })
  )
})

describe("after a rejection by the provider", () => {
  it.effect(
    "compacts to the sizes that the provider named; without them the prompt still becomes smaller",
    () =>
      Effect.gen(function* () {
        const compaction = yield* Compaction.make()
        const prompt = working(10)
        const counted = tokensOf(prompt)
        const shrink = (conversation: string, overflow?: Compaction.Overflow) =>
          Effect.map(
            compaction.shrink(prompt, { window: 100_000, conversation }, overflow),
            ({ prompt, report }) => [
              Math.round((tokensOf(prompt) / counted) * 10) / 10 <= 0.6,
              report.tokensBefore,
              report.limit
            ]
          )
        // The provider counts twice as many tokens: its window of 2,000 is 1,000 of ours.
        assert.deepStrictEqual(
          yield* shrink("a", { limit: 2_000, requested: 2 * counted + 100, output: 100 }),
          [true, 2 * counted, 1_800]
        )
        const [smaller, before, limit] = yield* shrink("b")
        assert.deepStrictEqual([smaller, before], [true, 100_000])
        // Rounded in our tokens, and each of them is many of the provider's.
        assert.approximately(Number(limit), 90_000, 100)
      })
  )

  const tooLong: FaultPlan.Fault = {
    type: "status",
    status: 400,
    body: {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 2083 tokens > 2000 maximum" }
    }
  }
  const refusing = (times: number) =>
    ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      plan: {
        answers: () => ({ text: "hello" }),
        faults: Array.from({ length: times }, () => ({ fault: tooLong }))
      }
    })

  it.effect("lets Failover compact and ask again", () =>
    Effect.gen(function* () {
      const target = yield* refusing(1)
      const compaction = yield* Compaction.make()
      const compact = Compaction.reactive(compaction, { window: 200_000 })
      const prompt = working(20)
      const answer = yield* LanguageModel.generateText({ prompt }).pipe(
        Effect.provide(Failover.layer([target], { compact, policy: support.policy }))
      )
      assert.strictEqual(answer.text, "hello")
      const sizes = (yield* target.requests).map(({ prompt }) => tokensOf(prompt))
      assert.strictEqual(sizes[0], tokensOf(prompt))
      assert.isAtMost(sizes[1]!, tokensOf(prompt) * 0.6)
    })
  )

  it.effect("takes the request from the model that rejected the prompt, and ignores other failures", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const models: Array<string | undefined> = []
      const compact = Compaction.reactive(compaction, ({ target }) => {
        models.push(target?.model)
        return { window: 1_000 }
      })
      const target = yield* refusing(1)
      yield* LanguageModel.generateText({ prompt: working(20) }).pipe(
        Effect.provide(Failover.layer([target], { compact, policy: support.policy }))
      )
      assert.deepStrictEqual(models, ["m"])
      // The server counted 2,083 tokens for a window of 1,000.
      assert.isAtMost(tokensOf((yield* target.requests)[1]!.prompt), (tokensOf(working(20)) * 900) / 2_083)
      const prompt = working(20)
      assert.strictEqual(yield* compact(prompt, support.serverError), prompt)
    })
  )

  it.effect(
    "`call` repeats with a smaller prompt at most twice, and returns the prompt that was accepted",
    () =>
      Effect.gen(function* () {
        const attempts = (times: number, policy?: CompactionPolicy.CompactionPolicy) =>
          Effect.gen(function* () {
            const target = yield* refusing(times)
            const model = Failover.layer([target], { policy: support.policy })
            const made = yield* Effect.result(
              Compaction.call(working(20, 200), { window: 200_000 }, (prompt) =>
                LanguageModel.generateText({ prompt })
              ).pipe(Effect.provide(model), Effect.provide(Compaction.layer({ policy })))
            )
            const sizes = (yield* target.requests).map(({ prompt }) => tokensOf(prompt))
            // The target joins adjacent messages of one role: each removed message saves a few tokens.
            if (made._tag === "Success") assert.closeTo(tokensOf(made.success.prompt), sizes.at(-1) ?? 0, 10)
            return [made._tag, sizes.length]
          })
        assert.deepStrictEqual(yield* attempts(2), ["Success", 3])
        assert.deepStrictEqual(yield* attempts(3), ["Failure", 3])
        assert.deepStrictEqual(yield* attempts(2, CompactionPolicy.s11), ["Failure", 2])
      })
  )

  it.effect("`call` passes on any other failure", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        Compaction.call(working(2), { window }, () => Effect.fail("mine")).pipe(
          Effect.provide(Compaction.layer())
        )
      )
      assert.strictEqual(error, "mine")
    })
  )
})

describe("a chat", () => {
  it.effect("gets a history that fits, unless it changed during the compaction", () =>
    Effect.gen(function* () {
      const chat = yield* Chat.fromPrompt(working(20))
      const { prompt } = yield* Compaction.chat(chat, { window })
      assert.strictEqual(yield* Ref.get(chat.history), prompt)

      const other = yield* Chat.fromPrompt(talking(20))
      const slow = yield* scripted(
        () =>
          Effect.as(
            Ref.update(other.history, (history) => Prompt.concat(history, "wait")),
            [{ type: "text", text: "SUMMARY" } as const, finish()]
          ),
        { window: 50_000 }
      )
      yield* Compaction.chat(other, { window }).pipe(
        Effect.provide(Compaction.layer({ summariser: slow.options }))
      )
      assert.lengthOf((yield* Ref.get(other.history)).content, 24)
    }).pipe(Effect.provide(Compaction.layer()))
  )

  it.effect("can be summarised by the model around the layer", () =>
    Effect.gen(function* () {
      const { options } = yield* terse()
      const { report } = yield* Compaction.fit(talking(20), { window }).pipe(
        Effect.provide(Compaction.layerModel({ summariser: { window: 4_000 } })),
        Effect.provideService(LanguageModel.LanguageModel, options.model)
      )
      assert.strictEqual(report.tier, "chunks")
    })
  )
})
