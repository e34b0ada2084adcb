/** Moments as people write them: `30m` for half an hour ago, or a date. Pure. */

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Unix time in milliseconds; `undefined` for a text that is neither an age nor a date. */
export const parse = (text: string, now: number): number | undefined => {
  const age = /^(\d{1,9})([smhd])$/.exec(text)
  const unit = units[age?.[2] ?? ""]
  if (age !== null && unit !== undefined) return now - Number(age[1]) * unit
  // Only what begins with a year: `Date.parse` takes "1" for a date.
  const date = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}
