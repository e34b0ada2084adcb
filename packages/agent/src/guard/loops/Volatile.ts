/**
 * Recognises values that differ on every call by their format: times, durations and generated ids. Pure.
 *
 * **What it does not do.** A plain number is never volatile, because it may be progress.
 */

/** `2026-01-01T10:00:00Z`, `10:00:00.123`, and epoch seconds or milliseconds. */
const moment =
  /^(?:\d{4}-\d\d-\d\d[T_])?\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?(?:[+-]\d\d:?\d\d)?$|^1[5-9]\d{8}(?:\d{3}|\.\d+)?$/

/** `12ms`, `3.2s`, `1m20s`. */
const duration = /^(?:\d+(?:\.\d+)?(?:ns|us|ms|s|secs?|m|min|h))+$/

/** A unit of time after a number: `3.2 s`, `5 minutes`. */
const unit = /^ (?:ns|us|ms|s|secs?|seconds?|milliseconds?|mins?|minutes?|hours?|h)\b/

/** Characters of the longest unit. */
const maxUnit = 14

/** Name of a field with milliseconds: `elapsed_ms`, `tookMs`. */
const milliseconds = /(?:_ms|Ms|Millis)$/

const uuid = /(?:^|_)[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

/** Reference of a page element: `e484`. */
const reference = /^[a-z]\d{2,}$/

/** Minimum length of a token part that can be a generated id. */
const minId = 5

const isMixed = /\d[a-z]|[a-z]\d/i
const hex = /^[\da-f]+$/
/** Digits and letters alternate at least twice. */
const alternating = /\d[a-z]+\d|[a-z]\d+[a-z]/i

/** True for a point in time, to the minute or more exact. */
export const isMoment = (token: string): boolean => token.length > 3 && moment.test(token)

/** True for a token with a digit whose value carries no information. `start` and `end` are its position in the text. */
export const isVolatile = (text: string, start: number, end: number): boolean => {
  const token = text.slice(start, end)
  return (
    (token.length > 1 &&
      (isMoment(token) ||
        reference.test(token) ||
        duration.test(token) ||
        uuid.test(token) ||
        isId(token))) ||
    (text.charCodeAt(end) === blank && unit.test(text.slice(end, end + maxUnit)))
  )
}

/** Milliseconds of a point in time, or `NaN`. A time without a date is on the first day. */
export const millis = (token: string): number => {
  if (/^\d{9}/.test(token)) return Number(token) * (/^\d{10}(?!\d)/.test(token) ? 1_000 : 1)
  return Date.parse(/^\d{4}-/.test(token) ? token.replace("_", "T") : `1970-01-01T${token}Z`)
}

/** Number of a created thing: `OPS-1042`. Its field may also say so: `ticket_id`. */
export const key = /^[A-Z][A-Z\d]*-\d+$/
export const keyField = /(?:^|_)(?:id|key)$|[a-z](?:Id|ID|Key)$/

/** True for the name of a field whose number is a duration. */
export const isDuration = (field: string): boolean => milliseconds.test(field)

/** True when a part mixes digits and letters (`req_8f3a9c2e`, `btn-bfd78`), except for `v2` or `sha256`. */
const isId = (token: string): boolean =>
  token.length >= minId &&
  isMixed.test(token) &&
  token
    .split(/[-.:_+]/)
    .some((part) => part.length >= minId && isMixed.test(part) && (hex.test(part) || alternating.test(part)))

const blank = 32
