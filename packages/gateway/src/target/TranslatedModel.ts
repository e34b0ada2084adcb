/**
 * A `ProviderModel` that does not speak the caller's wire format, and answers in it nevertheless. The request is read when
 * the first target of this kind is asked, and fitted to the target as every conversation of Outlast is. The answer carries
 * the events that a target of the caller's format would have sent: all that follows need not know.
 *
 * A request that this target cannot express fails without an attempt. A target of another format may take it.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { ClientOptions } from "@outlast/agent/failover"
import { AttemptRequest, Conversation } from "@outlast/agent/internal"
import { ClientCall, Connection } from "@outlast/providers/internal"
import { Array as Arr, Clock, Effect, Stream } from "effect"
import type { Response } from "effect/ai"
import { isFields, text } from "../json/Json.ts"
import { InOrder, isProviders } from "../wire/InOrder.ts"
import { Untranslatable } from "../wire/Translation.ts"
import type { Part, Source, Translator, Whole, Writing } from "../wire/Wire.ts"
import { carrying, flowing, frame, received, written } from "../wire/Wire.ts"
import { droppedFor, unreadBy } from "./Translated.ts"
import type { WireCall } from "./WireCall.ts"
import { currentOf } from "./WireCall.ts"

type Failure = ProviderFailure.ProviderFailure
type Request = ProviderModel.ProviderRequest

export interface Options {
  readonly provider: string
  readonly model: string
  readonly endpoint: string
  readonly translator: Translator
  /** The target as it is. */
  readonly inner: ProviderModel.ProviderModel
  /** Sends the requests of targets that have no `fetch` of their own. */
  readonly fetch: typeof globalThis.fetch
}

export const make = ({
  endpoint,
  fetch,
  inner,
  model,
  provider,
  translator
}: Options): ProviderModel.ProviderModel => {
  const { info } = inner
  // Nothing in a caller's conversation says with which key a part was made.
  const ref = { id: `${provider}/${model}`, provider, model, endpoint, key: "" }
  const target = { ref, info, model: inner, key: undefined }

  const attempt = (request: Request) =>
    Effect.withFiber((fiber) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const call = currentOf(fiber)
        const source: Source = { target: request.target, headers: undefined, dropped: [] }
        call.begins(source, request.failed)
        const translated = call.translatedBy(translator)
        if (translated instanceof Untranslatable) return refused(call, source, translated)
        const unread = unreadBy(translated.asked.prompt, info.dialect)
        if (unread.linked !== undefined)
          return refused(call, source, linked(call.wire.turns, unread.linked, provider))
        call.attempts++
        const client = new ClientCall.ClientCall(translated.options)
        const heard = (headers: unknown) => {
          source.headers = headersOf(headers)
          request.heard?.(headers)
        }
        const fitted = AttemptRequest.requestOf({ ...request, ...translated.asked }, target, {
          outputLimit: request.maxOutputTokens,
          limits: request.limits,
          repeated: request.repeated,
          repaired: request.repaired,
          heard
        })
        const { continues } = request
        const prompt =
          continues === undefined
            ? fitted.prompt
            : Conversation.continued(fitted.prompt, continues.partial, continues.nudge)
        const writing: Writing = {
          unique: globalThis.crypto.randomUUID().replaceAll("-", ""),
          created: Math.floor(now / 1_000),
          model,
          body: call.body,
          calls: translated.calls,
          written: (part) => {
            const original = client.original(part.metadata ?? {})
            const said = original?.type === "tool-call" ? original.input : ""
            // Some servers write nothing for a call without arguments.
            return said.trim() === "" ? JSON.stringify(part.params) : said
          }
        }
        /** The client has said what it leaves out. */
        const begun = (parts: ReadonlyArray<Response.AllPartsEncoded>) => {
          const answered = client.answered(parts)
          source.dropped = droppedFor(translated, info.dialect?.namespaces ?? [provider], unread, answered)
        }
        const failed = (failure: Failure): Failure => {
          call.failed(source, failure.reason._tag, undefined)
          return failure
        }
        const sent = { ...fitted, prompt, key: request.key }
        const { flows, wire } = call
        return Effect.succeed({ begun, client, failed, flows, sent, source, wire, writing })
      })
    )

  const generateText: ProviderModel.ProviderModel["generateText"] = (request) =>
    Effect.flatMap(attempt(request), ({ begun, client, failed, sent, source, wire, writing }) =>
      AttemptRequest.generateText(target, sent).pipe(
        Effect.provideService(ClientOptions.ClientOptions, client),
        Effect.provideService(Connection.Sender, fetch),
        Effect.filterOrFail(
          (parts) => !translator.hasObjects || !parts.some(isUnreadable) || !parts.some(endsWhole),
          badCall
        ),
        Effect.mapError(failed),
        Effect.map((parts) => {
          begun(parts)
          const own = parts.filter((part) => !isProviders(part))
          const body = translator.body(own, writing)
          const text = JSON.stringify(body)
          // The id is that of the body, and not that of the vendor's own answer.
          const named = (wire.whole(body) ?? []).filter(isNamed)
          const rest = parts.filter((part) => !isNamed(part))
          return [...named, ...rest].map((part) =>
            part.type === "finish"
              ? { ...part, metadata: { ...part.metadata, ...carrying(source, [], text) } }
              : part
          )
        })
      )
    )

  const streamText: ProviderModel.ProviderModel["streamText"] = (request) =>
    Stream.unwrap(
      Effect.map(attempt(request), ({ begun, client, failed, flows, sent, source, writing }) => {
        const order = new InOrder(writing)
        const writer = translator.writer(writing)
        const events = (values: ReturnType<typeof writer.part>) =>
          values.map((value) => {
            const name = text(value["type"])
            return received({ raw: written(value, name), name, data: undefined }, value)
          })
        const carried = (part: Part): Part => {
          const said = "delta" in part ? part.delta : ""
          const own = part.type === "tool-params-start" || part.type === "tool-call" ? flowing(flows) : {}
          const metadata = { ...part.metadata, ...carrying(source, events(writer.part(part)), said) }
          return { ...part, ...own, metadata }
        }
        let isBegun = false
        let hasBadCall = false
        const isBad = (parts: ReadonlyArray<Part>): boolean => {
          hasBadCall ||= translator.hasObjects && parts.some(isUnreadable)
          return hasBadCall && parts.some(endsWhole)
        }
        return AttemptRequest.streamText(target, sent).pipe(
          Stream.provideService(ClientOptions.ClientOptions, client),
          Stream.provideService(Connection.Sender, fetch),
          Stream.mapArrayEffect((parts) => (isBad(parts) ? Effect.fail(badCall()) : Effect.succeed(parts))),
          Stream.mapError(failed),
          Stream.mapArray((parts) => {
            const out = parts.flatMap((part) => order.push(part)).map(carried)
            if (isBegun) return Arr.isArrayNonEmpty(out) ? out : [frame(source, [])]
            begun(parts)
            isBegun = true
            return [frame(source, events(writer.begin())), ...out] as const
          })
        )
      })
    )

  return { info, reportsHeaders: inner.reportsHeaders, generateText, streamText }
}

const isNamed = ({ type }: Pick<Whole, "type">): boolean => type === "response-metadata"

/** A caller whose format has an object here would run the tool with other arguments, or with none. */
const isUnreadable = (part: Part | Whole): boolean => part.type === "tool-call" && !isFields(part.params)

/** A call that the output limit has cut is left out of the answer. */
const endsWhole = (part: Part | Whole): boolean => part.type === "finish" && part.reason !== "length"

const badCall = (): Failure =>
  ProviderFailure.local(
    ProviderFailure.badCall,
    new FailoverReason.Format({ side: "response", problem: "has arguments that are no JSON object" }),
    undefined
  )

/** The request is at fault: the caller reads which field. */
const refused = (
  call: WireCall,
  source: Source,
  { message }: Untranslatable
): Effect.Effect<never, Failure> => {
  const { wire } = call
  const problem = { status: 400, type: wire.typeOf(400), code: "not_translatable", message }
  const reason = new FailoverReason.Format({ side: "request" })
  call.failed(source, reason._tag, { status: 400, body: JSON.stringify(wire.errorBody(problem)) })
  return Effect.fail(ProviderFailure.local(ProviderFailure.untranslatable, reason, undefined))
}

const linked = (field: string, kind: string, provider: string): Untranslatable =>
  new Untranslatable(
    field,
    `has ${kind === "image" ? "an image" : "a file"} by URL, which ${provider} does not fetch. The gateway fetches no URL: send the content`
  )

const headersOf = (headers: unknown): Headers | undefined =>
  headers instanceof Headers
    ? headers
    : typeof headers === "object" && headers !== null
      ? new Headers(
          Object.entries(headers).filter((entry): entry is [string, string] => typeof entry[1] === "string")
        )
      : undefined
