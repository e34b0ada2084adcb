/**
 * The reasons that rules return, as shared instances.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import * as R from "../reasons/FailoverReason.ts"
import * as About from "../facts/About.ts"
import * as Instant from "../facts/Instant.ts"
import * as Sizes from "../facts/Sizes.ts"

export const auth = new R.Auth({ permanent: false })
export const revoked = new R.Auth({ permanent: true })
export const billing = new R.Billing()
export const overloaded = new R.Overloaded()
export const serverError = new R.ServerError()
export const network = new R.Network()
export const permanentNetwork = new R.PermanentNetwork()
export const modelNotFound = new R.ModelNotFound()

/** A malformed request, with the kinds of its parts that the sentence is about. */
export const badRequest = (facts: ErrorFacts): R.Format => About.requestOf(facts)
/** A malformed request. Has the model's output limit if the text says that a longer answer was requested. */
export const badRequestOrLimit = (facts: ErrorFacts): R.Format => {
  const { text, codes } = facts
  const fields = codes.filter((code) => code.startsWith("field/"))
  const outputLimit = Sizes.ofOutput(`${fields.join(" ")} ${text}`)
  return outputLimit === undefined ? badRequest(facts) : new R.Format({ side: "request", outputLimit })
}
export const badResponse = new R.Format({ side: "response" })
export const badJson = new R.Format({ side: "response", problem: "the provider could not read its JSON" })

/** An invalid tool call of the model, with what is wrong with it in our own words. */
export const badCall = ({ text }: ErrorFacts): R.Format =>
  new R.Format({
    side: "response",
    problem: /not in request\.tools|was not (?:offered|found|declared)|unknown (?:tool|function)/.test(text)
      ? "names a tool that was not offered"
      : /schema|validation failed|missing propert|required propert/.test(text)
        ? "has arguments that do not fit the parameters of the tool"
        : "cannot be read as JSON"
  })
export const contentPolicy = new R.ContentPolicy()
export const cancelled = new R.Cancelled()
export const unknown = new R.Unknown()
export const timeout = {
  connect: new R.Timeout({ phase: "connect", local: false }),
  firstToken: new R.Timeout({ phase: "first-token", local: false }),
  idle: new R.Timeout({ phase: "idle", local: false }),
  total: new R.Timeout({ phase: "total", local: false })
}

const ours = {
  connect: new R.Timeout({ phase: "connect", local: true }),
  firstToken: new R.Timeout({ phase: "first-token", local: true }),
  idle: new R.Timeout({ phase: "idle", local: true }),
  total: new R.Timeout({ phase: "total", local: true })
}

/** A client's time limit. The client is local, unless the error is in a response: then it is a gateway's client. */
const ofClient =
  (phase: keyof typeof timeout) =>
  ({ status }: ErrorFacts): R.Timeout =>
    status === undefined ? ours[phase] : timeout[phase]

export const clientTimeout = {
  connect: ofClient("connect"),
  firstToken: ofClient("firstToken"),
  idle: ofClient("idle"),
  total: ofClient("total"),
  /** For errors that never come in a response. */
  ours: ours.total
}

/** An abort that was not the caller's: the status of the response around it says what happened. */
export const abortByOthers = (status: number | undefined): R.FailoverReason => {
  switch (status) {
    case undefined:
      return network
    case 408:
    case 504:
    case 522:
    case 524:
      return timeout.total
    case 502:
    case 503:
    case 529:
      return overloaded
    default:
      return serverError
  }
}

const liftable = new R.RateLimit()
const unliftable = new R.RateLimit({ liftable: false })

/** Units of time in the order in which a sentence is read: the shortest that it names ends first. */
const windows = [
  ["minute", /\b(?:per[- ](?:second|minute|min)|[tri]pm|concurren|minute\b|\d ?\/ ?min)/],
  ["hour", /\b(?:per[- ]hour|hourly|this hour|an hour)\b/],
  ["session", /\b(?:session|(?:5|five)[- ]hours?) (?:usage )?(?:limit|quota)|out of extra usage/],
  ["day", /\b(?:per[- ]day|daily|today|tomorrow|[tr]pd|24 hours|a day)\b|(?:每日|当日|今日|每天)/],
  ["week", /\b(?:per[- ]week|weekly|this week)\b|每周/],
  ["month", /\b(?:per[- ]month|monthly|this month|next month|billing cycle|next cycle)\b|每月/],
  // A limit of minutes states seconds, not a time of day.
  ["session", Instant.named]
] as const

/** A rate limit. The numbers in the text decide whether waiting helps, and its words when the limit is renewed. */
export const rateLimit = ({ text }: ErrorFacts): R.RateLimit => {
  if (!Sizes.isLiftable(text)) {
    const sizes = Sizes.ofTooLarge(text)
    return sizes === undefined ? unliftable : new R.RateLimit({ liftable: false, ...sizes })
  }
  const window = windows.find(([, words]) => words.test(text))?.[0]
  return window === undefined ? liftable : new R.RateLimit({ window })
}

/** An overflow with the window and the size of the request, if the text names them. */
export const contextOverflow = ({ text, said, status }: ErrorFacts): R.ContextOverflow =>
  new R.ContextOverflow({
    ...Sizes.ofWindow(text),
    ...(isInBytes(text, said ?? status) ? { media: true } : undefined)
  })

const isInBytes = (text: string, status: number | undefined): boolean =>
  inBytes.test(text) || (status === 413 && !/token|context/.test(text))

/** Words for the size of a body. The size of a conversation is in tokens. */
const inBytes = /payload|\bentity\b|\bbody\b|\bbytes\b|\d ?mi?b\b/
