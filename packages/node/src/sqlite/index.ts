/** A SQLite database in a worker thread, as a `SqlClient` of `effect/sql`. */
export * as SqliteClient from "./SqliteClient.ts"
