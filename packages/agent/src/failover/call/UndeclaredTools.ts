/**
 * Calls and results of tools that the provider runs, and that the program has not declared: those of an MCP server that
 * the provider asks, for example, whose names the program does not know. Also those of declared tools that do not fit
 * the schemas of the tool: a search that failed (`max_uses_exceeded`) inside a good answer, and the call that made it.
 *
 * effect/ai decodes every part by the tools of the call, and fails for such parts. {@link make} takes its place: the parts
 * travel through it as the metadata of a response, and are parts again for the caller, whose next turn sends them back to
 * the provider. Their arguments and results are JSON; no schema has seen them.
 */
import type { Context } from "effect"
import { Array as Arr, Effect, Option, Schema, Stream } from "effect"
import { LanguageModel, Response, Tool } from "effect/ai"
import { namespace } from "../../conversation/Answered.ts"
import * as PlainText from "./PlainText.ts"

type Encoded = Response.ToolCallPartEncoded | Response.ToolResultPartEncoded
type Carrier = Response.ResponseMetadataPartEncoded

type Hooks = Parameters<typeof LanguageModel.make>[0]

/** A `LanguageModel` whose answers may have such parts. Whole answers come through {@link inAnswer} already. */
export const make = ({
  generateText,
  streamText
}: Pick<Hooks, "generateText" | "streamText">): ReturnType<typeof LanguageModel.make> =>
  LanguageModel.make({
    generateText: PlainText.resumed(generateText),
    streamText: (options) =>
      Stream.mapArray(streamText(options), (parts) =>
        parts.some(isOfTool)
          ? Arr.map(parts, (part): Response.StreamPartEncoded => carried(part, options))
          : parts
      )
  }).pipe(
    Effect.flatMap((model) => PlainText.over(model, generateText)),
    Effect.map(restoring)
  )

/** The parts of a whole answer as effect/ai takes them. */
export const inAnswer = (
  parts: Array<Response.PartEncoded>,
  options: LanguageModel.ProviderOptions
): Array<Response.PartEncoded> => (parts.some(isOfTool) ? parts.map((part) => carried(part, options)) : parts)

/** Arrays without such a part are passed on as they are: this is on the path of each part of a stream. */
const isOfTool = ({ type }: Response.AllPartsEncoded): boolean =>
  type === "tool-call" || type === "tool-result"

/** The other way. */
const mayCarry = ({ type }: Response.AnyPart): boolean => type === "response-metadata"

/** The part as effect/ai takes it. */
const carried = <P extends Response.AllPartsEncoded>(
  part: P,
  { tools, toolCallValidation }: LanguageModel.ProviderOptions
): P | Carrier => {
  if (part.type !== "tool-call" && part.type !== "tool-result") return part
  // Where validation is deferred, effect/ai takes any call.
  if (part.type === "tool-call" && toolCallValidation === "deferred") return part
  if (part.providerExecuted !== true) return part
  const tool = tools.find(({ name }) => name === part.name)
  return tool === undefined || !isFitting(part, tool) ? carrier(part) : part
}

/** True for a part that effect/ai can decode by the schemas of its tool. */
const isFitting = (part: Encoded, tool: Tool.Any): boolean => {
  const schema =
    part.type === "tool-call"
      ? tool.parametersSchema
      : part.isFailure
        ? Tool.failureResultSchema(tool)
        : tool.successSchema
  try {
    // A schema with services throws here, and effect/ai has them.
    const decode = Schema.decodeUnknownOption(schema as Schema.Codec<unknown>)
    return Option.isSome(decode(part.type === "tool-call" ? part.params : part.result))
  } catch {
    return true
  }
}

const key = "undeclared"

const carrier = (part: Encoded): Carrier => ({
  type: "response-metadata",
  // Metadata is JSON, which has no undefined.
  metadata: { [namespace]: { [key]: JSON.parse(JSON.stringify(part)) } }
})

const restored = (part: Response.AnyPart): Response.AnyPart => {
  if (part.type !== "response-metadata") return part
  const ours = part.metadata[namespace]
  if (typeof ours !== "object" || ours === null || !(key in ours)) return part
  // Only `carrier` writes this.
  const encoded = ours[key] as unknown as Encoded
  const { id, name, metadata } = encoded
  if (encoded.type === "tool-call") {
    const { params } = encoded
    return Response.makePart("tool-call", { id, name, params, providerExecuted: true, metadata })
  }
  const { result, isFailure, preliminary = false } = encoded
  const own = { id, name, result, encodedResult: result, providerExecuted: true, preliminary, metadata }
  // Two types of parts by one flag.
  return Response.makePart("tool-result", { ...own, isFailure } as Parameters<
    typeof Response.makePart<"tool-result">
  >[1])
}

type Service = Context.Service.Shape<typeof LanguageModel.LanguageModel>
type Answer = { readonly content: ReadonlyArray<Response.AnyPart> }
type Whole = (options: unknown) => Effect.Effect<Answer, unknown>
type Streaming = (options: unknown) => Stream.Stream<Response.AnyPart, unknown>

/** The model, with those parts in its answers. */
const restoring = (model: Service): Service =>
  ({
    [LanguageModel.TypeId]: LanguageModel.TypeId,
    generateText: whole(model.generateText as unknown as Whole),
    generateObject: whole(model.generateObject as unknown as Whole),
    streamText: streaming(model.streamText as unknown as Streaming)
    // The methods pass on what they are given, and give what they get.
  }) as unknown as Service

const whole =
  (ask: Whole): Whole =>
  (options) =>
    Effect.map(ask(options), (answer) => {
      if (!answer.content.some(mayCarry)) return answer
      const content = answer.content.map(restored)
      return content.every((part, i) => part === answer.content[i])
        ? answer
        : // The same class, with the getters over its content.
          Object.assign(Object.create(Object.getPrototypeOf(answer)), answer, { content })
    })

const streaming =
  (ask: Streaming): Streaming =>
  (options) =>
    Stream.mapArray(ask(options), (parts) => (parts.some(mayCarry) ? Arr.map(parts, restored) : parts))
