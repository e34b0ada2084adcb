/** The service cannot start on this machine, which is no wrong use of the command. */
import { Data, Runtime } from "effect"

export class StartFailed extends Data.TaggedError("StartFailed")<{
  readonly message: string
  readonly exitCode: number
}> {
  override readonly [Runtime.errorExitCode] = this.exitCode
  override readonly [Runtime.errorReported] = false
}
