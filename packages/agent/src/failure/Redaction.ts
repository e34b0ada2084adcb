/**
 * Takes secrets and prompts out of a sentence before an error may carry it.
 *
 * Providers echo what they were sent: a wrong key in a 401, a piece of the prompt in a 400, plain or in the
 * escapes of JSON or of a URL. Known secrets are replaced wherever they stand, and so are strings in the form of a
 * key, values that stand behind the name of a secret (`x-api-key: …`, `?key=…`, `"password": "…"`), who asks in a
 * URL, and what also stands in the prompt: {@link echo} characters in a row, blanks not counted, or a whole text
 * that is shorter. What a rule matched stands in the evidence; a sentence that is masked by mistake loses nothing
 * but its wording.
 */

import * as Escapes from "./Escapes.ts"

/** What stands in place of what was taken out. */
export const mask = "[redacted]"

// All forms are read in time that grows with the text only: what follows an unbounded run is optional.

/** Keys and tokens that show by their prefix what they are, JWTs, Basic credentials, long hexadecimal strings. */
const tokens = new RegExp(
  `(?<![A-Za-z0-9])(?:${[
    "(?:sk|pk|rk|csk|gsk|xai|nvapi|glpat|github_pat|gh[oprsu]|xox[a-z])[-_][A-Za-z0-9*_-]{6,}",
    // These begin words of libraries and models, too.
    "(?:hf|r8|fw|pplx|tgp_v1)[-_][A-Za-z0-9*]{8,}",
    "key[-_](?=[a-z_-]{0,64}[A-Z0-9*])[A-Za-z0-9*_-]{6,}",
    String.raw`ya29\.[\w-]{6,}`,
    "(?:AKIA|ASIA)[A-Z0-9*]{12,}",
    String.raw`AIza[\w-]{10,}`,
    String.raw`eyJ[\w-]{10,}(?:\.[\w-]+){0,2}`,
    // Base64 has capitals or digits beyond its first letter; "Basic Authentication" has none.
    "[Bb](?:asic|ASIC) {1,4}(?=.[a-z]{0,64}[A-Z0-9+/=])[A-Za-z0-9+/]{8,}={0,2}",
    "[0-9a-fA-F]{32,}(?![A-Za-z0-9])"
  ].join("|")})`,
  "g"
)

/** Names of headers, fields and parameters that hold a secret. */
const names = [
  "authorization",
  "api[-_ ]?key(?: provided)?",
  "(?:access|refresh|id|auth|session|security|api)[-_]?token",
  "(?:access|secret|private)[-_]?key",
  "passw(?:or)?d|passphrase",
  "secret",
  "[?&](?:key|sig|signature)",
  "(?<![a-z0-9_-])token(?==)"
].join("|")

/** What a header may have between its name and the secret. */
const schemes = "bearer|basic|token|digest|negotiate|oauth|api-?key"

/** What stands behind such a name, or behind "Bearer", when somebody writes about it. */
const prose = `(?:${[
  "null|none|nil|true|false|undefined|empty|string|str|value|field|header|input|format|type|prefix",
  "keys?|tokens?|auth[a-z]{0,12}|credentials?|schemes?|realm|error|failed",
  "is|are|was|has|have|must|should|may|can|cannot|not|no|or|and|the|an?|this|that|it|you|your|please",
  "in|of|for|from|with|to|on|at",
  "required|missing|invalid|expired|revoked|incorrect|wrong|malformed|unknown|unauthorized|provided"
].join("|")})(?![\\w-])`

/** A name and its value: `api_key=…`, `x-api-key: …`, `"apiKey": "…"`; or a bearer's token. */
const fields = new RegExp(
  String.raw`((?:(?:${names})["']?[ \t]{0,2}[:=]>?[ \t]{0,2}(?:(?:${schemes})[ \t]{1,4})?|(?<![a-z0-9])bearer[\s:=]{1,16}))` +
    // Quoted, up to the quote; or a word, which is no mask, no list and no object.
    String.raw`(?:(["'])(?:(?!\2)[^\\]|\\[^])+|(?!\[redacted\]|[[{]["'\s[{]|(?:${schemes})[ \t]|${prose})[^\s"',;&}\]\\][^\s"',;&}\]]*)`,
  "gi"
)

/** Who asks, in a URL. */
const userInfo = /(:\/\/)[^\s/?#"'<>]+@/g

/** Longer texts are cut before they are read, in characters: far behind what is kept of them. */
const maxRead = 1_048_576

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
  // As it stands and without escapes: a quote may be a part of a secret, and a secret may be escaped.
  let clean = maskSecrets(text.slice(0, maxRead), secrets)
  const plain = unescape(clean)
  if (plain !== clean) clean = maskSecrets(plain, secrets)
  // Cut only then, or half a secret would stay at the edge.
  if (clean.length > limit * 2) clean = clean.slice(0, limit * 2)
  clean = maskEchoes(clean, secrets.prompt ?? [])
    .replace(/\s+/g, " ")
    .trim()
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean
}

const maskSecrets = (text: string, { values = [] }: Secrets): string => {
  let clean = text
  for (const value of values) {
    if (value !== "") clean = clean.replaceAll(value, mask)
  }
  return clean.replace(fields, `$1$2${mask}`).replace(userInfo, `$1${mask}@`).replace(tokens, mask)
}

/** Undoes the escapes of JSON strings and of URLs, where there are any. */
const unescape = (text: string): string => {
  const plain = Escapes.undo(text)
  return plain.includes("%") ? plain.replace(/(?:%[0-9a-fA-F]{2})+/g, decode) : plain
}

const decode = (escaped: string): string => {
  try {
    return decodeURIComponent(escaped)
  } catch {
    return escaped
  }
}

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
