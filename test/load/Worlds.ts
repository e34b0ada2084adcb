/** Worlds by name: `--world` takes one of them, or a file with one. */
import type { Failing, Server, World } from "./World.ts"

/** How long an answer takes where it does not matter. */
const answer = 3_000

const flaky = (share: number, status: Failing["status"] = 500): Server => ({
  answer,
  fails: { share, after: 50, as: [{ status }] }
})

const minute = 60_000

/** Twenty-five requests a second, if they come evenly. The other requests get a `retry-after`. */
const sheddingFor = (retryAfter: number): Server => ({
  answer: { from: 200, to: 600 },
  capacity: { slots: 10, as: { status: 503, retryAfter } }
})

/** Ten requests at a time. The others get a 429 that names no wait. */
const limiting = (answer: Server["answer"]): Server => ({
  answer,
  capacity: { slots: 10, as: { status: 429 } }
})

/** A server that works for five seconds, and fails for five, for a minute. */
const flapping = (from: number): Server => ({
  answer: { from: 200, to: 600 },
  outages: Array.from({ length: 6 }, (_, i) => ({
    from: from + i * 10_000,
    to: from + i * 10_000 + 5_000,
    as: { status: 500 }
  }))
})

/** Twenty requests a second, if they come evenly. */
const shedding: Server = {
  answer: { from: 500, to: 1_500 },
  capacity: { slots: 20, as: { status: 503 } }
}

/** Faults of a whole vendor. A guess says how long they last: no wait is named. */
const outages = {
  500: { status: 500 },
  503: { status: 503 },
  529: { status: 529 },
  reset: { status: "reset" },
  hang: "hang"
} as const satisfies Readonly<Record<string, Failing | "hang">>
export type OutageKind = keyof typeof outages

/** Minutes of an outage, and milliseconds on top, so that calls meet its end at different distances. */
const outageLengths = { 1: 1_300, 5: 3_700, 15: 2_100, 60: 4_400 } as const
export type OutageMinutes = keyof typeof outageLengths

/** When an outage of these worlds begins. */
export const outageBegin = minute

type OutageName = `outage-${OutageMinutes}m-${OutageKind}`

const outageWorlds = Object.fromEntries<World>(
  Object.entries(outages).flatMap(([kind, as]) =>
    Object.entries(outageLengths).map(([minutes, more]) => [
      `outage-${minutes}m-${kind}`,
      {
        about: `The main vendor is out for ${minutes} min after the first minute: ${kind}.`,
        main: {
          answer,
          outages: [{ from: outageBegin, to: outageBegin + Number(minutes) * minute + more, as }]
        }
      }
    ])
  )
  // Object.fromEntries forgets the names.
) as Readonly<Record<OutageName, World>>

export const worlds = {
  ...outageWorlds,
  healthy: { about: "Every request is answered after 3 s.", main: { answer } },
  "flaky-5": { about: "5 % of the requests fail with 500 after 50 ms.", main: flaky(0.05) },
  "flaky-10": { about: "10 % of the requests fail with 500 after 50 ms.", main: flaky(0.1) },
  "flaky-20": { about: "20 % of the requests fail with 500 after 50 ms.", main: flaky(0.2) },
  "flaky-30": { about: "30 % of the requests fail with 500 after 50 ms.", main: flaky(0.3) },
  "flaky-40": { about: "40 % of the requests fail with 500 after 50 ms.", main: flaky(0.4) },
  "flaky-50": { about: "50 % of the requests fail with 500 after 50 ms.", main: flaky(0.5) },
  "overloaded-10": { about: "10 % of the requests fail with 503.", main: flaky(0.1, 503) },
  "slow-to-fail": {
    about: "20 % of the requests fail with 502 after 1 to 30 s.",
    main: { answer, fails: { share: 0.2, after: { from: 1_000, to: 30_000 }, as: [{ status: 502 }] } }
  },
  mixed: {
    about: "15 % of the requests fail: 500, 503, 529, 429 or a broken connection.",
    main: {
      answer: { median: 3_000, p99: 30_000 },
      fails: {
        share: 0.15,
        after: { from: 50, to: 2_000 },
        as: [
          { status: 500 },
          { status: 503 },
          { status: 529 },
          { status: 429, retryAfter: 2_000 },
          { status: "reset" }
        ]
      }
    }
  },
  down: { about: "Every request fails with 500 after 50 ms.", main: flaky(1) },
  "down-503": { about: "Every request fails with 503 after 50 ms.", main: flaky(1, 503) },
  "down-reset": { about: "Every connection breaks after 50 ms.", main: flaky(1, "reset") },
  "down-later": {
    about: "Every request fails with 500 after the first minute.",
    main: { answer, outages: [{ from: minute, as: { status: 500 } }] }
  },
  outage: {
    about: "Every request fails with 500 in the second minute.",
    main: { answer, outages: [{ from: minute, to: 2 * minute, as: { status: 500 } }] }
  },
  "outage-503": {
    about: "Every request fails with 503 in the second minute.",
    main: { answer, outages: [{ from: minute, to: 2 * minute, as: { status: 503 } }] }
  },
  "outage-hang": {
    about: "No request of the second minute is ever answered.",
    main: { answer, outages: [{ from: minute, to: 2 * minute, as: "hang" }] }
  },
  "slow-first-token": {
    about: "One stream in ten has its first token after 30 s.",
    main: { answer, slowFirstToken: { share: 0.1, after: 30_000 } }
  },
  "slow-first-token-rare": {
    about: "One stream in 40 has its first token after 30 s.",
    main: { answer, slowFirstToken: { share: 0.025, after: 30_000 } }
  },
  hanging: { about: "No request is ever answered.", main: { answer, hangs: 1 } },
  "limit-20": {
    about: "20 requests a second are accepted, the others get 429 with retry-after: 1.",
    main: { answer: 1_000, limit: { requests: 20, per: 1_000, retryAfter: 1_000 } }
  },
  "limit-20-late": {
    about: "429 with retry-after: 1 for a second, from then on 20 requests a second are accepted.",
    main: {
      answer: 1_000,
      outages: [{ from: 0, to: 1_000, as: { status: 429, retryAfter: 1_000 } }],
      limit: { requests: 20, per: 1_000, retryAfter: 1_000 }
    }
  },
  "limit-10-shared": {
    about: "10 requests a second are accepted over all keys, the others get 429 with retry-after: 1.",
    main: { answer: 300, limit: { requests: 10, per: 1_000, scope: "vendor", retryAfter: 1_000 } }
  },
  limited: {
    about: "Every request gets 429 with retry-after: 30.",
    main: { answer, fails: { share: 1, after: 50, as: [{ status: 429, retryAfter: 30_000 }] } }
  },
  "limited-silent": { about: "Every request gets 429 without retry-after.", main: flaky(1, 429) },
  "dead-keys": { about: "The first two keys are refused with 401.", main: { answer, deadKeys: [1, 2] } },
  slow: { about: "Every answer takes 20 s.", main: { answer: 20_000 } },
  shedding: { about: "20 requests at a time, 0.5 to 1.5 s each. The others get 503.", main: shedding },
  "shedding-1s": {
    about: "10 requests at a time, 0.2 to 0.6 s each. The others get 503 with retry-after: 1.",
    main: sheddingFor(1_000)
  },
  "shedding-5s": {
    about: "10 requests at a time, 0.2 to 0.6 s each. The others get 503 with retry-after: 5.",
    main: sheddingFor(5_000)
  },
  "shedding-429": {
    about: "10 requests at a time, 0.2 to 0.6 s each. The others get 429 without retry-after.",
    main: limiting({ from: 200, to: 600 })
  },
  "shedding-429-slow": {
    about: "10 requests at a time, 2 to 4 s each. The others get 429 without retry-after.",
    main: limiting({ from: 2_000, to: 4_000 })
  },
  flapping: {
    about: "Two vendors take turns: each fails with 500 for five seconds. The first key is refused with 401.",
    main: { ...flapping(0), deadKeys: [1] },
    other: flapping(5_000)
  },
  "shedding-outage": {
    about: "The server of `shedding`, down in the second minute.",
    main: { ...shedding, outages: [{ from: minute, to: 2 * minute, as: { status: 503 } }] }
  },
  "shedding-short-outage": {
    about: "The server of `shedding`, down for 20 s after the first minute.",
    main: { ...shedding, outages: [{ from: minute, to: minute + 20_000, as: { status: 503 } }] }
  },
  queueing: {
    about: "20 requests at a time, 0.5 to 1.5 s each. The others wait up to 30 s, then get 503.",
    main: { answer: { from: 500, to: 1_500 }, capacity: { slots: 20, queue: 30_000, as: { status: 503 } } }
  },
  subagents: {
    about:
      "20 % of the requests fail: a broken connection, 502, 503, 504 or 429. All connections break for 20 s, later every request gets 429 for a minute. The other vendor fails for 5 %.",
    main: {
      answer: { median: 3_000, p99: 20_000 },
      fails: {
        share: 0.2,
        after: { from: 50, to: 2_000 },
        as: [{ status: "reset" }, { status: 502 }, { status: 503 }, { status: 504 }, { status: 429 }]
      },
      outages: [
        { from: minute, to: minute + 20_000, as: { status: "reset" } },
        { from: 2.5 * minute, to: 3.5 * minute, as: { status: 429 } }
      ]
    },
    other: {
      answer: { median: 3_000, p99: 20_000 },
      fails: { share: 0.05, after: { from: 50, to: 2_000 }, as: [{ status: "reset" }, { status: 503 }] }
    }
  },
  "health-check-hangs": {
    about: "Every request would be answered, but the health check before it never returns.",
    main: { answer },
    healthCheckHangs: true
  }
} satisfies Readonly<Record<string, World>>

export type WorldName = keyof typeof worlds
