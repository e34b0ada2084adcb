/**
 * Runs one call, and makes its response.
 *
 * A whole answer goes back with the vendor's own body. A stream begins with its first content, so that an error before it
 * has a status. After {@link keepAliveAfter} without content the headers go, with keep-alives: an error is then an event.
 * A caller that leaves ends the call, and its connection to the vendor.
 */
import type { CallFailure } from "@outlast/agent"
import { Answered } from "@outlast/agent"
import { AnswerEnd, ClientOptions, OutputLimit, StreamedAnswer, Surface } from "@outlast/agent/failover"
import type { Calls } from "@outlast/agent/internal"
import { Priority } from "@outlast/agent/limiter"
import { Deadline } from "@outlast/resilience"
import { Cause, Context, Duration, Effect, Exit, Latch, Option, Stream } from "effect"
import type { Fiber, Tracer } from "effect"
import { IdGenerator, Prompt } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import type { WireCall } from "../target/WireCall.ts"
import type { Part, Source } from "../wire/Wire.ts"
import { carriedBy } from "../wire/Wire.ts"
import * as Problems from "./Problems.ts"
import * as Replies from "./Replies.ts"

/** How long a caller of a stream hears nothing at most. */
const keepAliveAfter = Duration.seconds(5)

/**
 * The response to a call. `signal` is the caller's. Rejects only with its reason. `ended` is called once, when the call has
 * ended and nothing of it is asked of a vendor any more; with the id of an answer that more than one attempt has made.
 */
export const answer = (
  calls: Calls.Calls,
  call: WireCall,
  services: Context.Context<never>,
  signal: AbortSignal,
  ended: (sharedId: string | undefined) => void
): Promise<Response> => {
  const id = `call_${globalThis.crypto.randomUUID()}`
  const made: Made = { calls, call, id, services, signal, ended }
  return call.asked.streams ? streamed(made) : whole(made)
}

interface Made {
  readonly calls: Calls.Calls
  readonly call: WireCall
  readonly id: string
  readonly services: Context.Context<never>
  readonly signal: AbortSignal
  readonly ended: (sharedId: string | undefined) => void
}

const whole = async ({ call, calls, ended, id, services, signal }: Made): Promise<Response> => {
  const run = inCall(call, (span) => calls.generateText(optionsOf(call, span), call.narrowed))
  const exit = await Effect.runPromiseExitWith(services)(run, { signal })
  ended(undefined)
  if (Exit.isFailure(exit)) {
    const failure = Cause.findErrorOption(exit.cause)
    if (Option.isSome(failure)) return Replies.failed(call, id, failure.value)
    signal.throwIfAborted()
    return Replies.problem(call.wire, Problems.own(call.wire, 500, unexpected), { "x-outlast-call": id })
  }
  const finish = exit.value.findLast((part) => part.type === "finish")
  const carried = finish === undefined ? undefined : carriedBy(finish)
  const cost = Option.getOrUndefined(Answered.answeredBy(exit.value))?.costUsd
  const own = carried?.source.dropped === undefined ? carried?.source.headers?.get("content-type") : undefined
  const type = own ?? "application/json"
  const headers = {
    ...Replies.headersOf(call, id, carried?.source, type),
    ...(cost === undefined ? undefined : { "x-outlast-cost": cost.toFixed(6) })
  }
  return new Response(carried?.text, { headers })
}

const unexpected = "The gateway failed. This should not happen: its log has the cause."

const streamed = async ({ call, calls, ended, id, services, signal }: Made): Promise<Response> => {
  const { wire } = call
  const encoder = wire.encoder()
  const bytes = new TextEncoder()
  const begun = Promise.withResolvers<Response | undefined>()
  const demand = Latch.makeUnsafe(false)
  let isBegun = false
  let isSilent = true
  let hasLeft = false
  /** The attempt with which the answer begins. */
  let source: Source | undefined
  let last: Part | undefined
  let fiber: Fiber.Fiber<void, CallFailure.CallFailure>

  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const write = (text: string): void => {
          controller.enqueue(bytes.encode(text))
          isSilent = false
          if (isBegun) return
          isBegun = true
          begun.resolve(undefined)
        }
        const give = (parts: ReadonlyArray<Part>) =>
          Effect.suspend(() => {
            let text = ""
            for (const part of parts) {
              if (part.type === "finish") last = part
              source ??= carriedBy(part)?.source
              text += encoder.part(part)
            }
            if (text !== "") write(text)
            return (controller.desiredSize ?? 0) > 0 ? Effect.void : waiting
          })
        const waiting = Effect.suspend(() => {
          demand.closeUnsafe()
          return demand.await
        })
        const keepAlive = Effect.sync(() => {
          // A caller that does not read needs no sign of life.
          if (isSilent && (controller.desiredSize ?? 0) > 0) write(wire.keepAlive)
          isSilent = true
        })
        const alive = Effect.forever(Effect.andThen(Effect.sleep(keepAliveAfter), keepAlive))
        const answer = inCall(call, (span) =>
          Effect.raceFirst(Stream.runForEachArray(partsOf(calls, call, span), give), alive)
        )
        fiber = Effect.runForkWith(services)(answer)
        const abort = () => fiber.interruptUnsafe()
        signal.addEventListener("abort", abort, { once: true })
        if (signal.aborted) abort()
        fiber.addObserver((exit) => {
          signal.removeEventListener("abort", abort)
          ended(encoder.sharedId)
          if (hasLeft) return begun.resolve(undefined)
          if (Exit.isSuccess(exit)) {
            const late = last === undefined ? "" : Replies.comment(call, source, last)
            if (late !== "") write(late)
            begun.resolve(undefined)
            return controller.close()
          }
          if (signal.aborted) {
            begun.reject(signal.reason)
            return controller.error(signal.reason)
          }
          const failure = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
          const problem =
            failure === undefined ? Problems.own(wire, 500, unexpected) : Problems.ofFailure(wire, failure)
          if (!isBegun) {
            const response =
              failure === undefined ? Replies.problem(wire, problem) : Replies.failed(call, id, failure)
            begun.resolve(response)
          } else write(encoder.failed(problem))
          controller.close()
        })
      },
      pull: () => {
        demand.openUnsafe()
      },
      cancel: () => {
        hasLeft = true
        fiber.interruptUnsafe()
      }
    },
    new ByteLengthQueuingStrategy({ highWaterMark: maxQueued })
  )
  const failed = await begun.promise
  if (failed !== undefined) return failed
  const headers = Replies.headersOf(call, id, source, "text/event-stream; charset=utf-8")
  return new Response(body, { headers: { ...headers, "cache-control": "no-cache" } })
}

/** Bytes of an answer that wait for the caller before the vendor is read no further. */
const maxQueued = 65_536

/** What holds for every call of the gateway: the caller judges the answer, as it would without a gateway. */
const settings = Context.empty().pipe(
  Context.add(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator),
  // The caller has chosen between a stream and a whole answer itself.
  Context.add(StreamedAnswer.Override, "request"),
  Context.add(AnswerEnd.RefusedAnswers, "deliver")
)

/** The answer to a call, with the settings of the gateway and the caller's own. */
const inCall = <A, E>(
  call: WireCall,
  answer: (span: Tracer.Span) => Effect.Effect<A, E, IdGenerator.IdGenerator>
): Effect.Effect<A, E> => {
  const { limit } = call.asked
  const { priority } = call.narrowed
  const own = Context.add(settings, ClientOptions.ClientOptions, call)
  const context = priority === undefined ? own : Context.add(own, Priority.Priority, priority)
  // An answer that reaches the caller's limit is cut, and not continued.
  const limited =
    limit === undefined || limit.tokens < 1
      ? context
      : Context.add(context, OutputLimit.OutputLimit, { start: limit.tokens, max: limit.tokens })
  return Effect.useSpan(`gateway ${call.wire.name}`, { kind: "server", parent: call.parent }, answer).pipe(
    Effect.tapDefect((defect) => Effect.logError("A call of the gateway ended with a defect.", defect)),
    (run) => (call.narrowed.timeout === undefined ? run : Deadline.within(run, call.narrowed.timeout)),
    Effect.provideContext(limited)
  )
}

const partsOf = (calls: Calls.Calls, call: WireCall, span: Tracer.Span) => {
  const parts = calls.streamText(optionsOf(call, span), call.narrowed)
  return call.asked.continues ? parts : Surface.offered({ ...Surface.closed, midStream: "fail" })(parts)
}

/**
 * The request for the call machine. The targets send the caller's own: all that the machine needs of the conversation is
 * who speaks last.
 */
const optionsOf = ({ asked }: WireCall, span: Tracer.Span): LanguageModel.ProviderOptions => ({
  prompt: prompts[asked.last],
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  span,
  previousResponseId: undefined,
  incrementalPrompt: undefined,
  toolCallValidation: "deferred"
})

const prompts = {
  user: Prompt.make([{ role: "user", content: "-" }]),
  assistant: Prompt.make([{ role: "assistant", content: "-" }]),
  tool: Prompt.make([{ role: "tool", content: [] }])
} as const
