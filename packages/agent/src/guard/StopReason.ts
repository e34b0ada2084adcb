/**
 * Reasons why a guard stops a run, as a closed set, with a sentence for each.
 *
 * Besides limits and loops there is `guard_failed`: a function that the guard had to call (an identity function, a
 * permission hook) failed. A guard that cannot decide admits nothing.
 */
import { Duration, Schema } from "effect"
import { Options as Check } from "@outlast/resilience"

export const StopReason = Schema.Literals([
  "max_events",
  "max_tool_calls",
  "tool_limit",
  "timeout",
  "tool_loop",
  "file_loop",
  "cycle",
  "no_progress",
  "money",
  "tokens",
  "turns",
  "subagents",
  "guard_failed"
])
export type StopReason = typeof StopReason.Type

export const reasons: ReadonlyArray<StopReason> = StopReason.literals

/** The reason for a stop, with its facts. */
export const Tripped = Schema.Struct({
  reason: StopReason,
  /** The limit in the unit of the reason: a count, milliseconds, tokens, US dollars. `undefined` for loops. */
  limit: Schema.optional(Schema.Finite),
  /** The tool, the file or the time (`active`, `total`) whose limit was reached; `undefined` for other limits. */
  subject: Schema.optional(Schema.String),
  /** Description in words, when the numbers are not enough. */
  detail: Schema.optional(Schema.String)
})
export type Tripped = typeof Tripped.Type

/** Amounts that a run has used so far. */
export const Counts = Schema.Struct({
  events: Schema.Finite,
  toolCalls: Schema.Finite,
  turns: Schema.Finite,
  tokens: Schema.Finite,
  /** US dollars, of answers with a known price. */
  costUsd: Schema.Finite,
  subagents: Schema.Finite,
  /** Tool calls that were blocked or not permitted. */
  blocked: Schema.Finite,
  /** Active time in milliseconds. */
  elapsed: Schema.Finite,
  /** All time since the start of the run, in milliseconds. */
  totalElapsed: Schema.Finite,
  /** Number of edited files, and the names of the last ones, oldest first. */
  files: Schema.Finite,
  lastFiles: Schema.Array(Schema.String)
})
export type Counts = typeof Counts.Type

/** All facts of a stop, for a text. */
export interface StopFacts extends Tripped {
  readonly counts: Counts
}

/**
 * Texts of the guard. Each can be replaced, in any language. The default is used when a replacement throws or returns
 * no text.
 */
export interface Texts {
  /** The message of `SafetyStop`. */
  readonly stopped: (facts: StopFacts) => string
  /** Result of a call that was running when the run was stopped. */
  readonly interrupted: string
  /** Result of a call that did not run because the run was stopped. */
  readonly notRun: string
  /** Result of a call that the permission hook refused. */
  readonly refused: (call: { readonly tool: string; readonly why: string }) => string
}

export const texts: Texts = {
  stopped: (facts) =>
    [
      `Forced stop: ${whatHappened(facts)}`,
      numbers(facts.counts),
      ...filesOf(facts.counts),
      "Please review the work completed so far.",
      whatNext(facts)
    ].join(" "),
  interrupted:
    "The run was stopped while this call ran: it has no result, and whether it had an effect is not known.",
  notRun: "The run was stopped: this call was not run.",
  refused: ({ why }) => `This call was not permitted: ${why}`
}

/** Checks of the texts of a host. */
export const textChecks: Check.Checks<Partial<Texts>> = {
  stopped: Check.is.fn("(facts) => string"),
  interrupted: Check.is.text,
  notRun: Check.is.text,
  refused: Check.is.fn("(call) => string")
}

/** The default texts with those of the host. */
export const withOwn = (own: Partial<Texts> = {}): Texts => ({
  stopped: saying(own.stopped, texts.stopped),
  interrupted: own.interrupted ?? texts.interrupted,
  notRun: own.notRun ?? texts.notRun,
  refused: saying(own.refused, texts.refused)
})

/** Falls back to the default text when the host's function fails. */
const saying =
  <A>(own: ((facts: A) => string) | undefined, otherwise: (facts: A) => string) =>
  (facts: A): string => {
    try {
      const said: unknown = own?.(facts)
      return typeof said === "string" ? said : otherwise(facts)
    } catch {
      return otherwise(facts)
    }
  }

/** What happened, as the end of a sentence. */
export const whatHappened = ({ reason, limit = 0, subject = "a tool", detail }: StopFacts): string => {
  switch (reason) {
    case "max_events":
      return `reached maximum of ${count(limit)} events.`
    case "max_tool_calls":
      return `reached maximum of ${count(limit)} tool invocations.`
    case "tool_limit":
      return `reached maximum of ${count(limit)} calls of ${subject}.`
    case "timeout":
      return `reached maximum of ${timeLimit(limit)} of ${subject} time.`
    case "money":
      return `reached maximum of $${limit}.`
    case "tokens":
      return `reached maximum of ${count(limit)} tokens.`
    case "turns":
      return `reached maximum of ${count(limit)} turns.`
    case "file_loop":
      return detail ?? `reached maximum of ${count(limit)} edits of ${subject}.`
    case "subagents":
    case "guard_failed":
    case "tool_loop":
    case "cycle":
    case "no_progress":
      return detail ?? `${reason}.`
  }
}

const numbers = ({ events, toolCalls, ...times }: Counts): string =>
  `Events processed: ${count(events)} | Tool calls: ${count(toolCalls)} | Elapsed: ${elapsedOf(times)}.`

/** Total time, followed by the active time where the two differ. */
const elapsedOf = ({ elapsed, totalElapsed }: Pick<Counts, "elapsed" | "totalElapsed">): string => {
  const [active, total] = [time(elapsed), time(totalElapsed)]
  return active === total ? total : `${total} (active: ${active})`
}

const filesOf = ({ files, lastFiles }: Counts): ReadonlyArray<string> => {
  if (files === 0) return []
  const more = files - lastFiles.length
  return [`Files touched: ${lastFiles.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}.`]
}

const whatNext = ({ reason, detail }: StopFacts): string => {
  switch (reason) {
    case "guard_failed":
      return "Fix what failed; the conversation so far is in `transcript`."
    case "tool_loop":
    case "cycle":
    case "no_progress":
      return goOn("tell it what to do differently")
    case "file_loop":
      return goOn(detail === undefined ? "extend the limit" : "tell it what to do differently")
    default:
      return goOn("extend the limit")
  }
}

const goOn = (first: string): string => `To go on, ${first} and run again with \`transcript\` as the prompt.`

const count = (n: number): string => n.toLocaleString("en-US")

/** Formats whole seconds. */
const time = (millis: number): string =>
  millis < 1_000 ? "0s" : Duration.format(Duration.seconds(Math.floor(millis / 1_000)))

/** A limit below one second is shown in milliseconds. */
const timeLimit = (millis: number): string => (millis < 1_000 ? `${millis}ms` : time(millis))
