/**
 * The 16 situations of a public crash test of LLM failover, rebuilt from their published definitions: how the provider
 * fails, and what must hold as seen by the consumer and by the provider. All times are milliseconds.
 */
import type { Effect } from "effect"
import type { Exchange, Behaviour, Request } from "./Provider.ts"
import { answer, cut, done, event, finish, inOrder, pause, refuse, reset, say, well } from "./Provider.ts"

/** What the consumer got from one call. */
export interface Call {
  /** Milliseconds since the provider began. */
  readonly start: number
  readonly end: number
  readonly text: string
  readonly error: string | undefined
  /** The model that answered, as the answer says. */
  readonly model: string | undefined
  readonly outputTokens: number | undefined
}

export interface Seen {
  readonly calls: ReadonlyArray<Call>
  readonly requests: ReadonlyArray<Request>
}

/**
 * - `pass`: right
 * - `partial`: right, but not ideal
 * - `safe`: an honest error where an answer was possible
 * - `fail`: an altered or doubled text as a success, a bound that is missed, or a hang
 */
type Grade = "pass" | "partial" | "safe" | "fail"

export interface Verdict {
  readonly grade: Grade
  readonly why: string
}

export interface Situation {
  readonly name: string
  readonly about: string
  /** True when the situation exists without a stream, too. */
  readonly whole: boolean
  readonly primary: (exchange: Exchange, at: number) => Effect.Effect<void>
  /** Default: well. */
  readonly fallback?: Behaviour
  /** The start of each call. Default: one call at 0. */
  readonly calls?: ReadonlyArray<number>
  readonly judge: (seen: Seen) => Verdict
}

// -----------------------------------------------------------------------------
// Judgements
// -----------------------------------------------------------------------------

type Check = readonly [holds: boolean, why: string]

const asked = ({ requests }: Seen): ReadonlyArray<number> =>
  requests.flatMap(({ model, at }) => (model === "primary" ? [at] : []))

const fallbacks = ({ requests }: Seen): number => requests.filter(({ model }) => model === "fb-ok").length

const took = ({ calls }: Seen): number => Math.max(...calls.map(({ start, end }) => end - start))

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`

const within = (seen: Seen, millis: number): Check => [
  took(seen) <= millis,
  `took ${seconds(took(seen))} of ${seconds(millis)}`
]

const atMost = (seen: Seen, most: number, before = Infinity): Check => {
  const count = asked(seen).filter((at) => at <= before).length
  const when = before === Infinity ? "" : ` within ${seconds(before)}`
  return [count <= most, `${count} requests to the primary${when}, ${most} allowed`]
}

const byPrimary = (seen: Seen): Check => [
  fallbacks(seen) === 0,
  `answered by the fallback after ${asked(seen).length} requests to the primary`
]

const failed = (checks: ReadonlyArray<Check>): string | undefined => checks.find(([holds]) => !holds)?.[1]

/** Judges calls that should be answered: what must hold of them, and what is ideal. */
const answered =
  (must: (seen: Seen) => ReadonlyArray<Check>, ideal: (seen: Seen) => ReadonlyArray<Check> = () => []) =>
  (seen: Seen): Verdict => {
    const wrong = seen.calls.find(({ error, text }) => error === undefined && text !== answer)
    if (wrong !== undefined) {
      const count = wrong.text.match(/\S+/g)?.length ?? 0
      return { grade: "fail", why: `another text as a success: ${count} words, "${wrong.text.slice(-40)}"` }
    }
    const missed = failed(must(seen))
    if (missed !== undefined) return { grade: "fail", why: missed }
    const error = seen.calls.find((call) => call.error !== undefined)?.error
    if (error !== undefined) return { grade: "safe", why: error }
    const lesser = failed(ideal(seen))
    return lesser === undefined ? { grade: "pass", why: "" } : { grade: "partial", why: lesser }
  }

const nothing = (): ReadonlyArray<Check> => []

// -----------------------------------------------------------------------------
// Faults
// -----------------------------------------------------------------------------

const once =
  (fault: Behaviour): Situation["primary"] =>
  (exchange) =>
    exchange.n === 0 ? fault(exchange) : well(exchange)

const limited = { message: "Rate limit reached for requests", type: "requests", code: "rate_limit_exceeded" }
const unavailable = refuse(503, {
  message: "The server is overloaded or not ready yet.",
  type: "server_error"
})
const internal = refuse(500, { message: "The server had an error.", type: "server_error" })
const overflow = refuse(400, {
  message:
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
  type: "invalid_request_error",
  param: "messages",
  code: "context_length_exceeded"
})
const policy = refuse(400, {
  message: "The response was filtered due to the prompt triggering the content management policy.",
  type: "invalid_request_error",
  param: "prompt",
  code: "content_filter"
})
const prefill =
  "This model does not support assistant message prefill. The conversation must end with a user message."

/** The time after which the server closes a connection that it never answers. */
const never = 120_000
const hang = inOrder(pause(never), cut)

/** When the outage of S15 ends. The last of its calls begins 20 s later. */
const back = 60_000

export const situations: ReadonlyArray<Situation> = [
  {
    name: "S01",
    about: "429 with retry-after: 2, once",
    whole: true,
    primary: once(refuse(429, limited, { "retry-after": "2" })),
    judge: answered(
      (seen) => [atMost(seen, 2, 1_500)],
      (seen) => {
        const [first = 0, second = Infinity] = asked(seen)
        return [byPrimary(seen), [second - first >= 1_800, `asked again after ${seconds(second - first)}`]]
      }
    )
  },
  {
    name: "S02",
    about: "429 for ever, no wait named",
    whole: true,
    primary: refuse(429, limited),
    judge: answered((seen) => [atMost(seen, 4, 3_000), atMost(seen, 6)])
  },
  {
    name: "S03",
    about: "500 once",
    whole: true,
    primary: once(internal),
    judge: answered(nothing, (seen) => [byPrimary(seen)])
  },
  {
    name: "S04",
    about: "503 for ever",
    whole: true,
    primary: unavailable,
    judge: answered((seen) => [atMost(seen, 6)])
  },
  { name: "S05", about: "reset once", whole: true, primary: once(reset), judge: answered(nothing) },
  {
    name: "S06",
    about: "accepts, never answers",
    whole: true,
    primary: hang,
    judge: answered(
      (seen) => [within(seen, 100_000)],
      (seen) => [atMost(seen, 1)]
    )
  },
  {
    name: "S07",
    about: "first token after 20 s",
    whole: true,
    primary: inOrder(pause(20_000), well),
    judge: answered(nothing, (seen) => [within(seen, 15_000)])
  },
  {
    name: "S08",
    about: "stream cut after 40 words",
    whole: false,
    primary: inOrder(say(40), cut),
    judge: answered(nothing)
  },
  {
    name: "S09",
    about: "silent after 20 words, cut after 30 s",
    whole: false,
    primary: inOrder(say(20), pause(30_000), cut),
    judge: answered((seen) => [within(seen, 45_000)])
  },
  {
    name: "S10",
    about: "a chunk that is no JSON after 10 words",
    whole: false,
    primary: inOrder(say(10), event("this is not JSON"), say(60, 10), finish, done),
    judge: answered(nothing, (seen) => [byPrimary(seen), atMost(seen, 1)])
  },
  {
    name: "S11",
    about: "no [DONE], the connection stays open",
    whole: false,
    primary: inOrder(say(), finish, pause(never), cut),
    judge: answered(
      // The last event leaves after 1.2 s.
      (seen) => [within(seen, 8_000 + 1_200)],
      ({ calls: [call] }) => [[call?.outputTokens !== undefined, "no usage"]]
    )
  },
  {
    name: "S12",
    about: "400 context_length_exceeded",
    whole: true,
    primary: overflow,
    judge: answered((seen) => [atMost(seen, 1)])
  },
  {
    name: "S13",
    about: "400 content policy",
    whole: true,
    primary: policy,
    judge: (seen) => {
      const [call] = seen.calls
      const why = failed([
        atMost(seen, 1),
        [call?.error !== undefined, `an answer after ${fallbacks(seen)} requests to the fallback`]
      ])
      return why === undefined ? { grade: "pass", why: "" } : { grade: "fail", why }
    }
  },
  {
    name: "S14",
    about: "stream cut; the fallback takes no assistant message at the end",
    whole: false,
    primary: inOrder(say(40), cut),
    fallback: (exchange) =>
      (exchange.hit.body.messages ?? exchange.hit.body.input).at(-1)?.role === "assistant"
        ? refuse(400, { message: prefill, type: "invalid_request_error" })(exchange)
        : well(exchange),
    judge: answered(({ calls: [call] }) => [
      [!(call?.error ?? "").includes("prefill"), "the error of the fallback hides the first"]
    ])
  },
  {
    name: "S15",
    about: "503 for 60 s, a call every 4 s for 80 s",
    whole: true,
    primary: (exchange, at) => (at < back ? unavailable : well)(exchange),
    calls: Array.from({ length: 21 }, (_, i) => i * 4_000),
    judge: answered((seen) => {
      const used = asked(seen).find((at) => at >= back) ?? Infinity
      return [
        [
          used <= back + 30_000,
          `not used within ${seconds((seen.calls.at(-1)?.start ?? 0) - back)} after its return`
        ]
      ]
    })
  },
  {
    name: "S16",
    about: "503 for ever, who answered",
    whole: true,
    primary: unavailable,
    judge: answered((seen) => {
      const {
        calls: [call]
      } = seen
      return [
        atMost(seen, 6),
        [call?.model === "fb-ok", `the answer says that ${call?.model ?? "no model"} answered`],
        [call?.outputTokens !== undefined, "no usage"]
      ]
    })
  }
]
