/**
 * A `ProviderModel` over AI SDK models: one request per attempt, no retry, aborted with its fiber or stream.
 *
 * Every request has the whole prompt: `previousResponseId` is not used. Warnings of a client (an unknown setting, a
 * dropped part) reach calls of the AI SDK only.
 */
import { WellFormed } from "@outlast/agent/conversation"
import { AnswerFacts } from "@outlast/agent/failure"
import type { Redaction } from "@outlast/agent/failure"
import { Classifier, ProviderFailure } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Options } from "@outlast/resilience"
import type { Fiber, Pull } from "effect"
import { Array as Arr, Cause, Effect, Predicate, Redacted, Stream } from "effect"
import type { Response } from "effect/ai"
import * as Answer from "./Answer.ts"
import * as ClientCall from "./ClientCall.ts"
import * as Connection from "./Connection.ts"
import { isCredential, ofHeaders } from "./Secrets.ts"
import type * as Spec from "./Spec.ts"
import * as Failures from "./SpecError.ts"
import * as Prompts from "./SpecPrompt.ts"
import * as Tools from "./SpecTools.ts"
import * as Thinking from "./Thinking.ts"

/** Differences between wire formats that no client handles. */
export interface WireFormat {
  /** See `SpecPrompt.Options`. */
  readonly toolFiles: Prompts.Options["toolFiles"]
  /** The namespace that takes `strictJsonSchema`. Absent if the format accepts incomplete schemas. */
  readonly strictSchemas?: string | undefined
  /** The endpoint supports JSON but no schemas: the schema is written into the prompt. Default `false`. */
  readonly schemaInPrompt?: boolean | undefined
  /** How to request complete answers. `"stream"` needs streams that report usage. Default: `"request"`. */
  readonly wholeAnswers?: ModelInfo.WholeAnswers | undefined
  /**
   * The client is the program's own: options of an AI SDK call reach it unchanged, without the additions that the
   * formats of this package need. Default `false`.
   */
  readonly asGiven?: boolean | undefined
  /** Adapts a call to the model and the prompt. Applied last. */
  readonly fit?: ((call: Spec.CallOptions, info: ModelInfo.ModelInfo) => Spec.CallOptions) | undefined
}

export interface Options {
  readonly info: ModelInfo.ModelInfo
  /** The name of the provider in the chain. */
  readonly provider: string
  /** The base URL; empty where only the client knows it. */
  readonly endpoint: string
  readonly format: WireFormat
  readonly settings: Spec.CallSettings
  readonly headers: Readonly<Record<string, string>>
  readonly providerOptions: Spec.Namespaced
  readonly create: (key: string | undefined) => Spec.SpecModel
}

/** Clients to keep, one per key. The oldest is dropped first. Clients may cache tokens. */
const maxClients = 32

export const make = (options: Options): ProviderModel.ProviderModel => {
  const clientOf = clients(options.create)
  // Headers may carry the key of a gateway.
  const headerSecrets = ofHeaders(options.headers)
  const attempt = (request: ProviderModel.ProviderRequest, fiber: Fiber.Fiber<unknown, unknown>) => {
    const rules = fiber.getRef(Classifier.Rules)
    const ofCall = ClientCall.currentOf(fiber)?.attempt()
    const key = request.key === undefined ? undefined : Redacted.value(request.key)
    let client: Spec.SpecModel | undefined
    const failureOf = (error: unknown) => {
      // Collected only on failure, because it walks the whole prompt.
      const secrets: Redaction.Secrets = {
        values: [
          ...(key === undefined ? [] : [key]),
          ...headerSecrets,
          ...(ofCall === undefined ? [] : ofHeaders(headersOf(ofCall.call)))
        ],
        prompt: Prompts.texts(request.prompt)
      }
      return Failures.failureOf(error, {
        secrets,
        rules,
        // The client of compatible servers has one name for all of them.
        provider: `${options.provider} ${client?.provider ?? ""}`,
        endpoint: options.endpoint,
        model: client?.modelId,
        waits: true
      })
    }
    let isHeard = false
    const onHeaders = (headers: unknown) => {
      isHeard = true
      hear(request, headers)
    }
    const onRepair = (repair: ProviderModel.Repair) => request.repaired?.(repair)
    /** Passes on the headers of a client whose `fetch` did not report them earlier. */
    const handedOn = (headers: unknown) => {
      if (!isHeard) hear(request, headers)
    }
    const thrown = (error: unknown) => {
      // A failure has headers, too: often the important ones (`retry-after`).
      if (Predicate.hasProperty(error, "responseHeaders")) handedOn(error.responseHeaders)
      return failureOf(error)
    }
    const prepare = (signal: AbortSignal) => {
      client = clientOf(key)
      return { client, call: callOptions(request, client, signal, options, ofCall) }
    }
    const sent = <A>(streams: boolean, call: (signal: AbortSignal) => Promise<A>) =>
      Connection.within(request.limits?.connect, {
        try: call,
        streams,
        catch: thrown,
        onHeaders,
        onRepeated: request.repeated,
        onRepair
      })
    return { failureOf, handedOn, ofCall, prepare, sent, onRepair }
  }

  const generateText = (request: ProviderModel.ProviderRequest) =>
    Effect.withFiber((fiber) => {
      const { failureOf, handedOn, ofCall, prepare, sent, onRepair } = attempt(request, fiber)
      return Effect.flatMap(
        sent(false, async (signal) => {
          const { client, call } = prepare(signal)
          const result = await client.doGenerate(call)
          handedOn(result.response?.headers)
          // A client that ignores the signal may answer while another attempt is in flight.
          if (!signal.aborted) ofCall?.answer(result)
          const answer = Answer.whole(result, call.responseFormat?.type === "json", ofCall, onRepair)
          // Google's client reads any JSON as an answer, so an error arrives as an empty answer.
          const body = result.response?.body
          return answer instanceof ProviderFailure.ProviderFailure && AnswerFacts.isErrorPart(body)
            ? failureOf({ statusCode: 200, responseBody: body, responseHeaders: result.response?.headers })
            : answer
        }),
        (answer) =>
          answer instanceof ProviderFailure.ProviderFailure
            ? Effect.fail(failureOf(answer))
            : Effect.succeed(answer)
      )
    })

  const streamText = (request: ProviderModel.ProviderRequest) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const { failureOf, handedOn, ofCall, prepare, sent, onRepair } = yield* Effect.withFiber((fiber) =>
          Effect.succeed(attempt(request, fiber))
        )
        // A new signal: that of the effect which opens the stream ends too early.
        const controller = new AbortController()
        const reader = Answer.reader(failureOf, request.responseFormat.type === "json", ofCall, onRepair)
        let opened: Source | undefined
        const abort = Effect.sync(() => {
          if (opened !== undefined) cancel(opened)
          controller.abort()
        })
        // A body that ends by itself keeps its connection for the next request: `StreamEnd` may still read it.
        yield* Effect.addFinalizer(() =>
          opened === undefined || !reader.finished() ? abort : Effect.forkDetach(rest(opened, abort))
        )
        const { source, contentType } = yield* sent(true, async () => {
          const { client, call } = prepare(controller.signal)
          const { stream, request: sentRequest, response } = await client.doStream(call)
          handedOn(response?.headers)
          // The stream carries its own warnings.
          if (!controller.signal.aborted) ofCall?.answer({ request: sentRequest, response })
          const source = stream.getReader()
          // A client that ignores the signal has opened a stream without a reader. Cancel closes it.
          if (controller.signal.aborted) cancel(source)
          return { source, contentType: contentTypeOf(response?.headers) }
        })
        opened = source
        return decode(source, reader, failureOf, contentType)
      })
    )

  return { info: options.info, reportsHeaders: true, generateText, streamText }
}

/** Passes the headers to the limiter. The attempt continues even if the limiter throws. */
const hear = ({ heard }: ProviderModel.ProviderRequest, headers: unknown): void => {
  if (heard === undefined || headers === undefined) return
  try {
    heard(headers)
  } catch {
    // Unreadable headers teach no limits.
  }
}

type Source = ReadableStreamDefaultReader<Spec.StreamPart>

/** Cancels without waiting. A failure does not matter, because the request is aborted anyway. */
const cancel = (source: Source): void => {
  source.cancel().catch(() => {})
}

/** Milliseconds to wait for the end of the body after the finish of its answer. */
const restWithin = 1_000

/** Reads to the end of the body. Calls `abort` on a body that does not end in time. */
const rest = (source: Source, abort: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.tryPromise(() => source.read()).pipe(
    Effect.repeat({ until: ({ done }) => done }),
    Effect.timeout(restWithin),
    Effect.catch(() => abort)
  )

/** The parts as they arrive. */
const decode = (
  source: Source,
  reader: Answer.Reader,
  failureOf: (error: unknown) => ProviderFailure.ProviderFailure,
  contentType: string | undefined
): Stream.Stream<Response.StreamPartEncoded, ProviderFailure.ProviderFailure> =>
  Stream.fromPull(
    Effect.sync(() => {
      type Pulled = Pull.Pull<
        Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>,
        ProviderFailure.ProviderFailure
      >
      // The clients read a page or an error body as a stream that was cut before its first event.
      const cut = (cause: ProviderFailure.ProviderFailure): ProviderFailure.ProviderFailure =>
        cause.evidence.rule === "stream/cut" && !reader.said() && isOther(contentType)
          ? Failures.notStream(contentType)
          : cause
      const next = Effect.tryPromise({ try: () => source.read(), catch: failureOf })
      const pull: Pulled = Effect.suspend((): Pulled => {
        if (reader.finished()) return Cause.done()
        return Effect.flatMap(next, ({ done, value }): Pulled => {
          // Reading stops at a finish, so the stream ended without one.
          if (done) return Effect.fail(cut(Failures.cut()))
          const read = reader.read(value)
          if (read instanceof ProviderFailure.ProviderFailure) return Effect.fail(failureOf(cut(read)))
          return Arr.isReadonlyArrayNonEmpty(read) ? Effect.succeed(read) : pull
        })
      })
      return pull
    })
  )

/** The media type of the response, without parameters. */
const contentTypeOf = (headers: Readonly<Record<string, string>> | undefined): string | undefined =>
  headers?.["content-type"]?.split(";")[0]?.trim().toLowerCase()

/** True for a type that is surely not events. Some servers send no type, or that of plain text. */
const isOther = (contentType: string | undefined): contentType is string =>
  contentType === "text/html" || contentType === "application/json"

const clients = (create: Options["create"]): Options["create"] => {
  const made = new Map<string | undefined, Spec.SpecModel>()
  return (key) => {
    const kept = made.get(key)
    if (kept !== undefined) return kept
    const client = created(create, key)
    if (made.size >= maxClients) made.delete(made.keys().next().value)
    made.set(key, client)
    return client
  }
}

/** Throws a `ProviderFailure` if `create` throws or does not return a model. */
const created = (create: Options["create"], key: string | undefined): Spec.SpecModel => {
  let client: unknown
  try {
    client = create(key)
    isModel("AiSdk.model", "create(key)", client)
    // Checked above.
    return client as Spec.SpecModel
  } catch (error) {
    // `create` returned a promise. An unhandled rejection would end the process.
    if (Predicate.isPromiseLike(client)) client.then(undefined, () => {})
    throw Failures.noClient(error)
  }
}

const isModel: Options.Check = (module, field, value) => {
  Options.is.having("a model of the AI SDK, not a promise or a provider", "doGenerate", "doStream")(
    module,
    field,
    value
  )
  const { specificationVersion } = value as Partial<Spec.SpecModel>
  Options.is.oneOf("v3", "v4")(module, `${field}.specificationVersion`, specificationVersion)
}

const callOptions = (
  request: ProviderModel.ProviderRequest,
  client: Spec.SpecModel,
  signal: AbortSignal,
  { format: wire, info, settings, headers, providerOptions }: Options,
  ofCall: ClientCall.ClientAttempt | undefined
): Spec.CallOptions => {
  const asked = ofCall?.call.options
  const format =
    request.responseFormat.type === "json" && !isSchemaless(asked)
      ? Tools.jsonFormat(request.responseFormat)
      : undefined
  const prompt = Prompts.encode(request.prompt, {
    version: client.specificationVersion,
    toolFiles: wire.toolFiles,
    afterResults: info.dialect?.afterResults,
    isForeign: wire.asGiven
  })
  const call: Spec.CallOptions = {
    ...settings,
    // An explicit `undefined` leaves a setting out.
    ...(asked === undefined ? undefined : { ...asked, ...defined(settings, asked) }),
    ...withoutSampling(info, ofCall),
    prompt:
      format !== undefined && wire.schemaInPrompt === true
        ? [schemaMessage(format), ...prompt]
        : isSchemaless(asked) && wire.asGiven !== true
          ? [onlyJson, ...prompt]
          : prompt,
    ...(request.maxOutputTokens === undefined ? undefined : { maxOutputTokens: request.maxOutputTokens }),
    ...(request.tools.length === 0
      ? undefined
      : {
          tools: request.tools.map((tool) => Tools.tool(tool, wire.asGiven)),
          toolChoice: toolChoiceFor(request, info)
        }),
    ...responseFormat(format, asked, wire),
    // Passes the reason of an aborted call on to the client.
    abortSignal: asked?.abortSignal === undefined ? signal : AbortSignal.any([asked.abortSignal, signal]),
    headers: ofCall === undefined ? headers : { ...headers, ...headersOf(ofCall.call) },
    providerOptions: withStrictness(ClientCall.merged(providerOptions, asked?.providerOptions), format, wire)
  }
  const fit = wire.fit === undefined ? call : wire.fit(call, info)
  // The AI SDK's own limit does not count thinking. A lowered one does: the provider has named the sum of both.
  const fitted =
    asked?.maxOutputTokens !== undefined && asked.maxOutputTokens === request.maxOutputTokens
      ? fit
      : Thinking.withinLimit(fit, info, client)
  // The prompt is well-formed. A second look would read the whole conversation at each attempt.
  return { ...WellFormed.of({ ...fitted, prompt: [] }), prompt: fitted.prompt }
}

/** Drops sampling settings for models that refuse them. The catalogue knows more models than the clients. */
const withoutSampling = (
  { capabilities }: ModelInfo.ModelInfo,
  ofCall: ClientCall.ClientAttempt | undefined
): Spec.CallSettings | undefined => {
  if (capabilities?.sampling !== false) return undefined
  const asked = sampling.filter((name) => ofCall?.call.options[name] !== undefined)
  ofCall?.warn(
    asked.map((feature) => ({
      type: "unsupported",
      feature,
      details: "The model does not accept this setting."
    }))
  )
  return { temperature: undefined, topP: undefined, topK: undefined }
}

const sampling = ["temperature", "topP", "topK"] as const

/** Settings of the target that the call of the AI SDK does not set. */
const defined = (settings: Spec.CallSettings, asked: Asked): Spec.CallSettings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => Reflect.get(asked, name) === undefined))

/** Headers of the call, without credentials: the chain sends them to all targets, and a key belongs to one. */
const headersOf = ({ options }: ClientCall.ClientCall): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(options.headers ?? {}).filter(
      (header): header is [string, string] => header[1] !== undefined && !isCredential(header[0])
    )
  )

type Asked = ClientCall.ClientCall["options"]

/** True for a call that asks for JSON without a schema. */
const isSchemaless = (asked: Asked | undefined): boolean =>
  asked?.responseFormat?.type === "json" && asked.responseFormat.schema === undefined

/** Chat Completions requires the word JSON in the prompt, and Anthropic has no such format. */
const onlyJson: Spec.Message = { role: "system", content: "Answer with nothing but JSON." }

/** The format of the answer: the one of the AI SDK's call, with the schema closed for strict decoding. */
const responseFormat = (
  format: Tools.JsonFormat | undefined,
  asked: Asked | undefined,
  wire: WireFormat
): Pick<Spec.CallOptions, "responseFormat"> => {
  const given = asked?.responseFormat
  if (format === undefined) return given === undefined ? {} : { responseFormat: given }
  const { name, schema } = format
  if (given?.type !== "json") return { responseFormat: { type: "json", name, schema } }
  return { responseFormat: wire.asGiven === true ? given : { ...given, name, schema } }
}

/** Offers a free choice to a model that cannot be forced to call a tool. */
const toolChoiceFor = (
  { toolChoice }: ProviderModel.ProviderRequest,
  { capabilities }: ModelInfo.ModelInfo
): Spec.ToolChoice => {
  const choice = Tools.toolChoice(toolChoice)
  const forced = choice.type === "required" || choice.type === "tool"
  return forced && capabilities?.forcedTools === false ? { type: "auto" } : choice
}

const withStrictness = (
  options: Spec.Namespaced,
  format: Tools.JsonFormat | undefined,
  { strictSchemas }: WireFormat
): Spec.Namespaced =>
  format === undefined || strictSchemas === undefined
    ? options
    : { ...options, [strictSchemas]: { strictJsonSchema: format.strict, ...options[strictSchemas] } }

const schemaMessage = (format: Tools.JsonFormat): Spec.Message => ({
  role: "system",
  content: `Answer with nothing but JSON that is valid against this JSON Schema:\n${JSON.stringify(format.schema)}`
})
