import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { grouped } from "#tasks/store/sql/Grouped"

const setUp = Effect.sync(() => {
  const groups: Array<ReadonlyArray<string>> = []
  const gate = Deferred.makeUnsafe<void>()
  const ask = grouped((asks: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      groups.push(asks)
      if (groups.length === 1) yield* Deferred.await(gate)
      if (asks.includes("bad")) return yield* Effect.fail("refused")
      return asks.map((ask) => ask.toUpperCase())
    })
  )
  return { groups, ask, open: Deferred.succeed(gate, undefined) }
})

/** Asks, and lets a group begin. */
const begun = <A, E>(ask: Effect.Effect<A, E>) =>
  Effect.tap(Effect.forkChild(ask, { startImmediately: true }), () => Effect.yieldNow)

it.effect("what is asked while a group is under way is the next group", () =>
  Effect.gen(function* () {
    const { groups, ask, open } = yield* setUp
    const fibers = yield* Effect.forEach(["a", "b", "c"], (text) => begun(ask(text)))
    yield* open
    assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), ["A", "B", "C"])
    assert.deepStrictEqual(groups, [["a"], ["b", "c"]])
    assert.strictEqual(yield* ask("d"), "D")
  })
)

it.effect("an ask that is refused fails no other of its group", () =>
  Effect.gen(function* () {
    const { ask, open } = yield* setUp
    const fibers = yield* Effect.forEach(["a", "b", "bad", "c"], (text) => begun(Effect.exit(ask(text))))
    yield* open
    assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [
      Exit.succeed("A"),
      Exit.succeed("B"),
      Exit.fail("refused"),
      Exit.succeed("C")
    ])
  })
)

it.effect("an ask that is interrupted is carried out, and holds up no other", () =>
  Effect.gen(function* () {
    const { groups, ask, open } = yield* setUp
    const [first, second] = yield* Effect.forEach(["a", "b"], (text) => begun(ask(text)))
    if (first === undefined || second === undefined) return assert.fail()
    yield* Fiber.interrupt(first)
    yield* open
    assert.strictEqual(yield* Fiber.join(second), "B")
    assert.deepStrictEqual(groups, [["a"], ["b"]])
  })
)

it.effect("a group has at most 100 asks", () =>
  Effect.gen(function* () {
    const { groups, ask, open } = yield* setUp
    const fibers = yield* Effect.forEach(Array.from({ length: 202 }, String), (text) => begun(ask(text)))
    yield* open
    yield* Effect.forEach(fibers, Fiber.join)
    assert.deepStrictEqual(
      groups.map(({ length }) => length),
      [1, 100, 100, 1]
    )
  })
)
