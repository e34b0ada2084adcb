import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { onEach } from "./support/Engines.ts"
import { halfSecond, inTime } from "../../../test/tasks/Time.ts"

const { Buy } = Agents

type Fails = Parameters<typeof Agents.model>[1]

const ended = (id: string) => inTime(Buy.result(id))

onEach(({ layer }) => {
  const worker = (own: Agents.World, fails?: Fails) =>
    Agents.buying.pipe(
      Layer.provide([Agents.model(own, fails), Agents.handlers(own)]),
      Layer.provideMerge(layer())
    )

  it.effect("run to their end, each turn and tool once", () => {
    const own = Agents.world()
    return Effect.gen(function* () {
      const id = yield* Buy.submit({ params: { item: "a book" }, key: "1" })
      const outcome = yield* ended(id)
      assert.strictEqual(outcome.text, "bought")
      assert.strictEqual(outcome.turns, 3)
      assert.deepStrictEqual(own, {
        asked: 3,
        looked: [1],
        paid: ["buy/1#0.1/turn/2/tool/pay-1"],
        acts: []
      })
      const { status } = yield* Tasks.Tasks
      const { state } = Option.getOrThrow(yield* status(id))
      assert.deepStrictEqual(state, { _tag: "Done", status: "completed" })
    }).pipe(Effect.provide(worker(own)))
  })

  it.effect("that end by a defect keep 2,000 characters of its message", () => {
    const own = Agents.world()
    const broken = Buy.toLayer(() => {
      throw new Error("x".repeat(10_000))
    })
    return Effect.gen(function* () {
      const id = yield* Buy.submit({ params: { item: "a book" }, key: "1" })
      const failed = yield* inTime(Effect.flip(Buy.result(id)))
      assert(failed._tag === "TaskFailed")
      assert.strictEqual(failed.reason._tag, "Defect")
      assert.lengthOf(failed.reason.message, 2_000)
    }).pipe(
      Effect.provide(
        broken.pipe(Layer.provide([Agents.model(own), Agents.handlers(own)]), Layer.provideMerge(layer()))
      )
    )
  })

  it.effect(
    "restart 1, 2 and 4 minutes after the network died, and do not repeat finished turns",
    () => {
      const own = Agents.world()
      // The second turn fails three times.
      const fails = (turn: number, asked: number) => (turn === 2 && asked <= 4 ? Agents.network : undefined)
      return Effect.gen(function* () {
        const { status } = yield* Tasks.Tasks
        const id = yield* Buy.submit({ params: { item: "a book" }, key: "1" })
        const states: Array<string> = []
        for (let i = 0; i < 20 * 60; i++) {
          yield* halfSecond
          const { state } = Option.getOrThrow(yield* status(id))
          if (state._tag === "Running" || state._tag === "Queued") continue
          const line =
            state._tag === "WaitingUntil"
              ? `restart ${state.restart}/${state.of} (${state.reason})`
              : state._tag
          if (states.at(-1) !== line) states.push(line)
          if (line === "Done") break
        }
        assert.deepStrictEqual(states, [
          "restart 1/3 (Network)",
          "restart 2/3 (Network)",
          "restart 3/3 (Network)",
          "Done"
        ])
        assert.strictEqual(own.asked, 6)
        assert.deepStrictEqual(own.looked, [1])
        assert.strictEqual(own.paid.length, 1)
      }).pipe(Effect.provide(worker(own, fails)))
    },
    60_000
  )
})

it("layerSqlite without a lock says how to get one", () => {
  const untyped = Tasks.layerSqlite as (options?: unknown) => unknown
  const noun = 'must be the Effect that locks the store, for example StoreLock.acquire("tasks.lock")'
  assert.throws(() => untyped({}), `Tasks.layerSqlite: lock ${noun} of @outlast/node, got undefined`)
  assert.throws(() => untyped({ lock: "tasks.lock" }), `Tasks.layerSqlite: lock ${noun}`)
  for (const options of [undefined, null])
    assert.throws(() => untyped(options), "Tasks.layerSqlite: options must be an object with a lock")
  assert.throws(() => untyped({ lock: Effect.void, queu: 1 }), '"queu" is not an option. Did you mean queue?')
})
