/**
 * How what a tool is asked changes from call to call: whether it goes through a list.
 *
 * Two calls of one form have their texts in common, or a beginning and an end of each; what is between is what is asked
 * about. Where all of that is new to the tool, it is the next thing of a list: the next file, the next customer. Where
 * some of it was asked before it is the same question in other words. Pure.
 */
import * as Memory from "./Memory.ts"
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
}

interface Form extends Asked {
  /** What went wrong with it; 0 if nothing did. */
  readonly trouble: number
}

/** The last call of each form, by the tool's id; newest first. */
export type Asking = Memory.Memory<ReadonlyArray<Form>>

/** Forms of one tool that are told apart: a shell has many. */
const maxForms = 6

/** Who writes more that is new writes prose, and goes through no list. */
const prose = 6

interface Difference {
  /** Words of the new text that differ: from, and to before. */
  readonly from: number
  readonly end: number
}

const differenceOf = (last: Words, words: Words): Difference => {
  const shortest = Math.min(last.length, words.length)
  let from = 0
  while (from < shortest && last[from] === words[from]) from++
  let end = words.length
  let lastEnd = last.length
  while (end > from && lastEnd > from && words[end - 1] === last[lastEnd - 1]) {
    end--
    lastEnd--
  }
  return { from, end }
}

const nothing: Words = []

/** Words that two calls have in common, at the same place. */
const common = (last: Asked, asked: Asked): number =>
  asked.leaves.reduce((sum, words, i) => {
    const { from, end } = differenceOf(last.leaves[i] ?? nothing, words)
    return sum + from + words.length - end
  }, 0)

interface Near {
  readonly index: number
  readonly form: Form
  readonly common: number
}

/** The form that it is most alike. */
const nearest = (forms: ReadonlyArray<Form>, asked: Asked): Near | undefined => {
  let best: Near | undefined
  for (const [index, form] of forms.entries()) {
    const found = common(form, asked)
    if (found > (best?.common ?? 0)) best = { common: found, index, form }
  }
  return best
}

/** What a call asks about: what was asked about before, something else, or it is another question altogether. */
export type Subject = "known" | "next" | "other"

/** The first call of a tool asks for something else than those before. */
export const subjectOf = (asking: Asking, known: WordSet, toolId: number, asked: Asked): Subject => {
  const forms = Memory.get(asking, toolId)
  if (forms === undefined) return "next"
  const form = nearest(forms, asked)?.form
  const isKnown = (word: number): boolean => WordSets.has(known, askedWord(toolId, word))
  // Another question is the same in other words where it has one of them in common.
  if (asked.question.length > 0 && form?.questionHash !== asked.questionHash) {
    return asked.question.length > prose || asked.question.some(isKnown) ? "known" : "other"
  }
  let differs = 0
  for (const [i, words] of asked.leaves.entries()) {
    const { from, end } = differenceOf(form?.leaves[i] ?? nothing, words)
    differs += end - from
    for (let at = from; at < end; at++) if (isKnown(words[at] ?? 0)) return "known"
  }
  return differs === 0 || differs > prose ? "known" : "next"
}

/** What went wrong with the last call like this one; of one that is like none, with the tool's last. */
export const troubleOf = (asking: Asking, toolId: number, asked: Asked): number => {
  const forms = Memory.get(asking, toolId)
  return forms === undefined ? 0 : ((nearest(forms, asked)?.form ?? forms[0])?.trouble ?? 0)
}

/** With one more call. */
export const add = (asking: Asking, toolId: number, call: Asked, trouble: number): Asking => {
  const forms = Memory.get(asking, toolId) ?? []
  const near = nearest(forms, call)
  const words = call.leaves.reduce((sum, leaf) => sum + leaf.length, 0)
  // Of one form when they have half of their words in common.
  const same = near !== undefined && near.common * 2 >= words ? near.index : maxForms - 1
  return Memory.set(asking, toolId, [{ ...call, trouble }, ...forms.filter((_, index) => index !== same)])
}

/** A word as something that a tool was asked. */
export const askedWord = (toolId: number, word: number): number => mixed(word ^ (toolId | 0))
