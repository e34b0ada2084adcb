/** Reads a JSON body by a schema, and describes the first problem for the messages of an API. */
import { Result, Schema, SchemaIssue } from "effect"

/** The first problem: its path, and whether the value is missing. */
export interface Misfit {
  readonly path: ReadonlyArray<string>
  readonly missing: boolean
  /** The expected value, in the schema's words. */
  readonly expected: string
}

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => (issue._tag === "MissingKey" ? missing : SchemaIssue.defaultLeafHook(issue))
})
const missing = "missing"

export const read = <S extends Schema.Decoder<unknown>>(
  schema: S,
  value: unknown
): Result.Result<S["Type"], Misfit> =>
  Result.mapError(Schema.decodeUnknownResult(schema)(value), (error): Misfit => {
    const [first] = format(error.issue).issues
    const path = (first?.path ?? []).map((segment) =>
      String(typeof segment === "object" ? segment.key : segment)
    )
    return { path, missing: first?.message === missing, expected: first?.message ?? "" }
  })

/** Returns parsed JSON, or `undefined` for anything else. */
export const parse = (text: string): Schema.Json | undefined => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
