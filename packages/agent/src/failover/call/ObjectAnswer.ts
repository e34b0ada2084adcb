/**
 * Judges an answer that was to be an object: its text is JSON, and the JSON fits the schema of the request.
 *
 * What is wrong is a sentence without a word of the answer, with the place and with what is expected there: it goes into
 * the failure, and into the nudge with which the object is asked for again. `ObjectText` has taken off a fence before.
 */
import { Effect, Schema, SchemaAST } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Format } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local, maxDetail, wrongObject } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

export type ObjectFormat = Extract<LanguageModel.ProviderOptions["responseFormat"], { readonly type: "json" }>

/** The format of a request for an object. `name` is what the model is told; default: as effect/ai names it. */
export const formatOf = (schema: Schema.Top, name: string | undefined): ObjectFormat => ({
  type: "json",
  objectName: name ?? SchemaAST.resolveIdentifier(schema.ast) ?? "object",
  schema
})

/** The answer ends with the object: calls of the program come before it. */
export const isDue = (parts: ReadonlyArray<Response.AllPartsEncoded>): boolean =>
  !parts.some((part) => part.type === "tool-call" && part.providerExecuted !== true)

/** The object in `text`. Fails with what is wrong with it. */
export const read = ({ schema }: ObjectFormat, text: string): Effect.Effect<unknown, string> => {
  const json = parsed(text)
  return "problem" in json ? Effect.fail(json.problem) : decoderOf(schema)(json.value)
}

/** The failure of an attempt whose answer is not the object that was asked for. */
export const failure = (problem: string, target: TargetRef | undefined): ProviderFailure =>
  local(wrongObject, new Format({ side: "response", problem }), target)

const parsed = (text: string): { readonly value: unknown } | { readonly problem: string } => {
  if (text.trim() === "") return { problem: "there is no text" }
  try {
    const value: unknown = JSON.parse(text)
    return { value }
  } catch (error) {
    // The rest of the message quotes the answer.
    const message = error instanceof Error ? error.message : ""
    const isCut =
      /^Unterminated|^Unexpected end/.test(message) ||
      Number(/ at position (\d+)/.exec(message)?.[1]) >= text.length
    return { problem: isCut ? "the JSON ends too early" : "the text is not JSON" }
  }
}

/** The keys in a place that the schema does not name, as those of a record: they are the answer's own words. */
const withoutKeys = (message: string, schema: string): string =>
  message.replaceAll(/\[("(?:[^"\\]|\\.)*")\]/g, (place, key: string) =>
    schema.includes(`${key}:`) ? place : "[*]"
  )

type Decoder = (value: unknown) => Effect.Effect<unknown, string>

/** Making a decoder costs more than decoding. */
const decoders = new WeakMap<object, Decoder>()

const decoderOf = (schema: ObjectFormat["schema"]): Decoder => {
  const known = decoders.get(schema)
  if (known !== undefined) return known
  // The format carries any schema; effect/ai has checked that this one can be encoded.
  const { codec, jsonSchema } = LanguageModel.defaultCodecTransformer(schema as Schema.Codec<unknown>)
  const decode = Schema.decodeUnknownEffect(codec)
  // The services of the schema are in the context of the call: effect/ai decodes with them, too.
  const made: Decoder = (value) =>
    Effect.mapError(decode(value, { errors: "all" }), ({ message }) =>
      withoutKeys(message, JSON.stringify(jsonSchema))
        .replaceAll(/\s*\n\s*/g, " ")
        .slice(0, maxDetail)
    )
  decoders.set(schema, made)
  return made
}
