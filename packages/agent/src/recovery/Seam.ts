/**
 * The seam between a cut answer and its continuation. It removes the words that the continuation repeats, so that the
 * text reads as if it had not been cut. Pure: no Effect, no clock.
 *
 * A model that is asked to continue often repeats the end of its text, sometimes after a remark ("Sure, here is the
 * rest:"), or opens its code block again. {@link push} takes the continuation in deltas of any size. It holds back
 * only as much as it needs to decide; then everything passes.
 *
 * **Removed:**
 * - a repetition of at least 24 characters that ends where the text ended. White space and case may differ.
 * - the text before such a repetition, if it reads as a remark: only the repetition proves it.
 * - a shorter repetition, from 8 characters, if keeping it would join two words ("the lazy" + "the lazy dog").
 * - a short text that the continuation begins with as a whole: the model began its answer anew ("Hello! " + "Hello!
 *   How are you?").
 * - the opening line of a code block, if that same block is open.
 *
 * **Kept, and reported as doubtful:** shorter repetitions; repetitions in a text that itself repeats (rows of a
 * table, laughter); a beginning like a repetition that then differs; a remark without proof. Without a repetition
 * nothing changes, and no blank is ever added.
 *
 * Decisions do not depend on the boundaries of the deltas. At most about 400 characters are held, beyond that only
 * text that the consumer has already seen. Only the last 4,096 characters of the text are compared.
 *
 * **Example** (A repeated end)
 *
 * ```ts
 * const seam = Seam.make("The quick brown fox jumps over the la")
 * const one = Seam.push(seam, "brown fox jumps over the la") // { text: "", ... }
 * const two = Seam.push(one.seam, "zy dog.") // { text: "zy dog.", verdict: { removed: 27, ... } }
 * ```
 */

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Thresholds of the module, in UTF-16 code units. */
export const defaults = {
  /** Number of characters before the seam that are compared. */
  tail: 4_096,
  /** Minimum length of a repetition that is removed. */
  proof: 24,
  /** Minimum number of these that are not white space. */
  visible: 6,
  /** Minimum length of a shorter repetition that is removed because keeping it would join two words. */
  weld: 8,
  /** Maximum length of a remark before the repetition. A character of a script without spaces counts as four. */
  remark: 200,
  /** Maximum length of the held text, unless the consumer has already seen it. */
  window: 400
} as const

/**
 * Reasons for a doubtful seam:
 * - `short`: the continuation begins with the last characters, but with too few to be sure
 * - `repetitive`: the text itself repeats there
 * - `differs`: the continuation begins with earlier text and then differs
 * - `remark`: the continuation seems to begin with a remark
 */
export type Doubt = "short" | "repetitive" | "differs" | "remark"

/** Decision about a seam. */
export interface Verdict {
  /** Number of removed characters. */
  readonly removed: number
  /** Number of characters that may be a repetition but were kept. */
  readonly kept: number
  readonly doubt: Doubt | undefined
}

export interface Seam {
  readonly said: Said
  /** The continuation so far, unchanged. */
  readonly held: string
  /** The continuation so far, folded: see {@link fold}. */
  readonly folded: string
  /** Remaining length for a remark. */
  readonly remark: number
  /** Places where the continuation may be repeating the text. */
  readonly alive: ReadonlyArray<Alignment>
  /** A completed repetition, while it is undecided whether the text itself repeats. */
  readonly ended: Repetition | undefined
  /** Length of the beginning of the continuation that is equal to earlier text. */
  readonly longest: number
  /** Set once decided. From then on all text passes. */
  readonly verdict: Verdict | undefined
}

export interface Pushed {
  readonly seam: Seam
  /** Text that the consumer may see now. */
  readonly text: string
  /** Set only by the call that decided. */
  readonly verdict: Verdict | undefined
}

/** The end of the text before the seam. */
interface Said {
  readonly raw: string
  readonly folded: string
  /** True when the text is short, all of it is here, and it reads as the beginning of an answer. */
  readonly isBeginning: boolean
  /** White space at the end. */
  readonly space: string
  /** True when the text stops inside a sentence. */
  readonly inSentence: boolean
  /** True when the text stops after a comma or a semicolon, which may also occur in data. */
  readonly afterComma: boolean
  /** Opening line of the code block that is still open. */
  readonly fence: string | undefined
}

/** `folded` from index `from` equals the text from index `at`, so far. */
interface Alignment {
  readonly from: number
  readonly at: number
}

/** `length` folded characters of the continuation from index `from` equal the end of the text. */
interface Repetition {
  readonly from: number
  readonly length: number
  /** True when white space at the end of the text is excluded. */
  readonly trimmed: boolean
  /** True when white space precedes the repetition, in both texts. */
  readonly spaced: boolean
}

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** Creates the seam after `text`. */
export const make = (text: string): Seam => {
  const said = saidOf(text)
  return {
    said,
    held: "",
    folded: "",
    remark: defaults.remark,
    alive: [],
    ended: undefined,
    longest: 0,
    verdict: said.folded.trim() === "" ? sure(0) : undefined
  }
}

/** Adds more of the continuation. */
export const push = (seam: Seam, delta: string): Pushed => {
  let next = seam
  for (let i = 0; i < delta.length; i++) {
    if (next.verdict !== undefined) return { seam: next, text: delta.slice(i), verdict: undefined }
    next = read(next, delta.charAt(i))
    const verdict = decide(next, next.held.length >= 2 * defaults.tail)
    if (verdict !== undefined) return settled(next, verdict, delta.slice(i + 1))
  }
  return { seam: next, text: "", verdict: undefined }
}

/** Ends the continuation: decides, and releases the held text. */
export const end = (seam: Seam): Pushed =>
  seam.verdict === undefined
    ? settled(seam, decide(seam, true) ?? sure(0), "")
    : { seam, text: "", verdict: undefined }

const settled = (seam: Seam, verdict: Verdict, rest: string): Pushed => ({
  seam: { ...seam, held: "", folded: "", alive: [], verdict },
  text: seam.held.slice(verdict.removed) + rest,
  verdict
})

const sure = (removed: number): Verdict => ({ removed, kept: 0, doubt: undefined })
const unsure = (doubt: Doubt, kept: number): Verdict => ({ removed: 0, kept, doubt })

/** Reads one code unit. */
const read = (seam: Seam, unit: string): Seam => {
  const { said } = seam
  const held = seam.held + unit
  const char = foldUnit(unit)
  // Fold runs of white space to one blank, and drop it at the beginning.
  if (char === " " && (seam.folded === "" || seam.folded.endsWith(" "))) return { ...seam, held }
  const index = seam.folded.length
  const folded = seam.folded + char
  const alive: Array<Alignment> = []
  let ended = seam.ended
  for (const { from, at } of seam.alive) {
    const stays = said.folded.charAt(at + index - from) === char
    const found = stays ? at : said.folded.indexOf(folded.slice(from), at + 1)
    if (found !== -1) alive.push({ from, at: found })
    else ended ??= proofOf(said, held, folded, from)
  }
  const isFirst = index === 0
  if (char !== " " && (isFirst || (seam.remark > 0 && isRemark(said, seam.folded)))) {
    const at = said.folded.indexOf(char)
    if (at !== -1) alive.push({ from: index, at })
  }
  return {
    said,
    held,
    folded,
    alive,
    ended,
    remark: isFirst && !mayBeRemark(unit) ? 0 : Math.max(0, seam.remark - weightOf(unit)),
    longest: alive[0]?.from === 0 ? folded.length : seam.longest,
    verdict: undefined
  }
}

/** Length of an occurrence of the end of the text that is no proof, but is reported. */
const likely = 16

/** Decides about the held text; `undefined` when more is needed. */
const decide = (seam: Seam, isEnd: boolean): Verdict | undefined => {
  const { said, held, folded } = seam
  const proof = seam.ended ?? (isEnd ? proofAtEnd(seam) : undefined)
  if (proof !== undefined) return decideRepetition(seam, proof, isEnd)
  // Text that the consumer has already seen may be held for longer.
  const isSeen = seam.alive.some(({ from }) => folded.length - from >= defaults.proof)
  const isOpen = folded === "" || seam.alive.length > 0 || seam.remark > 0
  if (!isEnd && isOpen && (isSeen || held.length < defaults.window)) return undefined
  // Compare unfolded text: the repetition may be only white space.
  const length = overlap(held.slice(0, defaults.window), said.raw)
  const short: Repetition = { from: 0, length, trimmed: false, spaced: false }
  if (beginsAnew(said, held)) {
    return decideRepetition(seam, { ...short, length: said.folded.length }, isEnd)
  }
  if (length >= defaults.weld && isWelded(said, length)) return decideRepetition(seam, short, isEnd)
  const fence = fenceEnd(said, held)
  if (fence > 0) return sure(fence)
  if (seam.longest >= defaults.proof) return unsure("differs", seam.longest)
  if (length > 0) return unsure("short", length)
  const again = said.folded.length < likely ? -1 : folded.indexOf(said.folded.slice(-likely))
  if (again !== -1) return unsure("remark", again + likely)
  const unfinished = said.inSentence || said.afterComma
  const remark = unfinished && mayBeRemark(held.trimStart().charAt(0)) ? remarkLine.exec(held) : null
  return remark === null ? sure(0) : unsure("remark", remark[0].length)
}

const decideRepetition = (seam: Seam, repetition: Repetition, isEnd: boolean): Verdict | undefined => {
  const goesOn = isGenuine(seam, repetition, isEnd)
  if (goesOn === undefined) return undefined
  const length = rawEnd(seam.said, seam.held, repetition)
  return goesOn ? unsure("repetitive", length) : sure(length)
}

const proofAtEnd = ({ said, held, folded, alive }: Seam): Repetition | undefined => {
  for (const { from } of alive) {
    const proof = proofOf(said, held, folded, from)
    if (proof !== undefined) return proof
  }
  return undefined
}

// -----------------------------------------------------------------------------
// Evidence
// -----------------------------------------------------------------------------

/** The repetition at `from`, if it is long enough and the text before it is a remark. */
const proofOf = (said: Said, held: string, folded: string, from: number): Repetition | undefined => {
  const repeated = folded.slice(from)
  const whole = repetitionOf(said, held, repeated, from, false)
  const repetition =
    isLong(said, held, whole) || said.space === "" ? whole : repetitionOf(said, held, repeated, from, true)
  if (!isLong(said, held, repetition)) return undefined
  if (from === 0) return repetition
  const end = endOf(said, repetition.trimmed)
  const start = end.length - repetition.length
  const isUnique = end.indexOf(end.slice(start)) === start
  const remark = folded.slice(0, from)
  // A remark is new text. Earlier text before the repetition means that the text itself repeats.
  const words = remark.replace(/`{3,}[\w+-]* ?$/, "").trimEnd()
  const isNew = words === "" || !said.folded.includes(words)
  return isUnique && isNew && !isLabel(said, held, end.slice(0, start), remark) ? repetition : undefined
}

/**
 * Detects labels: "Apple: see there." and "Pear: see there." are two lines of a list, not a remark and a repetition.
 * The same signs stand before the repeated text, where a new line or sentence may begin.
 */
const isLabel = (said: Said, held: string, before: string, remark: string): boolean => {
  const signs = lastSigns(remark)
  if (said.inSentence || signs === "" || signs !== lastSigns(before)) return false
  return (
    remark.trim().split(" ").length < 3 ||
    said.space.includes("\n") ||
    /^\s*\n/.test(held) ||
    /[.!?;,。！？；，]$/u.test(said.raw.trimEnd())
  )
}

const lastSigns = (text: string): string => /[^\p{L}\p{N}\s]*(?=\s*$)/u.exec(text.slice(-24))?.[0] ?? ""

const repetitionOf = (
  said: Said,
  held: string,
  repeated: string,
  from: number,
  trimmed: boolean
): Repetition => {
  const end = endOf(said, trimmed)
  const length = overlap(repeated, end)
  const isSpaced = foldUnit(from === 0 ? held.charAt(0) : held.charAt(rawAt(held, from) - 1)) === " "
  return { from, length, trimmed, spaced: isSpaced && end.charAt(end.length - length - 1) === " " }
}

const endOf = (said: Said, trimmed: boolean): string => (trimmed ? said.folded.trimEnd() : said.folded)

/** True for at least {@link defaults.proof} characters on both sides that are not nearly all blanks. */
const isLong = (said: Said, held: string, { from, length, trimmed, spaced }: Repetition): boolean => {
  const end = endOf(said, trimmed)
  const visible = end.slice(end.length - length).replaceAll(" ", "").length
  const here = rawAt(held, from)
  const there = rawAt(said.raw, end.length - length)
  const space = spaced ? Math.min(spaceBefore(held, here), spaceBefore(said.raw, there)) : 0
  const shorter = Math.min(rawAt(held, from + length) - here, said.raw.length - there)
  return visible >= defaults.visible && shorter + space >= defaults.proof
}

/**
 * True when the text itself repeats at the seam, so that the repetition may be intended: the text ends in at least
 * two rounds, or the repetition has more of itself before or after it. `undefined` when more of the continuation is
 * needed.
 */
const isGenuine = (
  { said, folded }: Seam,
  { from, length, trimmed, spaced }: Repetition,
  isEnd: boolean
): boolean | undefined => {
  const before = periods(endOf(said, trimmed))
  const round = spaced ? length + 1 : length
  for (let period = 1; period < round; period++) {
    const more = before[period] ?? 0
    if (more >= period && period + more >= length) return true
  }
  // The blank between two repetitions may be missing before the first one.
  const rest = folded.slice(from + length).trimStart()
  const behind = common(rest, folded.slice(from))
  if ((before[round] ?? 0) + behind >= Math.min(round, defaults.proof)) return true
  if (from > 0) {
    // A remark does not come again after the repetition; a row of a table does.
    const again = common(rest, folded)
    if (again >= Math.min(from, defaults.proof)) return true
    if (again === rest.length && !isEnd) return undefined
  }
  return behind === rest.length && !isEnd ? undefined : false
}

/** True when the continuation begins with the whole of a short text, letter for letter, and its white space. */
const beginsAnew = ({ isBeginning, raw, space }: Said, held: string): boolean => {
  if (!isBeginning) return false
  const text = raw.trim()
  const again = held.trimStart()
  return again.startsWith(text) && (space === "" || isSpace(again.charAt(text.length)))
}

/**
 * True for a short text that cannot be the beginning of its own continuation: words, not a bracket, a tag, a sign or a
 * bare number ("[" + "[1, 2]", "#" + "# Plan" and "1" + "10" go on).
 */
const isWords = (text: string): boolean =>
  text.length >= 2 && /\p{L}|\p{N}[^\p{N}]/u.test(text) && !/^[<[({"'`|]/.test(text)

/** True when a short repetition consists of words and would be joined to the last word. */
const isWelded = ({ raw }: Said, length: number): boolean => {
  const start = raw.length - length
  return (
    fold(raw.slice(start)).length === length &&
    !/[\p{L}\p{M}\p{N}_]/u.test(raw.charAt(start - 1)) &&
    isSpacedLetter(raw.charAt(start)) &&
    isSpacedLetter(raw.charAt(raw.length - 1))
  )
}

/** True for a letter of a script with blanks between words. */
const isSpacedLetter = (char: string): boolean =>
  /[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Hangul}]/u.test(
    char
  )

/** End of the opening line of a code block that is already open; 0 when there is none. */
const fenceEnd = ({ fence, raw }: Said, held: string): number => {
  if (fence === undefined || !raw.endsWith("\n")) return 0
  return held.startsWith(`${fence}\n`) ? fence.length + 1 : 0
}

const closers = String.raw`[*_"'”»)\]]*`
/** End of a remark, wherever the text was cut. */
const remarkEnd = new RegExp(String.raw`(?:[:：…—]|\.\.\.|-{3,}|${"```"}[\w+-]*)${closers} ?$`, "u")
/** End of a remark after a cut sentence, where no other sentence can begin. */
const sentenceEnd = new RegExp(String.raw`[.。!！]${closers} ?$`, "u")
/** Beginning that reads as a remark. */
const remarkLine = new RegExp(String.raw`^\s*.{1,200}?(?:[:：…]|\.\.\.)${closers}(?=\s)`, "u")

const isRemark = (said: Said, folded: string): boolean => {
  const last = folded.slice(-24)
  return remarkEnd.test(last) || (said.inSentence && sentenceEnd.test(last))
}

/** True for the first character of a remark: a capital, a letter of a script without capitals, or a sign. */
const mayBeRemark = (first: string): boolean =>
  first >= "\u2000" || /[\p{Lu}\p{Lt}\p{Lo}("'“«„¡¿*#>[`]/u.test(first)

const weightOf = (unit: string): number => (unit >= "\u2e80" ? 4 : 1)

// -----------------------------------------------------------------------------
// Text
// -----------------------------------------------------------------------------

const saidOf = (text: string): Said => {
  const raw = text.slice(-defaults.tail)
  const space = raw.slice(raw.trimEnd().length)
  const fences = raw.match(/^`{3,}.*$/gm)
  const last = fences?.at(-1)
  return {
    raw,
    folded: fold(raw),
    isBeginning: text.length < defaults.proof && isWords(text.trim()),
    space,
    inSentence: /[\p{L}\p{M}\p{N}，、]$/u.test(raw.trimEnd()) && !space.includes("\n"),
    afterComma: /[,;；]$/.test(raw.trimEnd()) && !space.includes("\n"),
    // Only an opening line names a language.
    fence: last !== undefined && /^`{3,}\w/.test(last) ? last : undefined
  }
}

/** Length of the white space before `index`. */
const spaceBefore = (text: string, index: number): number => index - text.slice(0, index).trimEnd().length

const isSpace = (unit: string): boolean => unit.trim() === ""

/** Lower-cases a code unit, and replaces white space with a blank. The length stays 1. */
const foldUnit = (unit: string): string => {
  if (unit === "" || isSpace(unit)) return unit === "" ? "" : " "
  const lower = unit.toLowerCase()
  return lower.length === 1 ? lower : unit
}

/** Lower-cases the text, and replaces each run of white space with one blank. Drops the first run. */
const fold = (text: string): string => {
  let folded = ""
  let wasSpace = true
  for (let i = 0; i < text.length; i++) {
    const char = foldUnit(text.charAt(i))
    if (char !== " " || !wasSpace) folded += char
    wasSpace = char === " "
  }
  return folded
}

/** Index in `text` of the folded character `index`; the length of `text` after the last one. */
const rawAt = (text: string, index: number): number => {
  let count = 0
  let wasSpace = true
  for (let i = 0; i < text.length; i++) {
    const space = isSpace(text.charAt(i))
    if (!space || !wasSpace) {
      if (count === index) return i
      count++
    }
    wasSpace = space
  }
  return text.length
}

/** End of a repetition in `held`, including white space that the text already has. */
const rawEnd = (said: Said, held: string, { from, length, trimmed }: Repetition): number => {
  const last = rawAt(held, from + length - 1)
  if (trimmed || !isSpace(held.charAt(last))) return last + 1
  const rest = held.slice(last)
  return last + common(rest.slice(0, rest.length - rest.trimStart().length), said.space)
}

/** Length of the common prefix. */
const common = (a: string, b: string): number => {
  let length = 0
  while (length < a.length && length < b.length && a.charAt(length) === b.charAt(length)) length++
  return length
}

/** Length of the longest prefix of `a` that is a suffix of `b`. Linear (Knuth, Morris and Pratt). */
const overlap = (a: string, b: string): number => {
  const borders: Array<number> = [0]
  let length = 0
  for (let i = 1; i < a.length; i++) {
    while (length > 0 && a.charAt(i) !== a.charAt(length)) length = borders[length - 1] ?? 0
    if (a.charAt(i) === a.charAt(length)) length++
    borders.push(length)
  }
  length = 0
  for (let i = Math.max(0, b.length - a.length); i < b.length; i++) {
    while (length > 0 && b.charAt(i) !== a.charAt(length)) length = borders[length - 1] ?? 0
    if (b.charAt(i) === a.charAt(length)) length++
  }
  return length
}

/** For each n, the length of the suffix of `text` that also occurs n characters earlier. Linear (the Z function). */
const periods = (text: string): ReadonlyArray<number> => {
  const last = text.length - 1
  const z: Array<number> = [0]
  let left = 0
  let right = 0
  for (let i = 1; i <= last; i++) {
    let length = i < right ? Math.min(right - i, z[i - left] ?? 0) : 0
    while (i + length <= last && text.charAt(last - length) === text.charAt(last - i - length)) length++
    if (i + length > right) {
      left = i
      right = i + length
    }
    z.push(length)
  }
  return z
}
