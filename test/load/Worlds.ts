/** Worlds by name. */
import type { Server, World } from "./World.ts"

const answer = 3_000

const flaky = (share: number): Server => ({ answer, fails: { share, after: 50, as: [{ status: 500 }] } })

export const worlds = {
  healthy: { about: "Every request is answered after 3 s.", main: { answer } },
  "flaky-5": { about: "5 % of the requests fail with 500.", main: flaky(0.05) },
  "flaky-10": { about: "10 % of the requests fail with 500.", main: flaky(0.1) },
  "flaky-20": { about: "20 % of the requests fail with 500.", main: flaky(0.2) },
  "flaky-30": { about: "30 % of the requests fail with 500.", main: flaky(0.3) },
  "flaky-40": { about: "40 % of the requests fail with 500.", main: flaky(0.4) },
  "flaky-50": { about: "50 % of the requests fail with 500.", main: flaky(0.5) }
} satisfies Readonly<Record<string, World>>
