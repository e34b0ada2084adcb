/** Runs the situations in all ways. */
import { Clock, Effect } from "effect"
import * as FastClock from "./FastClock.ts"
import * as Provider from "./Provider.ts"
import type { Call, Situation, Verdict } from "./Situations.ts"
import type { Way } from "./Ways.ts"

/** How many times faster than real the suite runs in CI. */
export const shortened = 20

export interface Result {
  readonly situation: Situation
  readonly way: Way
  readonly verdict: Verdict
}

/** Pairs that run at the same time. */
const together = 12

const judged = (situation: Situation, way: Way): Effect.Effect<Result> =>
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* Provider.start(situation.primary, situation.fallback ?? Provider.well)
      const ask = yield* way.open(provider.url)
      const calls = yield* Effect.forEach(
        situation.calls ?? [0],
        (at): Effect.Effect<Call> =>
          Effect.gen(function* () {
            yield* Effect.sleep(Math.max(0, at - provider.now()))
            const start = provider.now()
            const answer = yield* ask
            return { ...answer, start, end: provider.now() }
          }),
        { concurrency: "unbounded" }
      )
      const verdict = situation.judge({ calls, requests: provider.requests })
      return { situation, way, verdict }
    })
  )

/** The first calls of a process compile code. They must not count. */
const warm = (pairs: ReadonlyArray<Pair>) =>
  Effect.forEach(
    new Set(pairs.map(({ way }) => way)),
    (way) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { url } = yield* Provider.start(Provider.cut, Provider.well)
          yield* yield* way.open(url)
        })
      ),
    { discard: true }
  )

type Pair = Pick<Result, "situation" | "way">

export const nameOf = ({ situation, way }: Pair): string => `${situation.name}, ${way.name}`

/** The situations, each in all ways in which it exists. */
export const pairsOf = (
  situations: ReadonlyArray<Situation>,
  ways: ReadonlyArray<Way>
): ReadonlyArray<Pair> =>
  situations.flatMap((situation) =>
    ways.filter(({ streams }) => streams || situation.whole).map((way) => ({ situation, way }))
  )

/** Runs all pairs, those with the most calls first, at `factor` times the real speed. */
export const run = (pairs: ReadonlyArray<Pair>, factor: number): Effect.Effect<ReadonlyArray<Result>> => {
  const length = ({ situation }: Pair) => situation.calls?.length ?? 1
  return warm(pairs).pipe(
    Effect.andThen(
      Effect.forEach(
        pairs.toSorted((a, b) => length(b) - length(a)),
        ({ situation, way }) => judged(situation, way),
        { concurrency: together }
      )
    ),
    Effect.provideServiceEffect(Clock.Clock, FastClock.make(factor)),
    Effect.scoped
  )
}
