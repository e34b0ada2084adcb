/**
 * A `ProviderModel` over AI SDK models: one request per attempt, no retry, aborted with its fiber or stream.
 *
 * The whole prompt is sent every time: `previousResponseId` is not used. What a client warns of (a setting that
 * a model does not know, a part that it left out) is dropped.
 */
import type { ProviderFailure } from "@outlast/agent/failure/ProviderFailure"
import type { Secrets } from "@outlast/agent/failure/Redaction"
import type { ModelInfo } from "@outlast/agent/failover/ModelInfo"
import type { ProviderModel, ProviderRequest } from "@outlast/agent/failover/ProviderModel"
import { Cause, Effect, Pull, Redacted, Stream } from "effect"
import type { Response } from "effect/ai"
import type { NonEmptyReadonlyArray } from "effect/Array"
import { isReadonlyArrayNonEmpty } from "effect/Array"
import * as Answer from "./Answer.ts"
import type * as Spec from "./Spec.ts"
import * as Failures from "./SpecError.ts"
import * as Prompts from "./SpecPrompt.ts"
import * as Tools from "./SpecTools.ts"

/** What differs from wire format to wire format, and is known to no client. */
export interface Dialect {
  /** See `SpecPrompt.Options`. */
  readonly toolFiles: Prompts.Options["toolFiles"]
  /** The namespace that takes `strictJsonSchema`; absent where schemas need not be complete. */
  readonly strictSchemas?: string | undefined
  /** The endpoint knows JSON but no schemas: the schema is written into the prompt. Default `false`. */
  readonly schemaInPrompt?: boolean | undefined
}

export interface Options {
  readonly info: ModelInfo
  readonly dialect: Dialect
  readonly settings: Spec.CallSettings
  readonly headers: Readonly<Record<string, string>>
  readonly providerOptions: Spec.Namespaced
  readonly create: (key: string | undefined) => Spec.SpecModel
}

/** Clients that are kept, one per key; the oldest goes first. Clients may hold tokens worth keeping. */
const maxClients = 32

export const make = (options: Options): ProviderModel => {
  const clientOf = clients(options.create)
  const attempt = (request: ProviderRequest) => {
    const key = request.key === undefined ? undefined : Redacted.value(request.key)
    const failureOf = (error: unknown) => Failures.failureOf(error, secretsOf(request, key, options.headers))
    const prepare = (signal: AbortSignal) => {
      const client = clientOf(key)
      return { client, call: callOptions(request, client, signal, options) }
    }
    return { failureOf, prepare }
  }

  const generateText = (request: ProviderRequest) => {
    const { failureOf, prepare } = attempt(request)
    return Effect.tryPromise({
      try: async (signal) => {
        const { client, call } = prepare(signal)
        return Answer.whole(await client.doGenerate(call), request.responseFormat.type === "json")
      },
      catch: failureOf
    }).pipe(
      Effect.flatMap(({ parts, failure }) =>
        failure === undefined ? Effect.succeed(parts) : Effect.fail(failure)
      )
    )
  }

  const streamText = (request: ProviderRequest) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const { failureOf, prepare } = attempt(request)
        // Not the signal of the effect that opens the stream: this one must live as long as the stream.
        const controller = yield* Effect.acquireRelease(
          Effect.sync(() => new AbortController()),
          (controller) => Effect.sync(() => controller.abort())
        )
        const { stream } = yield* Effect.tryPromise({
          try: async () => {
            const { client, call } = prepare(controller.signal)
            return client.doStream(call)
          },
          catch: failureOf
        })
        return decode(Stream.fromReadableStream({ evaluate: () => stream, onError: failureOf }), failureOf)
      })
    )

  return { info: options.info, generateText, streamText }
}

/** One pass over the arrays of a stream; the parts before a failure are emitted before it. */
const decode = (
  source: Stream.Stream<Spec.StreamPart, ProviderFailure>,
  failureOf: (error: unknown) => ProviderFailure
): Stream.Stream<Response.StreamPartEncoded, ProviderFailure> =>
  Stream.transformPull(source, (upstream) =>
    Effect.sync(() => {
      type Pulled = Pull.Pull<NonEmptyReadonlyArray<Response.StreamPartEncoded>, ProviderFailure>
      const reader = Answer.reader(failureOf)
      let failure: ProviderFailure | undefined
      const pull: Pulled = Effect.suspend((): Pulled => {
        if (failure !== undefined) return Effect.fail(failure)
        if (reader.finished()) return Cause.done()
        return Pull.matchEffect(upstream, {
          onSuccess: (parts): Pulled => {
            const read = reader.read(parts)
            failure = read.failure
            return isReadonlyArrayNonEmpty(read.parts) ? Effect.succeed(read.parts) : pull
          },
          onFailure: (cause) => Effect.failCause(cause),
          // Behind a finish nothing is pulled: this end came without one.
          onDone: () => Effect.fail(Failures.cut())
        })
      })
      return pull
    })
  )

const clients = (create: Options["create"]): Options["create"] => {
  const made = new Map<string | undefined, Spec.SpecModel>()
  return (key) => {
    const kept = made.get(key)
    if (kept !== undefined) return kept
    const client = create(key)
    if (made.size >= maxClients) made.delete(made.keys().next().value)
    made.set(key, client)
    return client
  }
}

const secretsOf = (
  request: ProviderRequest,
  key: string | undefined,
  headers: Readonly<Record<string, string>>
): Secrets => ({
  // Headers may carry the key of a gateway; one that is shorter is a flag or a number.
  values: [
    ...(key === undefined ? [] : [key]),
    ...Object.values(headers).filter((value) => value.length >= 8)
  ],
  prompt: Prompts.texts(request.prompt)
})

const callOptions = (
  request: ProviderRequest,
  client: Spec.SpecModel,
  signal: AbortSignal,
  { dialect, settings, headers, providerOptions }: Options
): Spec.CallOptions => {
  const format = request.responseFormat.type === "json" ? Tools.jsonFormat(request.responseFormat) : undefined
  const prompt = Prompts.encode(request.prompt, {
    version: client.specificationVersion,
    toolFiles: dialect.toolFiles
  })
  return {
    ...settings,
    prompt:
      format !== undefined && dialect.schemaInPrompt === true ? [schemaMessage(format), ...prompt] : prompt,
    ...(request.maxOutputTokens === undefined ? undefined : { maxOutputTokens: request.maxOutputTokens }),
    ...(request.tools.length === 0
      ? undefined
      : { tools: request.tools.map(Tools.tool), toolChoice: Tools.toolChoice(request.toolChoice) }),
    ...(format === undefined
      ? undefined
      : { responseFormat: { type: "json", name: format.name, schema: format.schema } }),
    abortSignal: signal,
    headers,
    providerOptions: withStrictness(providerOptions, format, dialect)
  }
}

const withStrictness = (
  options: Spec.Namespaced,
  format: Tools.JsonFormat | undefined,
  { strictSchemas }: Dialect
): Spec.Namespaced =>
  format === undefined || strictSchemas === undefined
    ? options
    : { ...options, [strictSchemas]: { strictJsonSchema: format.strict, ...options[strictSchemas] } }

const schemaMessage = (format: Tools.JsonFormat): Spec.Message => ({
  role: "system",
  content: `Answer with nothing but JSON that is valid against this JSON Schema:\n${JSON.stringify(format.schema)}`
})
