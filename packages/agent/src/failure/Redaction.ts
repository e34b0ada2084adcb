/**
 * Takes secrets and prompts out of a sentence before an error may carry it.
 *
 * Providers echo what they were sent: a wrong key in a 401, a piece of the prompt in a 400. Known secrets are
 * replaced wherever they stand, strings in the form of a key too, and so is every run of four words that also
 * stands in the prompt.
 */

/** What stands in place of what was taken out. */
export const mask = "[redacted]"

// The forms in which keys are known to appear: vendor prefixes, bearer tokens, long hexadecimal strings.
const keyForms =
  /\b(?:sk|pk|rk|gsk|xai|key|ghp|hf)[-_][A-Za-z0-9*_-]{6,}|\bAIza[0-9A-Za-z_-]{10,}|\bBearer\s+[^\s"',;]+|\b[0-9a-fA-F]{32,}\b/g

/** How many words in a row must stand in the prompt to count as an echo of it. */
const echo = 4

export interface Secrets {
  /** Values that must not appear, for example the key of the attempt. Empty strings are ignored. */
  readonly values?: ReadonlyArray<string>
  /** Texts of the prompt. */
  readonly prompt?: ReadonlyArray<string>
}

/** `text` without the secrets, in one line, cut to `limit` characters. */
export const scrub = (text: string, limit: number, secrets: Secrets = {}): string => {
  let clean = text
  for (const value of secrets.values ?? []) {
    if (value !== "") clean = clean.replaceAll(value, mask)
  }
  clean = clean.replace(keyForms, mask).replace(/\s+/g, " ").trim()
  // Cut before the prompt is searched: the search is linear in the words that are left.
  if (clean.length > limit) clean = `${clean.slice(0, limit - 1)}…`
  return maskEchoes(clean, secrets.prompt ?? [])
}

const maskEchoes = (text: string, prompt: ReadonlyArray<string>): string => {
  if (prompt.length === 0) return text
  const words = text.split(" ")
  const haystack = prompt.map((part) => part.replace(/\s+/g, " "))
  const echoed = new Array<boolean>(words.length).fill(false)
  for (let start = 0; start + echo <= words.length; start++) {
    const run = words.slice(start, start + echo).join(" ")
    if (haystack.some((part) => part.includes(run))) echoed.fill(true, start, start + echo)
  }
  return words
    .map((word, i) => (echoed[i] === true ? mask : word))
    .filter((word, i, all) => word !== mask || all[i - 1] !== mask)
    .join(" ")
}
