/**
 * What the endpoints cost the calls of a program: calls over HTTP without them, with them and no reader, and with ten
 * readers of `/events` in another process. CPU time of the program's thread.
 *
 * Ratios are taken round by round, because other programs of the machine change the CPU time of a call by a third.
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
import type { Comparison, Report } from "./measure.ts"
import { compared, measure } from "./measure.ts"

const rounds = 120
const calls = 100
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
    /** The number of readers before a round. What connections cost that come and go belongs to no round. */
    const settled = (count: number) => async (): Promise<void> => {
      await attach(count)
      await new Promise((resume) => setTimeout(resume, 150))
    }
    const calling =
      <R, E>(runtime: ManagedRuntime.ManagedRuntime<R | LanguageModel.LanguageModel, E>) =>
      async (count: number): Promise<void> =>
        void (await runtime.runPromise(Effect.repeat(call, { times: count - 1 })))
    const figures = await measure(
      [
        { name: "no reader", before: settled(0), run: calling(seen) },
        { name: "10 readers", before: settled(10), run: calling(seen) },
        { name: "no reader again (noise)", before: settled(0), run: calling(seen) },
        { name: "without endpoints", before: settled(0), run: calling(without) }
      ],
      { rounds, calls }
    )
    report.table("A call over HTTP, µs", figures)
    const [none, ten, again, bare] = figures
    if (none === undefined || ten === undefined || again === undefined || bare === undefined) return
    const line = (name: string, { high, low, ratio }: Comparison) =>
      `  ${name.padEnd(40)} ${ratio.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`
    const more = compared(ten, none)
    report.say(
      [
        "  Ratios of the same rounds: the median, and where it lies in 19 of 20 measurements",
        line("no reader again beside no reader (noise)", compared(again, none)),
        line("endpoints without a reader beside none", compared(none, bare)),
        `${line("10 readers beside no reader", more)}, at most ${target}: ${more.ratio <= target ? "met" : "missed"}`
      ].join("\n")
    )
    await without.dispose()
    await seen.dispose()
  } finally {
    other.kill()
  }
}
