/**
 * A process with a breaker over Redis and its own clock. Runs the commands from stdin, and answers each line with one
 * line. Time moves only on command.
 */
import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { CircuitBreaker } from "@outlast/resilience"
import type { SharedCircuits } from "#resilience/breaker/CircuitStore"
import * as RedisCircuitStore from "#resilience/breaker/RedisCircuitStore"
import { Clock, Duration, Effect, Exit, Queue, Scope } from "effect"
import { TestClock } from "effect/testing"
import { createInterface } from "node:readline"

const [port, probeLimit] = process.argv.slice(2)
const store = RedisCircuitStore.make({
  redis: NodeRedis.layer({ socket: { host: "127.0.0.1", port: Number(port) }, disableOfflineQueue: true }),
  // Virtual time moves while real commands are in flight.
  timeout: "1 day",
  now: Clock.currentTimeMillis
})
let shared: SharedCircuits | undefined
const Breaker = CircuitBreaker.layer({
  halfOpen: { probeLimit: `${Number(probeLimit)} millis` },
  store: {
    attach: (breaker) =>
      Effect.tap(store.attach(breaker), (attached) => Effect.sync(() => (shared = attached)))
  }
})

const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

const main = Effect.gen(function* () {
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const permits = new Map<
    string,
    { readonly permit: CircuitBreaker.Permit; readonly scope: Scope.Closeable }
  >()
  const holds = new Map<string, Scope.Closeable>()
  const run = (command: string, name: string, argument: string) =>
    Effect.gen(function* () {
      switch (command) {
        case "sync":
          while (!(yield* shared?.sync ?? Effect.succeed(false))) yield* turn
          return "synced"
        case "adjust":
          yield* TestClock.adjust(Number(argument))
          return "adjusted"
        case "call": {
          const call = argument === "fail" ? Effect.fail("down") : Effect.succeed("fine")
          return yield* call.pipe(
            breaker.execute(name),
            Effect.match({
              onSuccess: (answer) => answer,
              onFailure: (error) => (typeof error === "string" ? error : error.reason)
            })
          )
        }
        case "begin": {
          const scope = yield* Scope.make()
          const exit = yield* Effect.exit(Scope.provide(breaker.acquire(name), scope))
          if (Exit.isSuccess(exit)) permits.set(argument, { permit: exit.value, scope })
          return Exit.isSuccess(exit) ? "begun" : "refused"
        }
        case "end": {
          const [id, outcome] = argument.split("=")
          const held = permits.get(id ?? "")
          if (held === undefined) return "no such call"
          yield* outcome === "succeed" ? held.permit.succeed : held.permit.fail()
          yield* Scope.close(held.scope, Exit.void)
          return "ended"
        }
        case "state": {
          const { phase, retryAfter } = yield* breaker.state(name)
          return retryAfter === undefined ? phase : `${phase} ${Duration.toMillis(retryAfter)}`
        }
        case "available":
          return String(yield* breaker.available(name))
        case "trip":
          yield* breaker.trip(name, `${Number(argument)} millis`)
          return "tripped"
        case "reset":
          yield* breaker.reset(name)
          return "reset"
        case "isolate": {
          const scope = yield* Scope.make()
          yield* Scope.provide(breaker.isolate(name), scope)
          holds.set(name, scope)
          return "isolated"
        }
        case "release": {
          const scope = holds.get(name)
          if (scope !== undefined) yield* Scope.close(scope, Exit.void)
          return "released"
        }
        default:
          return `unknown command ${command}`
      }
    })
  const lines = yield* Queue.unbounded<string>()
  createInterface({ input: process.stdin })
    .on("line", (line) => Queue.offerUnsafe(lines, line))
    .on("close", () => process.exit(0))
  yield* Queue.take(lines).pipe(
    Effect.flatMap((line) => {
      const [command = "", name = "", argument = ""] = line.split(" ")
      return run(command, name, argument)
    }),
    Effect.flatMap((answer) => Effect.sync(() => process.stdout.write(`> ${answer}\n`))),
    Effect.forever
  )
})

Effect.runFork(main.pipe(Effect.provide(Breaker), Effect.provide(TestClock.layer())))
