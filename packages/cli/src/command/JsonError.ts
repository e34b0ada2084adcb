/**
 * Reports the error of a command: as a sentence on standard error, or with `--json` as one JSON object on standard
 * output, where a program reads the result: `{ "error": { "_tag", "message", ... } }`. The exit code is the same.
 */
import { Console } from "effect"
import type { Effect } from "effect"

interface Reportable {
  readonly _tag: string
  readonly message: string
  /** Facts for programs, e.g. the line of a syntax error. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
}

export const report =
  (command: string, json: boolean) =>
  ({ _tag, message, details }: Reportable): Effect.Effect<void> =>
    json
      ? Console.log(JSON.stringify({ error: { _tag, message, ...details } }))
      : Console.error(`outlast ${command}: ${message}`)
