/**
 * `generateText` for answers that need no schema: calls without tools, and calls whose tools the program runs itself.
 *
 * effect/ai 4.1 builds the schema of the answer in each call without tools, which takes longer than everything else in
 * it, and decodes every part by a schema (`docs/internals/upstream.md`). {@link over} takes the place of that path. The parts are
 * read by `PlainParts`. An answer with other parts, or with a part that is not right, goes to effect/ai, which decodes it
 * or words the error: the model is not asked again ({@link resumed}).
 *
 * effect/ai keeps every other call: tools that it runs, approvals, objects, streams, a `ResponseIdTracker`, a span
 * transformer. The request, the span, the answer and the errors are the same; `PlainText.test.ts` compares both paths on
 * generated answers.
 */
import { Context, Effect, Option } from "effect"
import { IdGenerator, LanguageModel, Prompt, ResponseIdTracker, Telemetry } from "effect/ai"
import type { AiError, Response, Tool, Toolkit } from "effect/ai"
import { next } from "../target/Timed.ts"
import * as PlainParts from "./PlainParts.ts"

type Service = Context.Service.Shape<typeof LanguageModel.LanguageModel>
type Hook = Parameters<typeof LanguageModel.make>[0]["generateText"]
type Options = LanguageModel.GenerateTextOptions<{}>
type Toolbox = Toolkit.WithHandler<{}>
type Answer = LanguageModel.GenerateTextResponse<{}>
type Whole = (options: Options) => Effect.Effect<Answer, AiError.AiError, IdGenerator.IdGenerator>

/** The answer of a call that effect/ai goes on with. */
const Received = Context.Reference<Array<Response.PartEncoded> | undefined>(
  "@outlast/agent/failover/call/PlainText/Received",
  { defaultValue: () => undefined }
)

/** The hook to make the model with: an answer that has been received takes the place of a request. */
export const resumed =
  (hook: Hook): Hook =>
  (request) =>
    Effect.withFiber((fiber) => {
      const received = fiber.getRef(Received)
      return received === undefined ? hook(request) : Effect.succeed(received)
    })

/** The model, whose plain answers need no schema. `hook` is the one that is {@link resumed} in the model. */
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
      runsNoTools(options)
        ? Effect.withFiber(({ context }) => {
            const prompt = Prompt.make(options.prompt)
            return isSpecial(context) || prompt.content.some(isApproval)
              ? ask(options)
              : asked(hook, ask, { ...options, prompt }, generator)
          })
        : ask(options)
    return Effect.succeed({ ...model, generateText } as unknown as Service)
  })

/** True without a toolkit, for an empty one that is resolved, and where the program runs the tools. */
const runsNoTools = ({ toolkit, disableToolCallResolution }: Options): boolean =>
  toolkit === undefined ||
  disableToolCallResolution === true ||
  (!Effect.isEffect(toolkit) && isEmpty(toolkit.tools))

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
  ask: Whole,
  options: Options & { readonly prompt: Prompt.Prompt },
  generator: IdGenerator.Service
): ReturnType<Whole> =>
  Effect.useSpan("LanguageModel.generateText", { kind: "client" }, (span) => {
    const { toolkit, concurrency = "unbounded", toolChoice = "auto" } = options
    const isDeferred = options.disableToolCallResolution === true && options.toolCallValidation === "deferred"
    const answered = (toolbox: Toolbox | undefined) => {
      const request: LanguageModel.ProviderOptions = {
        prompt: options.prompt,
        ...offeredBy(toolbox, toolChoice),
        responseFormat: { type: "text" },
        span,
        previousResponseId: undefined,
        incrementalPrompt: undefined,
        ...(isDeferred ? { toolCallValidation: "deferred" } : undefined)
      }
      return Effect.flatMap(hook(request), (parts) => {
        const content = PlainParts.of(parts, isDeferred)
        return content === undefined
          ? decoded(ask, toolbox === undefined ? options : { ...options, toolkit: toolbox }, parts)
          : Effect.succeed(new LanguageModel.GenerateTextResponse(content))
      })
    }
    const begun = Effect.suspend(() => {
      span.attribute("gen_ai.output.type", "text")
      span.attribute(
        "effect.ai.tool_choice",
        typeof toolChoice === "string" ? toolChoice : JSON.stringify(toolChoice)
      )
      span.attribute("effect.ai.concurrency", concurrency)
      // An empty type of tools needs no services.
      return Effect.isEffect(toolkit) ? next(toolkit as Effect.Effect<Toolbox>, answered) : answered(toolkit)
    })
    return Effect.provideService(
      Effect.withParentSpan(begun, span, { captureStackTrace: false }),
      IdGenerator.IdGenerator,
      generator
    )
  })

type Offered = Pick<LanguageModel.ProviderOptions, "tools" | "toolChoice">

const offeredBy = (toolbox: Toolbox | undefined, toolChoice: NonNullable<Options["toolChoice"]>): Offered => {
  // The empty type hides the tools.
  const tools = Object.values((toolbox?.tools ?? {}) as Readonly<Record<string, Tool.Any>>)
  if (tools.length === 0) return { tools, toolChoice: "none" }
  const names: ReadonlyArray<string> | undefined =
    typeof toolChoice === "object" && "oneOf" in toolChoice ? toolChoice.oneOf : undefined
  return { tools: names === undefined ? tools : tools.filter(({ name }) => names.includes(name)), toolChoice }
}

/** The answer as effect/ai decodes it, without a second span. */
const decoded = (ask: Whole, options: Options, parts: Array<Response.PartEncoded>): ReturnType<Whole> =>
  Effect.withTracerEnabled(Effect.provideService(ask(options), Received, parts), false)
