/**
 * How what a tool is asked changes from call to call: whether it goes through a list.
 *
 * Two calls of one form have their texts in common, or a beginning and an end of each; what is between is what is asked
 * about. Where all of that is new to the tool, it is the next thing of a list: the next file, the next customer. Where
 * some of it was asked before it is the same question in other words. Pure.
 */
import * as Hash from "./Hash.ts"
import { mixed } from "./Hash.ts"
import type { WordSet } from "./WordSet.ts"
import * as WordSets from "./WordSet.ts"

type Words = ReadonlyArray<number>

export interface Asked {
  /** The words of the arguments, text by text. */
  readonly leaves: ReadonlyArray<Words>
  /** Of those that ask in words of one's own: none if it does not. */
  readonly question: Words
  readonly questionHash: number
  /** Those that say where in a list or when. */
  readonly places: Words
}

export interface Form extends Omit<Asked, "places"> {
  /** Words that the run had met until then. */
  readonly met: number
  /** What went wrong with it; 0 if nothing did. */
  readonly trouble: number
  /** Calls of this form that went well. */
  readonly well: number
}

/** The last call of each form that a tool was asked in; newest first, at most {@link maxForms}. */
export type Forms = ReadonlyArray<Form>

/** Forms of one tool that are told apart: a shell has many. */
export const maxForms = 6

/** Who writes more that is new writes prose, and goes through no list. */
const prose = 6

/** Words at the beginning that two texts have in common. */
const beginning = (last: Words, words: Words): number => {
  const shortest = Math.min(last.length, words.length)
  let n = 0
  while (n < shortest && last[n] === words[n]) n++
  return n
}

/** Words at the end that they have in common, behind so many at the beginning. */
const ending = (last: Words, words: Words, begun: number): number => {
  const most = Math.min(last.length, words.length) - begun
  let n = 0
  while (n < most && last[last.length - 1 - n] === words[words.length - 1 - n]) n++
  return n
}

const nothing: Words = []

/** What a call is to those before it. */
export interface Look {
  /** The form that it is most alike; `undefined` if it has nothing in common with any. */
  readonly form: Form | undefined
  /** Words that they have in common, at the same place. */
  readonly common: number
  readonly forms: Forms
}

export const noForms: Forms = []

export const look = (forms: Forms, { leaves }: Asked): Look => {
  let best: Form | undefined
  let common = 0
  let most = 0
  for (const form of forms) {
    let begins = 0
    let ends = 0
    for (let i = 0; i < leaves.length; i++) {
      const words = leaves[i] ?? nothing
      const before = form.leaves[i] ?? nothing
      const from = beginning(before, words)
      begins += from
      ends += ending(before, words, from)
    }
    // A command begins with what is done: with the same verb it is more alike than about the same thing.
    const alike = 2 * begins + ends
    if (alike <= most) continue
    most = alike
    best = form
    common = begins + ends
  }
  return { form: best, common, forms }
}

/** What a call asks about: what was asked about before, something else, or it is another question altogether. */
export type Subject =
  | "known"
  | "next"
  /** The same again, but for a page or a point in time: the next part of a list, or just the same. */
  | "later"
  /** About what the same call as before has made: another order like the last one, another run of the same job. */
  | "again"
  | "other"

/** Of a question of several words one is another: the same is asked of the next thing. */
const isFilledIn = (
  form: Form | undefined,
  common: number,
  leaves: ReadonlyArray<Words>,
  question: Words
): boolean =>
  form !== undefined &&
  question.length >= minTemplate &&
  form.question.length === question.length &&
  wordsIn(leaves) - common === 1

/** So many are a list: calls that went well, names of new things. */
export const several = 3

/** Whether the word that is there now is one that stood further behind, where another is now: `> 100 and <= 150` and on. */
const endedThere = (last: Words, words: Words, n: number): boolean => {
  const end = last.indexOf(words[n] ?? 0, n + 1)
  return end > n && words[end] !== last[end]
}

/** Words of a question that has a place for one. */
const minTemplate = 3

/** The first call of a tool asks for something else than those before. `bred`: some call made something again. */
export const subjectOf = (
  { form, forms, common }: Look,
  known: WordSet,
  toolId: number,
  { leaves, question, questionHash, places }: Asked,
  bred: boolean
): Subject => {
  if (forms.length === 0) return "next"
  // Another question is the same in other words where it has one of them in common.
  if (
    question.length > 0 &&
    form?.questionHash !== questionHash &&
    !isFilledIn(form, common, leaves, question)
  ) {
    const isKnown = question.length > prose || question.some((word) => isAsked(known, toolId, word))
    return isKnown ? "known" : "other"
  }
  let differs = 0
  let others = 0
  let born = 0
  let passed = 0
  let met = 0
  const formMet = form !== undefined && common * 2 >= wordsIn(leaves) ? form.met : Infinity
  for (let i = 0; i < leaves.length; i++) {
    const words = leaves[i] ?? nothing
    const last = form?.leaves[i] ?? nothing
    // Of texts of one length word by word; else what is between their common beginning and end.
    const isAligned = last.length === words.length
    const from = isAligned ? 0 : beginning(last, words)
    const to = isAligned ? words.length : words.length - ending(last, words, from)
    for (let n = from; n < to; n++) {
      const word = words[n] ?? 0
      if (isAligned && word === last[n]) continue
      differs++
      if (bred && WordSets.has(known, bornWord(word))) {
        born++
        continue
      }
      const isPlace = places.includes(word)
      if (!isPlace) others++
      // What was first met since this was asked last is the next thing of another list, too: for each host three commands.
      const number = WordSets.numberOf(known, askedWord(toolId, word))
      const isMet = number > 0 && number <= formMet
      // Where one part ends, the next one begins.
      if (isMet && (isPlace || (isAligned && endedThere(last, words, n)))) passed++
      else if (isMet) {
        if (!isAligned) return "known"
        met++
      }
    }
  }
  // One thing is another, and the others before it went well: what is done to each of a list was done to it in another.
  if (met > 0) return met === differs && differs === 1 && (form?.well ?? 0) >= several ? "next" : "known"
  if (differs > 0 && born === differs) return "again"
  if (differs === passed || differs > prose) return "known"
  return others === 0 && passed === 0 ? "later" : "next"
}

/** The form that a call is of: half of its words in common, or both have but one, which is what they ask about. */
export const alike = ({ form, forms, common }: Look, { leaves, question }: Asked): Form | undefined => {
  const words = wordsIn(leaves)
  if (form !== undefined) return common * 2 >= words ? form : undefined
  const last = forms[0]
  return words === 1 && question.length === 0 && last !== undefined && wordsIn(last.leaves) === 1
    ? last
    : undefined
}

/** What differs is one thing, or the end of a text that begins alike. */
const goesOn = (before: ReadonlyArray<Words>, leaves: ReadonlyArray<Words>): boolean => {
  for (let i = 0; i < leaves.length; i++) {
    const words = leaves[i] ?? nothing
    const last = before[i] ?? nothing
    if ((words.length > 1 || last.length > 1) && last[0] !== words[0]) return false
  }
  return true
}

/** What went wrong with the last call like this one; of one that is like none, with the tool's last. */
export const troubleOf = ({ form, forms }: Look): number => (form ?? forms[0])?.trouble ?? 0

/** With one more call; `met`: words that the run has met now. */
export const add = (call: Asked, trouble: number, near: Look, met: number): Forms => {
  const { leaves, question, questionHash } = call
  const words = wordsIn(leaves)
  const { form } = near
  // The last one again.
  if (form !== undefined && form === near.forms[0] && form.trouble === trouble) {
    if (near.common === words && wordsIn(form.leaves) === words && form.questionHash === questionHash)
      return near.forms
  }
  const same = alike(near, call)
  const others = near.forms.length - (same === undefined ? 0 : 1)
  const forms = new Array<Form>(Math.min(others + 1, maxForms))
  const before = same !== undefined && goesOn(same.leaves, leaves) ? same.well : 0
  const well = before + (trouble === 0 ? 1 : 0)
  forms[0] = { leaves, question, questionHash, met, trouble, well }
  let kept = 1
  for (const form of near.forms) {
    if (kept === forms.length) break
    if (form !== same) forms[kept++] = form
  }
  return forms
}

/** By index: it is asked for so often that an iterator each time is felt. */
const wordsIn = (leaves: ReadonlyArray<Words>): number => {
  let words = 0
  for (let i = 0; i < leaves.length; i++) words += leaves[i]?.length ?? 0
  return words
}

const isAsked = (known: WordSet, toolId: number, word: number): boolean =>
  WordSets.has(known, askedWord(toolId, word))

/** A word of the arguments as something that a call made which was made before. */
export const bornWord = (unit: number): number => mixed(unit ^ 0x626f_726e)

/** A word of a result as arguments have it that name it alone. */
export const unitOf = (word: number): number => Hash.step(0, word)

/** A word as something that a tool was asked. */
export const askedWord = (toolId: number, word: number): number => mixed(word ^ toolId)
