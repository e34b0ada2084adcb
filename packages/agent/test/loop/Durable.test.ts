/** Runs whose actions are steps of an engine. A step goes on when the run that asked for it is interrupted. */
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { Agent } from "@outlast/agent"
import type { Steps } from "@outlast/agent/loop"
import { looks, Look, model, says, textsOf, transitions } from "./looking.ts"

/** Steps in memory: each is carried out once, by a fiber of its own. */
const stepping = (): Steps.Steps<never> => {
  const stored = new Map<string, Fiber.Fiber<unknown>>()
  const once = <A, R>(name: string, run: Effect.Effect<A, never, R>): Effect.Effect<A, never, R> =>
    Effect.suspend(() => {
      // Each name is used for one kind of step.
      const known = stored.get(name) as Fiber.Fiber<A> | undefined
      if (known !== undefined) return Fiber.join(known)
      return Effect.flatMap(Effect.forkDetach(run), (fiber) => {
        stored.set(name, fiber)
        return Fiber.join(fiber)
      })
    })
  return {
    event: ({ name }, run) => once(name, run),
    tool: ({ name }, run) => once(name, Effect.orDie(run)),
    approve: (_, calls) => Effect.succeed(calls.map(() => true)),
    parts: { isWatched: () => false, emit: () => Effect.void }
  }
}

it.effect("an interrupted durable run ends nothing: its tool goes on, and the next run has the result", () =>
  Effect.gen(function* () {
    const [began, opened] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    let ran = 0
    const tools = Look.toLayer({
      look: () =>
        Effect.suspend(() => {
          ran++
          return Deferred.succeed(began, undefined)
        }).pipe(Effect.andThen(Deferred.await(opened)), Effect.as("found"))
    })
    const asked = model((turn) => (turn === 0 ? looks(1) : says("done")))
    const { seen, layer: events } = transitions()
    const steps = stepping()
    const run = Agent.durable({ prompt: "go", toolkit: Look, cancel: Effect.never }, steps).pipe(
      Effect.provide([tools, asked.layer, events])
    )
    const first = yield* Effect.forkChild(run)
    yield* Deferred.await(began)
    yield* Fiber.interrupt(first)
    yield* Deferred.succeed(opened, undefined)
    const outcome = yield* run
    assert.deepStrictEqual([outcome.status, ran, asked.prompts.length], ["completed", 1, 2])
    assert.deepStrictEqual(textsOf(outcome.transcript.prompt), ["go", '"found"', "done"])
    // Nothing says that the run was aborted.
    assert.deepStrictEqual(seen, ["completed"])
  })
)
