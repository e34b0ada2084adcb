/**
 * A script for a model: what it answers, and what goes wrong.
 *
 * A plan is plain data, so it can be a JSON file. {@link next} is the whole machine: a pure function from a
 * state and a request to a reply and the next state. `ScriptedModel` plays replies under virtual time and
 * `FakeProvider` plays them over HTTP; both ask the same machine, so both give the same sequence of outcomes.
 *
 * - A **fault** belongs to a request: the first step that matches the request and is not used up is taken.
 * - An **answer** belongs to a turn of the conversation: a retried request gets the same answer again, and a
 *   request that continues a partial answer gets its remainder.
 *
 * Times are in milliseconds. `after` counts deltas (see `Answer`), in every wire format alike; one that is
 * larger than the answer strikes after the last delta, before the end of the message.
 *
 * It does not check requests, does not know what time it is, and has no randomness.
 *
 * **Example** (Rate limited once, then cut in mid answer, then fine)
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
import * as Answer_ from "./plan/Answer.ts"
import * as Conversation_ from "./plan/Conversation.ts"

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

/** What goes wrong with one request. */
export const Fault = Schema.Union([
  /** An HTTP error. Without `body` the provider's own body for that status; a string is sent as it is. */
  Schema.Struct({
    type: Schema.Literal("status"),
    status: Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 })),
    headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
    body: Schema.optionalKey(Schema.Json)
  }),
  /** The socket is destroyed: before any answer, or after so many deltas. */
  Schema.Struct({ type: Schema.Literal("reset"), after: Schema.optionalKey(After) }),
  /** The connection is closed in an orderly way in mid answer, as if all had been said. */
  Schema.Struct({ type: Schema.Literal("cut"), after: After }),
  /**
   * Nothing more comes, and the connection stays open. Without `after` there is not even a status line.
   * With `keepAlive` a stream goes on to send keep-alives, one per so many milliseconds; then it also begins.
   */
  Schema.Struct({
    type: Schema.Literal("stall"),
    after: Schema.optionalKey(After),
    keepAlive: Schema.optionalKey(Millis)
  }),
  /**
   * An error event inside a 200 stream, which then closes. A request without stream gets it as a status.
   * Types are Anthropic's words; other wire formats translate those that they have a word for.
   */
  Schema.Struct({
    type: Schema.Literal("stream-error"),
    after: After,
    error: Schema.Struct({ type: Schema.NonEmptyString, message: Schema.String }),
    /** The event in which the Responses API says it. Default `failed`; others have one event only. */
    form: Schema.optionalKey(Schema.Literals(["failed", "flat", "nested"]))
  }),
  /** Every delta takes so many milliseconds. The answer is complete. */
  Schema.Struct({ type: Schema.Literal("slow"), delay: Millis }),
  /** A 200 with a body that is not the protocol: a login page, JSON of something else. */
  Schema.Struct({ type: Schema.Literal("garbage"), body: Schema.Json }),
  /** Ends with this reason, true or not; with `after`, that early. */
  Schema.Struct({
    type: Schema.Literal("finish"),
    reason: Answer_.FinishReason,
    after: Schema.optionalKey(After)
  }),
  /**
   * A request that continues a cut answer gets a continuation that says the last so many characters of it again,
   * behind a remark if there is one. All of that is one delta. Other requests are answered as planned.
   */
  Schema.Struct({
    type: Schema.Literal("repeat"),
    characters: Schema.Natural,
    remark: Schema.optionalKey(Schema.String)
  })
]).annotate({ expected: "a fault: status, reset, cut, stall, stream-error, slow, garbage, finish or repeat" })
export type Fault = typeof Fault.Type

/** A name that differs from one of ours only in case would never match. */
const Provider = Schema.String.check(
  Schema.makeFilter((name: string) => {
    const ours = name.toLowerCase()
    return (
      !["anthropic", "openai", "google"].includes(ours) || name === ours || `the provider is called "${ours}"`
    )
  })
)

/** Which requests a step is for. What is absent matches all. */
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
  /** How many requests that match, and that no earlier step took, are let through first. Default 0. */
  skip: Schema.optionalKey(Schema.Natural),
  /** How many requests it strikes. Default 1. */
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
  /** One per assistant turn. */
  answers: Schema.Array(Answer)
})

/**
 * A plan: data, or with a function in place of the list of answers. The function must be pure: it is also
 * asked about turns of the past, to find out whether they are complete.
 */
export interface FaultPlan {
  readonly faults?: ReadonlyArray<Step>
  readonly answers: Conversation_.Answers
}

/** A plan that cannot be used. The message says where, and what is expected there. */
export class FaultPlanError extends Schema.TaggedError<FaultPlanError>("@outlast/testing/FaultPlanError")(
  "FaultPlanError",
  { problems: Schema.String }
) {
  override get message(): string {
    return `This is not a fault plan.\n${this.problems}`
  }
}

const decodeData = Schema.decodeUnknownEffect(FaultPlan, { errors: "all", onExcessProperty: "error" })

/** Reads a plan from parsed JSON. Names all that is wrong with it, unknown fields included. */
export const decode = (json: unknown): Effect.Effect<FaultPlan, FaultPlanError> =>
  decodeData(json).pipe(Effect.mapError((error) => new FaultPlanError({ problems: error.message })))

// -----------------------------------------------------------------------------
// Machine
// -----------------------------------------------------------------------------

/** A request as the machine sees it. */
export interface Request {
  readonly provider: string
  readonly model: string
  /** The value of the key. */
  readonly key: string | undefined
  readonly streaming: boolean
  readonly messages: ReadonlyArray<Message>
  /** An answer longer than this is cut with `length`, in deltas. */
  readonly maxOutputTokens: number | undefined
  /** The estimated size of the input, reported where the answer says nothing. */
  readonly inputTokens: number
  /** Which request of the plan this is, from 1. {@link start} counts. */
  readonly number?: number | undefined
}

interface ReplyBase {
  /** What was done to this request on purpose. */
  readonly fault: Fault | undefined
  /** The turn of the conversation that was due. */
  readonly turn: number
}

/** How a {@link Speech} ends. */
export type End =
  | { readonly type: "finish"; readonly reason: FinishReason }
  | { readonly type: "reset" }
  | { readonly type: "cut" }
  | { readonly type: "stall"; readonly keepAlive: number | undefined }
  | { readonly type: "error"; readonly error: WireError }

/** The words of an error, without the frame that a wire format puts around them. */
export interface WireError {
  readonly type: string
  readonly message: string
}

/** The model speaks, to the end or not. */
export interface Speech extends ReplyBase {
  readonly type: "speech"
  /** What is sent. */
  readonly deltas: ReadonlyArray<Delta>
  /** What would be sent if nothing cut it. */
  readonly all: ReadonlyArray<Delta>
  readonly toolCalls: ReadonlyArray<Conversation_.Call>
  /** Milliseconds before each delta. */
  readonly delay: number
  readonly usage: Required<typeof Answer_.Usage.Type>
  readonly headers: Readonly<Record<string, string>>
  readonly end: End
}

/** A whole HTTP response. Without `body` it is the wire format's own: of `error`, or else of the status. */
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

/** How often each step has been reached, by its index. */
export type State = ReadonlyArray<number>

export const initial: State = []

/** What happens to this request, and the state for the next. Pure. */
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
    // Not a 500: a chain would repeat the request, and its last error would not say why.
    const error = { type: "invalid_request_error", message: ranOut(plan, due.turn, request) }
    return { ...respond, fault: undefined, status: 400, error }
  }
  return speech(remainder(due.answer, due.said), again(fault, due.said), base, request)
}

/** How long the plan is, what was asked of it, and what to do. */
const ranOut = ({ answers }: FaultPlan, turn: number, { number }: Request): string => {
  const asked = `${number === undefined ? "this request" : `request ${number}`} asks for answer ${turn + 1}`
  if (typeof answers === "function")
    return `The fault plan has no answer: ${asked}, and its function gave none. Let it answer every turn.`
  const has = answers.length === 1 ? "1 answer" : `${answers.length} answers`
  return `The fault plan has run out: it has ${has}, and ${asked}. Add a step to its answers, or give a function in their place.`
}

/** Of an answer that was begun, what is left to say; its reasoning is over. */
const remainder = (answer: Answer, said: string): Answer => {
  if (said === "") return answer
  const { reasoning: _, ...rest } = answer
  return { ...rest, text: (answer.text ?? "").slice(said.length) }
}

/** What a continuation says before it goes on. */
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
  // The output limit was reached first: the fault does not happen, the answer is over.
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

/** The status that goes with an error type. Anthropic has one of its own for overload. */
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

/** A plan in progress. Several models and servers may share one. */
export interface Runner {
  readonly next: (request: Request) => Effect.Effect<Reply>
}

/** Starts a plan; one in progress is taken as it is. Dies with a {@link FaultPlanError} that names what is wrong. */
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

/** Plans that are written in code are wrong as easily as files. */
const check = (plan: unknown): Effect.Effect<void> => {
  if (Effect.isEffect(plan)) {
    return Effect.die(new FaultPlanError({ problems: "It is an Effect: yield it, and give what it gives." }))
  }
  const hasFunction = Predicate.hasProperty(plan, "answers") && typeof plan.answers === "function"
  const data = hasFunction ? Object.assign({}, plan, { answers: [] }) : plan
  return Effect.asVoid(Effect.orDie(decode(data)))
}
