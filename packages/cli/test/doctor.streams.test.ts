/** `outlast doctor --nats`: what is wrong with the streams, at a real server. */
import { connect } from "@nats-io/transport-node"
import { jetstreamManager } from "@nats-io/jetstream"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nats from "../../../test/services/Nats.ts"
import { outlast } from "./run.ts"

const key = { ANTHROPIC_API_KEY: "sk-ant-api03-4fJ9tEabcKeyQ8" }

describe.skipIf(Nats.missing !== undefined)("outlast doctor --nats", () => {
  it.live(
    "names subjects without a stream as errors, and weak streams as warnings",
    () =>
      Effect.gen(function* () {
        const server = yield* Nats.running()
        yield* Effect.promise(async () => {
          const nc = await connect({ servers: server.url })
          const jsm = await jetstreamManager(nc)
          await jsm.streams.add({ name: "GOOD", subjects: ["good.>"] })
          await jsm.streams.add({ name: "OLD", subjects: ["old.>"], max_msgs: 10 })
          await nc.close()
        })
        const doctor = (...subjects: ReadonlyArray<string>) =>
          Effect.promise(() =>
            outlast(
              ["doctor", "--json", "--nats", server.url, ...subjects.flatMap((one) => ["--subject", one])],
              { env: key }
            )
          )
        const fine = yield* doctor("good.a", "old.a")
        assert.strictEqual(fine.exitCode, 0, fine.all)
        const told = (run: typeof fine) =>
          JSON.parse(run.stdout).problems.filter(({ message }: { message: string }) =>
            /[Ss]tream|NATS|server/.test(message)
          )
        assert.deepStrictEqual(told(fine), [
          {
            level: "warning",
            file: null,
            message:
              "Stream `OLD` acknowledges messages and drops its oldest ones when it is full. Set discard to new."
          }
        ])
        const bad = yield* doctor("none.a")
        assert.strictEqual(bad.exitCode, 1)
        assert.include(told(bad)[0].message, "No stream covers `none.a`")
        yield* server.kill
        const gone = yield* doctor("good.a")
        assert.strictEqual(gone.exitCode, 1)
        assert.include(told(gone)[0].message, "no connection to NATS")
      }).pipe(Effect.scoped),
    120_000
  )
  it.live(
    "needs both options",
    () =>
      Effect.promise(async () => {
        const run = await outlast(["doctor", "--nats", "localhost:1"])
        assert.strictEqual(run.exitCode, 2, run.all)
        assert.include(run.stderr, "--nats and --subject go together")
      }),
    60_000
  )
})
