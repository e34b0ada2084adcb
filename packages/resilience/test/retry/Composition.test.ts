/**
 * The examples of docs/understand/composition.md, with measurements of each. `test/docs.test.ts` checks that the document quotes
 * them and that its table has these figures. `UPDATE_DOCS=1` writes the table.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, Deadline, Retry, RetryBudget } from "@outlast/resilience"
import { Busy, exact, failureOf, settle } from "../support/attempts.ts"

type Request = Effect.Effect<string, Busy>

const policy = {
  classify: () => Retry.again(),
  backoff: exact
}
const fromCache = Effect.succeed("an old answer")

// -----------------------------------------------------------------------------
// The examples
// -----------------------------------------------------------------------------

const allTogether = (request: Request) =>
  request.pipe(
    Effect.timeout("10 seconds"),
    Retry.with({ ...policy, deadline: "1 minute", budget: true, breaker: { circuit: "provider" } })
  )

const timeoutOutside = (request: Request) =>
  request.pipe(Retry.with({ ...policy, breaker: { circuit: "provider" } }), Effect.timeout("10 seconds"))

const breakerOutside = (request: Request) =>
  request.pipe(Retry.with(policy), CircuitBreaker.execute("provider"))

const breakerUnknown = (request: Request) =>
  request.pipe(CircuitBreaker.execute("provider"), Retry.with({ ...policy, budget: true }))

const retryTwice = (request: Request) => request.pipe(Retry.with(policy), Retry.with(policy))

const limitsByClass = (request: Request) =>
  request.pipe(
    Retry.with({
      ...policy,
      classify: (error) => Retry.again({ class: error.wait === undefined ? "Server" : "RateLimit" }),
      attemptsPerClass: { RateLimit: 5 }
    })
  )

const deadlineOutside = (request: Request) =>
  request.pipe(Effect.timeout("10 seconds"), Retry.with({ ...policy, deadline: "20 seconds" }))

const deadlineEnforced = (request: Request) =>
  request.pipe(
    Effect.timeout("10 seconds"),
    Retry.with(policy),
    Deadline.enforce,
    Deadline.within("20 seconds")
  )

const deadlineInside = (request: Request) =>
  request.pipe(Effect.timeout("10 seconds"), Deadline.within("20 seconds"), Retry.with(policy))

const budgetPerCall = (request: Request) =>
  request.pipe(Retry.with({ ...policy, budget: true }), Effect.provide(RetryBudget.layer()))

const budgetShared = (request: Request) => request.pipe(Retry.with({ ...policy, budget: true }))

const fallbackOutside = (request: Request) =>
  request.pipe(
    Retry.with({ ...policy, breaker: { circuit: "provider" } }),
    Effect.catchTag("RetryFailed", () => fromCache)
  )

const fallbackInside = (request: Request) =>
  request.pipe(
    Effect.catchTag("Busy", () => fromCache),
    Retry.with({ ...policy, breaker: { circuit: "provider" } })
  )

const failover = (request: Request, other: Request) => {
  const first = request.pipe(Retry.with({ ...policy, breaker: { circuit: "provider" } }))
  const second = other.pipe(Retry.with({ ...policy, breaker: { circuit: "other provider" } }))
  return first.pipe(
    Effect.catchTag("RetryFailed", () => second),
    Deadline.within("1 minute")
  )
}

// -----------------------------------------------------------------------------
// Measurements
// -----------------------------------------------------------------------------

type Provider = "fails" | "is silent" | "fails, circuit open"
type Services = CircuitBreaker.CircuitBreaker | RetryBudget.RetryBudget

interface Row {
  readonly requests: number
  /** Seconds. */
  readonly after: number
  /** Failures that the circuit counted, or its phase if it is not closed. */
  readonly circuit: number | string
  readonly end: "answer" | "failure"
}

const happens = (
  example: (request: Request) => Effect.Effect<unknown, unknown, Services>,
  provider: Provider,
  calls = 1
): Effect.Effect<Row> =>
  Effect.gen(function* () {
    const breaker = yield* CircuitBreaker.CircuitBreaker
    if (provider === "fails, circuit open") yield* breaker.trip("provider")
    const start = yield* Clock.currentTimeMillis
    let requests = 0
    const request = Effect.suspend((): Request => {
      requests++
      return provider === "is silent" ? Effect.never : Effect.fail(new Busy({}))
    })
    const all = Effect.all(
      Array.from({ length: calls }, () => Effect.exit(example(request))),
      { concurrency: "unbounded" }
    )
    const fiber = yield* Effect.forkChild(
      Effect.flatMap(all, (exits) => Effect.map(Clock.currentTimeMillis, (now) => ({ exits, now }))),
      { startImmediately: true }
    )
    // Second by second, so that the circuit can be read when the calls have ended.
    while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
    const { exits, now } = yield* Fiber.join(fiber)
    const { phase, failures } = yield* breaker.state("provider")
    return {
      requests,
      after: (now - start) / 1_000,
      circuit: phase === "closed" ? failures : phase,
      end: exits.every(({ _tag }) => _tag === "Success") ? ("answer" as const) : ("failure" as const)
    }
  }).pipe(
    Effect.provide(
      Layer.mergeAll(CircuitBreaker.layer({ open: Backoff.constant("1 minute") }), RetryBudget.layer())
    )
  )

const toOther = (request: Request) => failover(request, Effect.succeed("an answer"))

const table: ReadonlyArray<readonly [string, Provider, Effect.Effect<Row>, Row]> = [
  [
    "allTogether",
    "fails",
    happens(allTogether, "fails"),
    { requests: 3, after: 3, circuit: 3, end: "failure" }
  ],
  [
    "allTogether",
    "is silent",
    happens(allTogether, "is silent"),
    { requests: 3, after: 33, circuit: 3, end: "failure" }
  ],
  [
    "timeoutOutside",
    "is silent",
    happens(timeoutOutside, "is silent"),
    { requests: 1, after: 10, circuit: 0, end: "failure" }
  ],
  [
    "breakerOutside",
    "fails",
    happens(breakerOutside, "fails"),
    { requests: 3, after: 3, circuit: 1, end: "failure" }
  ],
  [
    "allTogether",
    "fails, circuit open",
    happens(allTogether, "fails, circuit open"),
    { requests: 0, after: 0, circuit: "open", end: "failure" }
  ],
  [
    "breakerUnknown",
    "fails, circuit open",
    happens(breakerUnknown, "fails, circuit open"),
    { requests: 0, after: 3, circuit: "open", end: "failure" }
  ],
  [
    "retryTwice",
    "fails",
    happens(retryTwice, "fails"),
    { requests: 9, after: 12, circuit: 0, end: "failure" }
  ],
  [
    "limitsByClass",
    "fails",
    happens(limitsByClass, "fails"),
    { requests: 3, after: 3, circuit: 0, end: "failure" }
  ],
  [
    "deadlineOutside",
    "is silent",
    happens(deadlineOutside, "is silent"),
    { requests: 2, after: 21, circuit: 0, end: "failure" }
  ],
  [
    "deadlineEnforced",
    "is silent",
    happens(deadlineEnforced, "is silent"),
    { requests: 2, after: 20, circuit: 0, end: "failure" }
  ],
  [
    "deadlineInside",
    "is silent",
    happens(deadlineInside, "is silent"),
    { requests: 3, after: 33, circuit: 0, end: "failure" }
  ],
  [
    "budgetShared, 100 calls at once",
    "fails",
    happens(budgetShared, "fails", 100),
    { requests: 130, after: 1, circuit: 0, end: "failure" }
  ],
  [
    "budgetPerCall, 100 calls at once",
    "fails",
    happens(budgetPerCall, "fails", 100),
    { requests: 300, after: 3, circuit: 0, end: "failure" }
  ],
  [
    "fallbackOutside",
    "fails",
    happens(fallbackOutside, "fails"),
    { requests: 3, after: 3, circuit: 3, end: "answer" }
  ],
  [
    "fallbackInside",
    "fails",
    happens(fallbackInside, "fails"),
    { requests: 1, after: 0, circuit: 0, end: "answer" }
  ],
  ["failover", "fails", happens(toOther, "fails"), { requests: 3, after: 3, circuit: 3, end: "answer" }],
  [
    "failover",
    "fails, circuit open",
    happens(toOther, "fails, circuit open"),
    { requests: 0, after: 0, circuit: "open", end: "answer" }
  ]
]

for (const [name, provider, happens, wanted] of table) {
  it.effect(`${name}, where the provider ${provider}`, () =>
    Effect.map(happens, (row) => assert.deepStrictEqual(row, wanted))
  )
}

it.effect("breakerUnknown takes budget for attempts that were never sent", () =>
  Effect.gen(function* () {
    yield* (yield* CircuitBreaker.CircuitBreaker).trip("provider")
    const { attempts } = yield* failureOf(breakerUnknown(Effect.succeed("never asked")), "5 seconds")
    assert.strictEqual(attempts, 3)
    assert.strictEqual(yield* (yield* RetryBudget.RetryBudget).amplification, 3)
  }).pipe(Effect.provide(Layer.mergeAll(CircuitBreaker.layer(), RetryBudget.layer())))
)

it.effect("breakerOutside opens after three times as many requests, and retries continue meanwhile", () =>
  Effect.gen(function* () {
    const requestsUntilRefused = (example: (request: Request) => Effect.Effect<unknown, unknown, Services>) =>
      Effect.gen(function* () {
        let requests = 0
        const request = Effect.suspend(() => Effect.fail(new Busy({ n: ++requests })))
        for (let n = 0; n < 10; n++) yield* settle(Effect.exit(example(request)), "10 seconds")
        return requests
      }).pipe(
        Effect.provide(
          Layer.mergeAll(
            CircuitBreaker.layer({
              trip: { consecutive: { failures: 3 } },
              open: Backoff.constant("1 hour")
            }),
            RetryBudget.layer()
          )
        )
      )
    assert.strictEqual(yield* requestsUntilRefused(allTogether), 3)
    assert.strictEqual(yield* requestsUntilRefused(breakerOutside), 9)
  })
)

it("docs/understand/composition.md has these figures", () => {
  const file = fileURLToPath(new URL("../../../../docs/understand/composition.md", import.meta.url))
  const rows = table.map(([name, provider, , { requests, after, circuit, end }]) => {
    const [example, rest = ""] = name.split(/(?=, )/)
    return `| \`${example}\`${rest} | ${provider} | ${requests} | ${after} s | ${circuit} | ${end} |`
  })
  const text = readFileSync(file, "utf8")
  assert.match(text, /<!-- what happens -->/)
  const wanted = text.replace(
    /<!-- what happens -->[\s\S]*<!-- \/what happens -->/,
    [
      "<!-- what happens -->",
      "",
      "| example | the provider | requests | ends after | circuit counts | ends with |",
      "|---|---|---|---|---|---|",
      ...rows,
      "",
      "<!-- /what happens -->"
    ].join("\n")
  )
  if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
  else assert.strictEqual(plain(text), plain(wanted))
})

/** Removes the padding that the formatter adds to tables. */
const plain = (markdown: string): string =>
  markdown
    .replace(/ +/g, " ")
    .replace(/-{3,}/g, "---")
    .replace(/ ?(\|) ?/g, "$1")
