import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Exit, Fiber, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, CallLimiter, Failover, SafetyGuard } from "@outlast/agent"
import type { Limits } from "@outlast/agent"
import { ActiveTime } from "@outlast/agent/conversation"
import { InvalidOption } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { answer, played } from "../support.ts"
import {
  endless,
  isLegal,
  Kit,
  looking,
  model,
  over,
  recording,
  seconds,
  stopOf,
  tools,
  words
} from "./support.ts"

const many = (n: number) => Array.from({ length: n }, (_, i) => `question ${words(i)}`)

const Pay = Toolkit.make(Tool.make("pay", { success: Schema.String }).setNeedsApproval(true))
const call: FaultPlan.Answer = { toolCalls: [{ name: "pay", params: {} }] }

describe("limits", () => {
  it.effect("stop the run at call 401 with the documented message", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model({
        answers: ({ turn }) => looking(...many(20).map((question) => `${question} ${words(turn)}`))
      })
      const { of, layer: events } = recording()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 1_000 }).pipe(
        SafetyGuard.run({ turns: 1_000 }),
        stopOf,
        Effect.provide([layer, over(target), events])
      )
      assert.strictEqual(ran.length, 400)
      assert.deepStrictEqual([stop.reason, stop.limit, stop.counts.toolCalls], ["max_tool_calls", 400, 400])
      assert.strictEqual(
        stop.message,
        "Forced stop: reached maximum of 400 tool invocations. Events processed: 800 | Tool calls: 400 | Elapsed: 0s. Please review the work completed so far. To go on, extend the limit and run again with `transcript` as the prompt."
      )
      assert.strictEqual(of("GuardStopped").length, 1)
      assert.deepInclude(of("GuardStopped")[0], { reason: "max_tool_calls", limit: 400 })
      assert.strictEqual(of("AgentTransition").at(-1)?.["transition"], "guard_stopped")
    })
  )

  it.effect("admit exactly 10 of 100 parallel calls at a limit of 10", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model({ answers: [looking(...many(100)), { text: "done" }] })
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit, toolConcurrency: 100 }).pipe(
        SafetyGuard.run({ toolCalls: 10 }),
        stopOf,
        Effect.provide([layer, over(target)])
      )
      assert.strictEqual(ran.length, 10)
      assert.strictEqual(stop.counts.toolCalls, 10)
      assert.isTrue(isLegal(stop.transcript.prompt))
      assert.strictEqual(JSON.stringify(stop.transcript.prompt).split("this call was not run").length, 91)
    })
  )

  it.effect("admit exactly 10 of 100 parallel calls of a plain generateText", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model({ answers: [looking(...many(100)), { text: "done" }] })
      const stop = yield* LanguageModel.generateText({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ toolCalls: 10 }),
        stopOf,
        Effect.provide([layer, over(target)])
      )
      assert.strictEqual(ran.length, 10)
      assert.isTrue(isLegal(stop.transcript.prompt))
    })
  )

  it.effect("stop with their own reason, at their own number", () =>
    Effect.gen(function* () {
      const price = { input: 1, output: 1 }
      const cases: ReadonlyArray<
        [SafetyGuard.Options, string, (stop: SafetyGuard.SafetyStop) => number, number]
      > = [
        [{ events: 9 }, "max_events", (stop) => stop.counts.events, 8],
        [{ toolCalls: 3 }, "max_tool_calls", (stop) => stop.counts.toolCalls, 3],
        [{ tools: { look_up: 2 } }, "tool_limit", (stop) => stop.counts.toolCalls, 2],
        [{ turns: 5 }, "turns", (stop) => stop.counts.turns, 5],
        [{ tokens: 200 }, "tokens", (stop) => stop.counts.turns, 2],
        [{ money: 0.0003 }, "money", (stop) => stop.counts.turns, 3]
      ]
      for (const [options, reason, count, expected] of cases) {
        const { layer } = tools()
        const target = yield* model(
          {
            answers: ({ turn }) => ({
              ...looking(`question ${words(turn)}`),
              usage: { input: 90, output: 10 }
            })
          },
          { info: { price } }
        )
        const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          SafetyGuard.run(options),
          stopOf,
          Effect.provide([layer, over(target)])
        )
        assert.strictEqual(stop.reason, reason)
        assert.strictEqual(count(stop), expected, reason)
      }
    })
  )

  it.effect("count edits of one file under all spellings of its name", () =>
    Effect.gen(function* () {
      const names = ["a.ts", "./a.ts", "b.ts", "src/../a.ts", ".//a.ts", "a.ts"]
      const { ran, layer } = tools()
      const target = yield* model({
        answers: ({ turn }) => ({
          toolCalls: [
            { name: "edit_file", params: { path: names[turn] ?? "c.ts", content: `text ${words(turn)}` } }
          ]
        })
      })
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ fileEdits: 4 }),
        stopOf,
        Effect.provide([layer, over(target)])
      )
      assert.strictEqual(ran.length, 5)
      assert.deepInclude(stop, { reason: "file_loop", limit: 4, subject: "a.ts" })
      assert.include(stop.message, "reached maximum of 4 edits of a.ts.")
      assert.include(stop.message, "Files touched: a.ts, b.ts.")
    })
  )

  it.effect("use a custom `fileOf` to count edits", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ fileEdits: 2, fileOf: ({ tool }) => `everything of ${tool}` }),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))])
      )
      assert.strictEqual(ran.length, 2)
      assert.strictEqual(stop.subject, "everything of look_up")
    })
  )

  it.effect("count no edit when a custom `fileOf` returns none", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ fileEdits: 2, turns: 4, fileOf: ({ tool }) => (tool === "" ? tool : null) }),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))])
      )
      assert.deepStrictEqual([stop.reason, ran.length], ["turns", 4])
    })
  )

  it("are rejected when they are out of range", () => {
    const bad: ReadonlyArray<[SafetyGuard.Options, string]> = [
      [{ toolCalls: 0 }, "toolCalls"],
      [{ toolCalls: 2_000_000 }, "toolCalls"],
      [{ toolCalls: Number.NaN }, "toolCalls"],
      [{ turns: 1.5 }, "turns"],
      [{ events: -1 }, "events"],
      // As from an untyped program. Every run must end.
      [{ toolCalls: false as unknown as number }, "toolCalls"],
      [{ turns: false as unknown as number }, "turns"],
      [{ time: 0 }, "time"],
      [{ time: Number.NaN }, "time"],
      [{ time: "31 days" }, "time"],
      [{ money: 0 }, "money"],
      [{ tokens: Infinity }, "tokens"],
      [{ fileEdits: 0 }, "fileEdits"],
      [{ tools: { look_up: -1 } }, "tools.look_up"],
      // As from an untyped program. Invalid options are never ignored.
      [{ tools: new Map([["look_up", 1]]) as unknown as Record<string, number> }, "tools"],
      [{ tools: 5 as unknown as Record<string, number> }, "tools"],
      [{ tools: false as unknown as Record<string, number> }, "tools"],
      [{ subagents: false as unknown as Limits.Subagents }, "subagents"],
      [{ texts: 5 as unknown as {} }, "texts"],
      [{ texts: { stopped: "no" as unknown as () => string } }, "texts.stopped"],
      [{ texts: { notRun: 5 as unknown as string } }, "texts.notRun"],
      [{ subagents: { depth: -1 } }, "subagents.depth"],
      [{ subagents: { breadth: 0 } }, "subagents.breadth"],
      [{ subagents: { total: 0.5 } }, "subagents.total"],
      [{ extensions: -1 }, "extensions"],
      [{ grace: -1 }, "grace"]
    ]
    for (const [options, field] of bad) {
      let thrown: unknown
      try {
        SafetyGuard.run(options)
      } catch (error) {
        thrown = error
      }
      assert.isTrue(thrown instanceof InvalidOption && thrown.field === field, field)
    }
  })
})

describe("time", () => {
  it.effect("ends a tool that never returns, and its finalizers run", () =>
    Effect.gen(function* () {
      let finalized = 0
      const { layer } = tools({
        look_up: () =>
          Effect.ensuring(
            Effect.never,
            Effect.sync(() => void finalized++)
          )
      })
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "3 hours" }).pipe(
        SafetyGuard.run(),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))]),
        Effect.forkChild
      )
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(finalized, 0)
      yield* TestClock.adjust("1 minute")
      const stop = yield* Fiber.join(fiber)
      assert.strictEqual(finalized, 1)
      assert.deepInclude(stop, { reason: "timeout", limit: 3_600_000 })
      assert.include(stop.message, "reached maximum of 1h of active time. ")
      assert.include(stop.message, "Elapsed: 1h.")
      assert.include(JSON.stringify(stop.transcript.prompt), "whether it had an effect is not known")
      assert.isTrue(isLegal(stop.transcript.prompt))
    })
  )

  it.effect("shows a limit below one second in milliseconds", () =>
    Effect.gen(function* () {
      const run = Effect.never.pipe(SafetyGuard.run({ time: { total: "600 millis" } }), stopOf)
      const fiber = yield* Effect.forkChild(run)
      yield* TestClock.adjust("1 second")
      assert.include((yield* Fiber.join(fiber)).message, "reached maximum of 600ms of total time. ")
    })
  )

  it.effect("excludes waits for a cooldown", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const target = yield* model({
        answers: [looking("a"), { text: "done" }],
        faults: [{ times: 2, fault: { type: "status", status: 429, headers: { "retry-after": "40" } } }]
      })
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ time: "30 seconds" }),
        Effect.provide([layer, over(target)]),
        Effect.forkChild
      )
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* Fiber.join(fiber)).text, "done")
    })
  )

  it.effect("excludes waits for a target and for an approval", () =>
    Effect.gen(function* () {
      const limited: FaultPlan.Step = {
        times: 1,
        fault: { type: "status", status: 429, headers: { "retry-after": "40" } }
      }
      const [first, second] = [
        yield* model({ answers: [call, { text: "done" }], faults: [limited] }),
        yield* model({ answers: [call, { text: "done" }], faults: [limited] }, { provider: "openai" })
      ]
      const fiber = yield* Agent.run({
        prompt: "x",
        toolkit: Pay,
        approve: () => Effect.as(Effect.sleep("1 hour"), true)
      }).pipe(
        SafetyGuard.run({ time: "30 seconds" }),
        Effect.provide([Pay.toLayer({ pay: () => Effect.succeed("paid") }), Failover.layer([first, second])]),
        Effect.forkChild
      )
      yield* seconds(100)
      yield* TestClock.adjust("1 hour")
      yield* seconds(5)
      assert.strictEqual((yield* Fiber.join(fiber)).text, "done")
    })
  )

  it.effect("excludes waits for a place at a target with a concurrency limit", () =>
    Effect.gen(function* () {
      const limiter = yield* CallLimiter.make({ limits: { "vendor/m": { concurrency: 1 } } })
      const slow = played({ answers: [Effect.delay(answer("first"), 1_500), answer("second")] })
      const fiber = yield* Effect.gen(function* () {
        yield* Effect.forkChild(LanguageModel.generateText({ prompt: "not guarded" }))
        yield* Effect.sleep(1)
        return yield* SafetyGuard.run({ time: "1 second" })(LanguageModel.generateText({ prompt: "x" }))
      }).pipe(Effect.provide(Failover.layer([slow], { limiter })), Effect.forkChild)
      yield* seconds(3)
      assert.strictEqual((yield* Fiber.join(fiber)).text, "second")
    })
  )

  it.effect("stops only while everything waits", () =>
    Effect.gen(function* () {
      const { layer } = tools({
        look_up: ({ q }) =>
          Effect.as(
            q === "person"
              ? ActiveTime.parked(Effect.sleep("1 hour"))
              : Effect.sleep(q === "long" ? "20 minutes" : "5 minutes"),
            "ok"
          )
      })
      const guarded = (...queries: ReadonlyArray<string>) =>
        Effect.gen(function* () {
          const target = yield* model({ answers: [looking(...queries), { text: "done" }] })
          const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "2 hours" }).pipe(
            SafetyGuard.run({ time: "10 minutes" }),
            Effect.exit,
            Effect.provide([layer, over(target)]),
            Effect.forkChild
          )
          yield* TestClock.adjust("3 hours")
          return Exit.isSuccess(yield* Fiber.join(fiber))
        })
      assert.isTrue(yield* guarded("person"))
      assert.isTrue(yield* guarded("person", "short"))
      assert.isFalse(yield* guarded("person", "long"))
    })
  )

  it.effect("abandons a finalizer that does not end within the grace period", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.uninterruptible(Effect.never) })
      const began = yield* Clock.currentTimeMillis
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ time: "1 minute", grace: "5 seconds" }),
        stopOf,
        Effect.andThen(Clock.currentTimeMillis),
        Effect.provide([layer, over(yield* model(endless))]),
        Effect.forkChild
      )
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* Fiber.join(fiber)) - began, 65_000)
    })
  )
})

describe("a stop", () => {
  it.effect("has a transcript that the host can continue with after an extension", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model({
        answers: ({ turn }) => (turn < 6 ? looking(`question ${words(turn)}`) : { text: "done" })
      })
      const { of, layer: events } = recording()
      yield* Effect.gen(function* () {
        const guard = yield* SafetyGuard.make({ toolCalls: 4, extensions: 1 })
        const stop = yield* stopOf(guard.run(Agent.run({ prompt: "x", toolkit: Kit })))
        assert.strictEqual(ran.length, 4)
        assert.isTrue(isLegal(stop.transcript.prompt))
        const again = Agent.run({ prompt: stop.transcript.prompt, toolkit: Kit })
        assert.strictEqual((yield* stopOf(guard.run(again))).reason, "max_tool_calls")
        yield* guard.extend({ toolCalls: 2 })
        const outcome = yield* guard.run(again)
        assert.strictEqual(outcome.text, "done")
        assert.strictEqual((yield* guard.report).counts.toolCalls, 5)
        const refused = yield* Effect.flip(guard.extend({ toolCalls: 1 }))
        assert.strictEqual(refused._tag, "ExtensionRefused")
      }).pipe(Effect.provide([layer, over(target), events]))
      assert.strictEqual(of("GuardExtended").length, 1)
      // A run that is stopped at once is the same stop.
      assert.strictEqual(of("GuardStopped").length, 1)
      assert.deepInclude(of("GuardExtended")[0], { by: { toolCalls: 2 }, number: 1 })
    })
  )

  it.effect("says each stop once, also the one after an extension", () =>
    Effect.gen(function* () {
      const target = yield* model({ answers: ({ turn }) => looking(`question ${words(turn)}`) })
      const { of, layer: events } = recording()
      yield* Effect.gen(function* () {
        const guard = yield* SafetyGuard.make({ toolCalls: 2, extensions: 1, loops: false })
        const stop = yield* stopOf(guard.run(Agent.run({ prompt: "x", toolkit: Kit })))
        yield* guard.extend({ toolCalls: 1 })
        yield* stopOf(guard.run(Agent.run({ prompt: stop.transcript.prompt, toolkit: Kit })))
      }).pipe(Effect.provide([tools().layer, over(target), events]))
      assert.deepStrictEqual(
        of("GuardStopped").map(({ limit }) => limit),
        [2, 3]
      )
    })
  )

  describe("that repeats after an extension", () => {
    const stops = (
      options: SafetyGuard.Options,
      more: Limits.Extension,
      lookUp: Effect.Effect<string> = Effect.succeed("found")
    ) =>
      Effect.gen(function* () {
        const target = yield* model({
          answers: ({ turn }) => ({
            ...looking(`question ${words(turn)}`),
            usage: { input: 90, output: 10 }
          })
        })
        const fiber = yield* Effect.gen(function* () {
          const guard = yield* SafetyGuard.make({ loops: false, ...options })
          const go = (prompt: Prompt.RawInput) => stopOf(guard.run(Agent.run({ prompt, toolkit: Kit })))
          const stop = yield* go("the task")
          yield* guard.extend(more)
          return [stop, yield* go(stop.transcript.prompt)] as const
        }).pipe(Effect.provide([tools({ look_up: () => lookUp }).layer, over(target)]), Effect.forkChild)
        yield* TestClock.adjust("2 minutes")
        return yield* Fiber.join(fiber)
      })

    it.effect("keeps the conversation when the first call stops", () =>
      Effect.gen(function* () {
        const [first, second] = yield* stops({ turns: 3, tokens: 300 }, { turns: 5 })
        assert.deepStrictEqual([first.reason, second.reason], ["turns", "tokens"])
        assert.isAbove(first.transcript.prompt.content.length, 3)
        assert.deepStrictEqual(second.transcript.prompt, first.transcript.prompt)
      })
    )

    it.effect("keeps the conversation when the time is up", () =>
      Effect.gen(function* () {
        const slow = Effect.as(Effect.sleep("20 seconds"), "found")
        const [first, second] = yield* stops({ time: "30 seconds" }, { turns: 5 }, slow)
        assert.deepStrictEqual([first.reason, second.reason], ["timeout", "timeout"])
        assert.isAbove(first.transcript.prompt.content.length, 3)
        assert.deepStrictEqual(second.transcript.prompt, first.transcript.prompt)
      })
    )

    it.effect("has the prompt of a second agent that has not answered yet", () =>
      Effect.gen(function* () {
        const target = yield* model({ answers: () => ({ text: "done" }) })
        const stop = yield* Agent.run({ prompt: "the first task" }).pipe(
          Effect.andThen(Agent.run({ prompt: "the second task" })),
          SafetyGuard.run({ turns: 1 }),
          stopOf,
          Effect.provide(over(target))
        )
        assert.deepStrictEqual(stop.transcript.prompt, Prompt.make("the second task"))
      })
    )
  })

  it.effect("is extended only after all stopped programs have ended", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const guard = yield* SafetyGuard.make({ turns: 4, loops: false })
      const target = yield* model(endless)
      const run = guard.run(Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 3 }))
      const extended = yield* Effect.gen(function* () {
        let ended = false
        const other = yield* Effect.forkChild(
          Effect.exit(
            guard.run(
              Effect.onExit(Effect.never, () =>
                Effect.andThen(
                  Effect.sleep("3 seconds"),
                  Effect.sync(() => (ended = true))
                )
              )
            )
          )
        )
        yield* run
        yield* stopOf(run)
        yield* guard.extend({ turns: 10 })
        assert.isTrue(ended)
        assert.include(JSON.stringify(yield* Fiber.join(other)), "turns")
        return yield* run
      }).pipe(Effect.provide([layer, over(target)]), Effect.forkChild)
      yield* seconds(5)
      assert.strictEqual((yield* Fiber.join(extended)).status, "turn_limit")
    })
  )

  it.effect("can be avoided by extending limits while the program runs", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make({ time: "1 minute" })
      const fiber = yield* Effect.forkChild(guard.run(Effect.as(Effect.sleep("90 seconds"), "done")))
      yield* TestClock.adjust("50 seconds")
      yield* guard.extend({ time: "1 minute" })
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(fiber), "done")
      const exit = yield* Effect.exit(guard.extend({ toolCalls: 1_000_000 }))
      assert.include(JSON.stringify(exit), "toolCalls")
    })
  )

  it.effect("rejects an extension that removes a limit or is invalid", () =>
    Effect.gen(function* () {
      const guard = yield* SafetyGuard.make({ tokens: 1e308, tools: { look_up: 1 } })
      const map = new Map([["look_up", 5]]) as unknown as Record<string, number>
      for (const by of [{ tokens: 1e308 }, { tokens: Infinity }, { tools: map }]) {
        const exit = yield* Effect.exit(guard.extend(by))
        assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof InvalidOption)
      }
      const { limits } = yield* guard.report
      assert.deepStrictEqual([limits.tokens, limits.tools.get("look_up")], [1e308, 1])
    })
  )

  it.effect("is not delayed by a tool that an earlier stop abandoned", () =>
    Effect.gen(function* () {
      const { layer } = tools({
        look_up: ({ q }) => (q === "stuck" ? Effect.uninterruptible(Effect.never) : Effect.succeed(q))
      })
      const fiber = yield* Effect.gen(function* () {
        const guard = yield* SafetyGuard.make({ toolCalls: 1, grace: "5 seconds", loops: false })
        /** Milliseconds until the stop. */
        const stopping = (...queries: ReadonlyArray<string>) =>
          Effect.gen(function* () {
            const began = yield* Clock.currentTimeMillis
            const target = yield* model({ answers: [looking(...queries)] })
            const run = Agent.run({ prompt: "x", toolkit: Kit })
            yield* stopOf(guard.run(run)).pipe(Effect.provide([layer, over(target)]))
            return (yield* Clock.currentTimeMillis) - began
          })
        const first = yield* stopping("stuck", "one")
        yield* guard.extend({ toolCalls: 1 })
        return [first, yield* stopping("two", "three")]
      }).pipe(Effect.forkChild)
      yield* seconds(30)
      // First the grace period for the tool and for its fiber, then none.
      assert.deepStrictEqual(yield* Fiber.join(fiber), [10_000, 0])
    })
  )

  it.effect("uses the host's texts, with the defaults as fallback", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const stopped = (texts: SafetyGuard.Options["texts"]) =>
        Effect.flatMap(model(endless), (target) =>
          Agent.run({ prompt: "x", toolkit: Kit }).pipe(
            SafetyGuard.run({ toolCalls: 1, texts }),
            stopOf,
            Effect.provide([layer, over(target)])
          )
        )
      const german = yield* stopped({
        stopped: ({ reason, counts }) => `Halt: ${reason} nach ${counts.toolCalls}`,
        notRun: "Nicht gelaufen."
      })
      assert.strictEqual(german.message, "Halt: max_tool_calls nach 1")
      assert.include(JSON.stringify(german.transcript.prompt), "Nicht gelaufen.")
      const broken = yield* stopped({
        stopped: () => {
          throw new Error("no")
        }
      })
      assert.include(broken.message, "Forced stop: reached maximum of 1 tool invocations.")
      const empty = yield* stopped({
        stopped: () => undefined as unknown as string,
        notRun: undefined as unknown as string
      })
      assert.include(empty.message, "Forced stop: reached maximum of 1 tool invocations.")
      assert.include(JSON.stringify(empty.transcript.prompt), "this call was not run")
    })
  )

  it.effect("of a stream keeps the emitted parts and fails the stream", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const target = yield* model(endless)
      const seen: Array<string> = []
      const stop = yield* Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.runStream({ toolCalls: 3 }),
        Stream.runForEach((part) => Effect.sync(() => void seen.push(part.type))),
        stopOf,
        Effect.provide([layer, over(target)])
      )
      assert.strictEqual(stop.reason, "max_tool_calls")
      assert.strictEqual(ran.length, 3)
      // Parts on their way are in the transcript.
      assert.isAtLeast(seen.filter((type) => type === "tool-result").length, 2)
      assert.strictEqual(JSON.stringify(stop.transcript.prompt).split("number").length, 4)
      assert.isTrue(isLegal(stop.transcript.prompt))
    })
  )

  it.effect("does not reach a consumer that is only slow", () =>
    Effect.gen(function* () {
      const fiber = yield* Stream.range(1, 300).pipe(
        SafetyGuard.runStream({ time: "1 minute" }),
        Stream.mapEffect((n) => Effect.as(Effect.sleep("1 minute"), n)),
        Stream.runCount,
        Effect.forkChild
      )
      // Many fibers must run in turn, so the clock moves in small steps.
      for (let minute = 0; minute < 310; minute++) yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(fiber), 300)
    })
  )

  it.effect("changes nothing for a program within its limits", () =>
    Effect.gen(function* () {
      const guarded = SafetyGuard.run()
      assert.strictEqual(yield* guarded(Effect.succeed(1)), 1)
      assert.strictEqual(yield* Effect.flip(guarded(Effect.fail("no"))), "no")
      const died = yield* Effect.exit(guarded(Effect.die("bug")))
      assert.isTrue(Exit.isFailure(died) && Exit.hasDies(died))
      let released = false
      const fiber = yield* Effect.forkChild(
        guarded(
          Effect.ensuring(
            Effect.never,
            Effect.sync(() => (released = true))
          )
        )
      )
      yield* TestClock.adjust(1)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(released)
    })
  )
})
