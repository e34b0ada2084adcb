/**
 * A `ProviderModel` that sends the caller's own request, in the caller's wire format, to an endpoint that speaks it.
 *
 * The body goes on as it came. Changed in its text are the model, the output limit where the call machine has lowered it,
 * the end of the conversation where a cut answer is continued, and for streams of Chat Completions the wish for usage. One attempt, no retry, no redirect. The connection is
 * closed when the attempt is interrupted.
 */
import { Classifier, FailoverReason, ProviderFailure } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { AnswerFacts } from "@outlast/agent/failure"
import { BodyLimit, Connection, Secrets, StaleSocket } from "@outlast/providers/internal"
import type { Wiring } from "@outlast/providers/internal"
import { Array as Arr, Cause, Effect, Redacted, Stream } from "effect"
import type { Fiber, Pull } from "effect"
import type { Response as Ai } from "effect/ai"
import { isFields, parse } from "../json/Json.ts"
import * as Splice from "../json/Splice.ts"
import { EventSplitter } from "../wire/Sse.ts"
import type { Part, Reader, Source } from "../wire/Wire.ts"
import { carrying, RefusedEvent } from "../wire/Wire.ts"
import type { Refusal, WireCall } from "./WireCall.ts"
import { currentOf } from "./WireCall.ts"

type Failure = ProviderFailure.ProviderFailure

export interface Options {
  readonly provider: string
  readonly model: string
  readonly info: ModelInfo.ModelInfo
  readonly wiring: Wiring.Wiring
  /** Sends the requests of targets that have no `fetch` of their own. */
  readonly fetch: typeof globalThis.fetch
}

/** Milliseconds that the rest of a complete answer may take. */
const restWithin = 1_000

export const make = (options: Options): ProviderModel.ProviderModel => {
  const send = StaleSocket.repeated(options.wiring.fetch ?? options.fetch)
  const headerSecrets = Secrets.ofHeaders(options.wiring.headers)
  let takesUsage = options.wiring.streamUsage

  const attempt = (request: ProviderModel.ProviderRequest, fiber: Fiber.Fiber<unknown, unknown>) => {
    const call = currentOf(fiber)
    const rules = fiber.getRef(Classifier.Rules)
    const key = request.key === undefined ? undefined : Redacted.value(request.key)
    call.attempts++
    const source: Source = { target: request.target, headers: undefined, dropped: undefined }
    call.begins(source, request.failed)

    let usage = takesUsage ? call.asksUsage : undefined

    const failureOf = (error: unknown): Failure => {
      const failure = Classifier.failureOf(error, {
        rules,
        provider: options.provider,
        model: options.model,
        endpoint: options.wiring.baseUrl,
        waits: true,
        secrets: {
          values: [...(key === undefined ? [] : [key]), ...headerSecrets],
          prompt: call.prompt
        }
      })
      call.failed(source, failure.reason._tag, refusalOf(error, failure))
      return failure
    }

    const open = (signal: AbortSignal): Promise<Response> =>
      send(`${options.wiring.baseUrl}${call.wire.path}`, {
        method: "POST",
        redirect: "manual",
        signal,
        headers: {
          ...call.wire.headers,
          ...call.headers,
          ...options.wiring.headers,
          ...options.wiring.keyed(key),
          "content-type": "application/json",
          accept: call.asked.streams ? "text/event-stream" : "application/json"
        },
        body: bodyOf(call, request, options.model, usage)
      })

    const responded = async (signal: AbortSignal): Promise<Response> => {
      const response = await open(signal)
      const { headers, status } = response
      source.headers = headers
      if (status >= 300 && status < 400) {
        void response.body?.cancel().catch(() => {})
        throw redirected(status)
      }
      if (response.ok) return response
      const body = await BodyLimit.limited(response).text()
      if (usage !== undefined && status < 500 && body.includes("stream_options")) {
        // The gateway's own field is refused, and not the caller's request, which is sent as it came.
        takesUsage = false
        usage = undefined
        return responded(signal)
      }
      throw refused(body, response)
    }

    const within = <A>(run: (signal: AbortSignal) => Promise<A>) =>
      Connection.within(request.limits?.connect, {
        try: run,
        catch: failureOf,
        onHeaders: (headers) => request.heard?.(headers),
        onRepeated: request.repeated
      })
    return { call, source, hidesUsage: usage !== undefined, failureOf, responded, within }
  }

  const generateText = (
    request: ProviderModel.ProviderRequest
  ): Effect.Effect<Array<Ai.PartEncoded>, Failure> =>
    Effect.withFiber((fiber) => {
      const { call, source, responded, within } = attempt(request, fiber)
      return within(async (signal) => {
        const response = await responded(signal)
        const text = await BodyLimit.limited(response).text()
        const body = parse(text)
        const parts = isFields(body) ? call.wire.whole(body) : undefined
        if (parts === undefined || AnswerFacts.isErrorPart(body)) throw refused(text, response)
        const metadata = carrying(source, [], text)
        return parts.map((part) => (part.type === "finish" ? { ...part, metadata } : part))
      })
    })

  const streamText = (request: ProviderModel.ProviderRequest): Stream.Stream<Part, Failure> =>
    Stream.unwrap(
      Effect.gen(function* () {
        const { call, source, hidesUsage, failureOf, responded, within } = yield* Effect.withFiber((fiber) =>
          Effect.succeed(attempt(request, fiber))
        )
        const controller = new AbortController()
        const reader = call.wire.reader({ asked: call.asked, source, flows: call.flows, hidesUsage })
        let body: Body | undefined
        const abort = Effect.sync(() => {
          controller.abort()
          body?.cancel().catch(() => {})
        })
        // A body that ends by itself keeps its connection for the next request.
        yield* Effect.addFinalizer(() =>
          body === undefined || !reader.isEnded ? abort : Effect.forkDetach(drained(body, abort))
        )
        body = yield* within(async () => {
          const response = await responded(controller.signal)
          if (response.body === null || !isEvents(response)) throw await notEvents(response)
          return response.body.getReader()
        })
        return decoded(body, reader, failureOf)
      })
    )

  const model = { info: options.info, reportsHeaders: true, generateText, streamText }
  made.add(model)
  return model
}

const made = new WeakSet<ProviderModel.ProviderModel>()

/** True for a model of this kind. */
export const isOne = (model: ProviderModel.ProviderModel): boolean => made.has(model)

type Body = ReadableStreamDefaultReader<Uint8Array>
type Pulled = Pull.Pull<Arr.NonEmptyReadonlyArray<Part>, Failure>

/** Reads to the end of a body whose answer is complete. Calls `abort` on one that does not end in time. */
const drained = (body: Body, abort: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.tryPromise(() => body.read()).pipe(
    Effect.repeat({ until: ({ done }) => done }),
    Effect.timeout(restWithin),
    Effect.catch(() => abort)
  )

/** The parts as they arrive. The stream ends at the last event, even if the server keeps the connection open. */
const decoded = (
  body: Body,
  reader: Reader,
  failureOf: (error: unknown) => Failure
): Stream.Stream<Part, Failure> =>
  Stream.fromPull(
    Effect.sync(() => {
      const splitter = new EventSplitter()
      let failure: Failure | undefined
      let isOver = false
      const over = { done: true, value: undefined } as const
      const chunk = Effect.tryPromise({ try: () => body.read(), catch: failureOf })
      // What follows a complete answer is worth a moment, and no failure.
      const rest = chunk.pipe(
        Effect.timeoutOrElse({ duration: restWithin, orElse: () => Effect.succeed(over) }),
        Effect.catch(() => Effect.succeed(over))
      )
      const read = (bytes: Uint8Array | undefined): ReadonlyArray<Part> => {
        const parts: Array<Part> = []
        try {
          for (const event of bytes === undefined ? splitter.end() : splitter.push(bytes)) {
            for (const part of reader.read(event)) parts.push(part)
            if (reader.isEnded) return parts
          }
          if (bytes === undefined) parts.push(...reader.end())
        } catch (error) {
          // Parts before an error in the same bytes are shown first.
          failure = failureOf(error instanceof RefusedEvent ? disguised(error.data) : error)
        }
        return parts
      }
      const pull: Pulled = Effect.suspend((): Pulled => {
        if (failure !== undefined) return Effect.fail(failure)
        if (reader.isEnded || isOver) return Cause.done()
        return Effect.flatMap(reader.isComplete ? rest : chunk, ({ done, value }): Pulled => {
          isOver = done
          const parts = read(done ? undefined : value)
          return Arr.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : pull
        })
      })
      return pull
    })
  )

const bodyOf = (
  { asked, text, wire }: WireCall,
  { continues, maxOutputTokens }: ProviderModel.ProviderRequest,
  model: string,
  usage: Splice.Edits | undefined
): string => {
  const edits = new Map([
    ...(usage ?? []),
    ...(continues === undefined ? [] : [[wire.turns, continued(text, wire.turns, continues)] as const])
  ])
  if (asked.model !== model) edits.set("model", JSON.stringify(model))
  const { limit } = asked
  if (limit !== undefined && maxOutputTokens !== undefined && maxOutputTokens !== limit.tokens) {
    edits.set(limit.field, String(maxOutputTokens))
  }
  return edits.size === 0 ? text : Splice.changed(text, edits)
}

/** The conversation with a cut answer at its end, and the request to go on. */
const continued = (
  text: string,
  turns: string,
  { nudge, partial }: NonNullable<ProviderModel.ProviderRequest["continues"]>
): string => {
  const given = Splice.valueOf(text, turns) ?? "[]"
  // A text in place of a list stands for one message of the user.
  const list = given.startsWith("[") ? given : `[{"role":"user","content":${given}}]`
  const said = partial.trim() === "" ? [] : [{ role: "assistant", content: partial }]
  return Splice.appended(list, [...said, { role: "user", content: nudge }])
}

/** An answer that is an error, in the form that the classifier reads. */
interface Refused {
  readonly statusCode: number
  readonly responseBody: string
  readonly responseHeaders: Readonly<Record<string, string>>
}

const refused = (responseBody: string, { headers, status: statusCode }: Response): Error & Refused =>
  Object.assign(new Error(""), { statusCode, responseBody, responseHeaders: Object.fromEntries(headers) })

const disguised = (responseBody: string): Error & Refused =>
  Object.assign(new Error(""), { statusCode: 200, responseBody, responseHeaders: {} })

const redirected = (status: number): Failure =>
  ProviderFailure.local(
    ProviderFailure.redirect.refused,
    new FailoverReason.PermanentNetwork(),
    undefined,
    `The server answered with a redirect (HTTP ${status}).`
  )

/** Failures whose error the caller must see as the vendor wrote it: the request is at fault, and clients read why. */
const ofRequest: ReadonlySet<string> = new Set(["ContentPolicy", "ContextOverflow", "Format"])

const refusalOf = (error: unknown, { evidence, reason }: Failure): Refusal | undefined => {
  if (!ofRequest.has(reason._tag) || !isRefused(error)) return undefined
  const status = evidence.status ?? error.statusCode
  return status >= 400 && status < 500 && isFields(parse(error.responseBody))
    ? { status, body: error.responseBody }
    : undefined
}

const isRefused = (error: unknown): error is Refused =>
  typeof error === "object" && error !== null && "responseBody" in error && "statusCode" in error

const isEvents = ({ headers }: Response): boolean => {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() ?? ""
  return type === "text/event-stream" || type === "" || type === "application/octet-stream"
}

const notEvents = async (response: Response): Promise<unknown> => {
  const text = await BodyLimit.limited(response).text()
  const type = response.headers.get("content-type") ?? ""
  return AnswerFacts.isErrorPart(parse(text))
    ? refused(text, response)
    : ProviderFailure.local(
        ProviderFailure.notEvents,
        new FailoverReason.Format({ side: "response" }),
        undefined,
        `The response is not a stream of events${type === "" ? "" : ` (${type.slice(0, 60)})`}.`
      )
}
