/**
 * Reads the time at which a limit ends from a sentence: a date, a time of day with its zone, an ISO instant or an epoch.
 * Pure.
 *
 * All zones differ by quarters of an hour. A time of day without a zone is therefore read as the next time with the
 * same minute of a quarter. This is never later than meant: a call that comes too early costs one request, a target
 * that rests too long costs more. A date without a zone is UTC, in a Chinese sentence China's.
 */

const monthNames = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ")
const month = `(${monthNames.join("|")})[a-z]*\\.?`
const day = "(\\d{1,2})(?:st|nd|rd|th)?"
const zone = " ?\\(?(utc|gmt|z\\b|[a-z_]+/[a-z_]+(?:/[a-z_]+)?)?\\)?"
const clock = "(\\d{1,2})(?::(\\d{2}))?(?::\\d{2})? ?(am|pm)?"

const iso = /^(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?( ?(?:z|utc|gmt|[+-]\d\d:?\d\d))?/
const epoch = /^(?:\d{10}|\d{13})(?!\d)/
const dated = new RegExp(
  `^(?:${month} ${day}|${day} ${month})(?:,? (\\d{4}))?(?:,? (?:at )?${clock}${zone})?`
)
const timed = new RegExp(`^${clock}${zone}`)

/** Words that introduce the time. */
const lead =
  /(?:resets?|resetting|renews?|available|(?:try|come|check) (?:again|back)|retry|until|ends|expires|refreshes|reached\||将[在于])(?: again)?(?: at| on| after)?:? ?/g

/** A lower-cased text that names the time at which a limit ends, in any form. */
export const named = new RegExp(
  `${lead.source}(?:\\d{10}|\\d{1,4}(?::\\d\\d|-\\d\\d-\\d\\d| ?[ap]m\\b| (?:de )?${month})|${month} \\d)`
)

/** Milliseconds from `now` (milliseconds since 1970) to the first time that a lower-cased text names; at least 0. */
export const until = (text: string, now: number): number | undefined => {
  for (const { 0: words, index } of text.matchAll(lead)) {
    const rest = text.slice(index + words.length, index + words.length + 60)
    const at = ofIso(rest, words) ?? ofEpoch(rest) ?? ofDate(rest, now) ?? ofTime(rest, now)
    if (at !== undefined && Number.isFinite(at)) return Math.max(0, at - now)
  }
  return undefined
}

const ofIso = (text: string, words: string): number | undefined => {
  const local = words.startsWith("将") ? "+08:00" : "z"
  const [, date, time = "00:00", zone = local] = iso.exec(text) ?? []
  const offset = /[+-]/.test(zone) ? zone.trim() : "Z"
  return date === undefined ? undefined : Date.parse(`${date}T${time}${offset}`)
}

const ofEpoch = (text: string): number | undefined => {
  const found = epoch.exec(text)?.[0]
  return found === undefined ? undefined : Number(found.padEnd(13, "0"))
}

const ofDate = (text: string, now: number): number | undefined => {
  const found = dated.exec(text)
  if (found === null) return undefined
  const [, name = found[4], date = found[3], , , year, hours, minutes, half, zone] = found
  const of = (year: number) =>
    instant(
      [year, monthNames.indexOf(name ?? ""), Number(date), hourOf(hours, half), Number(minutes ?? 0)],
      zone
    )
  if (year !== undefined) return of(Number(year))
  const at = of(new Date(now).getUTCFullYear())
  // A day that is long past is one of next year.
  return at > now - 180 * dayLength ? at : of(new Date(now).getUTCFullYear() + 1)
}

const ofTime = (text: string, now: number): number | undefined => {
  const [, hours, minutes = "0", half, zone] = timed.exec(text) ?? []
  if (hours === undefined) return undefined
  if (zone === undefined) {
    const minute = (Number(minutes) * 60_000 - now) % quarter
    return half === undefined ? undefined : now + ((minute + quarter) % quarter)
  }
  const today = new Date(now + offsetOf(zone, now))
  const at = instant(
    [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate(), hourOf(hours, half), Number(minutes)],
    zone
  )
  return at > now ? at : at + dayLength
}

const quarter = 15 * 60 * 1_000
const dayLength = 24 * 60 * 60 * 1_000

const hourOf = (hours = "0", half: string | undefined): number =>
  half === undefined ? Number(hours) : (Number(hours) % 12) + (half === "pm" ? 12 : 0)

const instant = (
  parts: readonly [number, number, number, number, number],
  zone: string | undefined
): number => {
  const at = Date.UTC(...parts)
  return at - offsetOf(zone, at)
}

/** Milliseconds by which the clocks of a zone are ahead of UTC; `NaN` for a name that is no zone, as in "60 requests/minute". */
const offsetOf = (zone: string | undefined, at: number): number => {
  if (zone === undefined || !zone.includes("/") || !Number.isFinite(at)) return 0
  try {
    const local = new Date(at).toLocaleString("sv-SE", { timeZone: zone })
    return Date.parse(`${local.replace(" ", "T")}Z`) - Math.floor(at / 1_000) * 1_000
  } catch {
    return Number.NaN
  }
}
