import { Console, Data, Effect, Runtime } from "effect"
import { UsageError } from "./UsageError.ts"

/** The run ended without success, and has been reported. */
export class Unsuccessful extends Data.TaggedError("Unsuccessful")<{}> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

/** A store that fails is no mistake in the arguments: it ends with 1. */
export const reported = <E extends { readonly message: string }, R>(
  effect: Effect.Effect<boolean, E, R>,
  command: string
) =>
  effect.pipe(
    Effect.tapError((error) => Console.error(`outlast ${command}: ${error.message}`)),
    Effect.mapError((error) => (error instanceof UsageError ? error : new Unsuccessful())),
    Effect.flatMap((done) => (done ? Effect.void : new Unsuccessful()))
  )
