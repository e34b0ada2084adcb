/**
 * Supervises a child process behind standard input and output (e.g. an MCP server), and restarts it when it dies.
 *
 * {@link make} starts the process, runs the handshake, checks its health, and starts it again after a backoff. Callers
 * use the client of the current life: {@link Supervised.use} waits while the process starts, and fails with
 * `ProcessUnavailable` when it died too often (the circuit is open) or was stopped.
 *
 * **States.** `RespawnState` has them: starting, running, waiting, open, stopped. The numbers are in {@link defaults}.
 *
 * **Bounds.** Standard output is read as lines of limited length into a limited buffer: a process that writes faster
 * than it is read has to wait. Of standard error the end is kept. A process is killed with its group: SIGTERM, then
 * SIGKILL after `stopLimit`. On Linux, descendants in other groups (`setsid`) then get SIGTERM, and SIGKILL after half a
 * second: see `Descendants`. If this process ends without its finalizers, all of them get SIGKILL.
 *
 * **How it composes.** It needs `ChildProcessSpawner` (`NodeServices.layer` of `@effect/platform-node`). Register
 * `stop` with the host: `Host.onShutdown("processes", { name, run: files.stop })`.
 *
 * **Limits.** After a SIGKILL of this process the children end only by themselves (most do when standard input is
 * closed), by the service manager or with the container. A call that was under way when the process died is not
 * repeated: it may have had its effect. Outside of Linux, a descendant that leaves the process group is not killed.
 *
 * **Example** (An MCP server)
 *
 * ```ts
 * const files = yield* Supervised.make({
 *   name: "files",
 *   command: "npx",
 *   args: ["-y", "@modelcontextprotocol/server-filesystem", "."],
 *   handshake: (io) => Effect.tap(StdioRpc.make(io), (rpc) => rpc.notify("notifications/initialized")),
 *   health: { check: (rpc) => rpc.request("ping") }
 * })
 * const tools = yield* files.use((rpc) => rpc.request("tools/list"))
 * ```
 */
import { Cause, Clock, Deferred, Duration, Effect, Exit, Fiber, Option, Random } from "effect"
import type { Scope } from "effect"
import { ChildProcess } from "effect/process"
import type { ChildProcessSpawner } from "effect/process"
import { EventDefinition, ResilienceEvents, Warnings } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import * as Descendants from "./Descendants.ts"
import * as LineSplitter from "./LineSplitter.ts"
import type { ProcessEvent } from "./ProcessEvent.ts"
import { definitions } from "./ProcessEvent.ts"
import * as ProcessGroups from "./ProcessGroups.ts"
import * as ProcessIo from "./ProcessIo.ts"
import { ProcessUnavailable } from "./ProcessUnavailable.ts"
import * as Respawn from "./RespawnState.ts"
import type { SupervisedOptions } from "./SupervisedOptions.ts"
import { boundsOf, checks, defaults, policyOf } from "./SupervisedOptions.ts"

export { defaults } from "./SupervisedOptions.ts"
export type { Health, Output, Respawn, SupervisedOptions } from "./SupervisedOptions.ts"
export type { ProcessIo } from "./ProcessIo.ts"
export { ProcessUnavailable } from "./ProcessUnavailable.ts"
export { definitions } from "./ProcessEvent.ts"
export type { ProcessCircuitOpened, ProcessDied, ProcessEvent, ProcessReady } from "./ProcessEvent.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Status {
  readonly state: "starting" | "running" | "waiting" | "open" | "stopped"
  /** Deaths within the window of the policy. */
  readonly deaths: number
  /** How the last life ended; `undefined` before the first death. */
  readonly death: string | undefined
  /** Process id of the current life. */
  readonly pid: number | undefined
}

export interface Supervised<Client> {
  /** Uses the client of the current life, for which it waits at most `patience`. Fails if the process ends meanwhile. */
  readonly use: <A, E, R>(
    f: (client: Client) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | ProcessUnavailable, R>
  readonly status: Effect.Effect<Status>
  /** The last part of standard error, for people. May contain secrets. */
  readonly stderr: Effect.Effect<string>
  /** Ends the current life and starts another one. Earlier deaths are forgotten. */
  readonly restart: Effect.Effect<void>
  /** Ends the process for good, and waits for its end. */
  readonly stop: Effect.Effect<void>
}

interface Life<Client> {
  readonly client: Client
  readonly pid: number
  readonly ended: Deferred.Deferred<void>
}

// -----------------------------------------------------------------------------
// Constructor
// -----------------------------------------------------------------------------

const module = "Supervised"

/** Time between the first sign of an end (no standard output, no handshake) and the end by force. */
const lastMoment = Duration.millis(500)

/** Starts the process in the background, until the scope closes. */
export const make = <Client, R = never>(
  options: SupervisedOptions<Client, R>
): Effect.Effect<Supervised<Client>, never, ChildProcessSpawner.ChildProcessSpawner | R | Scope.Scope> =>
  Effect.gen(function* () {
    Check.fields(module, options, checks as Check.Checks<SupervisedOptions<Client, R>>) // The same fields.
    const { name } = options
    const policy = policyOf(options.respawn)
    const bounds = boundsOf(options.output)
    const patience = options.patience ?? defaults.patience
    const tail = LineSplitter.makeTail(bounds.tail)
    let state = Respawn.begin(yield* Clock.currentTimeMillis)
    let life: Life<Client> | undefined
    let death: string | undefined
    let isRestart = false
    /** Ends the current life, or the wait for the next one. */
    let interrupt = Deferred.makeUnsafe<void>()
    /** Opened at each change: those who wait look again. */
    let changed = Deferred.makeUnsafe<void>()

    const step = (event: Respawn.Event): Respawn.Action => {
      const [action, next] = Respawn.step(policy, state, event)
      state = next
      const before = changed
      changed = Deferred.makeUnsafe()
      Deferred.doneUnsafe(before, Exit.void)
      return action
    }

    const count = EventDefinition.reader(definitions)

    const publish = (event: ResilienceEvents.NoTime<ProcessEvent>): Effect.Effect<void> =>
      Effect.gen(function* () {
        // The tag leads to the definition of this event.
        const full = { ...event, at: yield* Clock.currentTimeMillis } as ProcessEvent
        yield* ResilienceEvents.publish(full)
        const line = EventDefinition.lineOf(definitions, full)
        if (line !== undefined) yield* Warnings.write(line)
        yield* count(full)
      }).pipe(Effect.ignoreCause)

    /** One life, from its start to its end. Returns how it ended. */
    const live = Effect.scoped(
      Effect.gen(function* () {
        const started = yield* Clock.currentTimeMillis
        const mark = Descendants.marker()
        const forgetMark = ProcessGroups.begin(mark)
        let forget = () => {}
        // Before the process, so that it runs after the kill: this process may end while it waits for SIGKILL.
        yield* Effect.addFinalizer(() =>
          Effect.suspend(() => {
            forget()
            return Effect.ensuring(Descendants.end(mark), Effect.sync(forgetMark))
          })
        )
        const handle = yield* ChildProcess.make(options.command, options.args ?? [], {
          cwd: options.cwd,
          env: { ...options.env, [mark]: "1" },
          extendEnv: options.extendEnv ?? true,
          // A group of its own, so that it is killed with its children, and Ctrl-C does not reach it.
          detached: process.platform !== "win32",
          stdin: "pipe",
          stdout: "pipe",
          stderr: "pipe",
          forceKillAfter: options.stopLimit ?? defaults.stopLimit
        })
        forget = ProcessGroups.add(handle.pid)
        const ended = yield* Deferred.make<void>()
        /** Withdraws the client: `use` waits for the next life. */
        const retire = Effect.suspend(() => {
          life = undefined
          return Deferred.done(ended, Exit.void)
        })
        const fault = yield* Deferred.make<string>()
        const closed = yield* Deferred.make<void>()
        const io = yield* ProcessIo.make(name, handle, bounds, {
          tail,
          fault,
          closed: Effect.andThen(retire, Deferred.done(closed, Exit.void))
        })
        const exit = Effect.match(handle.exitCode, {
          onSuccess: (code) => `exit code ${code}`,
          onFailure: (error) => /signal: '(\w+)'/.exec(String(error.cause))?.[1] ?? "killed by a signal"
        })
        /** Leaves a process that is about to end the time to do so: its exit code says more. */
        const orExit = (why: string) => Effect.delay(Effect.succeed(why), lastMoment)

        const serve = Effect.gen(function* () {
          const limit = options.handshakeLimit ?? defaults.handshakeLimit
          const client = yield* Effect.suspend(() => options.handshake(io)).pipe(
            Effect.timeoutOption(limit),
            Effect.exit,
            Effect.flatMap((exit) =>
              Exit.isFailure(exit)
                ? Effect.fail(`its handshake failed (${wordOf(exit.cause)})`)
                : Option.match(exit.value, {
                    onNone: () =>
                      Effect.fail(`no handshake within ${Duration.format(Duration.fromInputUnsafe(limit))}`),
                    onSome: Effect.succeed
                  })
            )
          )
          life = { client, pid: handle.pid, ended }
          step({ _tag: "Ready", now: yield* Clock.currentTimeMillis })
          yield* publish({ _tag: "ProcessReady", name, took: (yield* Clock.currentTimeMillis) - started })
          return yield* unhealthy(client)
        }).pipe(Effect.catch(orExit))

        return yield* Effect.raceAllFirst([
          exit,
          serve,
          Deferred.await(fault),
          Effect.andThen(Deferred.await(closed), orExit("it closed its standard output")),
          Effect.as(Deferred.await(interrupt), "ended on request")
        ]).pipe(Effect.ensuring(retire))
      })
    ).pipe(Effect.catchCause((cause) => Effect.succeed(`it cannot be started (${wordOf(cause)})`)))

    /** Ends with a reason when the health checks fail. */
    const unhealthy = (client: Client): Effect.Effect<string, never, R> => {
      const { health } = options
      if (health === undefined) return Effect.never
      const failures = health.failures ?? defaults.health.failures
      const every = health.every ?? defaults.health.every
      const check = Effect.suspend(() => health.check(client)).pipe(
        Effect.timeout(health.limit ?? defaults.health.limit),
        Effect.exit
      )
      return Effect.gen(function* () {
        for (let failed = 0; failed < failures;) {
          yield* Effect.sleep(every)
          failed = Exit.isSuccess(yield* check) ? 0 : failed + 1
        }
        return `its health check failed ${failures} times`
      })
    }

    const supervise = Effect.gen(function* () {
      for (;;) {
        const how = yield* live
        if (state.phase._tag === "Stopped") return
        interrupt = Deferred.makeUnsafe()
        if (isRestart) {
          isRestart = false
          step({ _tag: "Reset", now: yield* Clock.currentTimeMillis })
          continue
        }
        death = how
        const action = step({ _tag: "Died", now: yield* Clock.currentTimeMillis, draw: yield* Random.next })
        const delay = action._tag === "Wait" ? action.millis : 0
        const tag = state.phase._tag === "Open" ? "ProcessCircuitOpened" : "ProcessDied"
        yield* publish({ _tag: tag, name, death, delay })
        yield* Effect.raceFirst(Effect.sleep(delay), Deferred.await(interrupt))
        if (isStopped()) return
        interrupt = Deferred.makeUnsafe()
        const now = yield* Clock.currentTimeMillis
        step(isRestart ? { _tag: "Reset", now } : { _tag: "Woke", now })
        isRestart = false
      }
    })

    /** A function: the compiler would not expect a change while the loop sleeps. */
    const isStopped = (): boolean => state.phase._tag === "Stopped"

    // After the scope has closed, `use` fails at once.
    const end = Effect.sync(() => void step({ _tag: "Stopped" }))
    const fiber = yield* Effect.forkScoped(Effect.ensuring(supervise, end))

    const unavailable = (reason: ProcessUnavailable["reason"], until?: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.fail(
          new ProcessUnavailable({
            reason,
            name,
            ...(death === undefined ? {} : { death }),
            ...(until === undefined ? {} : { retryAfter: Math.max(0, until - now) })
          })
        )
      )

    /** The current life. Waits while the process starts, and fails at once when the circuit is open. */
    const current: Effect.Effect<Life<Client>, ProcessUnavailable> = Effect.suspend(() => {
      if (life !== undefined) return Effect.succeed(life)
      const { phase } = state
      if (phase._tag === "Stopped") return unavailable("stopped")
      if (phase._tag === "Open") return unavailable("open", phase.until)
      return Effect.flatMap(Deferred.await(changed), () => current)
    })

    const awaited = Effect.timeoutOrElse(current, {
      duration: patience,
      orElse: () =>
        Effect.suspend(() =>
          state.phase._tag === "Waiting"
            ? unavailable("restarting", state.phase.until)
            : unavailable("starting")
        )
    })

    const interruptLife = Effect.sync(() => void Deferred.doneUnsafe(interrupt, Exit.void))

    return {
      use: (f) =>
        Effect.flatMap(awaited, ({ client, ended }) =>
          Effect.raceFirst(
            f(client),
            Effect.andThen(
              Deferred.await(ended),
              Effect.suspend(() => unavailable("gone"))
            )
          )
        ),
      status: Effect.sync(() => ({
        state: words[state.phase._tag],
        deaths: state.deaths.length,
        death,
        pid: life?.pid
      })),
      stderr: Effect.sync(tail.text),
      restart: Effect.suspend(() => {
        isRestart = true
        return interruptLife
      }),
      stop: Effect.suspend(() => {
        step({ _tag: "Stopped" })
        return Effect.andThen(interruptLife, Effect.asVoid(Fiber.await(fiber)))
      })
    }
  })

const words = {
  Starting: "starting",
  Running: "running",
  Waiting: "waiting",
  Open: "open",
  Stopped: "stopped"
} as const

/** The tag or the class of an error. The message may contain arguments of the command, so it is not shown. */
const wordOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  if (typeof error !== "object" || error === null) return typeof error
  const { reason, _tag } = error as { readonly reason?: unknown; readonly _tag?: unknown }
  if (typeof reason === "object" && reason !== null && "_tag" in reason) return String(reason._tag)
  return typeof _tag === "string" ? _tag : error.constructor.name
}
