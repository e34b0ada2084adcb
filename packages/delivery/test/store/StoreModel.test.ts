/** Random commands against a pure model and each store: the answers are the same, also after the store is reopened. */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { DeliveryStore } from "@outlast/delivery"
import * as Model from "../support/StoreModel.ts"
import { onEach } from "../support/Stores.ts"
import type { Subject } from "../support/Stores.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

type Command =
  | { readonly do: "insert"; readonly publisher: string; readonly ids: ReadonlyArray<string> }
  | { readonly do: "insertIn"; readonly publisher: string; readonly id: string; readonly commits: boolean }
  | {
      readonly do: "read"
      readonly owned: ReadonlyArray<string>
      readonly subject: string
      readonly limit: number
      readonly then: "nothing" | "ack" | "reject" | "bury"
    }
  | { readonly do: "buryOldest"; readonly count: number }
  | { readonly do: "replay" | "purge"; readonly subject: string | undefined }
  | { readonly do: "hold" | "forget"; readonly publisher: string; readonly holder: string }
  | { readonly do: "beat" | "claim" | "release"; readonly holder: string }
  | { readonly do: "subjects"; readonly publisher: string }
  | { readonly do: "totals" | "oldest" | "letters" | "reopen" }

const publisher = fc.constantFrom("p", "q", "r")
const holder = fc.constantFrom("one", "two")
const subjects = ["s.a", "s.b", "s.c"]
const subject = fc.constantFrom(...subjects)
const id = fc
  .tuple(fc.integer({ min: 0, max: 9 }), fc.constantFrom("a", "b", "c"))
  .map(([n, letter]) => `${n}${letter}`)

const kind = <const D extends Command["do"]>(name: D) => fc.constant(name)

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: kind("insert"),
      publisher,
      ids: fc.array(id, { minLength: 1, maxLength: 6 })
    })
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: kind("insertIn"), publisher, id, commits: fc.boolean() })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: kind("read"),
      owned: fc.subarray(["p", "q", "r", "replay"], { minLength: 1 }),
      subject,
      limit: fc.integer({ min: 1, max: 4 }),
      then: fc.constantFrom(
        "nothing" as const,
        "ack" as const,
        "ack" as const,
        "reject" as const,
        "bury" as const
      )
    })
  },
  fc.record({ do: kind("buryOldest"), count: fc.integer({ min: 1, max: 4 }) }),
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("replay" as const, "replay" as const, "purge" as const),
      subject: fc.option(subject, { nil: undefined })
    })
  },
  fc.record({ do: fc.constantFrom("hold" as const, "forget" as const), publisher, holder }),
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("beat" as const, "claim" as const, "release" as const),
      holder
    })
  },
  fc.record({ do: kind("subjects"), publisher }),
  fc.record({
    do: fc.constantFrom("totals" as const, "oldest" as const, "letters" as const, "reopen" as const)
  })
)

const idsOf = (all: ReadonlyArray<{ readonly id: string }>) => all.map(({ id }) => id)

const carryOut = (commands: ReadonlyArray<Command>, { isSql }: Subject, prefix: string) =>
  Effect.gen(function* () {
    let store = yield* DeliveryStore.DeliveryStore
    const sql = yield* SqlClient.SqlClient
    let model = Model.empty

    const same = (actual: unknown, expected: unknown, what: string) =>
      assert.deepStrictEqual(actual, expected, what)
    const read = Effect.fnUntraced(function* (command: Extract<Command, { readonly do: "read" }>) {
      const { owned, subject, limit } = command
      const rows = yield* store.head(owned, subject, limit)
      const expected = Model.head(model, owned, subject, limit)
      same(
        rows.map(({ id, brokerId, rejections, body }) => ({
          id,
          brokerId,
          rejections,
          body: new TextDecoder().decode(body)
        })),
        expected.map(({ id, brokerId, rejections }) => ({ id, brokerId, rejections, body: id.repeat(3) })),
        "head"
      )
      const [first] = rows
      if (first === undefined) return
      switch (command.then) {
        case "ack":
          yield* store.remove(rows.map(({ seq }) => seq))
          model = Model.remove(model, idsOf(rows))
          break
        case "reject":
          yield* store.rejected(first.seq, first.rejections + 1, "no")
          model = Model.rejected(model, first.id)
          break
        case "bury": {
          const why = { reason: "rejected" as const, detail: "no", at: 2_000 }
          same((yield* store.bury({ seqs: [first.seq] }, why)).events, 1, "bury")
          model = Model.bury(model, [first.id], "rejected")
          break
        }
        case "nothing":
      }
    })
    /** Repetitions of events are recognised when something reads. */
    const reads = Effect.suspend(() => store.subjects("p", 1))
    const look = Effect.gen(function* () {
      yield* reads
      const { events, bytes, dead } = yield* store.totals
      same(
        { events, bytes, dead },
        {
          events: model.rows.length,
          bytes: model.rows.length * 11,
          dead: Model.meant(model, undefined).length
        },
        "totals"
      )
      same(Option.isSome(yield* store.oldest), model.rows.length > 0, "oldest")
      const letters = yield* store.listDead({ replayed: true }, { limit: 1_000 })
      same(
        letters.map(({ id, number, reason, attempts, state, replays, history }) => ({
          id,
          number,
          reason,
          attempts,
          state,
          replays,
          history: history.map(({ what }) => what)
        })),
        model.letters.toReversed(),
        "letters"
      )
      for (const subject of subjects) {
        const all = ["p", "q", "r", "replay"]
        same(
          idsOf(yield* store.head(all, subject, 100)),
          idsOf(Model.head(model, all, subject, 100)),
          `all of ${subject}`
        )
      }
    })

    for (const command of commands) {
      switch (command.do) {
        case "insert":
          yield* store.insert(command.publisher, command.ids.map(Model.newRow))
          model = Model.insert(model, command.publisher, command.ids.map(Model.newRow))
          break
        case "insertIn": {
          let ran = 0
          const row = Model.newRow(command.id)
          const insert = store.insertIn(
            command.publisher,
            row,
            Effect.sync(() => void ran++)
          )
          const end = command.commits ? Effect.void : Effect.fail("rolled back")
          const exit = yield* Effect.exit(sql.withTransaction(Effect.andThen(insert, end)))
          same([Exit.isSuccess(exit), ran], command.commits ? [true, 1] : [false, 0], "insertIn")
          if (command.commits) model = Model.insert(model, command.publisher, [row])
          break
        }
        case "read":
          yield* read(command)
          break
        case "buryOldest": {
          const oldest = idsOf(model.rows.slice(0, command.count))
          const why = { reason: "shed" as const, detail: "full", at: 3_000 }
          same(idsOf((yield* store.bury({ oldest: command.count }, why)).which), oldest, "buryOldest")
          model = Model.bury(model, oldest, "shed")
          break
        }
        case "replay": {
          const taken = Model.meant(model, command.subject)
          const replayed = yield* store.replayDead({ subject: command.subject }, 100, {
            at: 4_000,
            by: "test"
          })
          same(idsOf(replayed), idsOf(taken), "replay")
          model = Model.replay(model, command.subject)
          break
        }
        case "purge":
          same(
            yield* store.purgeDead({ subject: command.subject }),
            Model.meant(model, command.subject).length,
            "purge"
          )
          model = Model.purge(model, command.subject)
          break
        case "hold":
          yield* store.hold(command.publisher, command.holder)
          model = Model.hold(model, command.publisher, command.holder)
          break
        case "forget":
          yield* reads
          yield* store.forget(command.publisher, command.holder)
          model = Model.forget(model, command.publisher, command.holder)
          break
        case "beat":
          same(
            (yield* store.beat(command.holder)).toSorted(),
            Model.held(model, command.holder).toSorted(),
            "beat"
          )
          model = Model.beat(model, command.holder)
          break
        case "claim": {
          yield* reads
          const [expected, noted] = Model.others(model, command.holder)
          const seen = yield* store.others(command.holder)
          same(seen, expected, "others")
          model = noted
          const [first] = seen
          if (first === undefined) break
          // The second claim of what was seen once is too late.
          for (let i = 0; i < 2; i++) {
            const [isTaken, next] = Model.claim(model, first, command.holder)
            same(yield* store.claim(first, command.holder), isTaken, "claim")
            model = next
          }
          break
        }
        case "release":
          yield* reads
          yield* store.release(command.holder)
          model = Model.release(model, command.holder)
          break
        case "subjects": {
          const own = model.rows.filter((row) => row.publisher === command.publisher)
          const expected = [...new Set(own.map((row) => Model.subjectOf(row.id)))].toSorted()
          same((yield* store.subjects(command.publisher, 100)).toSorted(), expected, "subjects")
          break
        }
        case "totals":
          yield* reads
          same((yield* store.totals).events, model.rows.length, "totals")
          break
        case "oldest":
          same(Option.isSome(yield* store.oldest), model.rows.length > 0, "oldest")
          break
        case "letters":
          same(yield* store.countDead({}), Model.meant(model, undefined).length, "countDead")
          break
        case "reopen":
          // Memory has nothing to reopen.
          if (isSql) {
            const context = yield* Layer.build(DeliveryStore.layerSql({ prefix }))
            store = Context.get(context, DeliveryStore.DeliveryStore)
          }
      }
    }
    yield* look
  })

let prefixes = 0

onEach((subject) => {
  it("answers random commands as the model does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 20, maxLength: 80 }), (commands) => {
        const prefix = `model_${++prefixes}`
        return carryOut(commands, subject, prefix).pipe(
          Effect.provide(subject.layer({ prefix })),
          Effect.scoped,
          Effect.runPromise
        )
      }),
      { numRuns: Sweeps.runs(40), interruptAfterTimeLimit: 90_000, markInterruptAsFailure: true }
    )
  }, 120_000)
})
