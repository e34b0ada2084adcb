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
      ({ issue }) => new ConfigInvalid({ problems: problemsOf(issue, document) })
    )
}

const formatted = Issue.makeFormatterStandardSchemaV1()

export const problemsOf = (
  issue: SchemaIssue.Issue,
  document: ReturnType<typeof Schema.toJsonSchemaDocument>
): ReadonlyArray<Problem> => {
  const problems = formatted(issue).issues.map(({ path = [], message }) => {
    const keys = path.map((part) => String(Predicate.isObject(part) && "key" in part ? part.key : part))
    const known = message.includes("excess") ? fieldsAt(document.schema, keys.slice(0, -1)) : []
    const near = Options.nearest(keys.at(-1) ?? "", known)
    const meant = near === undefined ? "" : ` Did you mean ${near}?`
    const problem =
      known.length === 0 ? lowered(message) : `is not a field.${meant} Fields: ${known.join(", ")}`
    return { path: keys.join("."), problem }
  })
  // A value of several forms has a problem with each. A problem of a field inside says most, then the last form.
  const isOuter = ({ path }: Problem) => problems.some((one) => one.path.startsWith(`${path}.`))
  return [...new Map(problems.map((one) => [one.path, one])).values()].filter((one) => !isOuter(one))
}

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
const fieldsAt = (forms: unknown, path: ReadonlyArray<string>): ReadonlyArray<string> => {
  const schema = withFields(forms)
  const properties = Predicate.hasProperty(schema, "properties") ? schema.properties : {}
  if (!Predicate.isObject(properties)) return []
  const [first, ...rest] = path
  if (first === undefined) return Object.keys(properties)
  if (Predicate.hasProperty(properties, first)) return fieldsAt(properties[first], rest)
  // A record has any names.
  return Predicate.hasProperty(schema, "additionalProperties")
    ? fieldsAt(schema.additionalProperties, rest)
    : []
}
