/** Patterns of call starts. Each pattern has a text form: `4/s for 150s`, `60 at once`, `2500 by 64`. */

/** Calls at a steady rate. */
export interface Phase {
  readonly perSecond: number
  readonly seconds: number
}

export type Arrivals =
  | { readonly _tag: "Rate"; readonly phases: ReadonlyArray<Phase> }
  | { readonly _tag: "AtOnce"; readonly calls: number }
  /** `together` calls are in flight at any time; each one that ends starts the next. */
  | { readonly _tag: "Together"; readonly calls: number; readonly together: number }

/** The patterns of the table. */
export const patterns: ReadonlyArray<string> = [
  "1/s for 120s",
  "4/s for 150s",
  "20/s for 60s",
  "60 at once",
  "200 at once",
  "2500 by 64"
]

/** Parses a pattern; `undefined` for any other text. Phases follow each other: `4/s for 60s, 12/min for 600s`. */
export const parse = (text: string): Arrivals | undefined => {
  const [, calls, together] = /^\s*([1-9]\d{0,5}) (?:at once|by ([1-9]\d{0,3}))\s*$/.exec(text) ?? []
  if (together !== undefined) return { _tag: "Together", calls: Number(calls), together: Number(together) }
  if (calls !== undefined) return { _tag: "AtOnce", calls: Number(calls) }
  const phases: Array<Phase> = []
  for (const part of text.split(",")) {
    const [, count, unit, seconds] =
      /^\s*(\d{1,4}(?:\.\d+)?)\/(s|min) for ([1-9]\d{0,4})s\s*$/.exec(part) ?? []
    if (count === undefined || Number(count) === 0) return undefined
    phases.push({ perSecond: Number(count) / (unit === "s" ? 1 : 60), seconds: Number(seconds) })
  }
  return { _tag: "Rate", phases }
}

/** The start of each call, in milliseconds. */
export const times = (phases: ReadonlyArray<Phase>): ReadonlyArray<number> => {
  let begin = 0
  return phases.flatMap(({ perSecond, seconds }) => {
    const from = begin
    begin += seconds * 1_000
    // Rates per minute are not exact.
    return Array.from({ length: Math.floor(perSecond * seconds + 1e-9) }, (_, i) =>
      Math.floor(from + (i * 1_000) / perSecond + 1e-6)
    )
  })
}
