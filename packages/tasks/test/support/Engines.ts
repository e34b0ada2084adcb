/** The engines that every suite of tasks is run on. */
import { Effect, Layer } from "effect"
import { describe } from "vitest"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"

export interface Subject {
  /** A new worker over an empty store. */
  readonly layer: (options?: Tasks.WorkerOptions) => Layer.Layer<Tasks.Tasks | Tasks.Workers, unknown>
}

/** Runs a suite on the engine in memory and on SQLite. */
export const onEach = (suite: (subject: Subject) => void): void => {
  describe("in memory", () => suite({ layer: (options) => Tasks.layerMemory(options) }))
  describe("on SQLite", () =>
    suite({
      layer: (options) =>
        Tasks.layerSqlite({ lock: Effect.void, ...options }).pipe(
          Layer.provide(SqliteClient.layer({ filename: ":memory:" }))
        )
    }))
}
