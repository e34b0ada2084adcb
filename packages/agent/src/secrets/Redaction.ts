/**
 * Removes secrets and prompts from a sentence before an error may carry it.
 *
 * Providers echo what they were sent: a wrong key in a 401, a piece of the prompt in a 400, plain or with the
 * escapes of JSON or of a URL. These are replaced by {@link mask}:
 *
 * - known secrets wherever they occur, also in Base64;
 * - strings in the form of a key;
 * - values after the name of a secret (`x-api-key: …`, `?key=…`, `"password": "…"`), and after a mere "key" or
 *   "token" if they look random;
 * - the user info of a URL;
 * - text that also occurs in the prompt, ignoring case: {@link echo} consecutive bytes, blanks not counted, or a
 *   whole shorter text.
 *
 * The match of a rule is in the evidence, so a sentence that is masked by mistake loses nothing but its wording.
 */

import * as Base64 from "effect/encoding/Base64"
import * as Escapes from "./Escapes.ts"
import * as KeyForm from "./KeyForm.ts"

/** Replacement for removed text. */
export const mask = "[redacted]"

// As in `KeyForm`, the part after an unbounded run is optional, so that matching takes linear time.

/** Names of headers, fields and parameters that hold a secret. */
const names = [
  "authorization",
  "api[-_ ]?key(?: provided)?",
  "(?:access|refresh|id|auth|session|security|api)[-_]?token",
  "(?:access|secret|private)[-_]?key",
  "passw(?:or)?d|passphrase",
  "secret",
  "[?&](?:key|sig|signature)",
  // AWS: in a header, and in a signed URL.
  "(?<![a-z0-9])(?:x-amz-)?(?:signature|credential)(?==)",
  "(?<![a-z0-9_-])token(?==)"
].join("|")

/** Schemes that a header may have between its name and the secret. */
const schemes = "bearer|basic|token|digest|negotiate|oauth|api-?key"

/** Words that follow such a name, or "Bearer", in prose. They are not secrets. */
const prose = `(?:${[
  "null|none|nil|true|false|undefined|empty|string|str|value|field|header|input|format|type|prefix",
  "keys?|tokens?|auth[a-z]{0,12}|credentials?|schemes?|realm|error|failed",
  "is|are|was|has|have|must|should|may|can|cannot|not|no|or|and|the|an?|this|that|it|you|your|please",
  "in|of|for|from|with|to|on|at",
  "required|missing|invalid|expired|revoked|incorrect|wrong|malformed|unknown|unauthorized|provided"
].join("|")})(?![\\w-])`

/** A name and its value: `api_key=…`, `x-api-key: …`, `"apiKey": "…"`; or a bearer's token. */
const fields = new RegExp(
  String.raw`((?:(?:${names})["']?[ \t]{0,2}[:=：]>?\s{0,3}(?:(?:${schemes})[ \t]{1,4})?|(?<![a-z0-9])bearer[\s:=]{1,16}))` +
    // A quoted value up to its quote; or a word that is not a mask, a list or an object.
    String.raw`(?:(["'])(?:(?!\2)[^\\]|\\[^])+|(?!\[redacted\]|[[{]["'\s[{]|(?:${schemes})[ \t]|${prose})[^\s"',;&}\]\\][^\s"',;&}\]]*)`,
  "gi"
)

/** A PEM key up to its end, or to the first character that cannot be a part of it. */
const pem =
  /-----BEGIN [A-Z0-9 ]{1,40}-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!----))*(?:-----END [A-Z0-9 ]{1,40}-----)?/g

/** The cookies of a request or of a response. */
const cookies =
  /(cookies?["']?[ \t]{0,2}[:=][ \t]{0,2}["']?)([\w.$-]{1,100}=[^\s;,"']*(?:;[ \t]{0,2}[\w.$-]{1,100}(?:=[^\s;,"']*)?)*)/gi

/** An unknown authorization scheme and its value. */
const otherSchemes =
  /(authorization["']?[ \t]{0,2}[:=：]>?\s{0,3}["']?)([a-z][\w-]{0,30}[ \t]{1,4})([^\s"',;]{4,})/gi

/**
 * A possible key after a word such as "key" or "token": `"token": "…"`, "Incorrect API key … was given", "无效的令牌 …".
 * It is removed only if it looks random (`KeyForm.isRandom`), because "invalid token count" is prose.
 */
const worded =
  /((?:keys?|tokens?|secrets?|credentials?|signature|password|令牌|密钥|秘钥|密码)(?:[ \t]{1,4}(?:is|was|of|id|provided|given|supplied|value))?["'”’]?[\s:：=>(（<[【「“‘"'`]{0,8})(?<![a-z0-9])([a-z0-9_*+/=~.-]{8,})/gi

/** User info in a URL. */
const userInfo = /(:\/\/)[^\s/?#"'<>]+@/g

/** Characters of a text that are read, at most. Far more than is kept. */
const maxRead = 1_048_576

/** Consecutive bytes of UTF-8, blanks not counted, that make an echo: a few words, or a few ideographs. */
export const echo = 16

/** Characters of the prompt that are searched, at most. The newest texts, the last of the list, come first. */
export const maxPrompt = 1_048_576

/** Shorter texts of the prompt are ignored, because they also occur by chance. In characters. */
const tooShort = 6

export interface Secrets {
  /** Values that must not appear, for example the key of the attempt. Empty strings are ignored. */
  readonly values?: ReadonlyArray<string>
  /** Texts of the prompt, the newest last. Only the newest {@link maxPrompt} characters are used. */
  readonly prompt?: ReadonlyArray<string>
}

/** `text` without the secrets, in one line, cut to `limit` characters. */
export const scrub = (text: string, limit: number, secrets: Secrets = {}): string => {
  // Both forms are masked, as given and unescaped: a quote may be part of a secret, and a secret may be escaped.
  let clean = maskSecrets(text.slice(0, maxRead), secrets)
  const plain = unescape(clean)
  if (plain !== clean) clean = maskSecrets(plain, secrets)
  // Cutting earlier could leave half a secret at the edge.
  if (clean.length > limit * 2) clean = clean.slice(0, limit * 2)
  // A server may quote a part of a key.
  clean = maskEchoes(clean, [...(secrets.prompt ?? []), ...(secrets.values ?? [])])
    .replace(/\s+/g, " ")
    .trim()
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean
}

const maskSecrets = (text: string, { values = [] }: Secrets): string => {
  let clean = text
  // The longest value first, because one may contain another.
  for (const value of values.toSorted((a, b) => b.length - a.length)) {
    if (value === "") continue
    clean = clean.replace(finding(value), mask)
    if (value.length >= shortest) clean = clean.replace(inBase64(value), mask)
  }
  return clean
    .replace(pem, mask)
    .replace(cookies, `$1${mask}`)
    .replace(otherSchemes, (all: string, name: string, _scheme: string, value: string) =>
      /[0-9]/.test(value) ? `${name}${mask}` : all
    )
    .replace(fields, `$1$2${mask}`)
    .replace(userInfo, `$1${mask}@`)
    .replace(KeyForm.inText, mask)
    .replace(worded, (all: string, lead: string, word: string) =>
      KeyForm.isRandom(word) ? `${lead}${mask}` : all
    )
}

/**
 * Matches the value. Ignores the case of a long one, because hosts and some servers change it. A short one is a
 * placeholder (`none`, `ollama`) rather than a key, and must be a word of its own: other words stay readable.
 */
const finding = (value: string): RegExp => {
  const exact = value.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
  if (value.length < shortest) return new RegExp(String.raw`(?<!\w)${exact}(?!\w)`, "g")
  return new RegExp(exact, value.length < echo ? "g" : "gi")
}

/** Shorter values are masked as words only, and not searched in Base64. In characters. */
const shortest = 8

/** Matches the value in Base64 or Base64url, alone or after other bytes, e.g. as the password of Basic credentials. */
const inBase64 = (value: string): RegExp => {
  const forms = ["", " ", "  "].map((before) => {
    const encoded = Base64.encode(before + value)
    // The first and the last character also encode bits of the neighbouring bytes.
    const own = encoded
      .replace(/=+$/, "")
      .slice(Math.ceil((before.length * 4) / 3), encoded.endsWith("=") ? -1 : undefined)
    return own.replaceAll("+", "[+-]").replaceAll("/", "[/_]")
  })
  return new RegExp(`(?:${forms.join("|")})[A-Za-z0-9+/_-]*={0,2}`, "g")
}

/** Undoes the escapes of JSON strings and of URLs, if there are any. */
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
  if (prompt.length === 0) return text
  const { chars: written, places } = compactWithPlaces(text)
  const chars = folded(written)
  if (chars.length < tooShort) return text
  const echoed = new Uint8Array(text.length)
  const found = (from: number, to: number) => echoed.fill(1, places[from], (places[to - 1] ?? 0) + 1)

  const runs = runsOf(chars)
  let left = maxPrompt
  for (let i = prompt.length - 1; i >= 0 && left > 0; i--) {
    const part = (prompt[i] ?? "").trim()
    const whole = folded(part.length > left ? part.slice(0, left) : part)
    left -= part.length
    if (whole.length <= 4 * echo) {
      const short = compact(whole)
      if (short.length < tooShort) continue
      if (windowFrom(short, 0) === undefined) {
        for (let at = chars.indexOf(short); at >= 0; at = chars.indexOf(short, at + 1))
          found(at, at + short.length)
        continue
      }
    }
    if (runs.places.size > 0) findRuns(whole, runs, (at, length) => found(at, at + length))
  }
  let masked = ""
  for (let i = 0; i < text.length; i++) {
    if (echoed[i] === 0) masked += text[i]
    else if (echoed[i - 1] !== 1) masked += mask
  }
  return masked
}

/** Index of the runs of an error that are long enough to be an echo, by hash. */
interface Runs {
  readonly chars: string
  /** Positions where runs begin, by the hash of the whole run. */
  readonly places: Map<number, ReadonlyArray<number>>
  /** Number of runs that were not found yet, by the hash of their first {@link head} characters. */
  readonly heads: Uint16Array
}

/** Characters that every run has at least, because a character has at most three bytes. */
const head = Math.ceil(echo / 3)
const base = 31
const lost = base ** head

const next = (hash: number, code: number): number => (Math.imul(hash, base) + code) | 0
const slotOf = (hash: number): number => (hash ^ (hash >>> 15)) & 0xffff

const runsOf = (chars: string): Runs => {
  const runs: Runs = { chars, places: new Map(), heads: new Uint16Array(0x1_0000) }
  for (let from = 0; from < chars.length; from++) {
    const to = windowFrom(chars, from)
    if (to === undefined) break
    let hash = 0
    let slot = 0
    for (let i = from; i < to; i++) {
      hash = next(hash, chars.charCodeAt(i))
      if (i === from + head - 1) slot = slotOf(hash)
    }
    const known = runs.places.get(hash)
    runs.places.set(hash, known === undefined ? [from] : [...known, from])
    if (known === undefined) runs.heads[slot] = (runs.heads[slot] ?? 0) + 1
  }
  return runs
}

/**
 * Finds the runs in a text, blanks not counted. A rolling hash of {@link head} characters moves over the text. Only
 * where the error has a run with such a beginning are the runs compared. Each run is found once.
 */
const findRuns = (
  text: string,
  { chars, heads, places }: Runs,
  found: (at: number, length: number) => void
): void => {
  const codes = new Uint16Array(text.length)
  let end = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 32 ? code < 0xa0 || !blank.test(text.charAt(i)) : code !== 32 && (code < 9 || code > 13)) {
      codes[end++] = code
    }
  }
  let rolling = 0
  for (let i = 0; i < end; i++) {
    rolling = next(rolling, codes[i] ?? 0)
    if (i >= head) rolling = (rolling - Math.imul(codes[i - head] ?? 0, lost)) | 0
    const slot = slotOf(rolling)
    const waiting = heads[slot] ?? 0
    if (i < head - 1 || waiting === 0) continue
    const from = i - head + 1
    let hash = 0
    let bytes = 0
    let to = from
    for (; to < end && bytes < echo; to++) {
      const code = codes[to] ?? 0
      hash = next(hash, code)
      bytes += bytesOf(code)
    }
    const known = bytes < echo ? undefined : places.get(hash)
    if (known === undefined) continue
    const isAt = (at: number): boolean => {
      for (let k = 0; k < to - from; k++) if (chars.charCodeAt(at + k) !== codes[from + k]) return false
      return true
    }
    const same = known.filter(isAt)
    for (const at of same) found(at, to - from)
    if (same.length < known.length) continue
    places.delete(hash)
    heads[slot] = waiting - 1
  }
}

const blank = /\s/

/** End of the shortest run from `from` on that has {@link echo} bytes. */
const windowFrom = (chars: string, from: number): number | undefined => {
  let bytes = 0
  for (let i = from; i < chars.length; i++) {
    bytes += bytesOf(chars.charCodeAt(i))
    if (bytes >= echo) return i + 1
  }
  return undefined
}

const bytesOf = (code: number): number => (code < 0x80 ? 1 : code < 0x800 ? 2 : 3)

/** The text in lower case with the same length, so that positions stay valid. */
const folded = (text: string): string =>
  // The lower case of "İ" is longer, and that of a sigma depends on its neighbours.
  text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ")

const compact = (text: string): string => text.replace(/\s+/g, "")

/** The text without blanks, and the original position of each character. */
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
