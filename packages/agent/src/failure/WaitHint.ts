/**
 * Reads how long a provider asked to wait.
 *
 * Precedence: `retry-after-ms`, then `retry-after` in seconds or as an HTTP date. A date is read against the
 * response's own `Date`, so that a skewed clock here does not matter; without one it is ignored. Never
 * negative, NaN or infinite; zero means now.
 */
import { Duration } from "effect"

export const fromHeaders = (headers: Readonly<Record<string, string>>): Duration.Duration | undefined =>
  number(headers["retry-after-ms"], 1) ??
  number(headers["retry-after"], 1_000) ??
  date(headers["retry-after"], headers["date"])

const number = (value: string | undefined, unit: number): Duration.Duration | undefined => {
  if (value === undefined || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined
  const millis = Number(value) * unit
  return Number.isFinite(millis) ? Duration.millis(millis) : undefined
}

const date = (value: string | undefined, now: string | undefined): Duration.Duration | undefined => {
  if (value === undefined || now === undefined) return undefined
  const millis = Date.parse(value) - Date.parse(now)
  return Number.isFinite(millis) ? Duration.millis(Math.max(0, millis)) : undefined
}
