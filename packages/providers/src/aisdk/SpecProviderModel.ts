/**
 * A `ProviderModel` over AI SDK models: one request per attempt, no retry, aborted with its fiber or stream.
 *
 * The whole prompt is sent every time: `previousResponseId` is not used. What a client warns of (a setting that
 * a model does not know, a part that it left out) is told to calls of the AI SDK, and dropped for others.
 */
import { AnswerFacts } from "@outlast/agent/failure"
import type { Redaction } from "@outlast/agent/failure"
import { Classifier, ProviderFailure } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Options } from "@outlast/resilience"
import type { Pull } from "effect"
import { Cause, Effect, Predicate, Redacted, Stream } from "effect"
import type { Response } from "effect/ai"
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Answer from "./Answer.ts"
import * as ClientCall from "./ClientCall.ts"
import * as Connection from "./Connection.ts"
import { isCredential, ofHeaders } from "./Secrets.ts"
import type * as Spec from "./Spec.ts"
import * as Failures from "./SpecError.ts"
import * as Prompts from "./SpecPrompt.ts"
import * as Tools from "./SpecTools.ts"

/** What differs from wire format to wire format, and is known to no client. */
export interface WireFormat {
  /** See `SpecPrompt.Options`. */
  readonly toolFiles: Prompts.Options["toolFiles"]
  /** The namespace that takes `strictJsonSchema`; absent where schemas need not be complete. */
  readonly strictSchemas?: string | undefined
  /** The endpoint knows JSON but no schemas: the schema is written into the prompt. Default `false`. */
  readonly schemaInPrompt?: boolean | undefined
  /** Streams report usage, so whole answers may be asked for as streams. Default: `"request"`. */
  readonly wholeAnswers?: ModelInfo.WholeAnswers | undefined
  /**
   * The client is the program's own: what a call of the AI SDK asks goes to it as it is, without what the formats of
   * this package need besides. Default `false`.
   */
  readonly asGiven?: boolean | undefined
  /** What must change for the model with this prompt: the last word on a call. */
  readonly fit?: ((call: Spec.CallOptions, info: ModelInfo.ModelInfo) => Spec.CallOptions) | undefined
}

export interface Options {
  readonly info: ModelInfo.ModelInfo
  readonly format: WireFormat
  readonly settings: Spec.CallSettings
  readonly headers: Readonly<Record<string, string>>
  readonly providerOptions: Spec.Namespaced
  readonly create: (key: string | undefined) => Spec.SpecModel
}

/** Clients that are kept, one per key; the oldest goes first. Clients may hold tokens worth keeping. */
const maxClients = 32

export const make = (options: Options): ProviderModel.ProviderModel => {
  const clientOf = clients(options.create)
  // Headers may carry the key of a gateway.
  const headerSecrets = ofHeaders(options.headers)
  const attempt = Effect.fnUntraced(function* (request: ProviderModel.ProviderRequest) {
    const rules = yield* Classifier.Rules
    const ofCall = yield* ClientCall.current
    const key = request.key === undefined ? undefined : Redacted.value(request.key)
    let provider: string | undefined
    const failureOf = (error: unknown) => {
      // Only a failure costs a walk through the prompt.
      const secrets: Redaction.Secrets = {
        values: [
          ...(key === undefined ? [] : [key]),
          ...headerSecrets,
          ...(ofCall === undefined ? [] : ofHeaders(headersOf(ofCall)))
        ],
        prompt: Prompts.texts(request.prompt)
      }
      return Failures.failureOf(error, { secrets, rules, provider })
    }
    let isHeard = false
    const onHeaders = (headers: unknown) => {
      isHeard = true
      hear(request, headers)
    }
    /** What the client hands on, with the answer: for those whose `fetch` tells nothing before. */
    const handedOn = (headers: unknown) => {
      if (!isHeard) hear(request, headers)
    }
    const thrown = (error: unknown) => {
      // A failure has headers, too: often the ones that matter.
      if (Predicate.hasProperty(error, "responseHeaders")) handedOn(error.responseHeaders)
      return failureOf(error)
    }
    const prepare = (signal: AbortSignal) => {
      const client = clientOf(key)
      provider = client.provider
      if (ofCall !== undefined) ofCall.answered = {}
      return { client, call: callOptions(request, client, signal, options, ofCall) }
    }
    const sent = <A>(call: (signal: AbortSignal) => Promise<A>) =>
      Connection.within(request.limits?.connect, { try: call, catch: thrown, onHeaders })
    return { failureOf, handedOn, ofCall, prepare, sent }
  })

  const generateText = (request: ProviderModel.ProviderRequest) =>
    attempt(request).pipe(
      Effect.flatMap(({ failureOf, handedOn, ofCall, prepare, sent }) =>
        Effect.flatMap(
          sent(async (signal) => {
            const { client, call } = prepare(signal)
            const result = await client.doGenerate(call)
            handedOn(result.response?.headers)
            // A client that does not heed the signal may answer when another attempt is under way.
            if (!signal.aborted) ofCall?.answer(result)
            const answer = Answer.whole(result, call.responseFormat?.type === "json", ofCall)
            // A client that takes any JSON for an answer, Google's, hands an error on as an empty one.
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
      )
    )

  const streamText = (request: ProviderModel.ProviderRequest) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const { failureOf, handedOn, ofCall, prepare, sent } = yield* attempt(request)
        // Not the signal of the effect that opens the stream: this one must live as long as the stream.
        const controller = new AbortController()
        const reader = Answer.reader(failureOf, request.responseFormat.type === "json", ofCall)
        let opened: Source | undefined
        const abort = Effect.sync(() => {
          if (opened !== undefined) cancel(opened)
          controller.abort()
        })
        // A body that ends by itself leaves its connection for the next request: `StreamEnd` may still read it.
        yield* Effect.addFinalizer(() =>
          opened === undefined || !reader.finished() ? abort : Effect.forkDetach(rest(opened, abort))
        )
        const { source, contentType } = yield* sent(async () => {
          const { client, call } = prepare(controller.signal)
          const { stream, request: sentRequest, response } = await client.doStream(call)
          handedOn(response?.headers)
          // Its warnings are in the stream.
          if (!controller.signal.aborted) ofCall?.answer({ request: sentRequest, response })
          const source = stream.getReader()
          // A client that does not heed the signal answers nobody: its stream would stay open.
          if (controller.signal.aborted) cancel(source)
          return { source, contentType: contentTypeOf(response?.headers) }
        })
        opened = source
        return decode(source, reader, failureOf, contentType)
      })
    )

  return { info: options.info, reportsHeaders: true, generateText, streamText }
}

/** Hands the headers to the limiter. Whatever it does with them, the attempt goes on. */
const hear = ({ heard }: ProviderModel.ProviderRequest, headers: unknown): void => {
  if (heard === undefined || headers === undefined) return
  try {
    heard(headers)
  } catch {
    // Limits are not learned from headers that cannot be read.
  }
}

type Source = ReadableStreamDefaultReader<Spec.StreamPart>

/** Not waited for, and its failure is nobody's: the request is aborted anyhow. */
const cancel = (source: Source): void => {
  source.cancel().catch(() => {})
}

/** Milliseconds that a body has to end behind the finish of its answer. */
const restWithin = 1_000

/** Reads to the end of the body, for a moment; `abort` closes one that does not end. */
const rest = (source: Source, abort: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.tryPromise(() => source.read()).pipe(
    Effect.repeat({ until: ({ done }) => done }),
    Effect.timeout(restWithin),
    Effect.catch(() => abort)
  )

/** The parts as they come. */
const decode = (
  source: Source,
  reader: Answer.Reader,
  failureOf: (error: unknown) => ProviderFailure.ProviderFailure,
  contentType: string | undefined
): Stream.Stream<Response.StreamPartEncoded, ProviderFailure.ProviderFailure> =>
  Stream.fromPull(
    Effect.sync(() => {
      type Pulled = Pull.Pull<
        NonEmptyReadonlyArray<Response.StreamPartEncoded>,
        ProviderFailure.ProviderFailure
      >
      // The clients take a page or an error body for a stream that was cut before its first event.
      const cut = (cause: ProviderFailure.ProviderFailure): ProviderFailure.ProviderFailure =>
        cause.evidence.rule === "stream/cut" && !reader.said() && isOther(contentType)
          ? Failures.notStream(contentType)
          : cause
      const next = Effect.tryPromise({ try: () => source.read(), catch: failureOf })
      const pull: Pulled = Effect.suspend((): Pulled => {
        if (reader.finished()) return Cause.done()
        return Effect.flatMap(next, ({ done, value }): Pulled => {
          // Behind a finish nothing is read: this end came without one.
          if (done) return Effect.fail(cut(Failures.cut()))
          const read = reader.read(value)
          if (read instanceof ProviderFailure.ProviderFailure) return Effect.fail(failureOf(cut(read)))
          return read === undefined ? pull : Effect.succeed([read])
        })
      })
      return pull
    })
  )

/** The media type of the response, without parameters. */
const contentTypeOf = (headers: Readonly<Record<string, string>> | undefined): string | undefined =>
  headers?.["content-type"]?.split(";")[0]?.trim().toLowerCase()

/** Known to be something else than events. Some servers give no type, or that of plain text. */
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

/** Throws a `ProviderFailure` for a `create` that throws, or that gives no model. */
const created = (create: Options["create"], key: string | undefined): Spec.SpecModel => {
  let client: unknown
  try {
    client = create(key)
    isModel("AiSdk.model", "create(key)", client)
    // The check above has seen it.
    return client as Spec.SpecModel
  } catch (error) {
    // Without it the failure of a promise in place of a model ends the process.
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
  ofCall: ClientCall.ClientCall | undefined
): Spec.CallOptions => {
  const asked = ofCall?.options
  const format = request.responseFormat.type === "json" ? Tools.jsonFormat(request.responseFormat) : undefined
  const prompt = Prompts.encode(request.prompt, {
    version: client.specificationVersion,
    toolFiles: wire.toolFiles
  })
  const call: Spec.CallOptions = {
    ...settings,
    // With what is left out: `undefined` says so.
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
    // A call that is aborted tells its client why.
    abortSignal: asked?.abortSignal === undefined ? signal : AbortSignal.any([asked.abortSignal, signal]),
    headers: ofCall === undefined ? headers : { ...headers, ...headersOf(ofCall) },
    providerOptions: withStrictness(ClientCall.merged(providerOptions, asked?.providerOptions), format, wire)
  }
  return wire.fit === undefined ? call : wire.fit(call, info)
}

/** Clients know which of their models take no temperature; the catalogue knows more models. */
const withoutSampling = (
  { capabilities }: ModelInfo.ModelInfo,
  ofCall: ClientCall.ClientCall | undefined
): Spec.CallSettings | undefined => {
  if (capabilities?.sampling !== false) return undefined
  const asked = sampling.filter((name) => ofCall?.options[name] !== undefined)
  ofCall?.warn(asked.map((feature) => ({ type: "unsupported", feature, details: "The model takes none." })))
  return { temperature: undefined, topP: undefined, topK: undefined }
}

const sampling = ["temperature", "topP", "topK"] as const

/** What is set for the target, where the call of the AI SDK sets nothing. */
const defined = (settings: Spec.CallSettings, asked: Asked): Spec.CallSettings =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => Reflect.get(asked, name) === undefined))

/** Keys belong to one target: the headers of a call go to all of them, and carry none. */
const headersOf = ({ options }: ClientCall.ClientCall): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(options.headers ?? {}).filter(
      (header): header is [string, string] => header[1] !== undefined && !isCredential(header[0])
    )
  )

type Asked = ClientCall.ClientCall["options"]

/** JSON of any form. */
const isSchemaless = (asked: Asked | undefined): boolean =>
  asked?.responseFormat?.type === "json" && asked.responseFormat.schema === undefined

/** Chat Completions demands the word in the prompt, and Anthropic has no such format. */
const onlyJson: Spec.Message = { role: "system", content: "Answer with nothing but JSON." }

/** The form of the answer: the one that the AI SDK names, with the schema as strict decoding takes it. */
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

/** A model that cannot be made to call a tool is asked. */
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
