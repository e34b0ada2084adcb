/**
 * A script for a model: its answers and its faults.
 *
 * A plan is plain data, so it can be a JSON file. {@link next} is a pure function from a state and a request to a reply
 * and the next state. `ScriptedModel` plays the replies in virtual time, and `FakeProvider` plays them over HTTP. Both
 * use the same function, so both give the same sequence of outcomes.
 *
 * - A **fault** belongs to a request. The first step that matches the request and is not used up applies.
 * - An **answer** belongs to a turn of the conversation. A retried request gets the same answer again. A request that
 *   continues a partial answer gets the rest of it.
 *
 * Times are in milliseconds. `after` counts deltas (see `Answer`), the same in every wire format. A count beyond the
 * answer takes effect after the last delta, before the end of the message.
 *
 * **Limits.** A plan does not check requests, and has no clock and no randomness.
 *
 * **Example** (Rate limited once, then cut mid-stream, then complete)
 *
 * ```ts
 * const plan: FaultPlan.FaultPlan = {
 *   faults: [
 *     { fault: { type: "status", status: 429, headers: { "retry-after": "7" } } },
 *     { when: { streaming: true }, fault: { type: "cut", after: 3 } }
 *   ],
 *   answers: [{ text: "The meeting is on Tuesday at ten." }]
 * }
 * ```
 */
import { Effect, Hash, Predicate, Ref, Schema } from "effect"
import * as Answer_ from "./Answer.ts"
import * as Conversation_ from "./Conversation.ts"

// -----------------------------------------------------------------------------
// Data
// -----------------------------------------------------------------------------

export const Answer = Answer_.Answer
export type Answer = Answer_.Answer
export type FinishReason = Answer_.FinishReason
export type Delta = Answer_.Delta
export type Message = Conversation_.Message
export type Conversation = Conversation_.Conversation

const After = Schema.Natural
const Millis = Schema.Finite.check(Schema.isGreaterThan(0))

/** The fault of one request. */
export const Fault = Schema.Union([
  /** An HTTP error. Without `body`, the provider's own body for that status is sent. A string is sent unchanged. */
  Schema.Struct({
    type: Schema.Literal("status"),
    status: Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 })),
    headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
    body: Schema.optionalKey(Schema.Json)
  }),
  /** Destroys the socket: before any answer, or after this many deltas. */
  Schema.Struct({ type: Schema.Literal("reset"), after: Schema.optionalKey(After) }),
  /** Closes the connection normally in the middle of an answer, as if it were complete. */
  Schema.Struct({ type: Schema.Literal("cut"), after: After }),
  /**
   * Sends nothing more and keeps the connection open. Without `after` there is not even a status line. With `keepAlive`
   * the stream starts and sends a keep-alive at that interval in milliseconds.
   */
  Schema.Struct({
    type: Schema.Literal("stall"),
    after: Schema.optionalKey(After),
    keepAlive: Schema.optionalKey(Millis)
  }),
  /**
   * Sends an error event inside a 200 stream, which then closes. A request without streaming gets a status instead.
   * Types are Anthropic's words. Other wire formats translate the types that they know.
   */
  Schema.Struct({
    type: Schema.Literal("stream-error"),
    after: After,
    error: Schema.Struct({ type: Schema.NonEmptyString, message: Schema.String }),
    /** The event that reports the error in the Responses API. Other wire formats have only one. Default: `failed`. */
    form: Schema.optionalKey(Schema.Literals(["failed", "flat", "nested"]))
  }),
  /** Delays every delta by this many milliseconds. The answer is complete. */
  Schema.Struct({ type: Schema.Literal("slow"), delay: Millis }),
  /** Sends a 200 whose body does not follow the protocol: a login page, or unrelated JSON. */
  Schema.Struct({ type: Schema.Literal("garbage"), body: Schema.Json }),
  /** Ends with this finish reason, true or not. With `after`, ends after this many deltas. */
  Schema.Struct({
    type: Schema.Literal("finish"),
    reason: Answer_.FinishReason,
    after: Schema.optionalKey(After)
  }),
  /**
   * Makes a continuation repeat the last characters of the cut answer, after an optional remark, as one delta. Requests
   * that continue nothing are answered as planned.
   */
  Schema.Struct({
    type: Schema.Literal("repeat"),
    characters: Schema.Natural,
    remark: Schema.optionalKey(Schema.String)
  })
]).annotate({ expected: "a fault: status, reset, cut, stall, stream-error, slow, garbage, finish or repeat" })
export type Fault = typeof Fault.Type

/** Rejects a provider name that differs from a known one only in case, because it would never match. */
const Provider = Schema.String.check(
  Schema.makeFilter((name: string) => {
    const ours = name.toLowerCase()
    return (
      !["anthropic", "openai", "google"].includes(ours) || name === ours || `the provider is called "${ours}"`
    )
  })
)

/** Selects the requests of a step. Absent fields match every request. */
export const When = Schema.Struct({
  provider: Schema.optionalKey(Provider),
  model: Schema.optionalKey(Schema.String),
  /** The value of the key, not its name. */
  key: Schema.optionalKey(Schema.String),
  streaming: Schema.optionalKey(Schema.Boolean)
})
export type When = typeof When.Type

export const Step = Schema.Struct({
  when: Schema.optionalKey(When),
  /** Number of matching requests to let through first. Requests taken by earlier steps do not count. Default: 0. */
  skip: Schema.optionalKey(Schema.Natural),
  /** Number of requests that get the fault. Default: 1. */
  times: Schema.optionalKey(
    Schema.Union([Schema.Int.check(Schema.isGreaterThan(0)), Schema.Literal("always")]).annotate({
      expected: `an integer above 0, or "always"`
    })
  ),
  fault: Fault
})
export type Step = typeof Step.Type

/** A plan as data. */
export const FaultPlan = Schema.Struct({
  faults: Schema.optionalKey(Schema.Array(Step)),
  /** One answer per assistant turn. */
  answers: Schema.Array(Answer)
})

/**
 * A plan: data, or with a function instead of the list of answers. The function must be pure. It is also called for
 * past turns, to find out whether they are complete.
 */
export interface FaultPlan {
  readonly faults?: ReadonlyArray<Step>
  readonly answers: Conversation_.Answers
}

/** An invalid plan. The message has the path and the expected value. */
export class FaultPlanError extends Schema.TaggedError<FaultPlanError>("@outlast/testing/FaultPlanError")(
  "FaultPlanError",
  { problems: Schema.String }
) {
  override get message(): string {
    return `This is not a fault plan.\n${this.problems}`
  }
}

const decodeData = Schema.decodeUnknownEffect(FaultPlan, { errors: "all", onExcessProperty: "error" })

/** Reads a plan from parsed JSON. Reports every problem, including unknown fields. */
export const decode = (json: unknown): Effect.Effect<FaultPlan, FaultPlanError> =>
  decodeData(json).pipe(Effect.mapError((error) => new FaultPlanError({ problems: error.message })))

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** A request in the form that a plan reads. */
export interface Request {
  readonly provider: string
  readonly model: string
  /** The value of the key. */
  readonly key: string | undefined
  readonly streaming: boolean
  readonly messages: ReadonlyArray<Message>
  /** Maximum number of deltas. A longer answer is cut with the finish reason `length`. */
  readonly maxOutputTokens: number | undefined
  /** Estimated size of the input in tokens. Reported when the answer has no usage. */
  readonly inputTokens: number
  /** Number of the request in the plan, from 1. Counted by {@link start}. */
  readonly number?: number | undefined
}

interface ReplyBase {
  /** The fault that was applied to this request. */
  readonly fault: Fault | undefined
  /** Number of the conversation's turn that was due. */
  readonly turn: number
}

/** The end of a {@link Speech}. */
export type End =
  | { readonly type: "finish"; readonly reason: FinishReason }
  | { readonly type: "reset" }
  | { readonly type: "cut" }
  | { readonly type: "stall"; readonly keepAlive: number | undefined }
  | { readonly type: "error"; readonly error: WireError }

/** Content of an error, without the envelope of a wire format. */
export interface WireError {
  readonly type: string
  readonly message: string
}

/** An answer of the model, complete or cut. */
export interface Speech extends ReplyBase {
  readonly type: "speech"
  /** The deltas that are sent. */
  readonly deltas: ReadonlyArray<Delta>
  /** The deltas of the complete answer. */
  readonly all: ReadonlyArray<Delta>
  readonly toolCalls: ReadonlyArray<Conversation_.Call>
  /** Milliseconds before each delta. */
  readonly delay: number
  readonly usage: Required<typeof Answer_.Usage.Type>
  readonly headers: Readonly<Record<string, string>>
  readonly end: End
}

/** A whole HTTP response. Without `body` the wire format encodes `error`, or else the status. */
export interface Respond extends ReplyBase {
  readonly type: "respond"
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Schema.Json | undefined
  readonly error: WireError | undefined
}

/** No answer at all: the socket is destroyed, or nothing is ever sent. */
export interface Nothing extends ReplyBase {
  readonly type: "nothing"
  readonly reset: boolean
}

export type Reply = Speech | Respond | Nothing

/** Number of requests that reached each step, by its index. */
export type State = ReadonlyArray<number>

export const initial: State = []

/** Returns the reply to this request, and the state for the next one. Pure. */
export const next = (plan: FaultPlan, state: State, request: Request): readonly [Reply, State] => {
  const [fault, after] = nextFault(plan.faults ?? [], state, request)
  return [reply(plan, fault, request), after]
}

const nextFault = (
  steps: ReadonlyArray<Step>,
  state: State,
  request: Request
): readonly [Fault | undefined, State] => {
  const after = steps.map((_, i) => state[i] ?? 0)
  for (const [i, { when, skip = 0, times = 1, fault }] of steps.entries()) {
    const reached = after[i] ?? 0
    if (!matches(when ?? {}, request) || (times !== "always" && reached >= skip + times)) continue
    after[i] = reached + 1
    if (reached >= skip) return [fault, after]
  }
  return [undefined, after]
}

const matches = (when: When, request: Request): boolean =>
  (when.provider ?? request.provider) === request.provider &&
  (when.model ?? request.model) === request.model &&
  (when.key ?? request.key) === request.key &&
  (when.streaming ?? request.streaming) === request.streaming

const reply = (plan: FaultPlan, fault: Fault | undefined, request: Request): Reply => {
  const due = Conversation_.due(request.messages, plan.answers)
  const base = { fault, turn: due.turn }
  const respond = { ...base, type: "respond", headers: {}, body: undefined, error: undefined } as const
  switch (fault?.type) {
    case "status":
      return { ...respond, status: fault.status, headers: fault.headers ?? {}, body: fault.body }
    case "garbage":
      return { ...respond, status: 200, body: fault.body }
    case "reset":
      if (fault.after === undefined) return { ...base, type: "nothing", reset: true }
      break
    case "stall": {
      const begins = fault.after !== undefined || (request.streaming && fault.keepAlive !== undefined)
      if (!begins) return { ...base, type: "nothing", reset: false }
      break
    }
    case "stream-error":
      if (!request.streaming)
        return { ...respond, status: statusOf(fault.error.type, request), error: fault.error }
  }
  if (due.answer === undefined) {
    // Not a 500: a chain would retry that, and its last error would not name the cause.
    const error = { type: "invalid_request_error", message: ranOut(plan, due.turn, request) }
    return { ...respond, fault: undefined, status: 400, error }
  }
  return speech(remainder(due.answer, due.said), again(fault, due.said), base, request)
}

/** The message for a turn without an answer: length of the plan, turn, request, and the fix. */
const ranOut = ({ answers }: FaultPlan, turn: number, { number }: Request): string => {
  const asked = `${number === undefined ? "this request" : `request ${number}`} asks for answer ${turn + 1}`
  if (typeof answers === "function")
    return `The fault plan has no answer: ${asked}, and its function gave none. Let it answer every turn.`
  const has = answers.length === 1 ? "1 answer" : `${answers.length} answers`
  return `The fault plan has run out: it has ${has}, and ${asked}. Add a step to its answers, or give a function in their place.`
}

/** Returns the rest of a partial answer, without its reasoning. */
const remainder = (answer: Answer, said: string): Answer => {
  if (said === "") return answer
  const { reasoning: _, ...rest } = answer
  return { ...rest, text: (answer.text ?? "").slice(said.length) }
}

/** Returns the text that a continuation repeats before it continues. */
const again = (fault: Fault | undefined, said: string): ReadonlyArray<Delta> => {
  if (fault?.type !== "repeat" || said === "") return []
  const text = (fault.remark ?? "") + said.slice(Math.max(0, said.length - fault.characters))
  return text === "" ? [] : [{ type: "text", text }]
}

const speech = (answer: Answer, before: ReadonlyArray<Delta>, base: ReplyBase, request: Request): Speech => {
  const { fault } = base
  const all = [...before, ...Answer_.deltas(answer)]
  const limit = request.maxOutputTokens ?? Infinity
  const cutAt = fault !== undefined && "after" in fault ? fault.after : undefined
  const struck = fault?.type === "stall" ? (cutAt ?? 0) : (cutAt ?? Infinity)
  const deltas = all.slice(0, Math.min(struck, limit))
  // The output limit comes first: the fault does not happen, and the answer is over.
  const limited = deltas.length < all.length && limit < struck
  const finish = limited
    ? "length"
    : (answer.finish ?? ((answer.toolCalls ?? []).length > 0 ? "tool-calls" : "stop"))
  const conversation = (Hash.string(JSON.stringify(request.messages)) >>> 0).toString(36)
  return {
    ...base,
    type: "speech",
    deltas,
    all,
    toolCalls: (answer.toolCalls ?? []).map(({ id, name, params }, i) => ({
      id: id ?? `call_${conversation}_${i}`,
      name,
      params
    })),
    delay: fault?.type === "slow" ? fault.delay : 0,
    usage: {
      input: answer.usage?.input ?? request.inputTokens,
      output: answer.usage?.output ?? deltas.length,
      cacheRead: answer.usage?.cacheRead ?? 0,
      cacheWrite: answer.usage?.cacheWrite ?? 0
    },
    headers: answer.headers ?? {},
    end: limited ? { type: "finish", reason: finish } : endOf(fault, finish)
  }
}

const endOf = (fault: Fault | undefined, finish: FinishReason): End => {
  switch (fault?.type) {
    case "reset":
    case "cut":
      return { type: fault.type }
    case "stall":
      return { type: "stall", keepAlive: fault.keepAlive }
    case "stream-error":
      return { type: "error", error: fault.error }
    case "finish":
      return { type: "finish", reason: fault.reason }
    default:
      return { type: "finish", reason: finish }
  }
}

/** Returns the status of an error type. Only Anthropic has a separate one for overload. */
const statusOf = (type: string, { provider }: Request): number => {
  const statuses: Record<string, number | undefined> = {
    invalid_request_error: 400,
    authentication_error: 401,
    billing_error: 402,
    permission_error: 403,
    not_found_error: 404,
    rate_limit_error: 429,
    insufficient_quota: 429,
    timeout_error: 504,
    overloaded_error: provider === "openai" || provider === "google" ? 503 : 529
  }
  return statuses[type] ?? 500
}

// -----------------------------------------------------------------------------
// Runner
// -----------------------------------------------------------------------------

/** A plan in progress. Several models and servers can share it. */
export interface Runner {
  readonly next: (request: Request) => Effect.Effect<Reply>
}

/** Starts a plan. A plan in progress is returned unchanged. Dies with a {@link FaultPlanError} for an invalid plan. */
export const start = (plan: FaultPlan | Runner): Effect.Effect<Runner> => {
  if (typeof plan === "object" && plan !== null && "next" in plan) return Effect.succeed(plan)
  return Effect.andThen(
    check(plan),
    Effect.map(Ref.make({ state: initial, number: 1 }), (ref): Runner => ({
      next: (request) =>
        Ref.modify(ref, ({ state, number }) => {
          const [reply, after] = next(plan, state, { ...request, number })
          return [reply, { state: after, number: number + 1 }]
        })
    }))
  )
}

/** Plans written in code are checked like files. */
const check = (plan: unknown): Effect.Effect<void> => {
  if (Effect.isEffect(plan)) {
    return Effect.die(new FaultPlanError({ problems: "It is an Effect: yield it, and give what it gives." }))
  }
  const hasFunction = Predicate.hasProperty(plan, "answers") && typeof plan.answers === "function"
  const data = hasFunction ? Object.assign({}, plan, { answers: [] }) : plan
  return Effect.asVoid(Effect.orDie(decode(data)))
}
