/**
 * Takes secrets and prompts out of a sentence before an error may carry it.
 *
 * Providers echo what they were sent: a wrong key in a 401, a piece of the prompt in a 400, plain or in the
 * escapes of JSON or of a URL. Known secrets are replaced wherever they stand, strings in the form of a key too,
 * and so is what also stands in the prompt: {@link echo} characters in a row, blanks not counted, or a whole text
 * that is shorter. What a rule matched stands in the evidence; a sentence that is masked by mistake loses nothing
 * but its wording.
 */

/** What stands in place of what was taken out. */
export const mask = "[redacted]"

// The forms in which keys are known to appear: vendor prefixes, bearer tokens, long hexadecimal strings.
const keyForms =
  /\b(?:sk|pk|rk|gsk|xai|key|ghp|hf)[-_][A-Za-z0-9*_-]{6,}|\bAIza[0-9A-Za-z_-]{10,}|\bBearer\s+[^\s"',;]+|\b[0-9a-fA-F]{32,}\b/g

/** How many bytes of UTF-8 in a row, blanks not counted, make an echo: a few words, or a few ideographs. */
export const echo = 16

/** A text of the prompt that is shorter than this proves nothing when it is found. */
const tooShort = 6

export interface Secrets {
  /** Values that must not appear, for example the key of the attempt. Empty strings are ignored. */
  readonly values?: ReadonlyArray<string>
  /** Texts of the prompt. */
  readonly prompt?: ReadonlyArray<string>
}

/** `text` without the secrets, in one line, cut to `limit` characters. */
export const scrub = (text: string, limit: number, secrets: Secrets = {}): string => {
  let clean = unescape(text)
  for (const value of secrets.values ?? []) {
    if (value !== "") clean = clean.replaceAll(value, mask)
  }
  clean = clean.replace(keyForms, mask)
  // Cut only then, or half a secret would stay at the edge.
  if (clean.length > limit * 2) clean = clean.slice(0, limit * 2)
  clean = maskEchoes(clean, secrets.prompt ?? [])
    .replace(/\s+/g, " ")
    .trim()
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean
}

/** Undoes the escapes of JSON strings and of URLs, where there are any. */
const unescape = (text: string): string =>
  text
    .replace(/\\u([0-9a-fA-F]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/\\[nrt]/g, " ")
    .replace(/\\(["\\/])/g, "$1")
    .replace(/(?:%[0-9a-fA-F]{2})+/g, (escaped) => {
      try {
        return decodeURIComponent(escaped)
      } catch {
        return escaped
      }
    })

const maskEchoes = (text: string, prompt: ReadonlyArray<string>): string => {
  const needles = prompt.map(compact).filter((part) => part.length >= tooShort)
  if (needles.length === 0) return text
  const { chars, places } = compactWithPlaces(text)
  const echoed = new Uint8Array(text.length)
  const found = (from: number, to: number) => echoed.fill(1, places[from], (places[to - 1] ?? 0) + 1)

  for (let from = 0; from < chars.length; from++) {
    const to = windowFrom(chars, from)
    if (to !== undefined) {
      const run = chars.slice(from, to)
      if (needles.some((part) => part.includes(run))) found(from, to)
    }
  }
  for (const part of needles) {
    if (windowFrom(part, 0) !== undefined) continue
    for (let at = chars.indexOf(part); at >= 0; at = chars.indexOf(part, at + 1)) found(at, at + part.length)
  }
  let masked = ""
  for (let i = 0; i < text.length; i++) {
    if (echoed[i] === 0) masked += text[i]
    else if (echoed[i - 1] !== 1) masked += mask
  }
  return masked
}

/** The end of the shortest run from `from` on that has {@link echo} bytes. */
const windowFrom = (chars: string, from: number): number | undefined => {
  let bytes = 0
  for (let i = from; i < chars.length; i++) {
    const code = chars.charCodeAt(i)
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : 3
    if (bytes >= echo) return i + 1
  }
  return undefined
}

const compact = (text: string): string => text.replace(/\s+/g, "")

/** The text without blanks, and where each of its characters stood. */
const compactWithPlaces = (
  text: string
): { readonly chars: string; readonly places: ReadonlyArray<number> } => {
  const places: Array<number> = []
  let chars = ""
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i)
    if (/\s/.test(char)) continue
    chars += char
    places.push(i)
  }
  return { chars, places }
}
