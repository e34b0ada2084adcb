/** Shared test support of limiters. */
import { Clock, Effect } from "effect"
import type { TargetRef } from "#agent/conversation/TargetRef"
import type * as CallLimiter from "#agent/limiter/CallLimiter"

export const target = (key = "KEY_A", model = "m"): TargetRef => ({
  id: `vendor/${model}#${key}`,
  provider: "vendor",
  model,
  endpoint: "",
  key
})

export const ask = (options: Partial<CallLimiter.Request> = {}): CallLimiter.Request => ({
  target: target(),
  tokens: 0,
  maxWait: "1 hour",
  ...options
})

/** Acquires a permit and returns the time in milliseconds of virtual time. */
export const timed = (limiter: CallLimiter.Service, request: CallLimiter.Request) =>
  Effect.gen(function* () {
    const permit = yield* limiter.acquire(request)
    return { permit, at: yield* Clock.currentTimeMillis }
  })
