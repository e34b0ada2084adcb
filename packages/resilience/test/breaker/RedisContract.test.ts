import { assert, beforeAll, afterAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import * as RedisServer from "../../../../test/services/Redis.ts"
import * as Sweeps from "../../../../test/sweeps.ts"
import { contract } from "./BreakerContract.ts"
import * as RedisStore from "./redisStore.ts"
import { runModel, serviceOver } from "./support.ts"

/** `CircuitModel.test.ts` runs many more commands, without a server. */
const commands = Sweeps.full(5_000, 500)

describe.skipIf(RedisServer.missing !== undefined)("over Redis", () => {
  const scope = Effect.runSync(Scope.make())
  let running: RedisServer.RedisServer | undefined
  const server = () => {
    if (running === undefined) throw new Error("Redis is not running")
    return running
  }
  beforeAll(async () => {
    running = await Effect.runPromise(Scope.provide(RedisServer.running, scope))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  const store = RedisStore.make(server)
  contract("redis", store.layer, { shared: true, quiet: store.quiet })

  it("random commands, against the model", { timeout: 300_000 }, async () => {
    const real = RedisStore.make(server)
    const { transitions } = await runModel(serviceOver({ layer: real.layer, quiet: real.quiet }), {
      commands
    })
    for (const change of [
      "closed>open",
      "open>half-open",
      "half-open>open",
      "half-open>closed",
      "isolated>closed"
    ]) {
      assert.isAbove(transitions.get(change) ?? 0, 0, change)
    }
  })
})
