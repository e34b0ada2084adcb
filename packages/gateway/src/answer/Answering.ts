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
import { Cause, Clock, Context, Duration, Effect, Exit, Latch, Option, Stream } from "effect"
import type { Fiber, Tracer } from "effect"
import { IdGenerator, Prompt } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import type { Outcome } from "../telemetry/GatewayEvent.ts"
import type { WireCall } from "../target/WireCall.ts"
import type { Part, Source, Whole } from "../wire/Wire.ts"
import { carriedBy } from "../wire/Wire.ts"
import type { Maker } from "./AnswerIds.ts"
import { Flow } from "./Flow.ts"
import * as Problems from "./Problems.ts"
import * as Replies from "./Replies.ts"
import type { Reply } from "./Reply.ts"

/** How long a caller of a stream hears nothing at most. */
const keepAliveAfter = Duration.seconds(5)

/** How a call ended. */
export interface Ended {
  readonly outcome: Outcome
  /** The attempt that made the end of the answer. */
  readonly source: Source | undefined
  readonly costUsd: number | undefined
  /** Monotonic milliseconds at which the answer began. */
  readonly begunAt: number | undefined
  /** The answer, where requests may refer to it. */
  readonly made: { readonly id: string; readonly by: Maker } | undefined
}

/**
 * The response to a call. `signal` is the caller's. Rejects only with its reason. `ended` is called once, when the call has
 * ended and nothing of it is asked of a vendor any more.
 */
export const answer = (
  calls: Calls.Calls,
  call: WireCall,
  services: Context.Context<never>,
  signal: AbortSignal,
  ended: (end: Ended) => void
): Promise<Reply> => {
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
  readonly ended: (end: Ended) => void
}

const whole = async ({ call, calls, ended, id, services, signal }: Made): Promise<Reply> => {
  const run = inCall(call, (span) => calls.generateText(optionsOf(call, span), call.narrowed))
  const fiber = Effect.runForkWith(services)(run, { signal })
  call.runs(() => fiber.interruptUnsafe())
  const exit = await new Promise<Exit.Exit<Array<Whole>, CallFailure.CallFailure>>((resolve) =>
    fiber.addObserver(resolve)
  )
  if (Exit.isFailure(exit)) {
    const failure = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    ended({ ...nothing, outcome: outcomeOf(call, failure, signal.aborted) })
    if (failure !== undefined) return Replies.failed(call, id, failure)
    signal.throwIfAborted()
    return Replies.ended(call, id)
  }
  const finish = exit.value.findLast((part) => part.type === "finish")
  const carried = finish === undefined ? undefined : carriedBy(finish)
  const cost = Option.getOrUndefined(Answered.answeredBy(exit.value))?.costUsd
  ended({
    outcome: "answered",
    source: carried?.source,
    costUsd: cost,
    begunAt: nowOf(services),
    made: carried === undefined ? undefined : madeBy(carried.source, exit.value)
  })
  const own = carried?.source.dropped === undefined ? carried?.source.headers?.get("content-type") : undefined
  const type = own ?? "application/json"
  const headers = {
    ...Replies.headersOf(call, id, carried?.source, type),
    ...(cost === undefined ? undefined : { "x-outlast-cost": cost.toFixed(6) })
  }
  return { status: 200, headers, body: carried?.text }
}

/** The answer whose id these parts of an attempt have, if one has it. No vendor knows a translated answer. */
const madeBy = ({ dropped, target }: Source, parts: ReadonlyArray<Part | Whole>): Ended["made"] => {
  for (const part of parts) {
    if (part.type === "response-metadata" && part.id) {
      return { id: part.id, by: dropped === undefined ? target : "shared" }
    }
  }
  return undefined
}

/** Nothing of an answer. */
const nothing = { source: undefined, costUsd: undefined, begunAt: undefined, made: undefined } as const

const outcomeOf = (
  call: WireCall,
  failure: CallFailure.CallFailure | undefined,
  hasLeft: boolean
): Outcome => {
  if (failure === undefined) return hasLeft ? "abandoned" : "failed"
  const { status } = Problems.ofFailure(call.wire, failure)
  return status < 500 && status !== 429 ? "refused" : "failed"
}

/** Monotonic milliseconds. */
export const nowOf = (services: Context.Context<never>): number =>
  Number(Context.get(services, Clock.Clock).monotonicTimeNanosUnsafe() / 1_000_000n)

const streamed = ({ call, calls, ended, id, services, signal }: Made): Promise<Reply> => {
  const { wire } = call
  const encoder = wire.encoder()
  const replied = Promise.withResolvers<Reply>()
  const demand = Latch.makeUnsafe(false)
  /** The headers, once they have gone. */
  let sent: Reply["headers"] | undefined
  let begunAt: number | undefined
  let isSilent = true
  let hasLeft = false
  /** The attempt with which the answer begins. */
  let source: Source | undefined
  let made: Ended["made"]
  let last: Part | undefined
  let fiber: Fiber.Fiber<void, CallFailure.CallFailure>

  const flow = new Flow({
    pull: () => {
      demand.openUnsafe()
    },
    cancel: () => {
      hasLeft = true
      fiber.interruptUnsafe()
    }
  })
  const begin = (): Reply["headers"] => {
    if (sent !== undefined) return sent
    const headers = Replies.headersOf(call, id, source, "text/event-stream; charset=utf-8")
    sent = { ...headers, "cache-control": "no-cache" }
    replied.resolve({ status: 200, headers: sent, body: flow })
    return sent
  }
  const write = (text: string): void => {
    flow.write(text)
    isSilent = false
    begin()
  }
  const give = (parts: ReadonlyArray<Part>) =>
    Effect.suspend(() => {
      let text = ""
      for (const part of parts) {
        if (part.type === "finish") last = part
        const from = carriedBy(part)?.source
        source ??= from
        if (from !== undefined) made ??= madeBy(from, [part])
        text += encoder.part(part)
      }
      if (text !== "") {
        begunAt ??= nowOf(services)
        write(text)
      }
      if (flow.hasRoom) return Effect.void
      // At once: a fiber may pause between two effects, and room that came meanwhile would be missed.
      demand.closeUnsafe()
      return demand.await
    })
  const keepAlive = Effect.sync(() => {
    // A caller that does not read needs no sign of life.
    if (isSilent && flow.hasRoom) write(wire.keepAlive)
    isSilent = true
  })
  const alive = Effect.forever(Effect.andThen(Effect.sleep(keepAliveAfter), keepAlive))
  const answer = inCall(call, (span) =>
    Effect.raceFirst(Stream.runForEachArray(partsOf(calls, call, span), give), alive)
  )
  fiber = Effect.runForkWith(services)(answer)
  const abort = () => fiber.interruptUnsafe()
  call.runs(abort)
  signal.addEventListener("abort", abort, { once: true })
  if (signal.aborted) abort()
  fiber.addObserver((exit) => {
    signal.removeEventListener("abort", abort)
    const failure = Exit.isSuccess(exit)
      ? undefined
      : Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    const by = (last === undefined ? undefined : carriedBy(last)?.source) ?? source
    ended({
      outcome: Exit.isSuccess(exit) ? "answered" : outcomeOf(call, failure, hasLeft || signal.aborted),
      source: by,
      costUsd: last === undefined ? undefined : Option.getOrUndefined(Answered.answeredBy([last]))?.costUsd,
      begunAt,
      made:
        encoder.sharedId === undefined
          ? Exit.isSuccess(exit)
            ? made
            : undefined
          : { id: encoder.sharedId, by: "shared" }
    })
    // Only a reader of the body can leave.
    if (hasLeft) return
    if (Exit.isSuccess(exit)) {
      flow.write(Replies.comment(call, id, begin(), by, last))
      return flow.close()
    }
    if (signal.aborted) {
      replied.reject(signal.reason)
      return flow.error(signal.reason)
    }
    const problem = failure === undefined ? Problems.ofEnd(wire, call) : Problems.ofFailure(wire, failure)
    if (sent === undefined) {
      replied.resolve(failure === undefined ? Replies.ended(call, id) : Replies.failed(call, id, failure))
    } else flow.write(encoder.failed(problem))
    flow.close()
  })
  return replied.promise
}

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
    limit === undefined
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
