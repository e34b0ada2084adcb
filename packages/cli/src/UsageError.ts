/** The command was used incorrectly. Printed without a stack, with exit code 2. */
import { Data, Runtime } from "effect"

export class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {
  override readonly [Runtime.errorExitCode] = 2
  override readonly [Runtime.errorReported] = false
}
