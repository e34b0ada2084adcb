import { assert, describe, it } from "@effect/vitest"
import * as Activity from "#agent/Activity"
import type { TargetRef } from "#agent/conversation/TargetRef"
import { ChainMemory } from "#agent/failover/chain/ChainMemory"
import * as ChainStore from "#agent/failover/chain/ChainStore"
import type * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Failover from "#agent/failover/Failover"
import * as Targets from "#agent/failover/chain/Targets"
import { Cause, Duration, Effect, Exit } from "effect"
import type { Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { played, policy } from "../support.ts"
import { a, b, pass, start, watched } from "./chainProcess.ts"
import { answers, failureOf, fails, targetOf } from "./chainSupport.ts"

const minute = 60_000
const small = { contextWindow: 8_192 }
const other = targetOf("gpt", "KEY", "other")
const unbuilt = targetOf("gemini", "MISSING", "third")

const failureFor = (until: number) => failureOf(until === Infinity ? "Auth" : "RateLimit", "slow down")

const chain = Effect.gen(function* () {
  const memory = new ChainMemory(a, false, policy.pacing)
  answers(memory, b, 990_000)
  const targets = Targets.make({
    targets: [
      { ref: a, info: small },
      { ref: b, info: small },
      { ref: other, info: {} }
    ],
    dead: [{ target: unbuilt, failure: failureOf("Auth") }],
    memory,
    policy,
    admission: undefined,
    limiter: undefined,
    budget: undefined,
    compacts: false
  })
  yield* TestClock.setTime(1_000_000)
  // The test clock is both the wall clock and the monotonic clock.
  const now = 1_000_000
  const out = (scope: Parameters<typeof Cooldown.idOf>[0], target: TargetRef, length: number) => {
    memory.open({ scope, target, until: now + length, failure: failureFor(length) }, now)
    fails(memory, target, failureFor(length), now)
  }
  const states = Effect.map(targets.list, (all) => all.map(({ state }) => state).join(" "))
  return { targets, out, states, memory, now }
})

describe("the operator's view", () => {
  it.effect("says whether a call may be sent to any target", () =>
    Effect.gen(function* () {
      const { targets, out } = yield* chain
      const canAnswer = Effect.provideService(Activity.canAnswer, Targets.Targets, targets)
      out("key", a, minute)
      out("key", other, Infinity)
      assert.strictEqual(yield* canAnswer, true)
      out("key", b, minute)
      assert.strictEqual(yield* canAnswer, "no model can answer")
      yield* TestClock.adjust(minute)
      assert.strictEqual(yield* canAnswer, true)
    })
  )

  it.effect("lists each target with its state, time and reason, also those that could not be built", () =>
    Effect.gen(function* () {
      const { targets, out } = yield* chain
      out("key", a, minute)
      out("key", other, Infinity)
      yield* TestClock.adjust(10_000)
      assert.deepStrictEqual(yield* targets.list, [
        {
          target: a,
          info: small,
          state: "cooling",
          availableIn: Duration.seconds(50),
          // A probe is allowed in the last quarter.
          nextTryIn: Duration.seconds(35),
          reason: "RateLimit",
          message: "rate limited (HTTP 429)",
          advice: "Wait, or add another key or target to the chain.",
          lastSuccessAt: undefined,
          cooldowns: [
            {
              scope: "key",
              availableIn: Duration.seconds(50),
              reason: "RateLimit",
              message: "rate limited (HTTP 429)"
            }
          ],
          circuits: [],
          limits: []
        },
        {
          target: b,
          info: small,
          state: "ready",
          availableIn: undefined,
          nextTryIn: Duration.zero,
          reason: undefined,
          message: undefined,
          advice: undefined,
          lastSuccessAt: 990_000,
          cooldowns: [],
          circuits: [],
          limits: []
        },
        {
          target: other,
          info: {},
          state: "dead",
          availableIn: undefined,
          nextTryIn: undefined,
          reason: "Auth",
          message: "the key was refused (HTTP 429)",
          advice: "Set the key to a valid one, or add another key.",
          lastSuccessAt: undefined,
          cooldowns: [
            {
              scope: "key",
              availableIn: undefined,
              reason: "Auth",
              message: "the key was refused (HTTP 429)"
            }
          ],
          circuits: [],
          limits: []
        },
        {
          target: unbuilt,
          info: {},
          state: "dead",
          availableIn: undefined,
          nextTryIn: undefined,
          reason: "Auth",
          message: "the key was refused (HTTP 429)",
          advice: "Set the key to a valid one, or add another key.",
          lastSuccessAt: undefined,
          cooldowns: [],
          circuits: [],
          limits: []
        }
      ])
    })
  )

  it.effect("lists the abilities of the models, and `compacts` when calls shorten conversations", () =>
    Effect.gen(function* () {
      const info = { contextWindow: 8_192, maxOutputTokens: 1_024 }
      const compact = (prompt: Prompt.Prompt) => Effect.succeed(prompt)
      for (const [options, compacts] of [
        [{}, false],
        [{ compact }, true],
        [{ compact, policy: { ...policy, maxCompactions: 0 } }, false]
      ] as const) {
        const targets = yield* Targets.Targets.pipe(
          Effect.provide(Failover.layer([played({ info }), played({ model: "other" })], options))
        )
        assert.strictEqual(targets.compacts, compacts)
        assert.deepStrictEqual(
          (yield* targets.list).map(({ info }) => info),
          [info, {}]
        )
      }
    })
  )

  it.effect("lists each provider's health, in Unix time", () =>
    Effect.gen(function* () {
      const { targets, out, memory, now } = yield* chain
      out("model", a, minute)
      answers(memory, other, now - 500)
      const [vendor, second, third] = yield* targets.providers
      assert.deepInclude(vendor, { provider: "vendor", status: "degraded", errorCount: 1 })
      assert.strictEqual(vendor?.cooldownUntil, now + minute)
      assert.deepInclude(second, { status: "healthy", lastSuccessAt: now - 500 })
      assert.deepInclude(third, { provider: "third", status: "down" })
    })
  )
})

describe("a reset", () => {
  const all = Effect.gen(function* () {
    const known = yield* chain
    known.out("key", a, minute)
    known.out("key", b, minute)
    known.out("model", a, minute)
    known.out("key", other, Infinity)
    assert.strictEqual(yield* known.states, "cooling cooling dead dead")
    return known
  })

  it.effect("of a target ends everything that keeps it out", () =>
    Effect.gen(function* () {
      const { targets, states } = yield* all
      assert.strictEqual((yield* targets.reset({ target: a.id })).cooldowns, 2)
      assert.strictEqual(yield* states, "ready cooling dead dead")
    })
  )

  it.effect("of a key ends the cooldowns of the key, and not those of its model", () =>
    Effect.gen(function* () {
      const { targets, states } = yield* all
      assert.strictEqual((yield* targets.reset({ key: "KEY" })).cooldowns, 1)
      assert.strictEqual(yield* states, "cooling cooling ready dead")
      assert.strictEqual((yield* targets.reset({ key: a.key })).cooldowns, 1)
      assert.strictEqual(yield* states, "cooling cooling ready dead")
    })
  )

  it.effect("of a provider ends all of its cooldowns and its failure count, and no others", () =>
    Effect.gen(function* () {
      const { targets, states } = yield* all
      assert.strictEqual((yield* targets.reset({ provider: "vendor" })).cooldowns, 3)
      assert.strictEqual(yield* states, "ready ready dead dead")
      const counts = (yield* targets.providers).map(({ errorCount }) => errorCount)
      assert.deepStrictEqual(counts, [0, 1, 0])
    })
  )

  it.effect("ends the failure counts of the targets that are back, and no others", () =>
    Effect.gen(function* () {
      const { targets } = yield* all
      const count = Effect.map(targets.providers, ([vendor]) => vendor?.errorCount)
      assert.strictEqual(yield* count, 3)
      yield* targets.reset({ key: a.key })
      assert.strictEqual(yield* count, 1)
      // The cooldown of the model covers both keys.
      yield* targets.reset({ target: a.id })
      assert.strictEqual(yield* count, 0)
    })
  )

  it.effect("with several fields selects targets that match all of them; without fields, every target", () =>
    Effect.gen(function* () {
      const { targets, states } = yield* all
      assert.strictEqual((yield* targets.reset({ provider: "other", key: a.key })).cooldowns, 0)
      assert.strictEqual((yield* targets.reset()).cooldowns, 4)
      assert.strictEqual(yield* states, "ready ready ready dead")
      assert.strictEqual((yield* targets.reset()).cooldowns, 0)
    })
  )

  it.effect("rejects a filter that matches no name of the chain, and resets nothing", () =>
    Effect.gen(function* () {
      const { targets, states } = yield* all
      const said = (which: unknown) =>
        // An untyped program may pass this.
        Effect.map(Effect.exit(targets.reset(which as Targets.Which)), (exit) =>
          Exit.isSuccess(exit) ? "it was accepted" : String(Cause.squash(exit.cause))
        )
      const refused = (rest: string) => `InvalidOption: Targets.reset: ${rest}`
      const unknown = refused('"foo" is not an option. Options: target, key, provider')
      assert.strictEqual(yield* said({ foo: 1 }), unknown)
      assert.strictEqual(yield* said("vendor"), refused('options must be an object, got "vendor"'))
      assert.strictEqual(yield* said(null), refused("options must be an object, got null"))
      assert.strictEqual(
        yield* said({ provider: "vendr" }),
        refused('provider must be "vendor" or "other" or "third", got "vendr"')
      )
      assert.match(yield* said({ target: "none" }), /target must be "vendor\/.* or .*, got "none"$/)
      assert.match(yield* said({ key: "NONE" }), /key must be .*"MISSING", got "NONE"$/)
      // A key in place of its name is not shown.
      assert.match(yield* said({ key: "sk-ant-0123456789" }), /got a text that is not shown$/)
      assert.strictEqual(yield* states, "cooling cooling dead dead")
    })
  )

  it.effect("counts open cooldowns, and clears the streaks of ended ones", () =>
    Effect.gen(function* () {
      const { targets } = yield* all
      yield* TestClock.adjust(minute)
      assert.strictEqual((yield* targets.reset()).cooldowns, 1)
    })
  )

  it.effect("reaches the other processes", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const one = yield* start(store)
      const memory = new ChainMemory(a, false, policy.pacing)
      const second = yield* start(store, { cooldowns: memory.cooldowns })
      memory.sync = second.sync
      one.fail(a, Infinity)
      yield* pass(store, 1_000)
      const targets = Targets.make({
        targets: [
          { ref: a, info: {} },
          { ref: b, info: {} }
        ],
        dead: [],
        memory,
        policy,
        admission: undefined,
        limiter: undefined,
        budget: undefined,
        compacts: false
      })
      assert.strictEqual((yield* targets.reset({ key: a.key })).cooldowns, 1)
      yield* pass(store, 1_000)
      assert.isUndefined(one.left(a))
    })
  )
})
