/**
 * What code of the user may do beside what it is asked for: print, fail later, or end the process. What it prints goes
 * to standard error, for standard output is the report's; what fails later is told; the end of the process is no
 * success of doctor.
 *
 * **What it does not do.** It cannot tell which file it was when two of them still have something under way.
 */
import { writeSync } from "node:fs"
import { Effect } from "effect"

export interface Watched<A> {
  readonly value: A
  /** What was thrown or rejected, and nobody has caught. */
  readonly uncaught: ReadonlyArray<unknown>
}

/** Runs what loads and examines a file. */
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
          `outlast doctor: ${file} ends the process when it is loaded: put its tools into a module of their own.\n`
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
      // A rejection is known to be nobody's only when all else has had its turn.
      Effect.map(Effect.tap(run, Effect.yieldNow), (value) => ({ value, uncaught })),
    ({ release }) => Effect.sync(release)
  )
