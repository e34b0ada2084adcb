import { assert, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit } from "effect"
import * as MissingService from "#resilience/MissingService"

class Thing extends Context.Service<Thing, { readonly n: number }>()("Thing") {}

it.effect("returns the service, or dies with the layer to provide", () =>
  Effect.gen(function* () {
    const get = MissingService.get(Thing, "Thing", "Thing.layer()")
    assert.deepStrictEqual(yield* Effect.provideService(get, Thing, { n: 1 }), { n: 1 })
    // As in JavaScript, or after a cast.
    const exit = yield* Effect.exit(get as Effect.Effect<{ readonly n: number }>)
    assert.isTrue(Exit.isFailure(exit))
    if (Exit.isSuccess(exit)) return
    const defect = Cause.squash(exit.cause)
    assert.instanceOf(defect, MissingService.MissingService)
    assert.strictEqual(String(defect), "MissingService: Thing is not provided. Provide Thing.layer().")
  })
)
