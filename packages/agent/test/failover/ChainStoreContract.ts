/**
 * The tests for every `ChainStore`: the store alone, and shared by the chains of two processes.
 */
import { assert, describe, it } from "@effect/vitest"
import type { ChainStore } from "#agent/failover/chain/ChainStore"
import { Effect, HashMap } from "effect"
import type { Scope } from "effect"
import { a, b, pass, start, watched } from "./chainProcess.ts"

/** Two stores over the same data, like those of two processes. */
type Two = readonly [ChainStore, ChainStore]

export const contract = (name: string, make: Effect.Effect<Two, unknown, Scope.Scope>): void => {
  describe(name, () => {
    it.effect("sets a value only if the present one is expected", () =>
      Effect.gen(function* () {
        const [store, other] = yield* make
        const one = yield* store.open
        const two = yield* other.open
        assert.isFalse(yield* one.swap("id", "x", "1"), "there is none")
        assert.isTrue(yield* one.swap("id", undefined, "1"))
        assert.isFalse(yield* two.swap("id", undefined, "2"), "there is one")
        assert.isTrue(yield* two.swap("id", "1", "2"))
        assert.deepStrictEqual(yield* one.load, new Map([["id", "2"]]))
        assert.isFalse(yield* one.swap("id", "1", undefined))
        assert.isTrue(yield* one.swap("id", "2", undefined))
        assert.deepStrictEqual(yield* two.load, new Map())
      })
    )

    it.effect("stores any texts and nothing else", () =>
      Effect.gen(function* () {
        const [store] = yield* make
        const { load, swap } = yield* store.open
        const ids = ["key+model_a.b_C-1f", "Key+model_a.b_C-1f", "x".repeat(80)]
        const text = (id: string) => `{"${id}":"Ключ\\n\n%_\u0001"}`
        for (const id of ids) assert.isTrue(yield* swap(id, undefined, text(id)))
        assert.deepStrictEqual(
          [...(yield* load)].sort(),
          ids.map((id): readonly [string, string] => [id, text(id)]).sort()
        )
      })
    )

    it.effect("lets one of many concurrent writers win, and loses no write to another id", () =>
      Effect.gen(function* () {
        const [store] = yield* make
        const one = yield* store.open
        const two = yield* store.open
        const writers = Array.from({ length: 20 }, (_, n) => ({ n, by: n % 2 === 0 ? one : two }))
        const won = yield* Effect.forEach(writers, ({ n, by }) => by.swap("id", undefined, String(n)), {
          concurrency: "unbounded"
        })
        assert.strictEqual(won.filter(Boolean).length, 1)
        assert.strictEqual((yield* one.load).get("id"), String(won.indexOf(true)))
        yield* Effect.forEach(writers, ({ n, by }) => by.swap(`id-${n}`, undefined, "1"), {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* two.load).size, 21)
      })
    )

    it.effect("shows the cooldowns, successes and resets of one process to another within a second", () =>
      Effect.gen(function* () {
        const [first, second] = yield* make
        const store = watched(first)
        const other = watched(second)
        const second_ = (millis: number) => pass(store, millis, other)
        const one = yield* start(store)
        const two = yield* start(other)
        one.fail(a, 60_000)
        two.fail(b, Infinity)
        yield* second_(1_000)
        assert.strictEqual(two.left(a), 59_000)
        assert.strictEqual(one.left(b), Infinity)

        yield* second_(4_000)
        two.succeed(a, 100)
        yield* second_(1_000)
        assert.isUndefined(one.left(a))

        one.resetAll()
        yield* second_(1_000)
        assert.isUndefined(two.left(b))
        assert.strictEqual(one.tags(), "CooldownLearned CooldownLifted")
        assert.strictEqual(two.tags(), "CooldownLearned CooldownLifted")
      })
    )

    it.effect("gives a restarted process its cooldowns with their streaks", () =>
      Effect.gen(function* () {
        const [first, second] = yield* make
        const store = watched(first)
        const before = yield* start(store)
        before.fail(a, 1_000)
        yield* pass(store, 2_000)
        before.fail(a, 60_000)
        before.fail(b, Infinity)
        // The stop comes before any round. Pending changes are written by the stop itself.
        yield* before.stop
        yield* pass(store, 10_000)
        const after = yield* start(watched(second))
        assert.strictEqual(after.left(a), 50_000)
        assert.strictEqual(after.left(b), Infinity)
        const streaks = HashMap.toValues(after.cooldowns.current).map(({ streak }) => streak)
        assert.deepStrictEqual(streaks.sort(), [1, 2])
      })
    )
  })
}
