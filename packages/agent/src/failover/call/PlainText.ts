/**
 * `generateText` for calls without tools, with one decoder for all of them.
 *
 * effect/ai 4.1 builds the schema of the answer in each such call, which takes longer than everything else in it
 * (`docs/upstream.md`). {@link over} takes the place of that one path, and leaves every other call to effect/ai: tools,
 * approvals, objects, streams, a `ResponseIdTracker`, a span transformer. The request, the span, the answer and the
 * errors are the same; `PlainText.test.ts` compares both paths on generated answers.
 *
 * Metadata that is plainly JSON, as that of this package and of its providers is, does not go through the schema.
 */
import { Context, Effect, Option, Predicate, Schema } from "effect"
import { AiError, IdGenerator, LanguageModel, Prompt, Response, ResponseIdTracker } from "effect/ai"
import { Telemetry, Toolkit } from "effect/ai"
import { either } from "../target/Timed.ts"

type Service = Context.Service.Shape<typeof LanguageModel.LanguageModel>
type Hook = Parameters<typeof LanguageModel.make>[0]["generateText"]
type Options = LanguageModel.GenerateTextOptions<{}>
type Content = Array<Response.Part<{}>>
type Whole = (
  options: Options
) => Effect.Effect<LanguageModel.GenerateTextResponse<{}>, AiError.AiError, IdGenerator.IdGenerator>

/** The model, whose plain calls decode with one schema. `hook` is the one that the model was made with. */
export const over = (model: Service, hook: Hook): Effect.Effect<Service> =>
  Effect.withFiber(({ context }) => {
    // As `LanguageModel.make`, which takes both where the model is made.
    if (Option.isSome(Context.getOption(context, Telemetry.CurrentSpanTransformer))) {
      return Effect.succeed(model)
    }
    const generator = Option.getOrElse(
      Context.getOption(context, IdGenerator.IdGenerator),
      () => IdGenerator.defaultIdGenerator
    )
    // The methods pass on what they are given, and give what they get.
    const ask = model.generateText as unknown as Whole
    const generateText: Whole = (options) =>
      hasNoTools(options)
        ? Effect.withFiber(({ context }) => {
            const prompt = Prompt.make(options.prompt)
            return isSpecial(context) || prompt.content.some(isApproval)
              ? ask(options)
              : asked(hook, prompt, options, generator)
          })
        : ask(options)
    return Effect.succeed({ ...model, generateText } as unknown as Service)
  })

/** True without a toolkit, and for an empty one that is resolved. */
const hasNoTools = ({ toolkit }: Options): boolean =>
  toolkit === undefined || (!Effect.isEffect(toolkit) && isEmpty(toolkit.tools))

const isEmpty = (tools: object): boolean => Object.keys(tools).length === 0

/** True where effect/ai does more with the call. */
const isSpecial = (context: Context.Context<never>): boolean =>
  Option.isSome(Context.getOption(context, ResponseIdTracker.ResponseIdTracker)) ||
  Option.isSome(Context.getOption(context, Telemetry.CurrentSpanTransformer))

const isApproval = ({ role, content }: Prompt.Message): boolean =>
  role === "tool" && content.some(({ type }) => type === "tool-approval-response")

/** Calls the model as `generateText` of effect/ai does. */
const asked = (
  hook: Hook,
  prompt: Prompt.Prompt,
  { concurrency = "unbounded", toolChoice = "auto", disableToolCallResolution, toolCallValidation }: Options,
  generator: IdGenerator.Service
): ReturnType<Whole> =>
  Effect.useSpan("LanguageModel.generateText", { kind: "client" }, (span) => {
    const answered = Effect.suspend(() => {
      span.attribute("gen_ai.output.type", "text")
      span.attribute(
        "effect.ai.tool_choice",
        typeof toolChoice === "string" ? toolChoice : JSON.stringify(toolChoice)
      )
      span.attribute("effect.ai.concurrency", concurrency)
      const isDeferred = disableToolCallResolution === true && toolCallValidation === "deferred"
      const request: LanguageModel.ProviderOptions = {
        prompt,
        tools: [],
        toolChoice: "none",
        responseFormat: { type: "text" },
        span,
        previousResponseId: undefined,
        incrementalPrompt: undefined,
        ...(isDeferred ? { toolCallValidation: "deferred" } : undefined)
      }
      return Effect.flatMap(hook(request), (parts) =>
        either(decoded(parts, isDeferred), wrongOutput, (content) =>
          Effect.succeed(new LanguageModel.GenerateTextResponse(content))
        )
      )
    })
    return Effect.provideService(
      Effect.withParentSpan(answered, span, { captureStackTrace: false }),
      IdGenerator.IdGenerator,
      generator
    )
  })

const wrongOutput = (error: Schema.SchemaError): Effect.Effect<never, AiError.AiError> =>
  Effect.fail(
    AiError.make({
      module: "LanguageModel",
      method: "generateText",
      reason: AiError.InvalidOutputError.fromSchemaError(error)
    })
  )

// -----------------------------------------------------------------------------
// Decoding
// -----------------------------------------------------------------------------

type Decode = (parts: ReadonlyArray<Response.PartEncoded>) => Effect.Effect<Content, Schema.SchemaError>

const decoderOf = (part: Schema.Top): Decode =>
  // Parts without tools need no services.
  Schema.decodeUnknownEffect(Schema.mutable(Schema.Array(part))) as unknown as Decode

const part = Response.Part(Toolkit.empty)

/** Any call of a tool, for programs that check calls themselves. */
const anyCall = Response.ToolCallPart("", Schema.Unknown).mapFields((fields) => ({
  ...fields,
  name: Schema.String
}))

let strict: Decode | undefined
let deferred: Decode | undefined

/** The parts as effect/ai gives them. */
const decoded = (
  parts: ReadonlyArray<Response.PartEncoded>,
  isDeferred: boolean
): Effect.Effect<Content, Schema.SchemaError> => {
  const decode = isDeferred
    ? (deferred ??= decoderOf(Schema.Union([part, anyCall])))
    : (strict ??= decoderOf(part))
  let metadata: Array<Metadata | undefined> | undefined
  const bare = parts.map((part, i) => {
    const given = metadataOf(part)
    if (given === undefined) return part
    metadata ??= []
    metadata[i] = given
    return { ...part, metadata: undefined }
  })
  if (metadata === undefined) return decode(parts)
  const kept = metadata
  return either(decode(bare), Effect.fail, (content) => {
    for (let i = 0; i < kept.length; i++) {
      const metadata = kept[i]
      const part = content[i]
      // The decoder has just made the array.
      if (part !== undefined && metadata !== undefined) content[i] = { ...part, metadata }
    }
    return Effect.succeed(content)
  })
}

type Metadata = Response.ProviderMetadata

/** The metadata of a part, where it is certainly JSON. The schema has the last word about any other. */
const metadataOf = (part: Response.PartEncoded): Metadata | undefined => {
  const metadata: unknown = Predicate.isObject(part) ? part.metadata : undefined
  // A record of JSON is the metadata of a part.
  return isRecord(metadata) && isJson(metadata, 0) ? (metadata as Metadata) : undefined
}

/** Deeper values are left to the schema. */
const maxDepth = 8

const isJson = (value: unknown, depth: number): boolean => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true
    case "number":
      return Number.isFinite(value)
    case "object": {
      if (value === null) return true
      if (depth === maxDepth) return false
      if (Array.isArray(value)) return value.every((item) => isJson(item, depth + 1))
      return isRecord(value) && Object.values(value).every((item) => isJson(item, depth + 1))
    }
    default:
      return false
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype
