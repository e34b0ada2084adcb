/** The default policy with waits of a millisecond, for tests over real HTTP. */
import { Duration, Record } from "effect"
import { RecoveryPolicy } from "@outlast/agent"

export const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  rows: Record.map(RecoveryPolicy.interactive.rows, (row) => ({
    ...row,
    backoff:
      row.backoff._tag === "Exponential"
        ? { ...row.backoff, initial: Duration.millis(1), cap: Duration.millis(1) }
        : row.backoff
  }))
}
