import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as Instant from "#agent/failure/facts/Instant"
import { Classifier } from "@outlast/agent"

const date = "Sun, 29 Nov 2026 06:00:00 GMT"
const now = Date.parse(date)

describe("the time at which a limit ends, in a sentence", () => {
  const times: Readonly<Record<string, string | undefined>> = {
    "your quota will reset at 2026-11-29t08:00:00z.": "2026-11-29T08:00:00Z",
    "quota resets on 2026-12-01": "2026-12-01T00:00:00Z",
    "resets at 2026-11-29 12:30 +02:00": "2026-11-29T10:30:00Z",
    "available again at 2026-11-29 12:30:15.250 utc": "2026-11-29T12:30:15.250Z",
    "usage limit reached|1795939200": "2026-11-29T08:00:00Z",
    "try again after 1795939200000": "2026-11-29T08:00:00Z",
    "you've hit your usage limit. try again at nov 30th, 2026 6:42 am.": "2026-11-30T06:42:00Z",
    "resets dec 3, 9am (europe/berlin)": "2026-12-03T08:00:00Z",
    "limit resets on 3 january at 15:00": "2027-01-03T15:00:00Z",
    "resets 3pm (america/new_york)": "2026-11-29T20:00:00Z",
    "resets 12:30am (utc)": "2026-11-30T00:30:00Z",
    "renews at 5 am (asia/tokyo)": "2026-11-29T20:00:00Z",
    // In the past: now.
    "until 2026-11-29t05:00:00z": "2026-11-29T06:00:00Z",
    // No zone: the same minute of the next quarter of an hour.
    "try again at 3:42 pm": "2026-11-29T06:12:00Z",
    "try again at 3:50 pm": "2026-11-29T06:05:00Z",
    "come back at 11am": "2026-11-29T06:00:00Z",
    "限额将在 2026-11-29 15:00:00 重置": "2026-11-29T07:00:00Z",
    // No time, or no limit that ends then.
    "retry after 10:30:00": undefined,
    "try again at 5 de mayo de 2027, 10:30": undefined,
    "resets soon": undefined,
    "limit resets: 60 requests/minute": undefined,
    "retry 3 and/or wait": undefined,
    "try again later": undefined,
    "deprecated on 2026-12-01": undefined,
    "retry after 30": undefined
  }
  for (const [text, expected] of Object.entries(times)) {
    it(`is ${expected ?? "not there"}: ${text}`, () => {
      assert.strictEqual(
        Instant.until(text, now),
        expected === undefined ? undefined : Date.parse(expected) - now
      )
    })
  }

  it("is never an exception, whatever zone or number is named", () => {
    for (const text of [
      "resets 99pm (no/where)",
      "resets 25:61 (utc)",
      "resets feb 31 at 1am (x/y)",
      "resets z"
    ]) {
      assert.isNotNaN(Instant.until(text, now) ?? 0)
    }
  })
})

const failureOf = (status: number, error: object) =>
  Classifier.failureOf({
    statusCode: status,
    responseBody: JSON.stringify({ error }),
    responseHeaders: { date }
  })

describe("a rate limit", () => {
  for (const [message, window] of [
    ["Rate limit reached: 3 requests per minute.", "minute"],
    ["Limit of 10 requests per hour reached.", "hour"],
    ["You've hit your session limit.", "session"],
    ["Daily request limit of 50 reached.", "day"],
    ["You have hit your weekly limit.", "week"],
    ["You exceeded your monthly quota of requests.", "month"],
    // The shortest window ends first.
    ["Limits: 5 requests per minute, 100 requests per day.", "minute"],
    // A time of day or a date: no limit of minutes.
    ["Usage limit reached. Try again at 4:20 PM.", "session"],
    ["Usage limit reached. Try again at 5 de mayo de 2027, 10:30.", "session"],
    ["You have hit your weekly limit. It resets Dec 3 at 4 PM.", "week"],
    ["Too many requests, try again in 20 s.", undefined],
    ["Too many requests.", undefined]
  ] as const) {
    it(`has the window ${window}: ${message}`, () => {
      const { reason } = failureOf(429, { message })
      assert.strictEqual(reason._tag === "RateLimit" ? reason.window : "none", window)
    })
  }

  it("is no overflow, although its sentence advises a shorter prompt", () => {
    const message =
      "You have reached your token limit for today. Please reduce the length of your prompt or try again tomorrow."
    for (const [status, type] of [
      [429, "error"],
      [400, "rate_limit_error"]
    ] as const) {
      const { reason } = failureOf(status, { message, type })
      assert.deepInclude(reason, { _tag: "RateLimit", liftable: true, window: "day" })
    }
    assert.strictEqual(
      failureOf(400, { message: "Please reduce the length of the prompt." }).reason._tag,
      "ContextOverflow"
    )
  })

  it("has the wait of a time in its sentence, compared with the clock of the server", () => {
    const failure = failureOf(429, { message: "You've hit your limit · resets 3pm (America/New_York)" })
    assert.deepStrictEqual(failure.retryAfter, Duration.hours(14))
  })
})
