/**
 * Checks of options, at construction: a number that nobody could have meant is refused, with its module, its
 * field, its value and what is allowed.
 *
 * Internal to this package but for {@link InvalidOption}, which is a `RangeError` and exported by the package. It throws, because a
 * bad option is a mistake in the program and no outcome of it. It does not parse, it fills in no defaults, and it
 * knows no module's options.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * Options.share("RetryBudget", "ratio", 1.2)
 * // InvalidOption: RetryBudget: ratio must be a finite number from 0 to 1, got 1.2
 * ```
 */
import { Duration, Formatter, Option } from "effect"

/** An option outside its range. */
export class InvalidOption extends RangeError {
  override readonly name = "InvalidOption"
  readonly module: string
  readonly field: string
  readonly value: unknown
  /** What would have been accepted, in words. */
  readonly allowed: string

  constructor(module: string, field: string, value: unknown, allowed: string) {
    super(`${module}: ${field} must be ${allowed}, got ${show(value)}`)
    this.module = module
    this.field = field
    this.value = value
    this.allowed = allowed
  }
}

/** Throws an {@link InvalidOption} unless `holds`. For what lies between two options, such as a cap below its initial. */
export const check = (
  holds: boolean,
  module: string,
  field: string,
  value: unknown,
  allowed: string
): void => {
  if (!holds) throw new InvalidOption(module, field, value, allowed)
}

/** Both ends belong to the range. */
export interface NumberRange {
  /** Default: no lower end. */
  readonly min?: number | undefined
  /** Default: no upper end, but finite. */
  readonly max?: number | undefined
}

/** A finite number within the range. */
export const number = (module: string, field: string, n: number, range: NumberRange = {}): number =>
  inRange(module, field, n, Number.isFinite(n), "a finite number", range)

/** A whole number within the range. */
export const integer = (module: string, field: string, n: number, range: NumberRange = {}): number =>
  inRange(module, field, n, Number.isInteger(n), "an integer", range)

/** A whole number of at least 1, at most `max` where given. */
export const positiveInteger = (
  module: string,
  field: string,
  n: number,
  range: Pick<NumberRange, "max"> = {}
): number => integer(module, field, n, { min: 1, max: range.max })

/** A share, from 0 to 1. */
export const share = (module: string, field: string, n: number): number =>
  number(module, field, n, { min: 0, max: 1 })

/** One of some words: what a type says, for options that come from a file. */
export const oneOf = <const Word extends string>(
  module: string,
  field: string,
  value: Word,
  words: ReadonlyArray<Word>
): Word => {
  if (words.includes(value)) return value
  throw new InvalidOption(module, field, value, words.map((word) => `"${word}"`).join(" or "))
}

/** A boolean. */
export const flag = (module: string, field: string, value: boolean): boolean => {
  check(typeof value === "boolean", module, field, value, "true or false")
  return value
}

/** Both ends belong to the range. */
export interface DurationRange {
  /** Default: 0. */
  readonly min?: Duration.Input | undefined
  /** Default: any finite duration. `Duration.infinity` allows an infinite one. */
  readonly max?: Duration.Input | undefined
}

/**
 * A duration within the range.
 *
 * `Duration` reads NaN as zero; here it is refused like every other input that is no duration.
 */
export const duration = (
  module: string,
  field: string,
  input: Duration.Input,
  range: DurationRange = {}
): Duration.Duration => {
  const min = range.min === undefined ? Duration.zero : Duration.fromInputUnsafe(range.min)
  const max = range.max === undefined ? undefined : Duration.fromInputUnsafe(range.max)
  const parsed = Duration.isDuration(input)
    ? input
    : hasNaN(input)
      ? undefined
      : Option.getOrUndefined(Duration.fromInput(input))
  if (
    parsed !== undefined &&
    Duration.isGreaterThanOrEqualTo(parsed, min) &&
    (max === undefined ? Duration.isFinite(parsed) : Duration.isLessThanOrEqualTo(parsed, max))
  ) {
    return parsed
  }
  const least = Duration.format(min)
  const allowed =
    max === undefined
      ? `a finite duration of at least ${least}`
      : Duration.isFinite(max)
        ? `a duration from ${least} to ${Duration.format(max)}`
        : `a duration of at least ${least}`
  throw new InvalidOption(module, field, input, allowed)
}

/** What {@link duration} checks, in milliseconds. */
export const millis = (
  module: string,
  field: string,
  input: Duration.Input,
  range: DurationRange = {}
): number => Duration.toMillis(duration(module, field, input, range))

const inRange = (
  module: string,
  field: string,
  n: number,
  isKind: boolean,
  noun: string,
  { min, max }: NumberRange
): number => {
  if (isKind && n >= (min ?? -Infinity) && n <= (max ?? Infinity)) return n
  const lower = min === undefined ? "" : max === undefined ? ` of at least ${min}` : ` from ${min}`
  const upper = max === undefined ? "" : min === undefined ? ` of at most ${max}` : ` to ${max}`
  throw new InvalidOption(module, field, n, `${noun}${lower}${upper}`)
}

const hasNaN = (input: Duration.Input): boolean =>
  typeof input === "number"
    ? Number.isNaN(input)
    : typeof input === "object" && input !== null && Object.values(input).some(Number.isNaN)

const show = (value: unknown): string =>
  Duration.isDuration(value) ? Duration.format(value) : Formatter.format(value)
