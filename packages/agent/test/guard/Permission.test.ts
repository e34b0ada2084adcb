import { assert, describe, it } from "@effect/vitest"
import { Clock, ConfigProvider, Deferred, Effect, Fiber, Layer, Logger, Metric, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, SafetyGuard } from "@outlast/agent"
import { Inbound, Requirements } from "@outlast/agent/guard"
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

describe("permit", () => {
  it.effect("refuses by tool and arguments, and the model reads the reason", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const { of, layer: events } = recording()
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({
          permit: (call) =>
            Effect.succeed(
              JSON.stringify(call.arguments).includes("secret")
                ? { refuse: "that is none of its business" }
                : "allow"
            ),
          texts: { refused: ({ tool, why }) => `${tool}? No: ${why}` }
        }),
        Effect.provide([
          layer,
          over(yield* model({ answers: [looking("weather", "secret"), { text: "ok" }] })),
          events
        ])
      )
      assert.deepStrictEqual(ran, ["weather"])
      assert.include(JSON.stringify(outcome.transcript.prompt), "look_up? No: that is none of its business")
      assert.deepInclude(of("GuardBlocked")[0], { tool: "look_up", pattern: "permission" })
    })
  )

  it.effect("may wait for a person without using active time or tool time", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ time: "1 minute", permit: () => Effect.as(Effect.sleep("1 hour"), "allow") }),
        Effect.provide([layer, over(yield* model({ answers: [looking("a"), { text: "ok" }] }))]),
        Effect.forkChild
      )
      yield* seconds(1)
      yield* TestClock.adjust("1 hour")
      yield* seconds(1)
      assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
      assert.strictEqual(ran.length, 1)
    })
  )
})

it.effect(
  "a program that goes on elsewhere after a permitted call is not interrupted at the end of the run",
  () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const hasEnded = yield* Deferred.make<void>()
      const left = yield* Effect.gen(function* () {
        const kit = yield* SafetyGuard.toolkit(Kit)
        const called = yield* Deferred.make<void>()
        const fiber = yield* Effect.flatMap(kit.handle("look_up", { q: "a" }), Stream.runDrain).pipe(
          Effect.andThen(Deferred.succeed(called, undefined)),
          Effect.andThen(Deferred.await(hasEnded)),
          Effect.as("went on"),
          Effect.forkDetach
        )
        yield* Deferred.await(called)
        return fiber
      }).pipe(SafetyGuard.run({ permit: () => Effect.succeed("allow") }), Effect.provide(layer))
      yield* Deferred.succeed(hasEnded, undefined)
      assert.strictEqual(yield* Fiber.join(left), "went on")
    })
)

describe("permit under a guard inside a guard", () => {
  const allow = () => Effect.succeed("allow" as const)
  const refuse = () => Effect.succeed({ refuse: "that is none of its business" })

  it.effect.each([
    ["inner", allow, refuse],
    ["outer", refuse, allow]
  ] as const)("refuses a call when only the %s hook refuses it", ([, outer, inner]) =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ permit: inner }),
        SafetyGuard.run({ permit: outer }),
        Effect.provide([layer, over(yield* model({ answers: [looking("secret"), { text: "ok" }] }))])
      )
      assert.deepStrictEqual(ran, [])
      assert.include(JSON.stringify(outcome.transcript.prompt), "that is none of its business")
    })
  )
})

describe("the log", () => {
  it.effect("has one line for a refused tool call, without any layer", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logging = Logger.layer([
        Logger.make(({ logLevel, message }) => void logged.push(`${logLevel}: ${String(message)}`))
      ])
      yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ permit: () => Effect.succeed({ refuse: "not this" }) }),
        Effect.provide([tools().layer, over(yield* model({ answers: [looking("a"), { text: "ok" }] }))]),
        Effect.provide(logging)
      )
      assert.deepStrictEqual(logged, [
        "Warn: Guard: the tool call look_up was refused by the permission hook. The model is told why."
      ])
    })
  )
})

describe("the text of a refusal", () => {
  it.effect("is the default when the host's text fails or is missing", () =>
    Effect.gen(function* () {
      for (const refused of [
        () => {
          throw new Error("no")
        },
        () => undefined as unknown as string
      ]) {
        const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          SafetyGuard.run({ permit: () => Effect.succeed({ refuse: "not this" }), texts: { refused } }),
          Effect.provide([tools().layer, over(yield* model({ answers: [looking("a"), { text: "ok" }] }))])
        )
        assert.include(JSON.stringify(outcome.transcript.prompt), "This call was not permitted: not this")
      }
    })
  )
})

describe("a permission hook", () => {
  const allowing = (hook: Effect.Effect<unknown>) => Effect.as(hook, "allow" as const)

  it.effect("does not stop the clock of concurrent calls while it waits", () =>
    Effect.gen(function* () {
      const { layer } = tools({ look_up: () => Effect.never })
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "3 hours" }).pipe(
        SafetyGuard.run({
          time: "10 minutes",
          permit: ({ arguments: given }) =>
            allowing(JSON.stringify(given).includes("person") ? Effect.sleep("1 hour") : Effect.void)
        }),
        stopOf,
        Effect.flatMap((stop) => Effect.map(Clock.currentTimeMillis, (at) => ({ stop, at }))),
        Effect.provide([layer, over(yield* model({ answers: [looking("person", "long")] }))]),
        Effect.forkChild
      )
      yield* TestClock.adjust("3 hours")
      const { stop, at } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([stop.reason, at], ["timeout", 600_000])
    })
  )

  it.effect("may call a model in its own conversation, under the same limits", () =>
    Effect.gen(function* () {
      const { layer } = tools()
      const judge = yield* model({ answers: [{ text: "allow" }] })
      const judging = LanguageModel.generateText({ prompt: "may it?" }).pipe(
        Effect.provide(over(judge)),
        Effect.orDie
      )
      const stop = yield* Agent.run({ prompt: "the task", toolkit: Kit }).pipe(
        SafetyGuard.run({ toolCalls: 2, loops: false, permit: () => allowing(judging) }),
        stopOf,
        Effect.provide([layer, over(yield* model(endless))])
      )
      const left = JSON.stringify(stop.transcript.prompt)
      assert.include(left, "the task")
      assert.notInclude(left, "may it?")
      assert.isTrue(isLegal(stop.transcript.prompt))
      assert.strictEqual(stop.counts.turns, 6)
    })
  )

  it.effect("that is interrupted with its call is not a failure of the guard", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const waits = Effect.sleep("1 hour")
      for (const [calling, hook] of [
        [Effect.interruptible, waits],
        [Effect.uninterruptible, Effect.interruptible(waits)]
      ] as const) {
        const fiber = yield* Effect.gen(function* () {
          const kit = yield* SafetyGuard.toolkit(Kit)
          const call = Effect.flatMap(kit.handle("look_up", { q: "a" }, "id"), Stream.runDrain)
          const running = yield* Effect.forkChild(calling(call))
          yield* Effect.sleep("1 minute")
          yield* Fiber.interrupt(running)
          return "fine"
        }).pipe(SafetyGuard.run({ permit: () => allowing(hook) }), Effect.provide(layer), Effect.forkChild)
        yield* seconds(1)
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual(yield* Fiber.join(fiber), "fine")
      }
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("that is left behind ends with its run and starts nothing in the next run", () =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      let ended = false
      const asking = Effect.onExit(Effect.sleep("1 minute"), () => Effect.sync(() => void (ended = true)))
      yield* Effect.gen(function* () {
        const guard = yield* SafetyGuard.make({ permit: () => allowing(asking) })
        yield* guard.run(
          Effect.gen(function* () {
            yield* Effect.forkDetach(Agent.run({ prompt: "x", toolkit: Kit }))
            yield* Effect.sleep("10 seconds")
          })
        )
        assert.isTrue(ended)
        yield* guard.run(Effect.sleep("10 minutes"))
      }).pipe(
        Effect.provide([layer, over(yield* model({ answers: [looking("a"), { text: "done" }] }))]),
        Effect.forkChild,
        Effect.tap(() => TestClock.adjust("20 minutes")),
        Effect.flatMap(Fiber.join)
      )
      assert.deepStrictEqual(ran, [])
    })
  )
})

describe("a call that is refused repeatedly", () => {
  it.effect("is blocked without asking the person again, then the run stops", () =>
    Effect.gen(function* () {
      let asked = 0
      const { ran, layer } = tools()
      const { of, layer: events } = recording()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ permit: () => Effect.sync(() => (asked++, { refuse: "not this" })) }),
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: () => looking("secret") })), events])
      )
      assert.strictEqual(stop.reason, "tool_loop")
      assert.isTrue(isLegal(stop.transcript.prompt))
      assert.strictEqual(asked, 3)
      assert.deepStrictEqual(
        of("GuardBlocked").map(({ pattern }) => pattern),
        [...Array.from({ length: asked }, () => "permission"), "identical", "identical", "identical"]
      )
      assert.deepStrictEqual(ran, [])
    })
  )
})

describe("calls that do not run count as events of the transcript", () => {
  const stopped = (options: SafetyGuard.Options, queries: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const { ran, layer } = tools()
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ events: 10, ...options }),
        stopOf,
        Effect.provide([layer, over(yield* model({ answers: () => looking(...queries) }))])
      )
      assert.isTrue(isLegal(stop.transcript.prompt))
      return [stop.reason, stop.counts.events, stop.counts.toolCalls, ran.length]
    })

  it.effect("when they are refused", () =>
    Effect.gen(function* () {
      const queries = Array.from({ length: 100 }, (_, n) => `question ${words(n)}`)
      const permit = () => Effect.succeed({ refuse: "no" })
      assert.deepStrictEqual(yield* stopped({ permit, loops: false }, queries), ["max_events", 10, 0, 0])
    })
  )

  const blocking = { reads: { nudge: 1, block: 1 }, refusals: 100 }

  it.effect("when they are blocked", () =>
    Effect.gen(function* () {
      const once = tools({ look_up: () => Effect.succeed("always the same") }).layer
      const stop = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        SafetyGuard.run({ events: 10, loops: blocking }),
        stopOf,
        Effect.provide([once, over(yield* model({ answers: () => looking("the same") }))])
      )
      assert.deepStrictEqual([stop.reason, stop.counts.events, stop.counts.toolCalls], ["max_events", 10, 1])
    })
  )

  it.effect("when they are blocked before the hook is called", () =>
    Effect.gen(function* () {
      let asked = 0
      const permit = () => Effect.sync(() => (asked++, { refuse: "no" }))
      const stop = yield* stopped({ permit, loops: blocking }, ["the same"])
      assert.deepStrictEqual(stop, ["max_events", 10, 0, 0])
      assert.isBelow(asked, 5)
    })
  )
})

describe("requirements", () => {
  const tool = (name: string) => Tool.make(name, { success: Schema.String })
  const env = (values: Record<string, string>) => ConfigProvider.layer(ConfigProvider.fromUnknown(values))

  it.effect("skip a tool with unmet needs and report the reason", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(
        tool("plain"),
        Requirements.requires(tool("issues"), { env: ["GITHUB_TOKEN", "GITHUB_USER"] }),
        Requirements.requires(tool("mail"), { env: ["MAIL_KEY"] }),
        Requirements.requires(tool("no"), { check: Effect.succeed(false) }),
        Requirements.requires(tool("words"), { check: Effect.succeed("the server is away") }),
        Requirements.requires(tool("dies"), { check: Effect.die("bug") }),
        Requirements.requires(tool("yes"), { check: Effect.succeed(true) })
      )
      const { of, layer } = recording()
      const { toolkit, skipped } = yield* Requirements.offered(kit).pipe(
        Effect.provide([layer, env({ GITHUB_TOKEN: " ", MAIL_KEY: "k" })])
      )
      assert.deepStrictEqual(Object.keys(toolkit.tools), ["plain", "mail", "yes"])
      assert.deepStrictEqual(skipped, [
        { name: "issues", reason: "GITHUB_TOKEN, GITHUB_USER are not set" },
        { name: "no", reason: "its check says no" },
        { name: "words", reason: "the server is away" },
        { name: "dies", reason: "its check failed" }
      ])
      assert.deepStrictEqual(
        of("ToolSkipped").map(({ tool }) => tool),
        ["issues", "no", "words", "dies"]
      )
    })
  )

  it.effect("leave an agent with the remaining tools", () =>
    Effect.gen(function* () {
      const Issues = Requirements.requires(tool("issues"), { env: ["GITHUB_TOKEN"] })
      const kit = Toolkit.make(tool("plain"), Issues)
      const target = yield* model({ answers: [{ text: "ok" }] })
      const { toolkit } = yield* Effect.provide(Requirements.offered(kit), env({}))
      yield* Agent.run({ prompt: "x", toolkit }).pipe(
        Effect.provide(
          Layer.merge(
            kit.toLayer({ plain: () => Effect.succeed(""), issues: () => Effect.succeed("") }),
            over(target)
          )
        )
      )
      const [request] = yield* target.requests
      assert.deepStrictEqual(
        request?.options.tools.map(({ name }) => name),
        ["plain"]
      )
    })
  )

  it.effect("are checked by an agent automatically", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(
        tool("plain"),
        Requirements.requires(tool("issues"), { env: ["GITHUB_TOKEN"] })
      )
      const target = yield* model({ answers: [{ text: "ok" }] })
      const { of, layer } = recording()
      yield* Agent.run({ prompt: "x", toolkit: kit }).pipe(
        Effect.provide(kit.toLayer({ plain: () => Effect.succeed(""), issues: () => Effect.succeed("") })),
        Effect.provide([over(target), layer, env({})])
      )
      const [request] = yield* target.requests
      assert.deepStrictEqual(
        request?.options.tools.map(({ name }) => name),
        ["plain"]
      )
      assert.deepInclude(of("ToolSkipped")[0], { tool: "issues", reason: "GITHUB_TOKEN is not set" })
    })
  )

  it.effect("count as unmet when a check interrupts itself, and do not end the agent", () =>
    Effect.gen(function* () {
      const kit = Toolkit.make(
        tool("plain"),
        Requirements.requires(tool("issues"), { check: Effect.interrupt })
      )
      const { of, layer } = recording()
      const { text } = yield* Agent.run({ prompt: "x", toolkit: kit }).pipe(
        Effect.provide(kit.toLayer({ plain: () => Effect.succeed(""), issues: () => Effect.succeed("") })),
        Effect.provide([over(yield* model({ answers: [{ text: "ok" }] })), layer])
      )
      assert.strictEqual(text, "ok")
      assert.deepInclude(of("ToolSkipped")[0], { tool: "issues", reason: "its check was interrupted" })
    })
  )

  it.effect("never report secrets from a check", () =>
    Effect.gen(function* () {
      const [token, key] = ["correct horse battery", `sk-ant-api03-${"A1b2".repeat(10)}`]
      const said = `login with ${token} and ${key} was refused`
      const kit = Toolkit.make(
        Requirements.requires(tool("issues"), { env: ["TOKEN"], check: Effect.succeed(said) }),
        // As from an untyped program.
        Requirements.requires(tool("odd"), { check: Effect.succeed(5 as unknown as string) })
      )
      const logged: Array<string> = []
      const logging = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
      const { of, layer } = recording()
      const { skipped } = yield* Requirements.offered(kit).pipe(
        Effect.provide([layer, logging, env({ TOKEN: ` ${token} ` })])
      )
      const reason = "login with [redacted] and [redacted] was refused"
      assert.deepStrictEqual(skipped, [
        { name: "issues", reason },
        { name: "odd", reason: "its check gave neither true, false nor a text" }
      ])
      assert.deepInclude(of("ToolSkipped")[0], { tool: "issues", reason })
      assert.strictEqual(logged[0], `issues is not offered: ${reason}`)
    })
  )

  it.effect("apply to extensions in the same way", () =>
    Effect.gen(function* () {
      const { offered, skipped } = yield* Requirements.discover([
        { name: "a" },
        { name: "b", requires: { env: ["B_KEY"] } }
      ]).pipe(Effect.provide(env({})))
      assert.deepStrictEqual(
        offered.map(({ name }) => name),
        ["a"]
      )
      assert.deepStrictEqual(skipped, [{ name: "b", reason: "B_KEY is not set" }])
    })
  )
})

describe("inbound messages", () => {
  it.effect("are dropped and counted without text and media", () =>
    Effect.gen(function* () {
      const { of, layer } = recording()
      const inbound = yield* Inbound.make
      const accepted = yield* Effect.filter(
        [{}, { text: "hi" }, { text: " \n" }, { media: ["photo"] }, { text: null, media: [] }],
        inbound.accept
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(accepted, [{ text: "hi" }, { media: ["photo"] }])
      assert.deepStrictEqual(yield* inbound.counts, { accepted: 2, dropped: 3 })
      assert.deepStrictEqual(
        of("InboundDropped").map(({ number }) => number),
        [1, 2, 3]
      )
      const metric = (outcome: string) =>
        Effect.map(Metric.value(Metric.withAttributes(Inbound.messages, { outcome })), ({ count }) => count)
      assert.deepStrictEqual([yield* metric("accepted"), yield* metric("dropped")], [2, 3])
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})
