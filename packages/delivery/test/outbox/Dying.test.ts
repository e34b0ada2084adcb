/**
 * A process that dies before and after every single statement of a life full of events: whatever was accepted is
 * delivered by the next life, in order, or is a dead letter. A run of all tests takes a part of the statements.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node/sqlite"
import { DeadLetters, DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import * as Dying from "../../../../test/services/Dying.ts"
import * as Sweeps from "../../../../test/sweeps.ts"
import { answer, event, rejected, setBus, turn } from "../support/outboxes.ts"

/** What a life has been told: its events by subject, in order. */
type Accepted = Map<string, Array<string>>

const life = (accepted: Accepted) =>
  Effect.gen(function* () {
    const { isDead } = yield* Dying.Life
    const sql = yield* SqlClient.SqlClient
    const { publish, publishIn, flush, sweep } = yield* Outbox.Outbox
    const { replay } = yield* DeadLetters.DeadLetters
    const said = <E, R>(id: string, subject: string, result: Effect.Effect<unknown, E, R>) =>
      Effect.map(Effect.exit(result), (exit) => {
        if (Exit.isSuccess(exit)) accepted.set(subject, [...(accepted.get(subject) ?? []), id])
      })
    const put = (id: string, subject = "a") => said(id, subject, publish(event(id, subject)))
    const settle = Effect.gen(function* () {
      const flushing = yield* Effect.forkChild(flush("20 seconds"), { startImmediately: true })
      for (let i = 0; i < 400 && !isDead() && flushing.pollUnsafe() === undefined; i++) {
        yield* turn
        if (i % 20 === 19) yield* TestClock.adjust("1 second")
      }
    })

    yield* put("1")
    yield* setBus("down")
    yield* put("2")
    yield* Effect.all([put("3"), put("4", "b"), put("5", "b")], { concurrency: "unbounded" })
    yield* said("6", "c", sql.withTransaction(publishIn(event("6", "c"))))
    yield* Effect.exit(
      sql.withTransaction(Effect.andThen(publishIn(event("no", "c")), Effect.fail("rolled back")))
    )
    yield* setBus("up")
    yield* settle
    yield* answer(({ id }) => (id === "bad" ? { error: rejected(true) } : undefined))
    yield* put("bad", "d")
    yield* put("7", "d")
    yield* settle
    yield* answer(() => undefined)
    yield* Effect.exit(replay({}))
    yield* Effect.exit(sweep)
    yield* settle
    yield* put("8")
  })

/** An outbox of a process that dies as told, or that lives. */
const process = (death: Dying.Death, prefix: string) =>
  Outbox.layer({ publisher: "one", circuit: { trip: { consecutive: { failures: 1_000 } } } }).pipe(
    Layer.provideMerge(DeadLetters.layer),
    Layer.provideMerge(DeliveryStore.layerSql({ prefix })),
    Layer.provideMerge(Dying.layer(death))
  )

let prefixes = 0

const round = (death: Dying.Death) =>
  Effect.gen(function* () {
    const prefix = `dying_${++prefixes}`
    const accepted: Accepted = new Map()
    // Killed: its scope is never closed in order, and its fibers end with it.
    const first = yield* Scope.make()
    let statements = 0
    yield* Effect.exit(
      Effect.gen(function* () {
        const context = yield* Layer.buildWithScope(process(death, prefix), first)
        yield* Effect.provide(life(accepted), context)
        statements = (yield* Effect.provide(Dying.Life, context)).statements()
      })
    )
    yield* Scope.close(first, Exit.void)
    const { stored } = yield* MemoryBus.MemoryBus
    yield* setBus("up")
    const dead = yield* Effect.gen(function* () {
      const { totals } = yield* DeliveryStore.DeliveryStore
      const { list } = yield* DeadLetters.DeadLetters
      for (let i = 0; i < 2_000 && (yield* totals).events > 0; i++) {
        yield* turn
        if (i % 20 === 19) yield* TestClock.adjust("1 second")
      }
      assert.strictEqual((yield* totals).events, 0)
      return (yield* list()).map(({ id }) => id)
    }).pipe(Effect.provide(process({ at: Infinity, when: "before" }, prefix)))
    const where = `died ${death.when} statement ${death.at}`
    const delivered = (yield* stored).map(({ event }) => event)
    for (const [subject, ids] of accepted) {
      const inOrder = [...new Set(delivered.filter((one) => one.subject === subject).map(({ id }) => id))]
      for (const id of ids) {
        assert.isTrue(inOrder.includes(id) || dead.includes(id), `${where}: ${id} is lost`)
      }
      const known = inOrder.filter((id) => ids.includes(id) && id !== "bad")
      assert.deepStrictEqual(
        known,
        ids.filter((id) => known.includes(id)),
        `${where}: order of ${subject}`
      )
    }
    assert.isFalse(
      delivered.some(({ id }) => id === "no"),
      `${where}: a rolled back event was published`
    )
    return { statements, accepted: [...accepted.values()].flat().length }
  }).pipe(Effect.provide(MemoryBus.layer()))

it.effect(
  "loses nothing, whichever statement is its last",
  () =>
    Effect.gen(function* () {
      const whole = yield* round({ at: Infinity, when: "before" })
      assert.strictEqual(whole.accepted, 9)
      assert.isAbove(whole.statements, 40)
      let accepted = 0
      const deaths = Array.from({ length: whole.statements }, (_, n) => n + 1).flatMap((at) => [
        { at, when: "before" } as const,
        { at, when: "after" } as const
      ])
      const some = Sweeps.everyNth(3, deaths)
      for (const death of some) accepted += (yield* round(death)).accepted
      assert.isAbove(accepted, some.length / 2)
    }).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" }))),
  // Some hundred lives of a few milliseconds: seconds, unless the machine is busy.
  180_000
)
