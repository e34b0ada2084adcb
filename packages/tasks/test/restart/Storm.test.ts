/** Many tasks lose their provider in the same minute: they come back spread, a few at a time, and each once. */
import { assert, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Stream } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import type { Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { Task, Tasks } from "@outlast/tasks"
import * as Agents from "../../../../test/tasks/Agents.ts"
import { inTime, until } from "../../../../test/tasks/Time.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const Ride = Task.make("ride", { version: 1, params: Agents.Order })
const riding = Ride.toLayer(({ item }) => ({ prompt: item }))

const tasks = Sweeps.full(1_000, 300)
const concurrency = tasks / 50

const textOf = ({ content }: Prompt.Prompt): string =>
  content
    .flatMap((message) => (message.role === "user" ? message.content : []))
    .map((part) => (part.type === "text" ? part.text : ""))
    .join("")

/** The provider tells every third task to come back after its cooldown. */
const cooldown = Duration.seconds(150)
const isLimited = (task: string): boolean => Number(task.split(" ")[1]) % 3 === 0
const failureOf = (task: string): AiError.AiErrorReason =>
  isLimited(task) ? new AiError.RateLimitError({ retryAfter: cooldown, metadata: {} }) : Agents.network

/** The largest share of times that are in one second. */
const densest = (times: ReadonlyArray<number>): number => {
  const perSecond = new Map<number, number>()
  for (const time of times) {
    const second = Math.floor(time / 1_000)
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1)
  }
  return Math.max(...perSecond.values()) / times.length
}

/** A turn of the real event loop: ids are hashed outside of virtual time. */
const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

it.effect(
  "hundreds of tasks that fail in the same minute come back once each, spread, after their cooldowns, and few at a time",
  () => {
    const failed = new Map<string, number>()
    const begun = new Map<string, Array<number>>()
    const world = { now: 0, peak: 0 }
    // Every first question fails, every further one is answered after a second.
    const ask = (prompt: Prompt.Prompt) =>
      Effect.gen(function* () {
        const task = textOf(prompt)
        const at = yield* Clock.currentTimeMillis
        if (!failed.has(task)) {
          failed.set(task, at)
          const reason = failureOf(task)
          return yield* Effect.fail(AiError.make({ module: "Test", method: "generateText", reason }))
        }
        begun.set(task, [...(begun.get(task) ?? []), at])
        world.peak = Math.max(world.peak, ++world.now)
        yield* Effect.ensuring(
          Effect.sleep("1 second"),
          Effect.sync(() => void world.now--)
        )
        return [{ type: "text" as const, text: "done" }, Agents.finish()]
      })
    const model = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({ generateText: ({ prompt }) => ask(prompt), streamText: () => Stream.empty })
    )
    const worker = riding.pipe(
      Layer.provide(model),
      Layer.provideMerge(Tasks.layerMemory({ concurrency, restarting: tasks, queue: tasks }))
    )
    return Effect.gen(function* () {
      const { list } = yield* Tasks.Tasks
      for (let n = 0; n < tasks; n++) yield* Ride.submit({ params: { item: `ride ${n}` }, key: String(n) })
      // In small steps: virtual time must not run away from hashes, which a busy machine computes late.
      for (let i = 0; i < 30_000 && failed.size < tasks; i++) {
        yield* turn
        yield* TestClock.adjust("10 millis")
      }
      for (let i = 0; i < 3_000 && (begun.size < tasks || world.now > 0); i++) {
        yield* turn
        yield* TestClock.adjust("1 second")
      }
      // The last answers have been given, but may not have been stored yet.
      const stored = Stream.runCollect(list())
      yield* until(Effect.map(stored, (statuses) => statuses.every(({ state }) => state._tag === "Done")))
      const statuses = yield* inTime(stored)
      // None lost, none restarted twice.
      assert.lengthOf(statuses, tasks)
      assert.isTrue(statuses.every(({ restarts }) => restarts === 1))
      assert.isTrue([...begun.values()].every(({ length }) => length === 1))
      assert.isAtMost(Math.max(...failed.values()) - Math.min(...failed.values()), 60_000)
      // The bound is used, and kept.
      assert.strictEqual(world.peak, concurrency)
      const waits = { network: [] as Array<number>, limited: [] as Array<number> }
      for (const [task, [at = 0]] of begun) {
        waits[isLimited(task) ? "limited" : "network"].push(at - (failed.get(task) ?? 0))
      }
      assert.isAtLeast(Math.min(...waits.network), 60_000)
      assert.isAtLeast(Math.min(...waits.limited), Duration.toMillis(cooldown))
      assert.isBelow(densest(waits.network), 0.15)
      assert.isBelow(densest(waits.limited), 0.15)
    }).pipe(Effect.provide(worker))
  },
  120_000
)
