/**
 * Contains the side effects of user code while it is loaded and examined: output, uncaught failures, and
 * `process.exit`.
 *
 * Output goes to standard error, because standard output holds the report. Uncaught failures are collected. A module
 * that ends the process makes the exit code 1.
 *
 * **Limits.** When failures of two files overlap, the file that caused one is not known.
 */
import { writeSync } from "node:fs"
import { Effect } from "effect"

export interface Watched<A> {
  readonly value: A
  /** Errors that were thrown or rejected and never caught. */
  readonly uncaught: ReadonlyArray<unknown>
}

/** Runs the effect that loads and examines a file. */
export const watch = <A, E, R>(file: string, run: Effect.Effect<A, E, R>): Effect.Effect<Watched<A>, E, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const uncaught: Array<unknown> = []
      const heard = (error: unknown): void => {
        uncaught.push(error)
      }
      const { stdout, stderr } = process
      const { write } = stdout
      const ended = (): void => {
        process.exitCode = 1
        writeSync(
          2,
          `outlast doctor: ${file} ends the process when it is loaded: put its tools into a separate module.\n`
        )
      }
      stdout.write = stderr.write.bind(stderr)
      process.on("uncaughtException", heard)
      process.on("exit", ended)
      return {
        uncaught,
        release: () => {
          stdout.write = write
          process.off("uncaughtException", heard)
          process.off("exit", ended)
        }
      }
    }),
    ({ uncaught }) =>
      // A rejection counts as uncaught only after all other code has had its turn.
      Effect.map(Effect.tap(run, Effect.yieldNow), (value) => ({ value, uncaught })),
    ({ release }) => Effect.sync(release)
  )
