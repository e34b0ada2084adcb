/**
 * The seam of an answer that was cut and is continued: what the continuation repeats is taken out, so that the
 * text reads as if it had never been cut. Pure: no Effect, no clock.
 *
 * A model that is asked to go on often repeats the end of what it had said, sometimes behind a remark ("Sure,
 * here is the rest:"), or opens its code block again. {@link push} takes the continuation in deltas of any size
 * and holds back no more than it takes to decide; then all passes.
 *
 * **What is taken out:**
 * - a repetition of at least 24 characters that ends where the text ended. White space and case may differ.
 * - what stands before such a repetition, if it reads as a remark: only the repetition proves it.
 * - a shorter repetition, from 8 characters, if keeping it would weld two words ("the lazy" + "the lazy dog").
 * - the opening line of a code block, if that very block is open.
 *
 * **What is kept, and said to be unsure:** shorter repetitions; repetitions in a text that shows itself that it
 * repeats (rows of a table, laughter); what begins like a repetition and then differs; what looks like a remark
 * without proof. Without a repetition nothing is touched, and no blank is ever added.
 *
 * Decisions do not depend on how the text is cut into deltas. Held are at most about 400 characters, beyond that
 * only what the consumer has already seen. Only the last 4,096 characters of the text are looked at.
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

/** The numbers of the module, in UTF-16 code units. */
export const defaults = {
  /** How much of the text before the seam is looked at. */
  tail: 4_096,
  /** A repetition of this length is taken out. */
  proof: 24,
  /** How many of these must not be white space. */
  visible: 6,
  /** A shorter one is taken out from this length, if keeping it would weld two words. */
  weld: 8,
  /** How long a remark before the repetition may be. Characters of scripts without spaces count four. */
  remark: 200,
  /** What is held back at most, unless the consumer has already seen it. */
  window: 400
} as const

/**
 * Why a seam is unsure:
 * - `short`: the continuation begins with the last characters, but they are too few to tell
 * - `repetitive`: the text itself repeats there
 * - `differs`: the continuation begins with something said before, and then differs
 * - `remark`: the continuation seems to begin with a remark
 */
export type Doubt = "short" | "repetitive" | "differs" | "remark"

/** What was decided about a seam. */
export interface Verdict {
  /** Characters that were taken out. */
  readonly removed: number
  /** Characters that may be too many, and were kept. */
  readonly kept: number
  readonly doubt: Doubt | undefined
}

export interface Seam {
  readonly said: Said
  /** The continuation so far, as it came. */
  readonly held: string
  /** The same, folded: see {@link fold}. */
  readonly folded: string
  /** What the remark may still take. */
  readonly remark: number
  /** Where the continuation may be repeating. */
  readonly alive: ReadonlyArray<Alignment>
  /** A repetition that ended, while it is seen whether the text goes on repeating. */
  readonly ended: Repetition | undefined
  /** How far the very beginning of the continuation was something said before. */
  readonly longest: number
  /** Known once decided; from then on all passes. */
  readonly verdict: Verdict | undefined
}

export interface Pushed {
  readonly seam: Seam
  /** What the consumer may see now. */
  readonly text: string
  /** Only where this call decided. */
  readonly verdict: Verdict | undefined
}

/** The end of what was said. */
interface Said {
  readonly raw: string
  readonly folded: string
  /** White space at its end. */
  readonly space: string
  /** It stops inside a sentence. */
  readonly inSentence: boolean
  /** It stops behind a comma or a semicolon, which may also stand in data. */
  readonly afterComma: boolean
  /** The opening line of the code block that is open. */
  readonly fence: string | undefined
}

/** `folded` from `from` stands in what was said at `at`, up to now. */
interface Alignment {
  readonly from: number
  readonly at: number
}

/** `length` folded characters of the continuation, from `from`, are the end of what was said. */
interface Repetition {
  readonly from: number
  readonly length: number
  /** The white space at the end of what was said is not among them. */
  readonly trimmed: boolean
  /** The white space before them, in both. */
  readonly spaced: boolean
}

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** The seam behind `text`. */
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

/** More of the continuation. */
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

/** The continuation is complete: decides, and lets go of what is held. */
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

/** Takes in one code unit. */
const read = (seam: Seam, unit: string): Seam => {
  const { said } = seam
  const held = seam.held + unit
  const char = foldUnit(unit)
  // Runs of white space are one blank, and none at the very beginning.
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

/** The end of the text within the continuation: no proof if it is this short, but worth a word. */
const likely = 16

/** What is decided about what is held; `undefined`: not enough has come. */
const decide = (seam: Seam, isEnd: boolean): Verdict | undefined => {
  const { said, held, folded } = seam
  const proof = seam.ended ?? (isEnd ? proofAtEnd(seam) : undefined)
  if (proof !== undefined) return decideRepetition(seam, proof, isEnd)
  // What the consumer has already seen may be held for long.
  const isSeen = seam.alive.some(({ from }) => folded.length - from >= defaults.proof)
  const isOpen = folded === "" || seam.alive.length > 0 || seam.remark > 0
  if (!isEnd && isOpen && (isSeen || held.length < defaults.window)) return undefined
  // To the letter: white space may be all that is repeated.
  const length = overlap(held.slice(0, defaults.window), said.raw)
  const short: Repetition = { from: 0, length, trimmed: false, spaced: false }
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

/** The repetition at `from`, if it is long enough to prove itself and what stands before it a remark. */
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
  // What has been said before is no remark: the text repeats itself.
  const words = remark.replace(/`{3,}[\w+-]* ?$/, "").trimEnd()
  const isNew = words === "" || !said.folded.includes(words)
  return isUnique && isNew && !isLabel(said, held, end.slice(0, start), remark) ? repetition : undefined
}

/**
 * "Apple: see there." and "Pear: see there." are two lines of a list, not a remark and a repetition: the same
 * signs stand before what repeats, at a place where a new line or sentence may begin.
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

/** At least {@link defaults.proof} characters on both sides, and not nearly all of them blanks. */
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
 * Whether the text itself repeats at the seam, so that the continuation may be right to go on with it: it ends in
 * at least two rounds of something, or the repetition has more of itself before or behind it. `undefined`: more
 * of the continuation is needed.
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
  // The blank between two rounds may be missing before the first one.
  const rest = folded.slice(from + length).trimStart()
  const behind = common(rest, folded.slice(from))
  if ((before[round] ?? 0) + behind >= Math.min(round, defaults.proof)) return true
  if (from > 0) {
    // A remark is not made again behind the repetition; a row comes again.
    const again = common(rest, folded)
    if (again >= Math.min(from, defaults.proof)) return true
    if (again === rest.length && !isEnd) return undefined
  }
  return behind === rest.length && !isEnd ? undefined : false
}

/** A short repetition is words, and would be welded to the end of the last one. */
const isWelded = ({ raw }: Said, length: number): boolean => {
  const start = raw.length - length
  return (
    fold(raw.slice(start)).length === length &&
    !/[\p{L}\p{M}\p{N}_]/u.test(raw.charAt(start - 1)) &&
    isSpacedLetter(raw.charAt(start)) &&
    isSpacedLetter(raw.charAt(raw.length - 1))
  )
}

/** A letter of a script that puts blanks between words. */
const isSpacedLetter = (char: string): boolean =>
  /[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Hangul}]/u.test(
    char
  )

/** Where the opening line of a code block ends that is open already; 0 if there is none. */
const fenceEnd = ({ fence, raw }: Said, held: string): number => {
  if (fence === undefined || !raw.endsWith("\n")) return 0
  return held.startsWith(`${fence}\n`) ? fence.length + 1 : 0
}

const closers = String.raw`[*_"'”»)\]]*`
/** What a remark ends with, wherever the text was cut. */
const remarkEnd = new RegExp(String.raw`(?:[:：…—]|\.\.\.|-{3,}|${"```"}[\w+-]*)${closers} ?$`, "u")
/** What it ends with if a sentence was cut: no other can begin there. */
const sentenceEnd = new RegExp(String.raw`[.。!！]${closers} ?$`, "u")
/** A beginning that reads as a remark. */
const remarkLine = new RegExp(String.raw`^\s*.{1,200}?(?:[:：…]|\.\.\.)${closers}(?=\s)`, "u")

const isRemark = (said: Said, folded: string): boolean => {
  const last = folded.slice(-24)
  return remarkEnd.test(last) || (said.inSentence && sentenceEnd.test(last))
}

/** Remarks begin with a capital, with a letter of a script without capitals, or with a sign. */
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
    space,
    inSentence: /[\p{L}\p{M}\p{N}，、]$/u.test(raw.trimEnd()) && !space.includes("\n"),
    afterComma: /[,;；]$/.test(raw.trimEnd()) && !space.includes("\n"),
    // Only an opening line names a language.
    fence: last !== undefined && /^`{3,}\w/.test(last) ? last : undefined
  }
}

/** How much white space stands before `index`. */
const spaceBefore = (text: string, index: number): number => index - text.slice(0, index).trimEnd().length

const isSpace = (unit: string): boolean => unit.trim() === ""

/** One code unit without case, and white space as a blank. The length stays. */
const foldUnit = (unit: string): string => {
  if (unit === "" || isSpace(unit)) return unit === "" ? "" : " "
  const lower = unit.toLowerCase()
  return lower.length === 1 ? lower : unit
}

/** Without case, with one blank for each run of white space but the first. */
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

/** Where the folded character `index` of `text` begins, or where `text` ends behind its last one. */
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

/** Where a repetition ends in `held`, with the white space that has been said as well. */
const rawEnd = (said: Said, held: string, { from, length, trimmed }: Repetition): number => {
  const last = rawAt(held, from + length - 1)
  if (trimmed || !isSpace(held.charAt(last))) return last + 1
  const rest = held.slice(last)
  return last + common(rest.slice(0, rest.length - rest.trimStart().length), said.space)
}

/** How many characters two texts have in common at the beginning. */
const common = (a: string, b: string): number => {
  let length = 0
  while (length < a.length && length < b.length && a.charAt(length) === b.charAt(length)) length++
  return length
}

/** The length of the longest beginning of `a` that is an end of `b`. Linear (Knuth, Morris and Pratt). */
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

/** For each n, how much of the end of `text` also stands n characters before it. Linear (the Z function). */
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
