/** An output limit that was raised in an agent run applies to the rest of the run. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Failover, FailoverReason } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import type { Chain } from "../support.ts"
import { answer, failure, finish, inTime, played, policy, say, text, toolCall } from "../support.ts"

const over = (chain: Chain) => Effect.provide(Failover.layer(chain, { policy }))
const limitTo = (limit: number) => Effect.provideService(OutputLimit.OutputLimit, limit)

const refusedKey = failure(new FailoverReason.Auth({ permanent: true }))

describe("a raised limit in an agent run", () => {
  const Wait = Tool.make("wait", { success: Schema.String })
  const Kit = Toolkit.make(Wait)
  const KitLive = Kit.toLayer({ wait: () => Effect.succeed("done") })
  const calls = Effect.succeed([toolCall("1", { name: "wait" }), finish("tool-calls")])
  const limited = (target: ReturnType<typeof played>) =>
    target.requests.map(({ request }) => request.maxOutputTokens)
  const agent = Agent.run({ prompt: "Tell me all.", toolkit: Kit })
  const seen = Agent.stream({ prompt: "Tell me all.", toolkit: Kit }).pipe(Stream.runDrain)

  for (const [way, run] of Object.entries({ "whole answers": agent, streams: seen })) {
    it.effect(`applies to later turns, and not to another run, with ${way}`, () =>
      Effect.gen(function* () {
        const called = say(toolCall("1", { name: "wait" }), finish("tool-calls"))
        const target = played({
          answers: [answer("", "length"), calls, answer("all")],
          streams: [say(finish("length")), called, say(...text.block("all"), finish())]
        })
        const ended = Effect.andThen(run, Effect.exit(run))
        yield* inTime(ended.pipe(Effect.provide(KitLive), limitTo(8_000), over([target])))
        assert.deepStrictEqual(limited(target), [8_000, 64_000, 64_000, 8_000])
      })
    )
  }

  it.effect("is not sent to a target that has not answered with it", () =>
    Effect.gen(function* () {
      const first = played({ answers: [answer("", "length"), calls, Effect.fail(refusedKey)] })
      const second = played({ model: "m2", answers: [calls, answer("all")] })
      yield* inTime(agent.pipe(Effect.provide(KitLive), limitTo(8_000), over([first, second])))
      assert.deepStrictEqual(limited(first), [8_000, 64_000, 64_000])
      assert.deepStrictEqual(limited(second), [8_000, 8_000])
    })
  )

  it.effect("is lowered for later turns when the window has less room", () =>
    Effect.gen(function* () {
      const full = failure(
        new FailoverReason.ContextOverflow({ limit: 100_000, requested: 120_000, output: 64_000 })
      )
      const target = played({
        answers: [answer("", "length"), calls, Effect.fail(full), calls, answer("all")]
      })
      yield* inTime(agent.pipe(Effect.provide(KitLive), limitTo(8_000), over([target])))
      assert.deepStrictEqual(limited(target), [8_000, 64_000, 64_000, 43_000, 43_000])
    })
  )
})
