/**
 * What a call brought: whether it told something new, only tried something new, or neither.
 *
 * A result is read against all that the run has met. It **tells** something when enough of its words are new, when its
 * numbers go on the way they went, or when what had failed goes well; it **goes through** a list when the call asked
 * for the next thing and got it. Both are new. A call **tries** something when it does what was not done before, or when
 * its result is new in details. All else is known. Pure.
 */
import * as WordSet from "./WordSet.ts"
import * as Asking from "./Asking.ts"
import type { FileEdit } from "./FileEdit.ts"
import type { OfResult } from "./Fingerprint.ts"
import * as Progress from "./Progress.ts"
import { maxWords } from "./Scan.ts"
import type { ToolNature } from "./ToolNature.ts"

/** What is known of a call when it ends. */
export interface Ended {
  readonly nature: ToolNature
  /** Its tool carries out what it is given in a language: a shell, a notebook. */
  readonly evaluates: boolean
  /** A shell was to look for something: it ends with 1 when there is nothing. */
  readonly searches: boolean
  readonly subject: Asking.Subject
  /** The host says so. */
  readonly failed: boolean
  readonly edit: FileEdit | undefined
  readonly result: OfResult
  readonly known: WordSet.WordSet
  /** Time was let pass before it. */
  readonly paused: boolean
  /** The last call that was the same, and how many calls ago. */
  readonly earlier: Earlier | undefined
  readonly ago: number
  /** The same of the calls of its tool. */
  readonly own: number
  /** Something else was tried since. */
  readonly stirred: boolean
  /** It has failed and gone well by turns, and nothing was done about it. */
  readonly flaps: boolean
  /** So many things were done again since, and nothing else. */
  readonly redone: number
}

export interface Earlier {
  readonly troubled: boolean
  readonly letters: number
  readonly progress: Progress.Progress
}

export interface Gain {
  readonly failed: boolean
  /** The tool says that the call failed: it failed, has a field for an error, or begins with the words of one. */
  readonly fails: boolean
  /** It failed, or its result tells of an error. What is read may be about errors: there the tool has to say so. */
  readonly troubled: boolean
  readonly waiting: boolean
  /** To the word it was met before. */
  readonly isKnown: boolean
  /** The same words as the last time, whatever their order and the numbers. */
  readonly sameWords: boolean
  /** Its numbers have moved: to where they were not before, or one way. */
  readonly moved: boolean
  /** It is mostly numbers, and they are new: a measurement. */
  readonly measures: boolean
  /** Enough of its words are new. */
  readonly told: boolean
  /** It had failed, and did not now. */
  readonly recovers: boolean
  /** It told something. */
  readonly teaches: boolean
  /** It told something, or got on in a list. */
  readonly isNew: boolean
  /** It is not new, but was not done like this before, or has new details. */
  readonly tries: boolean
  /** Something goes on: what else is asked again may well be asked again. */
  readonly stirs: boolean
  /** It asked for the next thing and found nothing special about it. */
  readonly passes: boolean
  /** An action whose result is what one wanted to know. */
  readonly answers: boolean
  readonly progress: Progress.Progress
}

/** One new word in so many makes a result new; fewer are a detail. */
const detail = 20

/** Of so many numbers one must be new; and of so many words one a number, where numbers are what it is about. */
const few = { ofNumbers: 5, ofWords: 4 }

/** A result of so many words has a content of its own: two things would not share it. */
export const content = 25

/** A result of so many words says something. */
export const sentence = 12

/** What an evaluation of fewer words answers is no finding. */
export const minAnswer = 3

/** Nothing, or a count. */
const findsNothing = ({ troubled, negative, words, numbersInAll }: OfResult): boolean =>
  !troubled && (negative || words <= numbersInAll)

/** A long result is about its first line only where that is a message: `error: …`. */
const isErrorPhrase = ({ phrase, words }: OfResult): boolean =>
  phrase === "message" || (phrase === "short" && words < content)

export const of = (ended: Ended): Gain => {
  const { nature, evaluates, subject, edit, result, earlier } = ended
  const isThought = nature === "thought"
  const isNext = subject !== "known" && subject !== "again"
  // Of a tool that looks, a no is what it found.
  const failed =
    (ended.failed && !(ended.searches && findsNothing(result))) || (result.undone && nature !== "read")
  const fails = failed || result.hasError || (result.beginsTroubled && isErrorPhrase(result))
  // What an edit shows of a file may speak of errors, and so may a file that is read.
  const troubled =
    fails ||
    (result.troubled &&
      nature !== "read" &&
      !(edit !== undefined && result.words >= content && !result.beginsTroubled))
  const isUnseen = !WordSet.has(ended.known, result.hash)
  // Of a long result not every word is remembered: but when it was met as a whole, they all were.
  const freshWords = isUnseen ? result.freshWords : 0
  const freshLines = isUnseen ? result.freshLines : 0
  const freshNumbers = isUnseen ? result.freshNumbers : 0
  const freshAmounts = isUnseen ? result.freshAmounts : 0
  const sameWords = earlier?.letters === result.letters
  const step =
    earlier === undefined
      ? undefined
      : Progress.step(earlier.progress, result, {
          // What a click moves on by one is a page, or a day.
          calls: nature === "poke" ? 0 : ended.ago,
          own: nature === "poke" ? 0 : ended.own,
          same: sameWords,
          troubled: troubled && earlier.troubled,
          stirred: ended.stirred,
          // A number by itself is what one wanted to know.
          redone: result.words >= 2 * result.numbersInAll + 2 ? ended.redone : 0,
          fresh: freshNumbers > 0
        })
  const mostlyNumbers = result.numbersInAll * few.ofWords >= result.words
  // Not all numbers are told apart.
  const isAllRead = result.numbersInAll <= result.numbers.length
  // Of a long text whose words are known a number that is another is a detail.
  const isAbout = mostlyNumbers || nature !== "read" || result.words < content
  const onlyNumbers = result.numbersInAll * 2 >= result.words
  const isTicking =
    (ended.own > 1 || ended.redone > 0) && step !== undefined && step.ticks && !step.moved && isAllRead
  const moved =
    step !== undefined &&
    isAbout &&
    ((step.moved && freshNumbers > 0) ||
      // Few are left: such numbers were met before.
      (step.trends && isUnseen && isAllRead) ||
      (mostlyNumbers &&
        isUnseen &&
        (step.moved || (onlyNumbers && freshAmounts > 0 && !isTicking) || !isAllRead)) ||
      // A name that has a number: the next table, the next file.
      (freshNumbers > 0 && sameWords && result.numbers.length === 0))
  // Numbers that count the calls measure nothing.
  const ticks = step !== undefined && !step.moved && isAllRead && !onlyNumbers
  const measures =
    freshAmounts > 0 &&
    // How much was looked through is no finding.
    !(nature === "read" && result.hasEmptyList && result.words < sentence) &&
    !ticks &&
    freshAmounts * few.ofNumbers >= result.numbersInAll &&
    (mostlyNumbers || (isNext && freshAmounts >= Asking.several))
  // More than so many are not counted.
  const told = freshWords > 0 && (freshWords * detail >= result.words || freshWords >= maxWords)
  const recovers = earlier?.troubled === true && !troubled && isUnseen && !ended.flaps
  const teaches = !isThought && (told || recovers || step?.goesOn === true)
  const answers =
    nature === "act" &&
    // What an edit shows is what it wrote.
    edit === undefined &&
    (result.emptyList ||
      (result.hasEmptyList && !isNext) ||
      result.words >= content ||
      (result.words >= sentence && !isUnseen) ||
      (result.words >= minAnswer && evaluates))
  const passes =
    isNext &&
    !failed &&
    nature !== "poke" &&
    (result.negative ||
      result.words < (nature === "read" && !evaluates && subject !== "next" ? sentence : content))

  // The next part of a log may tell of errors, in words that are known: its times are new.
  const isNextOfLog = nature === "read" && isNext && (measures || result.freshVolatile > Asking.several)
  const isAnother = step === undefined || step.moved || !sameWords
  const getsOn =
    nature === "act"
      ? isNext && edit === undefined && !result.emptyList && result.words < content
      : nature === "advance" && isUnseen && (isAnother || freshNumbers * 2 > result.numbersInAll)
  const goesThrough =
    isNextOfLog ||
    (!troubled &&
      !isThought &&
      nature !== "poke" &&
      (result.freshIds >= Asking.several || (isNext && measures) || getsOn))
  // Of a known call a line is enough; of another it may be one that says what was asked.
  const isMostlyNew = freshLines * 2 >= result.lines && !result.negative && !troubled
  // While one waits, known words and numbers in another order are another state: of a table, a board.
  const isWatched = earlier !== undefined ? ended.paused || result.waiting : nature === "act" && !troubled
  const isRearranged = isWatched && isUnseen && freshNumbers === 0 && result.words >= content
  // And what an action on the next thing shows may be arranged anew.
  const isShown = nature === "act" && isNext && !troubled && freshLines >= 2
  const hasDetails =
    freshWords > 0 ||
    isRearranged ||
    isShown ||
    (freshLines > 0 && (earlier !== undefined || isMostlyNew)) ||
    (earlier === undefined && measures && nature !== "poke") ||
    (passes && !result.negative && isUnseen)
  const isTried =
    nature === "act" &&
    !failed &&
    (earlier === undefined
      ? (!answers || (isUnseen && freshNumbers > 0 && subject !== "later")) && subject !== "again"
      : !evaluates && ((freshNumbers > 0 && !sameWords) || (moved && mostlyNumbers)))
  const isNew = teaches || goesThrough
  const tries = !isNew && !isThought && (hasDetails || isTried)
  return {
    failed,
    fails,
    troubled,
    waiting: result.waiting || ended.paused,
    isKnown: !isUnseen,
    sameWords,
    moved,
    measures,
    told,
    recovers,
    teaches,
    isNew,
    tries,
    stirs: tries || (!isNew && !isThought && !failed && (moved || passes)),
    passes,
    answers,
    progress: told || step === undefined ? Progress.begin(result) : step.progress
  }
}
