import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { Classifier } from "@outlast/agent"

describe("reads the wait that a body, a header or a sentence states", () => {
  const date = "Sat, 21 Nov 2026 10:00:00 GMT"
  const body = (field: object) => ({ responseBody: JSON.stringify({ error: { message: "x", ...field } }) })
  const headers = (responseHeaders: Record<string, string>) => ({ statusCode: 429, responseHeaders })
  const epoch = Date.parse(date) / 1_000
  const unified = (fields: Record<string, string>, reset = 3_600) =>
    headers({
      date,
      ...Object.fromEntries(
        Object.entries({
          status: "rejected",
          reset: String(epoch + reset),
          "5h-reset": String(epoch + 3_600),
          "7d-reset": String(epoch + 400_000),
          ...fields
        }).map(([name, value]) => [`anthropic-ratelimit-unified-${name}`, value])
      )
    })
  const spent = {
    responseHeaders: { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s" }
  }
  const waits: ReadonlyArray<readonly [error: object, millis: number | undefined]> = [
    [
      body({
        details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "45.837906927s" }]
      }),
      45_838
    ],
    [body({ metadata: { retry_after_ms: 250 } }), 250],
    [body({ retry_after: 3 }), 3_000],
    [body({ type: "usage_limit_reached", resets_in_seconds: 272 }), 272_000],
    [
      { ...body({ type: "usage_limit_reached", resets_at: epoch + 272 }), responseHeaders: { date } },
      272_000
    ],
    [body({ type: "usage_limit_reached", resets_at: epoch + 272 }), undefined],
    [{ ...body({ retry_after: 3 }), responseHeaders: { "retry-after": "9" } }, 3_000],
    [headers({ "x-ms-retry-after-ms": "1200", "retry-after": "9" }), 1_200],
    [
      headers({
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-remaining-tokens": "9",
        "x-ratelimit-reset-tokens": "9h"
      }),
      360_000
    ],
    [headers({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795255230000", date }), 30_000],
    [headers({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795255230", date }), 30_000],
    [headers({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1795255230" }), undefined],
    [
      headers({
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-21T10:00:59Z",
        date
      }),
      59_000
    ],
    [
      headers({
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-21T09:00:59Z",
        date
      }),
      0
    ],
    [{ message: "Please try again in 1.242s." }, 1_242],
    [{ message: "Please try again in 120ms." }, 120],
    [{ message: "Please try again in 1m47.5854s." }, 107_585],
    [{ message: "Please try again in 7h12m30s" }, 25_950_000],
    [{ message: "Please retry after 26 seconds." }, 26_000],
    [{ message: "Please retry in 45.8s." }, 45_800],
    [{ message: "try again in 2 minutes" }, 120_000],
    [{ message: "Please wait 1 hour and 5 minutes before the next request" }, 3_900_000],
    [{ message: "请在 20 秒后重试" }, 20_000],
    [{ message: "retry-after=13262" }, 13_262_000],
    [headers({ "retry-after": "30s" }), 30_000],
    [headers({ "retry-after": "1m30s" }), 90_000],
    [headers({ "retry-after": "30 apples" }), undefined],
    [headers({ "retry-after": "May 5", date }), undefined],
    [headers({ "retry-after": "Saturday, 21-Nov-26 10:00:30 GMT", date }), 30_000],
    [headers({ "retry-after": "Sat Nov 21 10:00:30 2026", date }), 30_000],
    [headers({ "retry-after": "2026-11-21T10:00:30Z", date }), 30_000],
    [headers({ "retry-after": "1795255230", date }), 30_000],
    [headers({ "retry-after": "1795255230" }), undefined],
    [{ message: "Retry after: 12" }, 12_000],
    [{ message: "Retry-After: 12 seconds" }, 12_000],
    [{ message: "try again in 1 week" }, 604_800_000],
    [{ message: "Please retry after 1 day." }, 86_400_000],
    [{ message: "I had to wait 5 minutes yesterday" }, undefined],
    [{ message: "The user did not wait 5 minutes" }, undefined],
    [{ message: "You have to wait 5 minutes" }, 300_000],
    [{ message: "Retrying in 5 seconds (attempt 1/10)" }, undefined],
    [{ message: "will retry in 5 seconds" }, undefined],
    [{ message: "completion_with_retry in 4.0 seconds" }, undefined],
    [{ message: "please wait a moment" }, undefined],
    // No client waits that long of its own accord.
    [{ message: "Usage exceeded [retrying in 12m 5s, attempt 2]" }, 725_000],
    [{ message: "Retrying in 90 seconds" }, undefined],
    [{ message: "Nothing left for today. Come back in 2h 10m." }, 7_800_000],
    [{ message: "容量不足，30秒后重试" }, 30_000],
    [{ message: "请求过多，2 分钟后再试" }, 120_000],
    [{ message: "30秒后超时" }, undefined],
    // Google sends a zero in the body when the wait is unknown.
    [
      {
        statusCode: 429,
        responseBody: JSON.stringify({ error: { details: [{ retryDelay: "0s" }] } }),
        responseHeaders: { "retry-after": "60" }
      },
      60_000
    ],
    [body({ details: [{ retryDelay: "0s" }] }), 0],
    [headers({ "retry-after": "30, 30" }), 30_000],
    [headers({ "retry-after": "30, 45" }), 45_000],
    [headers({ ratelimit: "limit=100, remaining=0, reset=50" }), 50_000],
    [headers({ ratelimit: "limit=100, remaining=7, reset=50" }), undefined],
    [headers({ ratelimit: '"default";r=0;t=30' }), 30_000],
    [headers({ ratelimit: '"burst";r=3;t=5, "daily";r=0;t=3600' }), 3_600_000],
    // Anthropic's window that rejected the request wins over a longer one that did not.
    [unified({ "5h-status": "rejected", "7d-status": "allowed" }), 3_600_000],
    [unified({ "5h-status": "allowed_warning", "7d-status": "rejected" }, 400_000), 400_000_000],
    [unified({ "representative-claim": "five_hour" }), 3_600_000],
    [unified({ "representative-claim": "seven_day" }, 400_000), 400_000_000],
    [unified({}), 3_600_000],
    // Servers send these headers with every answer. An error other than a limit does not wait for them.
    [{ ...spent, statusCode: 500, message: "boom" }, undefined],
    [{ ...spent, statusCode: 400, message: "Invalid schema for function" }, undefined],
    [{ ...spent, statusCode: 429, message: "" }, 360_000],
    [{ statusCode: 500, message: "boom", responseHeaders: { "retry-after": "7" } }, 7_000],
    [{ statusCode: 403, message: "Forbidden: the presigned url expires in 900 seconds" }, undefined],
    [{ statusCode: 401, message: "Unauthorized. Token expires in 3600 seconds" }, undefined],
    [{ message: "Rate limited. The cooldown expires in 90 seconds" }, 90_000],
    [{ message: "Backoff: next retry in 32s" }, undefined],
    [
      {
        statusCode: 400,
        message: "tool_result.content: Input should be a valid string, got 'please try again in 5 minutes'"
      },
      undefined
    ],
    [{ message: "Quota will be replenished in 12:34:56." }, 45_296_000],
    [{ message: "Quota will be replenished in 3 days" }, 259_200_000],
    [{ message: "The limit will reset in 00:05:00" }, 300_000],
    [{ message: "Please retry after 10:30:00 UTC" }, undefined],
    [{ message: "Try again in 1,200 seconds" }, 1_200_000],
    [{ message: "Try again in 1 day, 3 hours" }, 97_200_000],
    [{ message: "Please wait 30 more seconds before retrying" }, 30_000],
    [{ message: "wait for 30-60 seconds" }, 60_000],
    [{ message: "Please wait 1 to 2 minutes" }, 120_000],
    [{ message: "限额将在 3 小时后重置" }, 10_800_000],
    [{ message: "限额将在 2026-11-21 15:00:00 重置" }, undefined]
  ]
  for (const [error, millis] of waits) {
    it(JSON.stringify(error).slice(0, 90), () => {
      const { retryAfter } = Classifier.failureOf(error)
      assert.strictEqual(retryAfter === undefined ? undefined : Duration.toMillis(retryAfter), millis)
    })
  }
})
