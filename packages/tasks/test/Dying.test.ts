/**
 * A process that dies before and after each statement of a task: the next life ends the task once, repeats no
 * finished turn that it knows of, and never begins a payment a second time.
 *
 * A death after a statement leaves the same database as a death before the next one, unless the model or a tool acted in
 * between. Deaths after a statement are tested around these moments only. A run of all tests takes a part of the statements.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, References, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"
import * as Dying from "../../../test/services/Dying.ts"
import * as Agents from "../../../test/tasks/Agents.ts"
import { inTime, until } from "../../../test/tasks/Time.ts"
import * as Sweeps from "../../../test/sweeps.ts"

const { Buy } = Agents
const database = SqliteClient.layer({ filename: ":memory:" })

/** The world is not changed by a process that is dead. */
const process = (own: Agents.World, death: Dying.Death, canAsk: boolean) =>
  Layer.unwrap(
    Effect.map(Dying.Life, ({ isDead, statements }) => {
      const alive = Effect.suspend(() => {
        if (isDead()) return Effect.never
        own.acts.push(statements())
        return Effect.void
      })
      return (canAsk ? Agents.reconciling(own) : Agents.buying).pipe(
        Layer.provide([Agents.model(own, undefined, undefined, alive), Agents.handlers(own, alive)])
      )
    })
  ).pipe(
    Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void, worker: `dies ${death.when} ${death.at}` })),
    Layer.provideMerge(Dying.layer(death))
  )

/** The key of the payment, with the time of its submission. */
const key = /^buy\/1#\d+\.1\/turn\/2\/tool\/pay-1$/

/** Empties the database: a thread for each life would take most of the time. */
const wiped = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ readonly name: string }>`SELECT name FROM sqlite_master
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
  for (const { name } of tables) yield* sql`DROP TABLE ${sql(name)}`
}).pipe(Effect.orDie)

const round = (death: Dying.Death, canAsk: boolean) =>
  Effect.gen(function* () {
    const own = Agents.world()
    const where = `died ${death.when} statement ${death.at}`
    const first = yield* Scope.make()
    let statements = 0
    let wasKilled = true
    yield* Effect.exit(
      Effect.gen(function* () {
        const context = yield* inTime(Layer.buildWithScope(process(own, death, canAsk), first))
        const life = Effect.gen(function* () {
          const { isDead, statements: count } = yield* Dying.Life
          const { status } = yield* Tasks.Tasks
          yield* Effect.exit(inTime(Buy.submit({ params: { item: "a book" }, key: "1" })))
          yield* until(
            Effect.gen(function* () {
              if (isDead()) return true
              const found = yield* Effect.option(status("buy/1"))
              return (
                found._tag === "Some" &&
                found.value._tag === "Some" &&
                found.value.value.state._tag === "Done"
              )
            })
          )
          statements = count()
          wasKilled = isDead()
        })
        yield* Effect.provide(life, context)
      })
    )
    // A killed process does not close its scope in order. A living one does.
    const closing = Scope.close(first, Exit.void)
    yield* wasKilled ? Effect.forkDetach(closing) : inTime(closing)
    // No process starts again in the same millisecond.
    yield* TestClock.adjust("1 millis")
    const paidBefore = own.paid.length
    const outcome = yield* Effect.gen(function* () {
      const { decide, status } = yield* Tasks.Tasks
      const id = yield* inTime(Buy.submit({ params: { item: "a book" }, key: "1" }))
      let wasInDoubt = false
      yield* until(
        Effect.gen(function* () {
          const found = yield* status(id)
          const state = found._tag === "Some" ? found.value.state : undefined
          if (state?._tag === "InDoubt" && !wasInDoubt) {
            wasInDoubt = true
            assert.isFalse(canAsk, `${where}: in doubt, though the shop could be asked`)
            assert.match(state.effect.key, key)
            yield* decide(id, paidBefore > 0 ? { _tag: "Happened", result: "paid" } : { _tag: "DidNot" })
          }
          return state?._tag === "Done"
        })
      )
      const outcome = yield* inTime(Buy.result(id))
      return { outcome, wasInDoubt }
    }).pipe(Effect.provide(process(own, { at: Infinity, when: "before" }, canAsk)), (second) =>
      inTime(second)
    )
    assert.strictEqual(outcome.outcome.text, "bought", where)
    assert.strictEqual(outcome.outcome.turns, 3, where)
    assert.lengthOf(own.paid, 1, `${where}: payments`)
    assert.match(own.paid.join(), key)
    assert.isAtMost(own.asked, 4, `${where}: questions`)
    assert.isAtMost(own.looked.length, 2, `${where}: looks`)
    return { statements, acts: own.acts, wasInDoubt: outcome.wasInDoubt }
  }).pipe(
    Effect.ensuring(inTime(wiped)),
    Effect.provideService(References.MinimumLogLevel, "None"),
    // A clock of its own for each round: fibers of the dead process never wake with it.
    Effect.provide(TestClock.layer())
  )

/** `acts`: statements behind which the model or a tool acted in one life. Another life may count a few more or fewer. */
const deaths = (to: number, acts: ReadonlyArray<number>, canAsk: boolean) =>
  Effect.gen(function* () {
    const isNear = (at: number) => acts.some((act) => Math.abs(act - at) <= Sweeps.full(2, 1))
    const all = Array.from({ length: to }, (_, n) => n + 1)
    const far = Sweeps.everyNth(
      10,
      all.filter((at) => !isNear(at))
    ).map((at) => ({ at, when: "before" }) as const)
    const near = all
      .filter(isNear)
      .flatMap((at) => [{ at, when: "before" } as const, { at, when: "after" } as const])
    let inDoubt = 0
    for (const death of [...far, ...near]) if ((yield* round(death, canAsk)).wasInDoubt) inDoubt++
    return inDoubt
  })

it.effect(
  "ends once and pays once, whichever statement is the last, with a shop that can be asked",
  () =>
    Effect.gen(function* () {
      const { acts, statements } = yield* round({ at: Infinity, when: "before" }, true)
      assert.isAbove(statements, 30)
      assert.isAtLeast(acts.length, 4)
      assert.strictEqual(yield* deaths(statements + 1, acts, true), 0)
    }).pipe(Effect.provide(database)),
  // Some hundred lives: a minute, unless the machine is busy.
  900_000
)

it.effect(
  "pays at most once, whichever statement is the last, and asks a person where it cannot know",
  () =>
    Effect.gen(function* () {
      const { acts, statements } = yield* round({ at: Infinity, when: "before" }, false)
      assert.isAbove(yield* deaths(statements + 1, acts, false), 0)
    }).pipe(Effect.provide(database)),
  120_000
)
