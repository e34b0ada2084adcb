/**
 * What the endpoints cost the calls of a program: calls over HTTP without them, with them and no reader, and with ten
 * readers of `/events` in another process. CPU time of the program's thread.
 */
import { Activity, Failover } from "@outlast/agent"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { OpenAiCompatible } from "@outlast/providers"
import { Metrics, ResilienceEvents } from "@outlast/resilience"
import { Effect, Layer, ManagedRuntime } from "effect"
import { LanguageModel } from "effect/ai"
import { fork } from "node:child_process"
import { once } from "node:events"
import type { Report } from "./measure.ts"
import { measure } from "./measure.ts"

const rounds = 12
const calls = 800
const target = 1.03

const call = LanguageModel.generateText({ prompt: "What is the plan?" })

export const ops = async (report: Report): Promise<void> => {
  process.env["BENCH_KEY"] = "secret"
  const other = fork(new URL("./opsPrograms.ts", import.meta.url))
  try {
    const [provider] = await once(other, "message")
    const Model = Failover.layer([
      OpenAiCompatible.model({
        name: "a",
        baseUrl: `http://127.0.0.1:${provider}/v1`,
        model: "m",
        keys: ["BENCH_KEY"]
      })
    ])
    const Telemetry = Metrics.layer().pipe(Layer.provideMerge(ResilienceEvents.layer()))
    const Shown = Layer.effectDiscard(
      Effect.gen(function* () {
        const activity = yield* Activity.make
        yield* Host.section("activity", activity.json)
      })
    )
    const Seen = Layer.merge(
      Shown,
      Ops.layer({ probes: { port: 0 }, metrics: { port: 0 }, page: { port: 0 } })
    ).pipe(Layer.provideMerge(Host.layer()))
    const without = ManagedRuntime.make(Model.pipe(Layer.provideMerge(Telemetry)))
    const seen = ManagedRuntime.make(Layer.mergeAll(Model, Seen).pipe(Layer.provideMerge(Telemetry)))
    const { page: port, readers } = await seen.runPromise(Ops.Ops)

    const attach = async (count: number): Promise<void> => {
      other.send({ port, readers: count })
      await once(other, "message")
      while ((await seen.runPromise(readers)) !== count) await new Promise((resume) => setTimeout(resume, 1))
    }
    const repeat = (count: number) => Effect.repeat(call, { times: count - 1 })
    const figures = await measure(
      [
        { name: "without endpoints", run: async (count) => void (await without.runPromise(repeat(count))) },
        {
          name: "with endpoints, no reader",
          run: async (count) => void (await seen.runPromise(repeat(count)))
        },
        {
          name: "10 readers",
          run: async (count) => {
            await attach(10)
            await seen.runPromise(repeat(count))
            await attach(0)
          }
        },
        {
          name: "without endpoints again (noise)",
          run: async (count) => void (await without.runPromise(repeat(count)))
        }
      ],
      { rounds, calls }
    )
    report.table("A call over HTTP, µs", figures, target)
    const [, noReader, ten] = figures
    const more = (ten?.ratio ?? NaN) / (noReader?.ratio ?? NaN)
    report.say(
      `  10 readers beside none: ${more.toFixed(3)}; beside no endpoints: ${ten?.ratio.toFixed(3)} (at most ${target}: ${(ten?.ratio ?? NaN) <= target ? "met" : "missed"})`
    )
    await without.dispose()
    await seen.dispose()
  } finally {
    other.kill()
  }
}
