/** The command was used incorrectly. Printed without a stack, with exit code 2. */
import { Data, Runtime } from "effect"

export class UsageError extends Data.TaggedError("UsageError")<{
  readonly message: string
  /** Facts for programs, printed by `--json`: the line and column of a syntax error, or the path of a wrong field. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
}> {
  override readonly [Runtime.errorExitCode] = 2
  override readonly [Runtime.errorReported] = false
}
