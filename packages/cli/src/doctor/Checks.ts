/** What doctor looked at: each area is fine, or has problems. Pure. */
import type { Problem } from "./Problem.ts"

export type Area =
  | "node"
  | "clock"
  | "configuration"
  | "routes"
  | "callers"
  | "keys"
  | "tools"
  | "stores"
  | "streams"
  | "lock"
  | "ports"
  | "program"

/** One finding. */
export interface Check {
  readonly area: Area
  readonly level: "ok" | Problem["level"]
  readonly file: string | null
  readonly message: string
}

/** The findings of one thing: its problems, or one that says it is fine. */
export const of = (
  area: Area,
  problems: ReadonlyArray<Problem>,
  fine: string,
  file: string | null = null
): ReadonlyArray<Check> =>
  problems.length === 0
    ? [{ area, level: "ok", file, message: fine }]
    : problems.map((problem) => ({ area, ...problem }))

export const problemsOf = (checks: ReadonlyArray<Check>): ReadonlyArray<Problem> =>
  checks.flatMap(({ file, level, message }) => (level === "ok" ? [] : { level, file, message }))
