/**
 * Reads the body of a Gemini request, and the conversation in it.
 *
 * Fields without a rule have no type. Only their names are checked.
 */
import { Result, Schema } from "effect"
import type { Message } from "../../plan/Conversation.ts"
import type { Misfit } from "../shape.ts"
import { read } from "../shape.ts"

const Fields = Schema.Record(Schema.String, Schema.Json)

const PartSchema = Schema.Struct({
  text: Schema.optionalKey(Schema.String),
  inlineData: Schema.optionalKey(Schema.Struct({ mimeType: Schema.String, data: Schema.String })),
  fileData: Schema.optionalKey(
    Schema.Struct({ mimeType: Schema.optionalKey(Schema.String), fileUri: Schema.String })
  ),
  functionCall: Schema.optionalKey(
    Schema.Struct({
      name: Schema.String,
      args: Schema.optionalKey(Fields),
      id: Schema.optionalKey(Schema.String)
    })
  ),
  functionResponse: Schema.optionalKey(
    Schema.Struct({ name: Schema.String, response: Fields, id: Schema.optionalKey(Schema.String) })
  ),
  executableCode: Schema.optionalKey(Fields),
  codeExecutionResult: Schema.optionalKey(Fields),
  thought: Schema.optionalKey(Schema.Boolean),
  thoughtSignature: Schema.optionalKey(Schema.String)
})
export type Part = typeof PartSchema.Type

/** The data fields of a part. Exactly one of them must be set. */
export const dataFields = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult"
] as const

const Parts = Schema.optionalKey(Schema.Array(PartSchema))

const ContentSchema = Schema.Struct({ role: Schema.optionalKey(Schema.String), parts: Parts })

const Config = Schema.Struct({
  maxOutputTokens: Schema.optionalKey(Schema.Int),
  temperature: Schema.optionalKey(Schema.Finite),
  topP: Schema.optionalKey(Schema.Finite),
  topK: Schema.optionalKey(Schema.Finite),
  responseMimeType: Schema.optionalKey(Schema.String),
  responseSchema: Schema.optionalKey(Fields),
  responseJsonSchema: Schema.optionalKey(Schema.Json),
  thinkingConfig: Schema.optionalKey(
    Schema.Struct({
      includeThoughts: Schema.optionalKey(Schema.Boolean),
      thinkingBudget: Schema.optionalKey(Schema.Int),
      thinkingLevel: Schema.optionalKey(Schema.String)
    })
  )
})

const Outer = Schema.Struct({
  contents: Schema.optionalKey(Schema.Array(ContentSchema)),
  systemInstruction: Schema.optionalKey(Schema.Struct({ parts: Parts })),
  tools: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        functionDeclarations: Schema.optionalKey(Schema.Array(Schema.Struct({ name: Schema.String })))
      })
    )
  ),
  toolConfig: Schema.optionalKey(
    Schema.Struct({
      functionCallingConfig: Schema.optionalKey(
        Schema.Struct({ mode: Schema.optionalKey(Schema.Literals(["AUTO", "ANY", "NONE", "VALIDATED"])) })
      )
    })
  ),
  generationConfig: Schema.optionalKey(Config)
})

/** Allowed fields at the top level. */
export const knownFields: ReadonlySet<string> = new Set([
  ...Object.keys(Outer.fields),
  "cachedContent",
  "continuationToken",
  "labels",
  "model",
  "safetySettings",
  "serviceTier",
  "store"
])

/** Allowed fields in `generationConfig`. */
export const knownConfig: ReadonlySet<string> = new Set([
  ...Object.keys(Config.fields),
  "audioTimestamp",
  "candidateCount",
  "enableEnhancedCivicAnswers",
  "frequencyPenalty",
  "imageConfig",
  "logprobs",
  "mediaResolution",
  "presencePenalty",
  "responseLogprobs",
  "responseModalities",
  "seed",
  "speechConfig",
  "stopSequences"
])

/** One content. The default role is the user. */
export interface Content {
  readonly role: string
  readonly parts: ReadonlyArray<Part>
}

export interface Body extends Omit<typeof Outer.Type, "contents"> {
  readonly raw: Readonly<Record<string, Schema.Json>>
  readonly contents: ReadonlyArray<Content>
}

/** Returns the body, or the message with which the API refuses its shape. */
export const bodyOf = (json: Schema.Json): Result.Result<Body, string> =>
  Result.mapBoth(read(Outer, json), {
    onFailure: sentence,
    onSuccess: ({ contents = [], ...body }) => ({
      ...body,
      // An object, because the schema has accepted it as a struct.
      raw: json as Readonly<Record<string, Schema.Json>>,
      contents: contents.map(({ role = "user", parts = [] }) => ({ role, parts }))
    })
  })

const sentence = ({ path, missing, expected }: Misfit): string => {
  const place = path.reduce(
    (before, name) =>
      /^\d+$/.test(name) ? `${before}[${name}]` : `${before}${before === "" ? "" : "."}${snake(name)}`,
    ""
  )
  return missing
    ? `* GenerateContentRequest.${place}: required field is not set`
    : `Invalid value at '${place}': ${expected}`
}

/** Google names fields in snake case in its messages. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export const callsIn = ({ role, parts }: Content): ReadonlyArray<NonNullable<Part["functionCall"]>> =>
  role === "model"
    ? parts.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [functionCall]))
    : []

export const responsesIn = ({ parts }: Content): ReadonlyArray<NonNullable<Part["functionResponse"]>> =>
  parts.flatMap(({ functionResponse }) => (functionResponse === undefined ? [] : [functionResponse]))

/** Returns the conversation in the form that a plan reads. A call without an id is identified by its name. */
export const conversationOf = ({ contents, systemInstruction }: Body): ReadonlyArray<Message> => [
  ...(systemInstruction?.parts ?? []).map(({ text = "" }): Message => ({ role: "system", text })),
  ...contents.flatMap((content): ReadonlyArray<Message> => {
    const text = content.parts.map(({ text = "", thought = false }) => (thought ? "" : text)).join("")
    if (content.role === "model") {
      const toolCalls = callsIn(content).map(({ id, name, args = {} }) => ({
        id: id ?? name,
        name,
        params: args
      }))
      return [{ role: "assistant", text, toolCalls }]
    }
    const results = responsesIn(content).map(({ id, name, response }): Message => ({
      role: "tool",
      id: id ?? name,
      text: resultText(response)
    }))
    const said = content.parts.some(({ functionResponse }) => functionResponse === undefined)
    return said ? [...results, { role: "user", text }] : results
  })
]

/** Returns the text under one of the names that clients use, or else all of it. */
const resultText = (response: typeof Fields.Type): string => {
  const { content, output, result, error } = response
  return (
    [content, output, result, error].find((value) => typeof value === "string") ?? JSON.stringify(response)
  )
}
