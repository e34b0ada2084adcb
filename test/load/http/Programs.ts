/** Programs of calls at vendors that fail in part. Written without a look at the rules of `Failover`. */
import type { Socket } from "node:net"
import { RecoveryPolicy } from "@outlast/agent"
import type { Program } from "./Measure.ts"
import { burst, steady } from "./Measure.ts"
import type { Fate, Vendor } from "./Vendor.ts"

const ok: Fate = { type: "answer", after: 50 }
const busy: Fate = { type: "status", status: 503, after: 5 }
const chat = (fate: Vendor["fate"], more: Partial<Vendor> = {}): Vendor => ({
  name: "chat",
  dialect: "chat",
  keys: ["key-1"],
  fate,
  ...more
})
const anthropic = (fate: Vendor["fate"], more: Partial<Vendor> = {}): Vendor => ({
  name: "anthropic",
  dialect: "anthropic",
  keys: ["key-a"],
  fate,
  ...more
})

/** A bucket for each key. */
const bucket = (perSecond: number, size: number) => {
  const state = new Map<string, { tokens: number; at: number }>()
  return (key: string, at: number): boolean => {
    const last = state.get(key) ?? { tokens: size, at }
    const tokens = Math.min(size, last.tokens + ((at - last.at) / 1000) * perSecond)
    state.set(key, { tokens: tokens >= 1 ? tokens - 1 : tokens, at })
    return tokens >= 1
  }
}
const limited = (perSecond: number, size: number, retryAfter?: number) => (): readonly [Vendor] => {
  const take = bucket(perSecond, size)
  return [
    chat(({ key, at }) =>
      take(key, at)
        ? ok
        : { type: "status", status: 429, after: 5, ...(retryAfter === undefined ? {} : { retryAfter }) }
    )
  ]
}
const both = (call: number): boolean => call % 2 === 0
const limits = (change: object): RecoveryPolicy.RecoveryPolicy => ({
  ...RecoveryPolicy.interactive,
  limits: { ...RecoveryPolicy.interactive.limits, ...change }
})

export const programs: ReadonlyArray<Program> = [
  {
    name: "flaky-500",
    vendors: () => [
      chat(({ draw }) =>
        draw("a") < 0.35 ? { type: "status", status: 500, after: 20 } : { type: "answer", after: 2500 }
      )
    ],
    arrivals: steady(10, 18)
  },
  {
    name: "shares-503",
    vendors: () => [
      chat(({ draw }) => (draw("a") < 0.25 ? busy : ok)),
      anthropic(({ draw }) => (draw("a") < 0.25 ? busy : ok))
    ],
    arrivals: [...burst(100), ...steady(20, 15, 1)]
  },
  { name: "bucket-named", vendors: limited(10, 10, 1), arrivals: [...burst(60), ...steady(7, 12, 2)] },
  { name: "bucket-silent", vendors: limited(10, 10), arrivals: [...burst(60), ...steady(7, 12, 2)] },
  {
    name: "window",
    // 60 a minute; the minute turns 20 s after the first request.
    vendors: () => {
      const used = [0, 0]
      return [
        chat(({ at }) => {
          const window = at < 20_000 ? 0 : 1
          used[window] = (used[window] ?? 0) + 1
          return (used[window] ?? 0) <= 60
            ? ok
            : { type: "status", status: 429, after: 5, retryAfter: Math.ceil((20_000 - at) / 1000) }
        })
      ]
    },
    arrivals: steady(16, 7)
  },
  {
    name: "hang",
    vendors: () => [chat(() => ({ type: "hang" })), anthropic(() => ok)],
    arrivals: [...burst(20), ...steady(10, 12, 1)],
    streams: both,
    policy: limits({ firstToken: "4 seconds" })
  },
  {
    name: "hang-share",
    vendors: () => [chat(({ draw }) => (draw("a") < 0.2 ? { type: "hang" } : ok))],
    arrivals: steady(10, 15),
    streams: both,
    policy: limits({ firstToken: "4 seconds" })
  },
  {
    name: "stall",
    vendors: () => [chat(({ draw }) => (draw("a") < 0.25 ? { type: "stall", after: 30 } : ok))],
    arrivals: [...burst(30), ...steady(8, 15, 1)],
    streams: both,
    policy: limits({ idle: "3 seconds" })
  },
  {
    name: "resets",
    vendors: () => [
      chat(({ draw }) =>
        draw("a") < 0.2 ? { type: "reset", after: 10 } : draw("b") < 0.2 ? { type: "cut", after: 10 } : ok
      )
    ],
    arrivals: [...burst(60), ...steady(15, 15, 1)],
    streams: both
  },
  {
    name: "dead-keys",
    vendors: () => {
      const take = bucket(6, 6)
      return [
        chat(
          ({ key, at }) =>
            key === "key-1" || key === "key-3"
              ? { type: "status", status: 401, after: 5 }
              : take(key, at)
                ? ok
                : { type: "status", status: 429, after: 5, retryAfter: 1 },
          { keys: ["key-1", "key-2", "key-3", "key-4"] }
        )
      ]
    },
    arrivals: [...burst(40), ...steady(8, 12, 4)]
  },
  {
    name: "flapping",
    vendors: () => [chat(({ at }) => (at % 6000 < 3000 ? ok : busy))],
    arrivals: steady(8, 24)
  },
  {
    name: "shed",
    // 4 at once, 300 ms each: 13 a second.
    vendors: () => [chat(({ inFlight }) => (inFlight > 4 ? busy : { type: "answer", after: 300 }))],
    arrivals: [...steady(10, 4), ...steady(33, 4, 4), ...steady(10, 12, 8)]
  },
  {
    name: "slow-start",
    // Down for eight seconds; then the capacity grows by three requests a second each second.
    vendors: () => {
      const used = new Map<number, number>()
      return [
        chat(({ at }) => {
          if (at < 4000) return ok
          if (at < 12_000) return { type: "reset" }
          const second = Math.floor(at / 1000)
          used.set(second, (used.get(second) ?? 0) + 1)
          return (used.get(second) ?? 0) <= 2 + 3 * (second - 12) ? ok : busy
        })
      ]
    },
    arrivals: steady(10, 22)
  },
  {
    name: "stale-sockets",
    // Every connection ends with its second request, without a word; idle ones end after 150 ms.
    vendors: () => [
      chat(() => ok, {
        prepare: (server) => {
          const served = new WeakMap<Socket, number>()
          server.prependListener("request", (request) => {
            const count = (served.get(request.socket) ?? 0) + 1
            served.set(request.socket, count)
            if (count > 1) request.socket.resetAndDestroy()
          })
        }
      })
    ],
    arrivals: [...burst(30), ...steady(25, 12, 1)],
    streams: both
  },
  {
    name: "mixed",
    vendors: () => {
      const take = bucket(15, 15)
      return [
        chat(
          ({ draw, key, at }) => {
            if (key === "key-2" && !take(key, at))
              return { type: "status", status: 429, after: 5, retryAfter: 1 }
            const d = draw("a")
            return d < 0.1
              ? { type: "status", status: 500, after: 5 }
              : d < 0.15
                ? { type: "cut", after: 20 }
                : d < 0.2
                  ? { type: "error", after: 20 }
                  : d < 0.23
                    ? { type: "stall", after: 20 }
                    : { type: "answer", after: 100, text: 400 }
          },
          { keys: ["key-1", "key-2"] }
        ),
        anthropic(({ draw }) => {
          const d = draw("a")
          return d < 0.15
            ? { type: "status", status: 529, after: 5 }
            : d < 0.25
              ? { type: "error", after: 20 }
              : { type: "answer", after: 100, text: 300 }
        })
      ]
    },
    arrivals: [...burst(60), ...steady(15, 15, 1)],
    streams: both,
    policy: limits({ idle: "3 seconds", firstToken: "4 seconds" })
  }
]
