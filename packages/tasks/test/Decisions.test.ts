/** Decisions of people: each is about one doubt, and answers no other. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Tasks } from "@outlast/tasks"
import * as Agents from "../../../test/tasks/Agents.ts"
import { onEach } from "./support/Engines.ts"
import { inTime, until } from "../../../test/tasks/Time.ts"

const { Buy } = Agents

const stateOf = (id: string) =>
  Effect.flatMap(Tasks.Tasks, ({ status }) =>
    Effect.map(status(id), (found) => Option.getOrThrow(found).state)
  )

onEach(({ layer }) => {
  it.effect("a decision with the key of an earlier doubt does not answer a later one", () => {
    const own = Agents.world()
    // Each payment takes longer than a tool may.
    const before = Effect.suspend(() => (own.looked.length > 0 ? Effect.sleep("1 hour") : Effect.void))
    return Effect.gen(function* () {
      const { decide } = yield* Tasks.Tasks
      const id = yield* Buy.submit({ params: { item: "a book" }, key: "1" })
      const doubt = (attempt: number) =>
        until(
          Effect.map(stateOf(id), (state) => state._tag === "InDoubt" && state.effect.attempt === attempt)
        )
      yield* doubt(1)
      const first = Tasks.decisionKey(yield* stateOf(id)) ?? ""
      assert.strictEqual(first, "buy/1#0.1/turn/2/tool/pay-1")
      const other = yield* Effect.flip(decide(id, { _tag: "DidNot" }, "buy/1#0.1/turn/1/tool/pay-1"))
      assert.deepInclude(other, { _tag: "StaleDecision", waitsFor: first })
      assert.include(other.message, `it waits for a decision about \`${first}\``)
      yield* decide(id, { _tag: "DidNot" }, first)
      yield* doubt(2)
      const second = Tasks.decisionKey(yield* stateOf(id)) ?? ""
      assert.strictEqual(second, `${first}#2`)
      // The same command, sent again.
      const stale = yield* Effect.flip(decide(id, { _tag: "DidNot" }, first))
      assert.deepInclude(stale, { _tag: "StaleDecision", key: first, waitsFor: second })
      yield* decide(id, { _tag: "Happened", result: "paid by hand" }, second)
      const outcome = yield* inTime(Buy.result(id))
      assert.strictEqual(outcome.text, "bought")
      assert.deepInclude(yield* Effect.flip(decide(id, { _tag: "DidNot" }, second)), { _tag: "NotNow" })
    }).pipe(
      Effect.provide(
        Agents.buying.pipe(
          Layer.provide([Agents.model(own), Agents.handlers(own, before)]),
          Layer.provideMerge(layer())
        )
      )
    )
  })
})
