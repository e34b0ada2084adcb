/** The tables of docs/internals/decisions/own-breaker.md that compare. */
import { even, rows as breaker } from "./breaker.ts"
import { rows as plan } from "./plan.ts"
import type { Row } from "./Row.ts"

interface Table {
  readonly heads: readonly [string, string]
  readonly rows: ReadonlyArray<Row>
}

const breakers = ["`CircuitBreaker`", "Effect's `CircuitBreaker`"] as const

export const tables: Readonly<Record<string, Table>> = {
  breaker: { heads: breakers, rows: breaker },
  even: { heads: breakers, rows: even },
  plan: { heads: ["Outlast", "Effect"], rows: plan }
}
