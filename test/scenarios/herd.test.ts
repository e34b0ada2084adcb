/** Fifty concurrent calls when their provider fails and when it returns: no stampede in either case. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FaultPlan } from "@outlast/testing"
import { say, status } from "./programs.ts"
import type { Scenario } from "./Scenario.ts"
import { inMemory, key, overHttp, place } from "./Scenario.ts"
import * as Sweeps from "../sweeps.ts"

const calls = 50
const answers = [{ text: "The roof is leaking." }]

/** Requests of one round of fifty calls, by key. */
interface Round {
  readonly A: number
  readonly B: number
}

interface Day {
  /** The calls that meet the failure first. */
  readonly inFlight: Round
  /** Those that begin in the eight seconds after. */
  readonly started: ReadonlyArray<Round>
  /** After ten minutes, still dead. */
  readonly stillDead: Round
  /** Ten minutes after it is back. */
  readonly back: Round
  /** After some more rounds. */
  readonly asBefore: Round
}

/** A provider is dead, and comes back. Another one is always there. */
const day = (fault: FaultPlan.Fault): Effect.Effect<Scenario<Day, unknown>> =>
  Effect.gen(function* () {
    const dead = yield* FaultPlan.start({
      faults: [{ when: key("A"), times: "always", fault }],
      answers
    })
    const alive = yield* FaultPlan.start({ answers })
    let current = dead
    let asked: Array<string> = []
    const plan: FaultPlan.Runner = {
      next: (request) =>
        Effect.suspend(() => {
          asked.push(request.key === key("A").key ? "A" : "B")
          return current.next(request)
        })
    }
    const round = Effect.suspend(() => {
      asked = []
      const all = Array.from({ length: calls }, () => say)
      return Effect.map(Effect.all(all, { concurrency: "unbounded" }), (): Round => {
        const A = asked.filter((name) => name === "A").length
        return { A, B: asked.length - A }
      })
    })
    const roundIn = (millis: number) => Effect.andThen(Effect.sleep(millis), round)
    const minutes = 60_000
    const program = Effect.gen(function* () {
      const inFlight = yield* round
      const started = yield* Effect.all([roundIn(2_000), roundIn(6_000)])
      const stillDead = yield* roundIn(10 * minutes)
      current = alive
      const back = yield* roundIn(10 * minutes)
      yield* Effect.all([roundIn(10_000), roundIn(10_000)])
      return { inFlight, started, stillDead, back, asBefore: yield* round }
    })
    return { chain: [place("anthropic", "A"), place("openai", "B")], plan, program }
  })

const total = ({ A, B }: Round) => A + B

describe("fifty calls", () => {
  const faults = [
    ["with 500", status(500)],
    ["with broken connections", { type: "reset" }]
  ] as const
  for (const [name, fault] of Sweeps.everyNth(2, faults)) {
    // The order of fifty answers over sockets is not deterministic, so the events of the two runs are not compared.
    const days = Effect.runSync(
      Effect.cached(
        Effect.forEach([inMemory, overHttp], (run) => Effect.flatMap(day(fault), (scenario) => run(scenario)))
      )
    )
    const ofDay = (check: (day: Day, where: "in memory" | "over HTTP") => void) => () =>
      Effect.map(days, (stories) => {
        for (const [n, { result }] of stories.entries()) {
          if ("failed" in result) assert.fail(result.failed)
          else check(result, n === 0 ? "in memory" : "over HTTP")
        }
      })

    it.live(
      `whose provider dies ${name} take 2.1 attempts each (BerriAI/litellm#34836)`,
      ofDay(({ inFlight }) => assert.isAtMost(total(inFlight), 2.1 * calls))
    )
    it.live(
      `that begin when it is known to be dead ${name} take 1.05 (pydantic/pydantic-ai#3023)`,
      ofDay(({ started }) =>
        assert.isAtMost(
          started.reduce((sum, round) => sum + total(round), 0),
          1.05 * started.length * calls
        )
      )
    )
    it.live(
      `that find it dead ${name} after its cooldown send few probes (safe-client-gateway#3442)`,
      ofDay(({ stillDead }, where) => {
        // Over HTTP, fifty requests in flight opened the circuit, so three probes follow. In memory, failures arrive
        // one by one, and a cooldown starts before they open a circuit. The cooldown starts when a call leaves: ten
        // calls wait for their repeat, which uses the reserve of the retry budget, and the eleventh leaves. The reserve
        // is the bound.
        assert.isAtMost(stillDead.A, where === "over HTTP" ? 3 : 11)
        assert.strictEqual(stillDead.B, calls)
      })
    )
    it.live(
      `go back to it when it is back, after it was dead ${name}`,
      ofDay(({ back, asBefore }) => {
        assert.strictEqual(total(back), calls)
        assert.isAbove(back.A, 0)
        assert.deepStrictEqual(asBefore, { A: calls, B: 0 })
      })
    )
  }
})
