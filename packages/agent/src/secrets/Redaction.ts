/**
 * Takes secrets and prompts out of a sentence before an error may carry it.
 *
 * Providers echo what they were sent: a wrong key in a 401, a piece of the prompt in a 400, plain or in the
 * escapes of JSON or of a URL. Known secrets are replaced wherever they stand, also in Base64, and so are strings in
 * the form of a key, values that stand behind the name of a secret (`x-api-key: …`, `?key=…`, `"password": "…"`), who
 * asks in a URL, and what also stands in the prompt, in any case of its letters: {@link echo} bytes in a row, blanks
 * not counted, or a whole text that is shorter. A value behind a mere "key" or "token" is taken out if it looks
 * random. What a rule matched stands in the evidence; a sentence that is masked by mistake loses nothing but its
 * wording.
 */

import { Base64 } from "effect/encoding"
import * as Escapes from "./Escapes.ts"
import * as KeyForm from "./KeyForm.ts"

/** What stands in place of what was taken out. */
export const mask = "[redacted]"

// As in `KeyForm`, what follows an unbounded run is optional: the time grows with the text only.

/** Names of headers, fields and parameters that hold a secret. */
const names = [
  "authorization",
  "api[-_ ]?key(?: provided)?",
  "(?:access|refresh|id|auth|session|security|api)[-_]?token",
  "(?:access|secret|private)[-_]?key",
  "passw(?:or)?d|passphrase",
  "secret",
  "[?&](?:key|sig|signature)",
  // AWS: in a header, and in a URL that was signed.
  "(?<![a-z0-9])(?:x-amz-)?(?:signature|credential)(?==)",
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
  String.raw`((?:(?:${names})["']?[ \t]{0,2}[:=：]>?\s{0,3}(?:(?:${schemes})[ \t]{1,4})?|(?<![a-z0-9])bearer[\s:=]{1,16}))` +
    // Quoted, up to the quote; or a word, which is no mask, no list and no object.
    String.raw`(?:(["'])(?:(?!\2)[^\\]|\\[^])+|(?!\[redacted\]|[[{]["'\s[{]|(?:${schemes})[ \t]|${prose})[^\s"',;&}\]\\][^\s"',;&}\]]*)`,
  "gi"
)

/** A key in the form in which it is kept in a file, up to its end, or to what cannot be a part of it. */
const pem =
  /-----BEGIN [A-Z0-9 ]{1,40}-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!----))*(?:-----END [A-Z0-9 ]{1,40}-----)?/g

/** The cookies of a request or of a response. */
const cookies =
  /(cookies?["']?[ \t]{0,2}[:=][ \t]{0,2}["']?)([\w.$-]{1,100}=[^\s;,"']*(?:;[ \t]{0,2}[\w.$-]{1,100}(?:=[^\s;,"']*)?)*)/gi

/** A scheme that nobody knows, and what stands behind it. */
const otherSchemes =
  /(authorization["']?[ \t]{0,2}[:=：]>?\s{0,3}["']?)([a-z][\w-]{0,30}[ \t]{1,4})([^\s"',;]{4,})/gi

/**
 * What may be a key behind a word for one: `"token": "…"`, "Incorrect API key … was given", "无效的令牌 …". It is
 * taken out only if it looks like one (`KeyForm.isRandom`): "invalid token count" is prose.
 */
const worded =
  /((?:keys?|tokens?|secrets?|credentials?|signature|password|令牌|密钥|秘钥|密码)(?:[ \t]{1,4}(?:is|was|of|id|provided|given|supplied|value))?["'”’]?[\s:：=>(（<[【「“‘"'`]{0,8})(?<![a-z0-9])([a-z0-9_*+/=~.-]{8,})/gi

/** Who asks, in a URL. */
const userInfo = /(:\/\/)[^\s/?#"'<>]+@/g

/** Longer texts are cut before they are read, in characters: far behind what is kept of them. */
const maxRead = 1_048_576

/** How many bytes of UTF-8 in a row, blanks not counted, make an echo: a few words, or a few ideographs. */
export const echo = 16

/** Characters of the prompt that are searched, at most: the newest texts, the last of a list, first. */
export const maxPrompt = 1_048_576

/** A text of the prompt that is shorter than this proves nothing when it is found. */
const tooShort = 6

export interface Secrets {
  /** Values that must not appear, for example the key of the attempt. Empty strings are ignored. */
  readonly values?: ReadonlyArray<string>
  /** Texts of the prompt, the newest last. Of a very long one the newest {@link maxPrompt} characters are known. */
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
  // A server may quote a part of a key.
  clean = maskEchoes(clean, [...(secrets.prompt ?? []), ...(secrets.values ?? [])])
    .replace(/\s+/g, " ")
    .trim()
  return clean.length > limit ? `${clean.slice(0, limit - 1)}…` : clean
}

const maskSecrets = (text: string, { values = [] }: Secrets): string => {
  let clean = text
  // The longest first: one may contain another. Hosts and some servers change the case.
  for (const value of values.toSorted((a, b) => b.length - a.length)) {
    if (value === "") continue
    clean = value.length < echo ? clean.replaceAll(value, mask) : clean.replace(inAnyCase(value), mask)
    if (value.length >= shortestEncoded) clean = clean.replace(inBase64(value), mask)
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

const inAnyCase = (value: string): RegExp =>
  new RegExp(value.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`), "gi")

/** Shorter values are not searched in Base64, in characters. */
const shortestEncoded = 8

/** The value in Base64, also for URLs, alone or behind other bytes: as the password of Basic credentials, for example. */
const inBase64 = (value: string): RegExp => {
  const forms = ["", " ", "  "].map((before) => {
    const encoded = Base64.encode(before + value)
    // Its first and last character have bits of what stands beside it.
    const own = encoded
      .replace(/=+$/, "")
      .slice(Math.ceil((before.length * 4) / 3), encoded.endsWith("=") ? -1 : undefined)
    return own.replaceAll("+", "[+-]").replaceAll("/", "[/_]")
  })
  return new RegExp(`(?:${forms.join("|")})[A-Za-z0-9+/_-]*={0,2}`, "g")
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

/** Every run of an error that is long enough to be an echo, in numbers. */
interface Runs {
  readonly chars: string
  /** Where runs begin, by the number of all their characters. */
  readonly places: Map<number, ReadonlyArray<number>>
  /** How many of them were not found yet, by the number of their first characters. */
  readonly heads: Uint16Array
}

/** So many characters every run has: none has more than three bytes. */
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
 * Finds the runs in a text, blanks not counted. Its characters are looked at through a window of {@link head} of
 * them, kept as one number: only where an error has such a head is a run compared. Each run is found once.
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

/** The end of the shortest run from `from` on that has {@link echo} bytes. */
const windowFrom = (chars: string, from: number): number | undefined => {
  let bytes = 0
  for (let i = from; i < chars.length; i++) {
    bytes += bytesOf(chars.charCodeAt(i))
    if (bytes >= echo) return i + 1
  }
  return undefined
}

const bytesOf = (code: number): number => (code < 0x80 ? 1 : code < 0x800 ? 2 : 3)

/** The text in lower case, of the same length: what is found in it stands at the same place in the text. */
const folded = (text: string): string =>
  // The lower case of the first is longer, and that of a sigma depends on what stands beside it.
  text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ")

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
