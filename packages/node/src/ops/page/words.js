// Words for states, reasons and times.

/** @param {number} millis */
export const seconds = (millis) => {
  const s = Math.max(0, millis) / 1000
  if (s < 10) return `${s.toFixed(1)} s`
  if (s < 120) return `${Math.round(s)} s`
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`
}

/** How long something took. @param {number} millis */
export const took = (millis) => (millis < 1000 ? `${Math.round(millis)} ms` : seconds(millis))

/** The time of day, where the reader is. @param {number} at */
export const clock = (at) => new Date(at).toTimeString().slice(0, 5)

/** @type {Record<string, string>} */
const waitWords = {
  backoff: "before it asks the same target again",
  cooldown: "because all targets are out",
  circuit: "for a circuit to let a probe through",
  limit: "for its turn within the known limits",
  health: "for a health check",
  key: "for a key to be refreshed",
  budget: "for the retry budget"
}

/** @param {string | undefined} reason */
export const waitOf = (reason) => waitWords[reason ?? ""] ?? reason ?? ""

/** @type {Record<string, string>} */
const colours = {
  answered: "good",
  recovered: "good",
  ready: "good",
  closed: "good",
  completed: "good",
  done: "good",
  Done: "good",
  empty: "good",
  slow: "busy",
  stored: "busy",
  running: "busy",
  Running: "busy",
  Queued: "busy",
  Retrying: "busy",
  waiting: "busy",
  retrying: "busy",
  cooling: "busy",
  "failed last": "busy",
  "circuit open": "busy",
  open: "busy",
  "half-open": "busy",
  WaitingUntil: "busy",
  replayed: "weak",
  over: "weak",
  overtaken: "weak",
  note: "weak",
  abandoned: "weak",
  interrupted: "weak"
}

/** The class of a word. A word that is not known needs a look. @param {string} word */
export const colourOf = (word) => colours[word] ?? "bad"

/** The sign of a class: a colour alone says nothing to some readers. @type {Record<string, string>} */
export const signs = { good: "✓", busy: "◔", warn: "!", bad: "✗", weak: "–" }

/** `RateLimit` as `rate limit`. @param {string} tag */
export const plain = (tag) => tag.replaceAll(/([a-z])(?=[A-Z])/g, "$1 ").toLowerCase()

/** @param {{ reason?: string, status?: number, rule?: string }} failure */
export const failureOf = ({ reason, rule, status }) =>
  reason === undefined
    ? ""
    : `${plain(reason)}${status === undefined ? "" : ` (HTTP ${status})`}${rule === undefined ? "" : ` · rule ${rule}`}`

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`
