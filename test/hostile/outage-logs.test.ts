/** Every sentence that a chain logs in an outage is checked against what the servers saw up to that moment. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource, RecoveryPolicy } from "@outlast/agent"
import { OpenAiCompatible } from "@outlast/providers"
import { Backoff } from "@outlast/resilience"
import { Duration, Effect, Logger, Record, Redacted } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import type { ServerResponse } from "node:http"
import * as RawServer from "./RawServer.ts"
import type { Hit } from "./RawServer.ts"
import * as Replies from "./Replies.ts"

/** Waits and cooldowns are so short that a target is asked again within the calls of a test. */
const short = Duration.millis(1)
const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  retryAfterJitter: 0,
  maxAttempts: 6,
  retryBudget: false,
  limits: { ...RecoveryPolicy.interactive.limits, total: Duration.millis(80) },
  rows: Record.map(RecoveryPolicy.interactive.rows, (row) => ({
    ...row,
    backoff: Backoff.constant(short),
    ...(row.cooldown === undefined
      ? {}
      : { cooldown: { ...row.cooldown, initial: short, cap: short, trusted: short, byWords: short } })
  }))
}

const good = (response: ServerResponse, hit: Hit) =>
  Replies.send.compatible({ text: "ok", end: "stop", tokens: 1 })(response, hit)
const status =
  (code: number, error: object = { message: "x" }, headers: Readonly<Record<string, string>> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(code, { "content-type": "application/json", ...headers })
    response.end(JSON.stringify({ error }))
  }
const silent = () => {}
const hangUp = (_: ServerResponse, hit: Hit) => hit.socket.destroy()
const limited = status(429, { message: "Rate limit reached", code: "rate_limit_exceeded" })
const deadKey = status(401, { message: "Incorrect API key provided.", code: "invalid_api_key" })

type Answer = (response: ServerResponse, hit: Hit) => void
/** What the n-th request to each of two vendors gets. */
type Outage = readonly [(n: number, hit: Hit) => Answer, (n: number, hit: Hit) => Answer]

const always = (answer: Answer) => () => answer
const until = (n: number, answer: Answer) => (i: number) => (i < n ? answer : good)
const isFirstKey = ({ headers }: Hit) => headers.authorization?.endsWith("-first") === true

const outages: Readonly<Record<string, Outage>> = {
  "one vendor breaks connections": [always(hangUp), always(good)],
  "both vendors break connections": [always(hangUp), always(hangUp)],
  "one vendor is silent": [always(silent), always(good)],
  "both vendors are silent": [always(silent), always(silent)],
  "one vendor is limited": [always(limited), always(good)],
  "both vendors are limited": [always(limited), always(limited)],
  "one key is dead": [(_, hit) => (isFirstKey(hit) ? deadKey : good), always(good)],
  "all keys are dead": [always(deadKey), always(deadKey)],
  "one vendor flaps": [(n) => (n % 3 === 0 ? good : status(500)), always(good)],
  "one vendor comes back": [until(4, status(503)), always(good)],
  "both vendors come back": [until(5, status(500)), until(5, status(500))]
}

interface Seen {
  /** Vendors of the requests so far that were answered well, in their order. */
  readonly answered: Array<string>
  /** Vendors of all requests. */
  readonly asked: Array<string>
}

const vendorOf = (target: string | undefined): string => target?.split("/")[0] ?? ""

/** Throws if the sentence says what did not happen. */
const check = (line: string, { answered, asked }: Seen): void => {
  const switched = /Switched from (\S+) to (\S+?)\.(?:\s|$)/.exec(line)
  if (switched !== null) {
    assert.strictEqual(answered.at(-1), vendorOf(switched[2]), line)
    assert.include(asked, vendorOf(switched[1]), line)
  }
  const back = /Switched from (\S+) back to (\S+), which answers again/.exec(line)
  if (back !== null) {
    assert.strictEqual(answered.at(-1), vendorOf(back[2]), line)
    assert.include(answered, vendorOf(back[1]), line)
  }
  const keyRefused = /^(\S+): the key was refused/.exec(line)
  if (keyRefused !== null) assert.include(asked, vendorOf(keyRefused[1]), line)
  const made = /No target is left after (\d+) attempts?/.exec(line)
  if (made !== null) assert.isAtMost(Number(made[1]), asked.length, line)
}

const vendor = (
  name: string,
  answer: Outage[number],
  { answered, asked }: Seen
): Effect.Effect<RawServer.RawServer, never, Scope.Scope> =>
  RawServer.start((response, hit, n) => {
    asked.push(name)
    const reply = answer(n, hit)
    if (reply === good) answered.push(name)
    reply(response, hit)
  })

describe("the log of an outage", () => {
  for (const [name, [first, second]] of Object.entries(outages)) {
    it.live(`says what happened: ${name}`, () =>
      Effect.gen(function* () {
        const seen: Seen = { answered: [], asked: [] }
        const log: Array<string> = []
        const wrong: Array<unknown> = []
        const logger = Logger.make(({ message }) => {
          const line = String(message)
          log.push(line)
          try {
            check(line, seen)
          } catch (error) {
            wrong.push(error)
          }
        })
        const targets = [
          OpenAiCompatible.model({
            name: "one",
            model: "m1",
            baseUrl: `${(yield* vendor("one", first, seen)).url}/v1`,
            info: { wholeAnswers: "request" },
            keys: ["first", "next"].map((key) => KeySource.value(key, Redacted.make(`sk-0123456789-${key}`)))
          }),
          OpenAiCompatible.model({
            name: "two",
            model: "m2",
            baseUrl: `${(yield* vendor("two", second, seen)).url}/v1`,
            info: { wholeAnswers: "request" },
            keys: [KeySource.value("only", Redacted.make("sk-0123456789-only"))]
          })
        ] as const
        let failed = 0
        yield* Effect.gen(function* () {
          for (let call = 0; call < 5; call++) {
            const exit = yield* Effect.exit(LanguageModel.generateText({ prompt: `${call}` }))
            if (exit._tag === "Failure") failed++
          }
        }).pipe(Effect.provide(Failover.layer(targets, { policy })), Effect.provide(Logger.layer([logger])))
        assert.deepStrictEqual(wrong, [])
        // Something was to be said, unless only a repeat was needed.
        if (failed > 0 || seen.answered.includes("two")) assert.isNotEmpty(log)
        assert.strictEqual(
          log.some((line) => line.startsWith("A call failed")),
          failed > 0
        )
        // An answer that came after its time limit is good for the server, and no answer for the call.
        assert.isAtLeast(seen.answered.length, 5 - failed)
      })
    )
  }
})
