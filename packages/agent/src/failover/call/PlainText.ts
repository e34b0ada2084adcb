/**
 * `generateText` for calls without tools, with one decoder for all of them.
 *
 * effect/ai 4.1 builds the schema of the answer in each such call, which takes longer than everything else in it
 * (`docs/upstream.md`). {@link over} takes the place of that one path, and leaves every other call to effect/ai: tools,
 * approvals, objects, streams, a `ResponseIdTracker`, a span transformer. The request, the span, the answer and the
 * errors are the same; `PlainText.test.ts` compares both paths on generated answers.
 *
 * Our own metadata does not go through the schema: this package has just written it, as plain JSON values.
 */
import { Context, Effect, Option, Predicate, Schema } from "effect"
import { AiError, IdGenerator, LanguageModel, Prompt, Response, ResponseIdTracker } from "effect/ai"
import { Telemetry, Toolkit } from "effect/ai"
import { namespace } from "../../conversation/Answered.ts"
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

/** As effect/ai asks. */
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
  let own: Array<Own | undefined> | undefined
  const foreign = parts.map((part, i) => {
    const ours = ownOf(part)
    if (ours === undefined) return part
    own ??= []
    own[i] = ours
    const { [namespace]: _ours, ...metadata } = part.metadata ?? {}
    return { ...part, metadata }
  })
  if (own === undefined) return decode(parts)
  const kept = own
  return either(decode(foreign), Effect.fail, (content) => {
    for (let i = 0; i < kept.length; i++) {
      const ours = kept[i]
      const part = content[i]
      if (part === undefined || ours === undefined) continue
      // The decoder has just made the array.
      content[i] = { ...part, metadata: { ...part.metadata, [namespace]: ours } }
    }
    return Effect.succeed(content)
  })
}

type Own = Exclude<Response.ProviderMetadata[string], null>

/** The metadata of a part under our name, if all of its fields are plain values. */
const ownOf = (part: Response.PartEncoded): Own | undefined => {
  const ours =
    Predicate.isObject(part) && Predicate.isObject(part.metadata) ? part.metadata[namespace] : undefined
  if (!Predicate.isObject(ours)) return undefined
  for (const value of Object.values(ours)) if (!isPlain(value)) return undefined
  // An object of plain values is JSON.
  return ours as Own
}

const isPlain = (value: unknown): boolean =>
  typeof value === "string" ||
  typeof value === "boolean" ||
  (typeof value === "number" && Number.isFinite(value))
