/**
 * Checks options where they are passed in, so that a bad one fails early.
 *
 * Every public `make`, `layer` and `run` checks all of its options: types, ranges, durations, allowed words and unknown
 * fields. Options also come from JavaScript and from JSON files, where types prove nothing. A bad option is a mistake
 * in the program, so a check throws an {@link InvalidOption} (a `RangeError`).
 *
 * A module lists one {@link Check} for each field of its options and calls {@link fields}. The list is exhaustive by
 * type: an option without a check does not compile. The other functions check one value and return it.
 *
 * **Limits.** The module fills in no defaults. A message shows short values only. The content of an object, of an
 * unknown field, or of a text that may be a key is never shown.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * Options.fields("RetryBudget", { ratio: 1.2 }, { ratio: Options.is.share })
 * // throws InvalidOption: RetryBudget: ratio must be a finite number from 0 to 1, got 1.2
 * Options.fields<object>("RetryBudget", { ratios: 1 }, { ratio: Options.is.share })
 * // throws InvalidOption: RetryBudget: "ratios" is not an option. Did you mean ratio? Options: ratio
 * ```
 */
import { Duration, Effect, Formatter, Layer, Option, Redacted } from "effect"
import * as ErrorText from "./ErrorText.ts"

/** An option that has a value outside its range, or that the module does not know. */
export class InvalidOption extends RangeError {
  override readonly name = "InvalidOption"
  /** The module that was called, for example `RetryBudget`. */
  readonly module: string
  /** The path of the field, for example `limits.connect`. */
  readonly field: string
  /** The value; `undefined` where it may be a secret. */
  readonly value: unknown
  /** A description of the allowed values. */
  readonly allowed: string

  constructor(module: string, field: string, value: unknown, allowed: string, message?: string) {
    super(message ?? `${module}: ${field} must be ${allowed}, got ${show(value)}`)
    this.module = module
    this.field = field
    this.value = Duration.isDuration(value) || !(mayBeKey(value) || isObject(value)) ? value : undefined
    this.allowed = allowed
    // The message already contains both. Loggers that write JSON keep the module and the field.
    ErrorText.brief(this, "value", "allowed")
  }
}

/**
 * Throws an {@link InvalidOption} unless `holds`. Meant for rules between two options, such as a cap below its initial
 * delay.
 */
export const check = (
  holds: boolean,
  module: string,
  field: string,
  value: unknown,
  allowed: string
): void => {
  if (!holds) throw new InvalidOption(module, field, value, allowed)
}

/** A numeric range. `min` and `max` are inclusive. */
export interface NumberRange {
  /** Inclusive lower end. Default: no lower end. */
  readonly min?: number | undefined
  /** Exclusive lower end, instead of `min` (e.g. 0 for a number that must be positive). */
  readonly above?: number | undefined
  /** Inclusive upper end. Default: no upper end, but finite. */
  readonly max?: number | undefined
}

/** Returns a finite number within the range. */
export const number = (module: string, field: string, n: number, range: NumberRange = {}): number =>
  inRange(module, field, n, Number.isFinite(n), "a finite number", range)

/** Returns an integer within the range. */
export const integer = (module: string, field: string, n: number, range: NumberRange = {}): number =>
  inRange(module, field, n, Number.isInteger(n), "an integer", range)

/** Returns an integer of at least 1, and at most `max` where given. */
export const positiveInteger = (
  module: string,
  field: string,
  n: number,
  range: Pick<NumberRange, "max"> = {}
): number => integer(module, field, n, { min: 1, max: range.max })

/** Returns a number from 0 to 1. */
export const share = (module: string, field: string, n: number): number =>
  number(module, field, n, { min: 0, max: 1 })

/** Returns one of the given words, for options that come from a file. */
export const oneOf = <const Word extends string>(
  module: string,
  field: string,
  value: Word,
  words: ReadonlyArray<Word>
): Word => {
  if (words.includes(value)) return value
  throw new InvalidOption(module, field, value, words.map((word) => `"${word}"`).join(" or "))
}

/** Returns a boolean. */
export const flag = (module: string, field: string, value: boolean): boolean => {
  check(typeof value === "boolean", module, field, value, "true or false")
  return value
}

/** Returns an Effect. Rejects a function or a promise passed in its place. */
export const effect = <E>(module: string, field: string, value: E): E => {
  check(Effect.isEffect(value), module, field, value, "an Effect")
  return value
}

/**
 * Builds the error for a wrong return value of a caller's function. `noun` describes the expected value.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * throw Options.wrongReturn("Failover", "isHealthy", Promise.resolve(true), "an Effect<boolean>")
 * // throws InvalidOption: Failover: isHealthy must return an Effect<boolean>, got a promise
 * ```
 */
export const wrongReturn = (module: string, field: string, value: unknown, noun: string): InvalidOption =>
  new InvalidOption(module, field, value, noun, `${module}: ${field} must return ${noun}, got ${show(value)}`)

/** Returns the Effect that a caller's function returned. Throws a {@link wrongReturn} for anything else. */
export const returned = <E>(module: string, field: string, value: E, noun: string): E => {
  if (Effect.isEffect(value)) return value
  throw wrongReturn(module, field, value, noun)
}

/**
 * Returns a `Redacted` that this copy of effect made. The value of one that a second copy made cannot be read: throws an
 * {@link InvalidOption} that says so.
 */
export const redacted = <A>(
  module: string,
  field: string,
  value: Redacted.Redacted<A>
): Redacted.Redacted<A> => {
  if (Object.getPrototypeOf(value) === Object.getPrototypeOf(anyRedacted)) return value
  const allowed = "a Redacted of the same copy of effect"
  const message = `${module}: ${field} comes from a second copy of effect, so its value cannot be read. Run \`npm ls effect\`, keep one version of it, and install again (\`npm dedupe\`).`
  throw new InvalidOption(module, field, undefined, allowed, message)
}

const anyRedacted = Redacted.make("")

/** A range of durations. Both ends are inclusive. */
export interface DurationRange {
  /** Lower end. Default: 0. */
  readonly min?: Duration.Input | undefined
  /** Upper end. Default: any finite duration. `Duration.infinity` also allows an infinite one. */
  readonly max?: Duration.Input | undefined
}

/**
 * Returns a duration within the range.
 *
 * `Duration` reads NaN and an object without a known unit (`{ secs: 5 }`) as zero. Both are rejected here, like every
 * other input that is not a duration.
 */
export const duration = (
  module: string,
  field: string,
  input: Duration.Input,
  range: DurationRange = {}
): Duration.Duration => {
  const [min, max] = endsOf(range)
  return durationIn(module, field, input, min, max)
}

type Ends = readonly [min: Duration.Duration, max: Duration.Duration | undefined]

const endsOf = ({ min, max }: DurationRange): Ends => [
  min === undefined ? Duration.zero : Duration.fromInputUnsafe(min),
  max === undefined ? undefined : Duration.fromInputUnsafe(max)
]

const durationIn = (
  module: string,
  field: string,
  input: Duration.Input,
  ...[min, max]: Ends
): Duration.Duration => {
  const parsed = parseDuration(input)
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

const units: ReadonlySet<string> = new Set([
  "weeks",
  "days",
  "hours",
  "minutes",
  "seconds",
  "milliseconds",
  "microseconds",
  "nanoseconds"
])

const parseDuration = (input: unknown): Duration.Duration | undefined => {
  if (Duration.isDuration(input)) return input
  const hasNaN =
    typeof input === "number"
      ? Number.isNaN(input)
      : isObject(input) && Object.values(input).some((part) => Number.isNaN(part))
  // A `Duration` after a round trip through JSON has other fields, and no unit.
  const hasUnits =
    !isObject(input) ||
    Array.isArray(input) ||
    (Object.keys(input).length > 0 && Object.keys(input).every((unit) => units.has(unit)))
  // `fromInput` returns `None` for anything that is not a duration.
  return hasNaN || !hasUnits ? undefined : Option.getOrUndefined(Duration.fromInput(input as Duration.Input))
}

/** True for an input that {@link duration} can read. The range is not checked. */
export const isDuration = (input: unknown): boolean => parseDuration(input) !== undefined

/** Returns a checked duration in milliseconds. See {@link duration}. */
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
  { min, above, max }: NumberRange
): number => {
  const isAbove = above === undefined || n > above
  if (isKind && isAbove && n >= (min ?? -Infinity) && n <= (max ?? Infinity)) return n
  if (above !== undefined) {
    const most = max === undefined ? "" : ` and at most ${max}`
    throw new InvalidOption(module, field, n, `${noun} above ${above}${most}`)
  }
  const lower = min === undefined ? "" : max === undefined ? ` of at least ${min}` : ` from ${min}`
  const upper = max === undefined ? "" : min === undefined ? ` of at most ${max}` : ` to ${max}`
  throw new InvalidOption(module, field, n, `${noun}${lower}${upper}`)
}

// -----------------------------------------------------------------------------
// All fields of an object
// -----------------------------------------------------------------------------

/**
 * Throws an {@link InvalidOption} unless the value of `field` is allowed. Fields that are `undefined` are not checked.
 */
export type Check = (module: string, field: string, value: unknown) => void

/** One check for each field of `O`. */
export type Checks<O> = { readonly [K in keyof O]-?: Check | Required }

/** The check of a required field. */
export interface Required {
  readonly required: Check
}

/**
 * Checks that `options` is a plain object, that every field is known, and that every value is allowed. A field that is
 * `undefined` counts as absent.
 */
export const fields = <O extends object>(module: string, options: O, checks: Checks<O>): void =>
  fieldsAt(module, "", options, checks)

const fieldsAt = <O extends object>(module: string, path: string, options: O, checks: Checks<O>): void => {
  if (!isRecord(options)) throw new InvalidOption(module, path || "options", options, "an object")
  const table = tableOf(checks)
  // Iterates over the given fields only, because some options are written for each call.
  for (const name in options) {
    const field = path === "" ? name : `${path}.${name}`
    const check = table.checks.get(name)
    if (check === undefined) throw unknownField(module, field, [...table.checks.keys()])
    const value: unknown = options[name]
    if (value !== undefined) check(module, field, value)
  }
  for (const name of table.required) {
    // Names in the table are keys of `O`.
    if (options[name as keyof O] !== undefined) continue
    const field = path === "" ? name : `${path}.${name}`
    throw new InvalidOption(module, field, undefined, "given", `${module}: ${field} is missing`)
  }
}

/** Checks in a form that is fast to look up. */
interface Table {
  readonly checks: ReadonlyMap<string, Check>
  readonly required: ReadonlyArray<string>
}

const tables = new WeakMap<object, Table>()

const tableOf = <O>(checks: Checks<O>): Table => {
  const known = tables.get(checks)
  if (known !== undefined) return known
  const entries = Object.entries<Check | Required>(checks)
  const table: Table = {
    checks: new Map(
      entries.map(([name, check]) => [name, typeof check === "function" ? check : check.required])
    ),
    required: entries.flatMap(([name, check]) => (typeof check === "function" ? [] : [name]))
  }
  tables.set(checks, table)
  return table
}

const unknownField = (module: string, field: string, known: ReadonlyArray<string>): InvalidOption => {
  const shown = mayBeKey(field) ? "a field" : `"${field}"`
  const allowed = known.join(", ")
  return new InvalidOption(
    module,
    mayBeKey(field) ? "" : field,
    undefined,
    allowed,
    `${module}: ${shown} is not an option.${meant(field, known)} Options: ${allowed}`
  )
}

const meant = (field: string, known: ReadonlyArray<string>): string => {
  const near = mayBeKey(field) ? undefined : nearest(field.slice(field.lastIndexOf(".") + 1), known)
  return near === undefined ? "" : ` Did you mean ${near}?`
}

/** Names that other libraries use for one thing. */
const synonyms: ReadonlyArray<ReadonlySet<string>> = [new Set(["baseurl", "endpoint", "url"])]

/**
 * Returns the known name that was probably meant: the same in another case or with other separators (`base_url`), one
 * that shares its stem (`apiKey` and `keys`), or one that a few typing errors lead to. `undefined` if none is near.
 */
export const nearest = (name: string, known: ReadonlyArray<string>): string | undefined => {
  const stem = (name: string): string =>
    name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, "")
      .replace(/s$/, "")
  const own = stem(name)
  if (own.length < 3 || own.length > maxName) return undefined
  const stems = known.map((name) => [name, stem(name)] as const)
  const found =
    stems.find(([, other]) => other === own) ??
    stems.find(([, other]) => synonyms.some((names) => names.has(own) && names.has(other))) ??
    stems.find(([, other]) => other.length > 2 && (own.endsWith(other) || other.endsWith(own)))
  if (found !== undefined) return found[0]
  const allowed = Math.max(1, Math.floor(own.length / 4))
  const typed = stems
    .filter(([, other]) => other.length <= maxName)
    .map(([name, other]) => ({ name, errors: typingErrors(own, other) }))
    .filter(({ errors }) => errors <= allowed)
    .toSorted((a, b) => a.errors - b.errors)
  return typed[0]?.name
}

/** Length of a name that is compared with others, at most. */
const maxName = 80

/** Number of letters that were left out, added, replaced, or swapped with their neighbour. */
export const typingErrors = (a: string, b: string): number => {
  const rows: Array<Array<number>> = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (isSame ? 0 : 1),
          isSwap ? at(i - 2, j - 2) + 1 : Infinity
        )
      )
    }
  }
  return at(a.length, b.length)
}

/**
 * The checks of {@link fields}, by the kind of value.
 *
 * **Example** (Each field has one)
 *
 * ```ts
 * const { is } = Options
 * const checks = { threshold: is.integer({ min: 1 }), window: is.duration({ min: 1 }) }
 * Options.fields("Alerts", { threshold: 5, window: "1 minute" }, checks)
 * ```
 */
export const is = {
  /** A finite number. */
  number:
    (range?: NumberRange): Check =>
    (module, field, value) =>
      // `number` rejects values of other types.
      void number(module, field, value as number, range),
  integer:
    (range?: NumberRange): Check =>
    (module, field, value) =>
      void integer(module, field, value as number, range),
  /** A number from 0 to 1. */
  share: ((module, field, value) => void share(module, field, value as number)) as Check,
  duration: (range: DurationRange = {}): Check => {
    const [min, max] = endsOf(range)
    return (module, field, value) => void durationIn(module, field, value as Duration.Input, min, max)
  },
  /**
   * Runs `check` on a duration that is at least a second in any sensible program. Rejects a positive number below
   * 1,000: numbers are milliseconds, so the caller probably meant seconds.
   */
  seconds:
    (check: Check): Check =>
    (module, field, value) => {
      if (typeof value === "number" && value > 0 && value < 1_000) {
        const allowed = `a duration with its unit, such as "${value} seconds" (a number is milliseconds)`
        throw new InvalidOption(module, field, value, allowed)
      }
      check(module, field, value)
    },
  flag: ((module, field, value) => void flag(module, field, value as boolean)) as Check,
  oneOf:
    (...words: ReadonlyArray<string>): Check =>
    (module, field, value) =>
      void oneOf(module, field, value as string, words),
  /** A string that is not empty. */
  text: ((module, field, value) =>
    check(
      typeof value === "string" && value !== "",
      module,
      field,
      value,
      "a text that is not empty"
    )) as Check,
  /** A function. `example` shows its signature: `(target) => Effect<boolean>`. */
  fn:
    (example: string): Check =>
    (module, field, value) =>
      check(typeof value === "function", module, field, value, `a function ${example}`),
  /** A string, which may be empty. */
  string: ((module, field, value) =>
    check(typeof value === "string", module, field, value, "a string")) as Check,
  effect: ((module, field, value) => void effect(module, field, value)) as Check,
  /** A Layer. `example` shows how to build one. */
  layer:
    (example: string): Check =>
    (module, field, value) =>
      check(Layer.isLayer(value), module, field, value, `a Layer, for example ${example}`),
  /** A service or another object with these members. `noun` describes it and how to get one. */
  having:
    (noun: string, ...members: ReadonlyArray<string>): Check =>
    (module, field, value) =>
      check(
        (isObject(value) || typeof value === "function") && members.every((member) => member in value),
        module,
        field,
        value,
        noun
      ),
  /** An array. `item` checks each element under the name `field[0]`. */
  list:
    (item: Check = anything, noun = "a list"): Check =>
    (module, field, value) => {
      check(Array.isArray(value), module, field, value, noun)
      const elements: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
      elements.forEach((element, index) => item(module, `${field}[${index}]`, element))
    },
  /** A plain object whose fields may have any name. `item` checks each value that is not `undefined`. */
  record:
    (item: Check = anything, noun = "an object"): Check =>
    (module, field, value) => {
      if (!isRecord(value)) throw new InvalidOption(module, field, value, noun)
      for (const [name, element] of Object.entries(value)) {
        if (element !== undefined) item(module, `${field}.${looksLikeKey(name) ? "…" : name}`, element)
      }
    },
  /** An object with these fields and no other. */
  object:
    <O extends object>(checks: Checks<O>): Check =>
    (module, field, value) =>
      fieldsAt(module, field, value as O, checks),
  /** Either `false` (off) or a value that `other` allows. */
  falseOr:
    (other: Check): Check =>
    (module, field, value) => {
      if (value === false) return
      try {
        other(module, field, value)
      } catch (error) {
        if (!(error instanceof InvalidOption) || error.field !== field) throw error
        throw new InvalidOption(module, field, value, `false, or ${error.allowed}`)
      }
    },
  /** A value that one of the two checks allows. The error has the message of the second check. */
  either:
    (first: Check, second: Check): Check =>
    (module, field, value) => {
      try {
        first(module, field, value)
      } catch (error) {
        if (!(error instanceof InvalidOption)) throw error
        second(module, field, value)
      }
    },
  /** Runs `check` without showing the value in the error, since it may be a key. */
  secret:
    (check: Check): Check =>
    (module, field, value) => {
      try {
        check(module, field, value)
      } catch (error) {
        if (!(error instanceof InvalidOption)) throw error
        const message = error.message.replace(/, got .*$/s, "")
        throw new InvalidOption(module, error.field, undefined, error.allowed, message)
      }
    },
  /** The field must be given. */
  required: (required: Check): Required => ({ required }),
  /** Any value. Another function checks it. */
  anything: (() => {}) as Check
} as const

const anything: Check = is.anything

// -----------------------------------------------------------------------------
// Values in messages
// -----------------------------------------------------------------------------

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

/** True for an object written as a literal or read from JSON: not an array, Map, Effect or Layer. */
const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isObject(value) &&
  // Most options are literals. For them this comparison is the whole cost.
  (Object.getPrototypeOf(value) === Object.prototype ||
    (Object.prototype.toString.call(value) === "[object Object]" &&
      !Effect.isEffect(value) &&
      !Layer.isLayer(value)))

/** True for a text as long as a key, or with a long part that contains digits. */
const mayBeKey = (value: unknown): boolean =>
  typeof value === "string" &&
  (value.length > 60 || /(?=[\w-]*\d)[\w-]{12,}/.test(value) || /^(?:sk|pk)-/.test(value))

/** True for a text that cannot be a model name. Model names contain digits too, so the rule is stricter. */
const looksLikeKey = (name: string): boolean => name.length > 60 || /^(?:sk|pk)-|\w{20,}/.test(name)

const show = (value: unknown): string => {
  if (Duration.isDuration(value)) return Duration.format(value)
  // Numbers hide no secrets: `[NaN, 0]` and `{ seconds: -1 }` are durations.
  if (isObject(value) && hasNumbersOnly(value)) return Formatter.format(value)
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`
  if (typeof value === "function") return "a function"
  if (Effect.isEffect(value)) return "an Effect"
  if (Layer.isLayer(value)) return "a Layer"
  if (value instanceof Promise) return "a promise"
  if (isObject(value)) return `${constructorOf(value)}`
  if (typeof value === "string") return mayBeKey(value) ? "a text that is not shown" : JSON.stringify(value)
  return typeof value === "bigint" ? `${value}n` : String(value)
}

const hasNumbersOnly = (value: object): boolean => {
  const all: ReadonlyArray<unknown> = Object.values(value)
  return all.length > 0 && all.length <= 8 && all.every((one) => typeof one === "number")
}

const constructorOf = (value: object): string => {
  const name = (value as { readonly constructor?: { readonly name?: unknown } }).constructor?.name
  return typeof name === "string" && name !== "" && name !== "Object" ? `an instance of ${name}` : "an object"
}
