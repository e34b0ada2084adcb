/**
 * Runs the calls of a program against the same vendors twice, one after the other: through `Failover`, and through a
 * plain client, which repeats a failed request five times with exponential waits and jitter, at the next target each time.
 */
import type { RecoveryPolicy } from "@outlast/agent"
import { Direct, Failover, KeySource } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { Cause, Effect, Exit, Layer, Logger, ManagedRuntime, Redacted, Schedule, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Running, Vendor } from "./Vendor.ts"
import { answerOf, promptOf, start } from "./Vendor.ts"

export interface Program {
  readonly name: string
  /** New vendors for each client: their state is their own. */
  readonly vendors: () => readonly [Vendor, ...Array<Vendor>]
  /** The begin of each call, in milliseconds. */
  readonly arrivals: ReadonlyArray<number>
  readonly streams?: (call: number) => boolean
  readonly policy?: RecoveryPolicy.RecoveryPolicy
}

export interface Result {
  readonly answered: number
  readonly wrong: number
  readonly requests: number
  readonly slowest: number
  readonly median: number
  readonly failures: ReadonlyMap<string, number>
  /** Requests that the servers still hold after the end of the client. */
  readonly left: number
}

/** Calls at `perSecond` for some seconds. */
export const steady = (perSecond: number, seconds: number, from = 0): ReadonlyArray<number> =>
  Array.from({ length: perSecond * seconds }, (_, index) => from * 1000 + (index * 1000) / perSecond)

export const burst = (calls: number, at = 0): ReadonlyArray<number> =>
  Array.from({ length: calls }, () => at * 1000)

/** Milliseconds from the begin of the program until a call that has not ended counts as failed. */
const longest = 90_000

const target = ({ vendor, port }: Running, keys = vendor.keys) => {
  const options = {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    keys: keys.map((key) => KeySource.value(key, Redacted.make(key)))
  }
  return vendor.dialect === "chat"
    ? OpenAi.chatModel("gpt-4.1", options)
    : Anthropic.model("claude-sonnet-4-5", options)
}

const answer = (call: number, isStream: boolean) =>
  isStream
    ? LanguageModel.streamText({ prompt: promptOf(call) }).pipe(
        Stream.runFold(
          () => "",
          (text, part) => (part.type === "text-delta" ? text + part.delta : text)
        )
      )
    : Effect.map(LanguageModel.generateText({ prompt: promptOf(call) }), ({ text }) => text)

type Ask = (call: number, isStream: boolean) => Effect.Effect<string, unknown>

const outlast = (program: Program, vendors: ReadonlyArray<Running>) =>
  Effect.gen(function* () {
    const [first, ...others] = vendors.map((vendor) => target(vendor))
    if (first === undefined) return yield* Effect.die("no vendor")
    const options = program.policy === undefined ? {} : { policy: program.policy }
    const context = yield* Layer.build(Failover.layer([first, ...others], options))
    return ((call, isStream) => Effect.provideContext(answer(call, isStream), context)) satisfies Ask
  })

const plain = (vendors: ReadonlyArray<Running>) =>
  Effect.gen(function* () {
    const models = yield* Effect.forEach(
      vendors.flatMap((vendor) => vendor.vendor.keys.map((key) => target(vendor, [key]))),
      (spec) => Layer.build(Direct.layer(spec))
    )
    return ((call, isStream) => {
      let attempt = 0
      return Effect.suspend(() => {
        const model = models[attempt++ % models.length]
        return model === undefined
          ? Effect.die("no vendor")
          : Effect.provideContext(answer(call, isStream), model)
      }).pipe(Effect.retry({ times: 5, schedule: Schedule.jittered(Schedule.exponential("1 second")) }))
    }) satisfies Ask
  })

export const measure = async (program: Program, client: "outlast" | "plain"): Promise<Result> => {
  const vendors = await Promise.all(program.vendors().map(start))
  const runtime = ManagedRuntime.make(Logger.layer([]))
  const failures = new Map<string, number>()
  const waits: Array<number> = []
  let answered = 0
  let wrong = 0
  await runtime.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const ask: Ask = yield* client === "outlast" ? outlast(program, vendors) : plain(vendors)
        yield* Effect.forEach(
          program.arrivals,
          (at, call) =>
            Effect.gen(function* () {
              yield* Effect.sleep(at)
              const begun = Date.now()
              const exit = yield* Effect.exit(
                Effect.timeout(ask(call, program.streams?.(call) ?? false), longest - at)
              )
              waits.push(Date.now() - begun)
              if (Exit.isSuccess(exit)) {
                if (exit.value === answerOf(call)) answered++
                else wrong++
                return
              }
              const kind =
                Cause.pretty(exit.cause)
                  .split("\n")[0]
                  ?.replace(/\d+(\.\d+)?/g, "N")
                  .slice(0, 150) ?? "?"
              failures.set(kind, (failures.get(kind) ?? 0) + 1)
            }),
          { concurrency: "unbounded", discard: true }
        )
      })
    )
  )
  await runtime.dispose()
  // Servers hear of the end behind their client.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const left = vendors.reduce((sum, vendor) => sum + vendor.inFlight(), 0)
  const requests = vendors.reduce((sum, vendor) => sum + vendor.requests(), 0)
  await Promise.all(vendors.map((vendor) => vendor.close()))
  const sorted = waits.sort((one, other) => one - other)
  return {
    answered,
    wrong,
    requests,
    failures,
    slowest: (sorted.at(-1) ?? 0) / 1000,
    median: (sorted[Math.floor(sorted.length / 2)] ?? 0) / 1000,
    left
  }
}
