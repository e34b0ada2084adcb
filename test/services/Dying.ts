/** A `SqlClient` whose process dies before or after its n-th statement: nothing works from then on. */
import { Context, Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlConnection } from "effect/sql"
import { SqlClient, SqlError, Statement } from "effect/sql"

export interface Death {
  /** 1 is the first statement. Infinity: it lives. */
  readonly at: number
  readonly when: "before" | "after"
}

/** The known facts of such a client. */
export class Life extends Context.Service<
  Life,
  { readonly statements: () => number; readonly isDead: () => boolean }
>()("test/Life") {}

/** Over a client that lives on: the next life uses the same database. */
export const layer = (death: Death): Layer.Layer<SqlClient.SqlClient | Life, never, SqlClient.SqlClient> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const inner = yield* SqlClient.SqlClient
      let statements = 0
      let dead = false
      const gone = new SqlError.SqlError({
        reason: new SqlError.ConnectionError({ message: "died", cause: "died" })
      })
      const step = (run: Effect.Effect<unknown, unknown, unknown>) =>
        Effect.suspend(() => {
          if (dead) return Effect.fail(gone)
          const own = ++statements
          if (own === death.at && death.when === "before") {
            dead = true
            return Effect.fail(gone)
          }
          return own === death.at
            ? Effect.andThen(
                Effect.exit(run),
                Effect.suspend(() => {
                  dead = true
                  return Effect.fail(gone)
                })
              )
            : run
        })
      const wrap = (connection: SqlConnection.Connection): SqlConnection.Connection =>
        new Proxy(connection, {
          get: (target, name) => {
            const found: unknown = Reflect.get(target, name)
            if (typeof found !== "function" || name === "executeStream") return found
            return (...args: ReadonlyArray<unknown>) => step(Reflect.apply(found, target, args))
          }
        })
      // A dead process holds no transaction: the server, here the scope of the lease, ends it.
      const acquirer = Effect.map(
        Effect.tap(inner.reserve, (connection) =>
          Effect.addFinalizer(() =>
            dead ? Effect.ignore(connection.executeUnprepared("ROLLBACK", [], undefined)) : Effect.void
          )
        ),
        wrap
      )
      const client = yield* SqlClient.make({
        acquirer,
        compiler: Statement.makeCompilerSqlite(),
        driver: "dying",
        spanAttributes: [],
        beginTransaction: "BEGIN IMMEDIATE",
        // A rollback on a dead connection would be a defect, and nothing is left to roll back.
        isTransaction: () => !dead
      })
      return Context.make(SqlClient.SqlClient, client).pipe(
        Context.add(Life, { statements: () => statements, isDead: () => dead })
      )
    }).pipe(Effect.provide(Reactivity.layer))
  )
