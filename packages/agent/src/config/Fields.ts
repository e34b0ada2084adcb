/** Fields of configurations: times, counts and shares with their ranges, and the errors of a wrong value. */
import { Data, Duration, Predicate, Result, Schema } from "effect"
import type { SchemaIssue } from "effect"
import { SchemaIssue as Issue } from "effect"
import { Options } from "@outlast/resilience"

// -----------------------------------------------------------------------------
// Fields
// -----------------------------------------------------------------------------

/** A time as text, such as `2 minutes`, or as a number of milliseconds. */
export const time = (
  description: string,
  range: { readonly min: Duration.Input; readonly max: Duration.Input }
) => {
  const [min, max] = [Duration.fromInputUnsafe(range.min), Duration.fromInputUnsafe(range.max)]
  const expected = `a time from ${Duration.format(min)} to ${Duration.format(max)}, such as "30 seconds"`
  return Schema.Union([Schema.DurationFromString, Schema.DurationFromMillis])
    .check(
      Schema.makeFilter(
        (value: Duration.Duration) =>
          (Duration.isGreaterThanOrEqualTo(value, min) && Duration.isLessThanOrEqualTo(value, max)) ||
          `Expected ${expected}`
      )
    )
    .annotate({ description, expected })
}

export const count = (description: string, minimum = 1, maximum = 1_000_000) =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum })).annotate({ description })

export const number = (description: string, minimum: number, maximum: number) =>
  Schema.Finite.check(Schema.isBetween({ minimum, maximum })).annotate({ description })

export const share = (description: string, minimum = 0) => number(description, minimum, 1)

export const flag = (description: string) => Schema.Boolean.annotate({ description })

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** One problem: the path of the field, such as `policy.limits.connect`, and what is wrong. Quotes no value. */
export interface Problem {
  /** Empty for the configuration as a whole. */
  readonly path: string
  readonly problem: string
}

/** A configuration that cannot be used. The message names every problem with its path. */
export class ConfigInvalid extends Data.TaggedError("ConfigInvalid")<{
  readonly problems: ReadonlyArray<Problem>
}> {
  override get message(): string {
    const { problems } = this
    const lines = problems.map(({ path, problem }) => `  ${path === "" ? "" : `${path}: `}${problem}`)
    return [
      `The configuration has ${problems.length === 1 ? "a problem" : `${problems.length} problems`}.`,
      ...lines
    ].join("\n")
  }
}

/** Decodes a value. Reports every problem, including unknown fields with those that exist. */
export const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })
  const document = Schema.toJsonSchemaDocument(schema)
  return (input: unknown): Result.Result<S["Type"], ConfigInvalid> =>
    Result.mapError(
      decode(input),
      ({ issue }) => new ConfigInvalid({ problems: problemsOf(issue, document, input) })
    )
}

const formatted = Issue.makeFormatterStandardSchemaV1()

/** `input` is what was decoded, where it is known: a word that is nearly one of those allowed gets a hint. */
export const problemsOf = (
  issue: SchemaIssue.Issue,
  { schema }: Pick<ReturnType<typeof Schema.toJsonSchemaDocument>, "schema">,
  input?: unknown
): ReadonlyArray<Problem> => {
  const problems = formatted(issue).issues.map(({ path = [], message }) => {
    const keys = path.map((part) => (typeof part === "object" ? part.key : part))
    const known = message.includes("excess") ? fieldsAt(schema, keys.slice(0, -1)) : []
    const value = valueAt(input, keys)
    const near =
      known.length > 0
        ? Options.nearest(String(keys.at(-1)), known)
        : typeof value === "string"
          ? Options.nearest(value, wordsAt(schema, keys))
          : undefined
    const meant = near === undefined ? "" : ` Did you mean ${near}?`
    const problem =
      known.length > 0
        ? `is not a field.${meant} Fields: ${known.join(", ")}`
        : `${lowered(message)}${meant === "" ? "" : `.${meant}`}`
    return { path: pathText(keys), problem }
  })
  // A value of several forms has a problem with each. A problem of a field inside says most, then the last form.
  const isOuter = ({ path }: Problem) =>
    problems.some((one) => one.path.startsWith(`${path}.`) || one.path.startsWith(`${path}[`))
  return [...new Map(problems.map((one) => [one.path, one])).values()].filter((one) => !isOuter(one))
}

/** `routes.smart.targets[0].model`. */
const pathText = (keys: ReadonlyArray<PropertyKey>): string =>
  keys.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : `${text}${text === "" ? "" : "."}${String(key)}`,
    ""
  )

const lowered = (message: string): string =>
  message
    .replace(/^Expected/, "expected")
    .replace("Missing key", "is required")
    .replace("a string representing a finite number", "a number")
    .replace("a valid Duration string", 'a time such as "30 seconds", or a number of milliseconds')

/** The form of a JSON Schema that has fields, where it has several forms. */
export const withFields = (schema: unknown): unknown =>
  Predicate.hasProperty(schema, "anyOf") && Array.isArray(schema.anyOf)
    ? (schema.anyOf.find((form: unknown) => Predicate.hasProperty(form, "properties")) ?? schema)
    : schema

/** The names of the fields at a path of a JSON Schema. */
const fieldsAt = (schema: unknown, path: ReadonlyArray<PropertyKey>): ReadonlyArray<string> => {
  const found = withFields(schemaAt(schema, path))
  return Predicate.hasProperty(found, "properties") && Predicate.isObject(found.properties)
    ? Object.keys(found.properties)
    : []
}

/** The words that are allowed at a path of a JSON Schema. */
const wordsAt = (schema: unknown, path: ReadonlyArray<PropertyKey>): ReadonlyArray<string> => {
  const found = schemaAt(schema, path)
  return Predicate.hasProperty(found, "enum") && Array.isArray(found.enum)
    ? found.enum.filter((word) => typeof word === "string")
    : []
}

const schemaAt = (schema: unknown, [first, ...rest]: ReadonlyArray<PropertyKey>): unknown => {
  if (first === undefined) return schema
  if (typeof first === "number") return schemaAt(fieldOf(schema, "items"), rest)
  const form = withFields(schema)
  const own = fieldOf(fieldOf(form, "properties"), first)
  // A record has any names.
  return schemaAt(own ?? fieldOf(form, "additionalProperties"), rest)
}

const fieldOf = (value: unknown, name: PropertyKey): unknown =>
  Predicate.hasProperty(value, name) ? value[name] : undefined

const valueAt = (input: unknown, path: ReadonlyArray<PropertyKey>): unknown => path.reduce(fieldOf, input)
